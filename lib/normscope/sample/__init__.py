"""The sample: a simulated profiler trace of a training step on a device that does not exist."""

from normscope.sample.trace import write_sample_trace as write_sample

__all__ = ["write_sample"]
