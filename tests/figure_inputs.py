"""Metrics for the tests of the figures, made by hand so that the right answer can be worked out by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from normscope.analysis.models import (
    Bound,
    CategoryFinding,
    CategoryMetrics,
    CategorySpecific,
    DataQuality,
    Direction,
    Efficiency,
    EstimateMethod,
    FoundBy,
    Hardware,
    ImpactEstimate,
    Kind,
    Limits,
    Operation,
    Scope,
    Variant,
)


@dataclass(frozen=True, kw_only=True)
class Op:
    """What a test says of one operation; the rest follows from it or is of no matter."""

    name: str = "aten::batch_norm"
    time_ms: float = 1.0
    count: int = 10
    args: str | None = "(64,256,56,56) bf16<br>(256,) fp32"
    variant: Variant = "BatchNorm"
    direction: Direction = "forward"
    tflops: float | None = 0.2
    tb_s: float | None = 0.16
    flops_per_byte: float | None = 1.25
    efficiency_percent: float | None = 3.0
    bytes_per_call: float | None = 1e6
    mean_us: float | None = None
    memory_peak: float | None = 5.3
    compute_peak: float | None = 163
    compute_spec: str | None = "vector_bf16"
    is_anomaly: bool = False
    t2_time_ms: float | None = None
    end_to_end_ms: float | None = 100.0
    kind: Kind = "norm"
    found_by: FoundBy | UnsetType = UNSET
    fused_with: tuple[str, ...] = ()
    is_upper_bound: bool = False
    bytes_launched: float | None = None
    limits: Limits | UnsetType = UNSET
    kernel_name: str = ""


def compiled(time_ms: float = 2.0, *fused_with: str, **more: object) -> Op:
    """Return a norm in a compiler's kernel, fused with an add unless the test says with what."""
    name = str(more.pop("name", "triton_red_fused_add_native_layer_norm_0"))
    facts = {"kind": "compiled", "found_by": "compiled", "is_upper_bound": True, "variant": "LayerNorm"}
    return Op(name=name, time_ms=time_ms, fused_with=fused_with or ("add",), **(facts | more))  # type: ignore[arg-type]  # what a test wants


def limits(*bounds: Bound, **figures: float) -> Limits:
    """Return limits with these bounds and figures."""
    unknown = dict.fromkeys(field for field in Limits.__struct_fields__ if field != "bounds")
    return Limits(bounds=bounds, **(unknown | figures))  # type: ignore[arg-type]  # as above


def operation(op: Op) -> Operation:
    """Return the metrics of one operation."""
    return Operation(
        name=op.name,
        count=op.count,
        time_ms=op.time_ms,
        percent_of_category=0.0,
        percent_of_total=round(100 * op.time_ms / op.end_to_end_ms, 2) if op.end_to_end_ms else None,
        efficiency=Efficiency(
            tflops_achieved=op.tflops,
            tb_s_achieved=op.tb_s,
            efficiency_percent=op.efficiency_percent,
            bound_type="memory",
            flops_per_byte=op.flops_per_byte,
            compute_spec=op.compute_spec,
            resolved_peak_maf=op.compute_peak,
            resolved_peak_hbm_bw=op.memory_peak,
            warning="above 110%" if op.is_anomaly else None,
            is_anomaly=op.is_anomaly,
        ),
        args=op.args if op.args is not None else UNSET,
        t2_time_ms=op.t2_time_ms if op.t2_time_ms is not None else UNSET,
        library=None,
        launcher_path=None,
        kernel_name=op.kernel_name,
        kernel_name_trunc="",
        module_chain=(),
        variant=op.variant,
        direction=op.direction,
        kernel_time_mean_us=op.mean_us,
        kernel_time_std_us=None,
        bytes_moved_per_call=op.bytes_per_call,
        kind=op.kind,
        found_by=op.found_by,
        fused_with=op.fused_with,
        is_upper_bound=op.is_upper_bound,
        bytes_launched_per_call=op.bytes_launched,
        limits=op.limits,
    )


def finding(
    rank: int,
    low: float,
    mid: float,
    high: float,
    *,
    method: EstimateMethod = "quantified",
    members: Sequence[str] = ("aten::batch_norm",),
    library: str = "PyTorch Native",
) -> CategoryFinding:
    """Return a finding whose members have the given names."""
    return CategoryFinding(
        bound_type="memory" if method == "quantified" else "unmodeled",
        library=library,
        eff_bucket="0-30" if method == "quantified" else "unknown",
        estimate_method=method,
        impact_score=mid,
        impact_score_low=low,
        impact_score_high=high,
        member_count=len(members),
        members=tuple(_estimate(name, index, method) for index, name in enumerate(members)),
        rank=rank,
        kind="norm",
    )


def _estimate(name: str, index: int, method: EstimateMethod) -> ImpactEstimate:
    return ImpactEstimate(
        operation=name,
        category="norm_fwd",
        type="kernel_tuning" if method == "quantified" else "unmodeled_significant",
        estimate_method=method,
        impact_score=1.0,
        impact_score_low=0.9,
        impact_score_high=1.1,
        efficiency_pct=3.0,
        bound_type="memory",
        library=None,
        time_ms=1.0,
        variant="BatchNorm",
        kind="norm",
        operation_index=index,
    )


def report(
    *ops: Op,
    category: str = "norm_fwd",
    direction: Direction = "forward",
    scope: Scope = "standalone",
    end_to_end_ms: float | None = 100.0,
    findings: Sequence[CategoryFinding] = (),
    without_time: Sequence[int] = (),
) -> CategoryMetrics:
    """Return the metrics of a category with these operations."""
    total = sum(op.time_ms for op in ops)
    return CategoryMetrics(
        category=category,
        comparison_scope=scope,
        total_time_ms=total,
        percent_of_compute=100 * total / end_to_end_ms if end_to_end_ms else 0,
        operation_count=len(ops),
        operations=tuple(map(operation, ops)),
        category_specific=CategorySpecific(peak_hbm_bw_tbs=5.3),
        impact_estimates=tuple(member for found in findings for member in found.members),
        category_findings=tuple(findings),
        direction=direction,
        hardware=Hardware(
            platform="MI300X",
            peak_hbm_bw_tbs=5.3,
            peak_tflops={"vector_bf16": 163},
            memory_gb=192,
            end_to_end_ms=end_to_end_ms,
            idle_time_percent=None,
        ),
        data_quality=DataQuality(
            missing_columns=(),
            operations_without_time=tuple(without_time),
            operations_without_efficiency=(),
            anomalies=(),
            high_variance=(),
            notes=(),
        ),
    )
