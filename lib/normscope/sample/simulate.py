"""Simulated kernel times: one for every call of a declared :class:`NormCall`."""

import math
import random
import statistics

import msgspec

from normscope.sample.ops import OP_KINDS, OpKind, bytes_moved
from normscope.sample.workload import PEAK_HBM_BW_TBS, PEAK_TFLOPS, NormCall

PER_US = 1e6
"""Bytes per µs in one TB/s; also FLOPs per µs in one TFLOP/s."""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """One declared call, what each of its calls moves and computes, and how long each takes."""

    call: NormCall
    kind: OpKind
    bytes_per_call: int
    flops_per_call: int
    roofline_us: float
    kernel_times_us: tuple[float, ...]

    @property
    def total_us(self) -> float:
        """Kernel time of all calls."""
        return math.fsum(self.kernel_times_us)


def simulate(call: NormCall, rng: random.Random) -> Simulation:
    """Draw the kernel time of every call.

    Parameters
    ----------
    call
        The declared truth.
    rng
        The only source of randomness.

    Returns
    -------
    Simulation
        Kernel times with the mean ``bytes / (efficiency x peak bandwidth)`` and the sample standard
        deviation ``variation x mean``, rounded to nanoseconds as a profiler records them. Real kernel times
        have a long right tail, so these have one too.
    """
    kind = OP_KINDS[call.op]
    size = bytes_moved(kind, call.shape, call.dtype)
    flops = kind.flops_per_element * math.prod(call.shape)
    memory_us = size / (PEAK_HBM_BW_TBS * PER_US)
    compute_us = flops / (PEAK_TFLOPS[f"vector_{call.dtype}"] * PER_US)
    mean_us = memory_us / (call.efficiency_percent / 100)
    noise = [rng.expovariate(1) ** 3 for _ in range(call.calls)]
    centre, spread = statistics.fmean(noise), statistics.stdev(noise)
    times = (mean_us * (1 + call.variation * (value - centre) / spread) for value in noise)
    return Simulation(
        call=call,
        kind=kind,
        bytes_per_call=size,
        flops_per_call=flops,
        roofline_us=max(memory_us, compute_us),
        kernel_times_us=tuple(round(time, 3) for time in times),
    )
