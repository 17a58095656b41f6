"""Method and hardware: the peaks the percentages refer to, and every formula in words."""

from normscope.analysis.models import Hardware, Scope
from normscope.report.limits_method import limits_html
from normscope.report.results import Report, analyzed, operations_of
from normscope.report.tables import Cell, Column, Html, Row, facts, name, number, table
from normscope.report.trace_method import counting_html, gpu_html

_STANDALONE = (
    (
        "Efficiency",
        "The share of the roofline that the trace's performance model reports, in %: achieved over peak "
        "bandwidth for memory-bound operations, achieved over peak FLOP/s for compute-bound ones. Above 110 "
        "% it is called an anomaly and nothing is concluded from it.",
    ),
    (
        "Impact, efficiency known",
        "high = (100 - efficiency) ÷ 100 × kernel time ÷ end-to-end time × 100; low = 0.75 × high; mid = "
        "0.875 × high. The high end is reached at the roofline. Operations that could save less than 0.01% "
        "are dropped.",
    ),
    (
        "Impact, no performance model",
        "low, mid and high = 0.15, 0.30 and 0.45 of the operation's share of end-to-end time. This is a "
        "rule of thumb, and the findings that rest on it say so.",
    ),
    (
        "Findings",
        "Estimates are grouped by bound type, library and efficiency band (0–30, 30–60, 60–100%); those "
        "without a performance model by operation name. A group's impact is the sum of its members'. Groups "
        "below 0.5% of end-to-end time are dropped.",
    ),
)
_COMPARATIVE = (
    (
        "Efficiency",
        "100 × trace 2 kernel time ÷ trace 1 kernel time, in %. Below 100, trace 1 is the slower one. A "
        "value below trace 1's own share of the roofline is raised to it, because trace 1's hardware allows "
        "no more.",
    ),
    (
        "Impact",
        "high = (100 - efficiency) ÷ 100 × kernel time ÷ end-to-end time × 100, from trace 1; low = 0.75 × "
        "high; mid = 0.875 × high. The high end is reached when trace 1 is as fast as trace 2.",
    ),
    (
        "Findings",
        "Estimates are grouped by bound type and library. A group's impact is the sum of its members'. "
        "Groups below 0.5% of end-to-end time are dropped.",
    ),
)
_ALWAYS = (
    (
        "GPU time, end-to-end time",
        "Both mean the whole time of the GPU timeline, idle time included, as the metadata file gives it.",
    ),
    (
        "Left to the fusion analysis",
        "Operations whose kernels the fusion analysis claims have no impact estimate.",
    ),
    (
        "Achieved bandwidth",
        "The bytes of the performance model over kernel time. For several operations: the mean weighted by "
        "time, anomalies left out.",
    ),
    (
        "High variance",
        "std ÷ mean of the kernel time above 1, over more than 10 calls and 5% of end-to-end time or more.",
    ),
)
_FORMULAS: dict[Scope, tuple[tuple[str, str], ...]] = {
    "standalone": _STANDALONE + _ALWAYS,
    "comparative": _COMPARATIVE + _ALWAYS,
}


def method_html(report: Report) -> Html:
    """Return the hardware and its peaks as the metadata gives them, and the formulas of the scope."""
    devices: list[tuple[Hardware, list[str]]] = []
    for metrics in analyzed(report):
        same = next((names for hardware, names in devices if hardware == metrics.hardware), None)
        if same is None:
            devices.append((metrics.hardware, [metrics.category]))
        else:
            same.append(metrics.category)
    summary = report.trace.summary if report.trace else None
    labels = _TRACED if summary else _GIVEN
    parts = [_hardware_html(hardware, categories, labels) for hardware, categories in devices]
    formulas: tuple[tuple[str, Cell], ...] = _FORMULAS[report.comparison_scope]
    if summary:
        operations = [each.operation for each in operations_of(report)]
        parts = [gpu_html(summary), *parts, limits_html(operations), counting_html(summary.formulas)]
    return Html("\n".join([*filter(None, parts), "<h3>Formulas</h3>", facts(formulas)]))


# What the figures of the device are called: those of a run directory as its metadata file calls them.
_GIVEN = ("Device and times, from the metadata file", "Maximum achievable compute")
_TRACED = ("Device and times", "Peak compute")


def _hardware_html(hardware: Hardware, categories: list[str], labels: tuple[str, str]) -> Html:
    title, compute = labels
    caption = f"{title} ({', '.join(categories)})"
    rows = [
        Row(("Device", name(hardware.platform))),
        Row(("Peak memory bandwidth (TB/s)", number(hardware.peak_hbm_bw_tbs, 2))),
        *(
            Row((f"{compute}, {spec} (TFLOPS)", number(peak, 0)))
            for spec, peak in hardware.peak_tflops.items()
        ),
        Row(("Memory (GB)", number(hardware.memory_gb, 0))),
        Row(("End-to-end GPU time (ms)", number(hardware.end_to_end_ms, 3))),
        Row(("Idle time (%)", number(hardware.idle_time_percent, 2))),
    ]
    return table(caption, (Column("Quantity"), Column("Value", numeric=True)), rows)
