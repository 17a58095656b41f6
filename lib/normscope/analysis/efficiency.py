"""How close an operation comes to the hardware's limits, by the contract's rules."""

from typing import NamedTuple

from normscope.analysis.models import Efficiency, Number, Scope

ANOMALY_ABOVE_PERCENT = 110.0
BOUND_TYPES = {"MEMORY_BOUND": "memory", "COMPUTE_BOUND": "compute"}
DEFAULT_COMPUTE_SPEC = "matrix_bf16"


class Measured(NamedTuple):
    """The figures of one row that efficiency depends on; times in microseconds."""

    kernel_time_us: float | None
    pct_roofline: float | None
    tb_s: float | None
    tflops: float | None
    flops_per_byte: float | None
    compute_spec: str | None
    roofline_bound: str | None
    speedup: float | None
    delta_us: float | None


def judge_efficiency(
    row: Measured, scope: Scope, peak_tflops: dict[str, Number], peak_tb_s: Number | None
) -> Efficiency:
    """Return the ``efficiency`` object of one operation.

    Standalone, the percentage is the share of the roofline. Comparative, it is 100 × trace 2 time ÷ trace 1
    time, but never less than trace 1's own share of its roofline: its hardware allows no more.
    """
    # Rounded before it is judged: a reader must be able to repeat the verdict from the figures shown.
    percent, warning, is_anomaly = _JUDGES[scope](row)
    return Efficiency(
        tflops_achieved=rounded(row.tflops),
        tb_s_achieved=rounded(row.tb_s),
        efficiency_percent=percent,
        bound_type=BOUND_TYPES.get(row.roofline_bound or ""),
        flops_per_byte=rounded(row.flops_per_byte) if row.flops_per_byte else None,
        compute_spec=row.compute_spec,
        resolved_peak_maf=peak_tflops.get(row.compute_spec or "", peak_tflops.get(DEFAULT_COMPUTE_SPEC)),
        resolved_peak_hbm_bw=peak_tb_s,
        warning=warning,
        is_anomaly=is_anomaly,
    )


def rounded(value: float | None, digits: int = 2) -> float | None:
    """Return ``value`` rounded, ``None`` where it is not known."""
    return None if value is None else round(value, digits)


_Verdict = tuple[float | None, str | None, bool]


def _judge_standalone(row: Measured) -> _Verdict:
    percent = rounded(row.pct_roofline)
    if percent is not None and percent > ANOMALY_ABOVE_PERCENT:
        warning = f"[ANOMALY] Pct Roofline exceeds 110% ({percent:.1f}%) - verify measurement"
        return percent, warning, True
    return percent, None, False


def _judge_comparative(row: Measured) -> _Verdict:
    percent = rounded(_trace2_share(row))
    floor = rounded(row.pct_roofline)
    if percent is None or floor is None or percent >= floor:
        return percent, None, False
    warning = (
        f"[ROOFLINE CAP] Projected efficiency clamped to roofline ({floor:.1f}%); "
        "trace2 gap exceeds trace1 hardware ceiling."
    )
    return floor, warning, False


def _trace2_share(row: Measured) -> float | None:
    if row.kernel_time_us is None or row.kernel_time_us <= 0:
        return None
    if row.delta_us is not None:
        return 100.0 * (row.kernel_time_us + row.delta_us) / row.kernel_time_us
    if row.speedup is not None and row.speedup >= 0:
        return 100.0 * row.speedup
    return None


_JUDGES = {"standalone": _judge_standalone, "comparative": _judge_comparative}
