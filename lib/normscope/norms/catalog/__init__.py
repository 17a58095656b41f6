"""The catalog: every way a normalization shows up in a trace, one row each, as data."""
