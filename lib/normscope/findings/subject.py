"""What a finding is about: the figures that its sentences need, worked out of the metrics alone.

Every field is either a number of the metrics file, or follows from such numbers by the arithmetic that its
comment states, so that each figure of the prose can be checked.
"""

import math
import re

import msgspec
from msgspec import UNSET

from normscope.analysis.models import (
    Bound,
    CategoryFinding,
    CategoryMetrics,
    Direction,
    ImpactEstimate,
    Limits,
    Operation,
    Variant,
)
from normscope.analysis.size_effect import SizeEffect, size_effect

ROOFLINE_CAP = "[ROOFLINE CAP]"
_MAIN_SHARE = 0.6  # of the time, so that advice for one variant fits a mixed finding
_SIZE_SPREAD = 4.0  # smaller differences in size say nothing about its effect
_FIRST_ARGUMENT = re.compile(r"\(([\d,]*)\) ([\w.]+)")
_DTYPE_BYTES = {"fp64": 8.0, "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5}


class Tensor(msgspec.Struct, frozen=True):
    """The first argument of an operation: its shape as the metrics write it, its type, its size."""

    shape: str
    dtype: str
    size_bytes: float | None


class Shape(msgspec.Struct, frozen=True):
    """The operations of one variant that have the same arguments: the shapes and types of every tensor."""

    operations: tuple[Operation, ...]

    @property
    def lead(self) -> Operation:
        """The operation with the most time."""
        return self.operations[0]

    @property
    def time_us(self) -> float:
        """The kernel time of all its calls."""
        return sum(op.own_us for op in self.operations)

    @property
    def calls(self) -> int:
        """The number of its calls."""
        return sum(op.count for op in self.operations)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One finding and the figures its prose is made of; operations are ordered by time, longest first.

    So are shapes; an operation without recorded arguments counts as a shape of its own.
    """

    metrics: CategoryMetrics
    finding: CategoryFinding
    operations: tuple[Operation, ...]
    shapes: tuple[Shape, ...]
    time_us: float
    share_percent: float | None
    calls: int
    variants: tuple[Variant, ...]
    direction: Direction
    efficiencies: tuple[float, ...]
    bandwidths_tb_s: tuple[float, ...]
    tflops: tuple[float, ...]
    intensities: tuple[float, ...]
    ridge_flops_per_byte: float | None
    call_us: float
    call_bytes: float | None
    call_at_peak_us: float | None
    tensor: Tensor | None
    kernels_per_call: int
    size_effect: SizeEffect | None
    lead_count: int
    lead_percent: float
    varying: tuple[Operation, ...]
    modules: tuple[str, ...]
    healthy: Operation | None
    saving_us: tuple[float, float] | None
    gaps_us: tuple[float, ...]
    trace2_us: tuple[float | None, ...]
    capped: tuple[Operation, ...]

    @property
    def lead(self) -> Operation:
        """The operation with the most time, of the shape with the most time."""
        return self.shapes[0].lead

    @property
    def has_shapes(self) -> bool:
        """Whether the arguments of every operation were recorded."""
        return all(isinstance(op.args, str) for op in self.operations)

    @property
    def gap_us(self) -> float:
        """Trace 1's time above trace 2's."""
        return sum(self.gaps_us)

    @property
    def limits(self) -> Limits | None:
        """What bounds the costliest operation besides memory and arithmetic, where the trace tells."""
        return None if self.lead.limits is UNSET else self.lead.limits

    def bounded(self, bound: Bound) -> tuple[Operation, ...]:
        """Return the operations that ``bound`` holds for, the costliest first."""
        return tuple(op for op in self.operations if op.limits is not UNSET and bound in op.limits.bounds)

    def bounded_percent(self, bound: Bound) -> float:
        """Return their share of the time in percent."""
        own_ms = sum(op.time_ms for op in self.bounded(bound))
        return own_ms * 1e5 / self.time_us if self.time_us else 0.0

    @property
    def main_variant(self) -> Variant | None:
        """The norm variant that holds most of the time, where one clearly does."""
        own_ms = sum(op.time_ms for op in self.operations if op.variant == self.variants[0])
        return self.variants[0] if own_ms * 1e3 >= _MAIN_SHARE * self.time_us else None

    @property
    def size_matters(self) -> bool:
        """Whether the smaller shapes reach clearly less than the larger ones."""
        effect = self.size_effect
        if effect is None or effect.small_percent is None:
            return False
        return effect.is_notable and effect.small_percent < effect.large_percent


def subject_of(metrics: CategoryMetrics, finding: CategoryFinding) -> Subject:
    """Return what ``finding`` of ``metrics`` is about."""
    members = sorted(finding.members, key=lambda m: -m.time_ms)
    operations = tuple(metrics.operations[m.operation_index] for m in members)
    shapes = _shapes(operations)
    lead = shapes[0].lead
    time_us = sum(op.own_us for op in operations)
    lead_count = min(2, len(shapes))
    peak_tb_s = metrics.hardware.peak_hbm_bw_tbs
    return Subject(
        metrics=metrics,
        finding=finding,
        operations=operations,
        shapes=shapes,
        time_us=time_us,
        share_percent=_sum_known([op.percent_of_total for op in operations]),
        calls=sum(op.count for op in operations),
        variants=_by_time(operations),
        direction=_common_direction(operations),
        efficiencies=_sorted_known([op.efficiency.efficiency_percent for op in operations]),
        bandwidths_tb_s=_sorted_known([op.efficiency.tb_s_achieved for op in operations]),
        tflops=_sorted_known([op.efficiency.tflops_achieved for op in operations]),
        intensities=_sorted_known([op.efficiency.flops_per_byte for op in operations]),
        ridge_flops_per_byte=_ridge(lead),
        call_us=_call_us(shapes[0]),
        call_bytes=lead.bytes_moved_per_call or None,
        call_at_peak_us=_at_peak_us(lead.bytes_moved_per_call, peak_tb_s),
        tensor=_tensor(lead),
        kernels_per_call=lead.kernel_name.count("<br>Kernel ") + 1 if lead.kernel_name else 0,
        size_effect=_size_effect(operations),
        lead_count=lead_count,
        lead_percent=sum(s.time_us for s in shapes[:lead_count]) * 100 / time_us if time_us else 0.0,
        varying=tuple(op for op in operations if op.high_variance is True),
        modules=_modules(operations),
        healthy=_healthy(metrics, operations),
        saving_us=_saving_us(metrics, finding),
        gaps_us=tuple(_gap_us(op, m) for op, m in zip(operations, members, strict=True)),
        trace2_us=tuple(map(trace2_us, operations)),
        capped=tuple(op for op in operations if (op.efficiency.warning or "").startswith(ROOFLINE_CAP)),
    )


def _sorted_known(values: list[float | None]) -> tuple[float, ...]:
    return tuple(sorted(v for v in values if v is not None))


def _sum_known(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _by_time(operations: tuple[Operation, ...]) -> tuple[Variant, ...]:
    times: dict[Variant, float] = {}
    for op in operations:
        times[op.variant] = times.get(op.variant, 0.0) + op.time_ms
    return tuple(sorted(times, key=lambda variant: -times[variant]))


def _common_direction(operations: tuple[Operation, ...]) -> Direction:
    directions = {op.direction for op in operations}
    return directions.pop() if len(directions) == 1 else "unknown"


def _shapes(operations: tuple[Operation, ...]) -> tuple[Shape, ...]:
    groups: dict[object, list[Operation]] = {}
    for place, op in enumerate(operations):
        key = (op.variant, op.args) if isinstance(op.args, str) else place
        groups.setdefault(key, []).append(op)
    return tuple(sorted((Shape(tuple(own)) for own in groups.values()), key=lambda s: -s.time_us))


def _call_us(shape: Shape) -> float:
    """Mean kernel time of a call: the table's own for one operation, else time ÷ calls."""
    stated = shape.lead.kernel_time_mean_us
    if len(shape.operations) == 1 and stated is not None:
        return stated
    return shape.time_us / max(1, shape.calls)


def _at_peak_us(size_bytes: float | None, peak_tb_s: float | None) -> float | None:
    """Bytes ÷ peak bandwidth."""
    return size_bytes / (peak_tb_s * 1e6) if size_bytes and peak_tb_s else None


def _ridge(op: Operation) -> float | None:
    """Peak TFLOP/s ÷ peak TB/s: below this many FLOP per byte, memory is the limit."""
    tflops, tb_s = op.efficiency.resolved_peak_maf, op.efficiency.resolved_peak_hbm_bw
    return tflops / tb_s if tflops and tb_s else None


def _tensor(op: Operation) -> Tensor | None:
    match = _FIRST_ARGUMENT.match(op.args) if isinstance(op.args, str) else None
    if match is None:
        return None
    shape, dtype = match.groups()
    sizes = [int(d) for d in shape.split(",") if d]
    width = _DTYPE_BYTES.get(dtype)
    return Tensor(f"({shape})", dtype, math.prod(sizes) * width if width and sizes else None)


def _size_effect(operations: tuple[Operation, ...]) -> SizeEffect | None:
    """Return the effect of size, where sizes differ enough to tell."""
    effect = size_effect(operations)
    return effect if effect is not None and effect.spread >= _SIZE_SPREAD else None


def _modules(operations: tuple[Operation, ...]) -> tuple[str, ...]:
    paths = [" > ".join(op.module_chain[-2:]) for op in operations if op.module_chain]
    return tuple(dict.fromkeys(paths))


def _healthy(metrics: CategoryMetrics, operations: tuple[Operation, ...]) -> Operation | None:
    """Return the most efficient other operation, which shows what this device does reach in this run."""
    others = [op for op in metrics.operations if op not in operations and not op.efficiency.is_anomaly]
    return max(others, key=lambda op: op.efficiency.efficiency_percent or 0.0, default=None)


def _saving_us(metrics: CategoryMetrics, finding: CategoryFinding) -> tuple[float, float] | None:
    """Low and high impact score × end-to-end time."""
    total_ms = metrics.hardware.end_to_end_ms
    if total_ms is None:
        return None
    return finding.impact_score_low * total_ms * 10.0, finding.impact_score_high * total_ms * 10.0


def trace2_us(op: Operation) -> float | None:
    """Return trace 2's time for an operation: as the table says, or what the difference implies."""
    if op.trace2_us is not None:
        return op.trace2_us
    delta_us = op.trace2_minus_own_us
    return None if delta_us is None else max(0.0, op.own_us + delta_us)


def _gap_us(op: Operation, member: ImpactEstimate) -> float:
    """Trace 1's time above trace 2's: as the table says, else what the efficiency implies."""
    delta_us = op.trace2_minus_own_us
    if delta_us is not None:
        return -delta_us
    return op.own_us * (1.0 - (member.efficiency_pct or 100.0) / 100.0)
