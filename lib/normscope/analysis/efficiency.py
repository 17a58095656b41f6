"""How close an operation comes to the hardware's limits, by the contract's rules."""

from normscope.analysis.columns import Numbers, OpColumns
from normscope.analysis.models import Efficiency, Number, Scope

ANOMALY_ABOVE_PERCENT = 110.0
BOUND_TYPES = {"MEMORY_BOUND": "memory", "COMPUTE_BOUND": "compute"}
DEFAULT_COMPUTE_SPEC = "matrix_bf16"

_Verdict = tuple[float | None, str | None, bool]


def judge_rows(
    columns: OpColumns, scope: Scope, peak_tflops: dict[str, Number], peak_tb_s: Number | None
) -> list[Efficiency]:
    """Return the ``efficiency`` object of each row.

    Standalone, the percentage is the share of the roofline. Comparative, it is 100 × trace 2 time ÷ trace 1
    time, but never less than trace 1's own share of its roofline: its hardware allows no more.

    Parameters
    ----------
    columns
        The ops table.
    scope
        Which of the two percentages.
    peak_tflops
        Peak TFLOP/s by compute spec; a spec that it lacks gets the peak of ``matrix_bf16``.
    peak_tb_s
        Peak memory bandwidth in TB/s.
    """
    peaks = {spec: _peak(spec, peak_tflops) for spec in set(columns.compute_spec)}
    rows = zip(
        _JUDGES[scope](columns),
        _rounded(columns.tflops),
        _rounded(columns.tb_s),
        columns.roofline_bound,
        _rounded(columns.flops_per_byte),
        columns.compute_spec,
        strict=True,
    )
    return [
        Efficiency(
            tflops_achieved=tflops,
            tb_s_achieved=tb_s,
            efficiency_percent=percent,
            bound_type=BOUND_TYPES.get(bound or ""),
            flops_per_byte=intensity or None,
            compute_spec=spec,
            resolved_peak_maf=peaks[spec],
            resolved_peak_hbm_bw=peak_tb_s,
            warning=warning,
            is_anomaly=is_anomaly,
        )
        for (percent, warning, is_anomaly), tflops, tb_s, bound, intensity, spec in rows
    ]


def _peak(spec: str | None, peak_tflops: dict[str, Number]) -> Number | None:
    return peak_tflops.get(spec or "", peak_tflops.get(DEFAULT_COMPUTE_SPEC))


def _judge_standalone(columns: OpColumns) -> list[_Verdict]:
    return [_share_of_roofline(percent) for percent in _rounded(columns.pct_roofline)]


def _share_of_roofline(percent: float | None) -> _Verdict:
    if percent is None or percent <= ANOMALY_ABOVE_PERCENT:
        return percent, None, False
    return percent, f"[ANOMALY] Pct Roofline exceeds 110% ({percent:.1f}%) - verify measurement", True


def _judge_comparative(columns: OpColumns) -> list[_Verdict]:
    shares = map(_share_of_trace1, columns.time_sum_us, columns.delta_us, columns.speedup)
    return list(map(_capped, _rounded(list(shares)), _rounded(columns.pct_roofline)))


def _share_of_trace1(time_us: float | None, delta_us: float | None, speedup: float | None) -> float | None:
    if not time_us:
        return None
    if delta_us is not None:
        return 100.0 * (time_us + delta_us) / time_us
    return 100.0 * speedup if speedup is not None and speedup >= 0 else None


def _capped(percent: float | None, roofline_percent: float | None) -> _Verdict:
    if percent is None or roofline_percent is None or percent >= roofline_percent:
        return percent, None, False
    warning = (
        f"[ROOFLINE CAP] Projected efficiency clamped to roofline ({roofline_percent:.1f}%); "
        "trace2 gap exceeds trace1 hardware ceiling."
    )
    return roofline_percent, warning, False


def _rounded(values: Numbers) -> Numbers:
    """Round before judging: a reader must be able to repeat the verdict from the figures shown."""
    return [None if value is None else round(value, 2) for value in values]


_JUDGES = {"standalone": _judge_standalone, "comparative": _judge_comparative}
