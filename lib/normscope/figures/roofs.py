"""What the hardware allows an operation, and what the operation reaches.

The roofline model of Williams, Waterman and Patterson (2009): attainable TFLOP/s = min(compute peak in
TFLOP/s, memory peak in TB/s × arithmetic intensity in FLOP/byte). Left of the ridge, where the two meet,
memory is the limit.
"""

from typing import NamedTuple

from normscope.figures.entries import MAX_EFFICIENCY_PERCENT, Entry, on_log_axis
from normscope.figures.scatter import Point

_COARSE_TFLOPS = 0.1  # the metrics keep two decimals: below this a rounded value is off by more than 5 %


class Roof(NamedTuple):
    """The limits of one operation; the compute peak may be unknown."""

    memory_tbs: float
    compute_tflops: float | None

    def attainable_tflops(self, flops_per_byte: float) -> float:
        """Return the most that the hardware allows at this arithmetic intensity."""
        slope = self.memory_tbs * flops_per_byte
        return min(slope, self.compute_tflops) if self.compute_tflops else slope


def bandwidth_tbs(entry: Entry) -> float | None:
    """Return the achieved bandwidth in TB/s: bytes over time of a call, else as the metrics round it."""
    operation = entry.operation
    if operation.bytes_moved_per_call and operation.kernel_time_mean_us:
        return operation.bytes_moved_per_call / operation.kernel_time_mean_us / 1e6
    return operation.efficiency.tb_s_achieved


def achieved_tflops(entry: Entry) -> float | None:
    """Return the achieved TFLOP/s; bandwidth × intensity where the metrics lack it or round it coarsely."""
    reported = entry.operation.efficiency.tflops_achieved
    if reported and reported >= _COARSE_TFLOPS:
        return reported
    derived = (bandwidth_tbs(entry) or 0.0) * (entry.operation.efficiency.flops_per_byte or 0.0)
    return derived or reported


def roof_of(entry: Entry) -> Roof | None:
    """Return the limits of an operation, or ``None`` where no memory peak is known."""
    efficiency = entry.operation.efficiency
    memory, compute = on_log_axis(efficiency.resolved_peak_hbm_bw), on_log_axis(efficiency.resolved_peak_maf)
    return Roof(memory, compute) if memory else None


def point_of(entry: Entry) -> Point | None:
    """Return where an operation stands in the roofline, or ``None`` where a number for it is missing."""
    roof = roof_of(entry)
    intensity = on_log_axis(entry.operation.efficiency.flops_per_byte)
    tflops = on_log_axis(achieved_tflops(entry))
    if roof is None or intensity is None or tflops is None:
        return None
    share = 100 * tflops / roof.attainable_tflops(intensity)
    return Point(entry, intensity, tflops, entry.is_anomaly or share > MAX_EFFICIENCY_PERCENT)


def roof_percent(point: Point) -> float:
    """Return the share of the roofline: the metrics' own in the standalone scope, else that of the point."""
    own = point.entry.operation.efficiency.efficiency_percent
    if point.entry.scope == "standalone" and own is not None:
        return own
    roof = roof_of(point.entry)
    return 100 * point.y / roof.attainable_tflops(point.x) if roof else 0.0


def is_left_of_ridge(point: Point) -> bool:
    """Tell whether memory limits the operation; where the compute peak isn't known it always does."""
    roof = roof_of(point.entry)
    return roof is not None and roof.attainable_tflops(point.x) == roof.memory_tbs * point.x
