"""Reports on GPU normalization layers: what is slow, why, and what to do."""

__version__ = "0.1.0"
