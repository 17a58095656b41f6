"""Metrics → figures: each with its message as the title, an alternative text and its data.

``ALL_FIGURES`` lists those that the metrics alone make: a new figure is a new function and a new row.
``call_times`` needs the calls of a trace as well, ``COMPARISON_FIGURES`` a comparison.
"""

from collections.abc import Callable, Sequence

from normscope.analysis.models import CategoryMetrics
from normscope.compare.models import Comparison
from normscope.figures.call_times import call_times
from normscope.figures.chart import Chart, render_csv, render_png, render_svg, save_chart
from normscope.figures.comparison import comparison_operations
from normscope.figures.comparison_calls import comparison_calls
from normscope.figures.efficiency_by_bytes import efficiency_by_bytes
from normscope.figures.impact import impact
from normscope.figures.roofline import roofline
from normscope.figures.roofline_pair import comparison_roofline
from normscope.figures.time_by_operation import time_by_operation

Draw = Callable[[Sequence[CategoryMetrics], int], Chart]

ALL_FIGURES: dict[str, Draw] = {
    "time_by_operation": time_by_operation,
    "roofline": lambda reports, _top_n: roofline(reports),
    "efficiency_by_bytes": lambda reports, _top_n: efficiency_by_bytes(reports),
    "impact": impact,
}

COMPARISON_FIGURES: dict[str, Callable[[Comparison, int], Chart]] = {
    "comparison_operations": comparison_operations,
    "comparison_roofline": lambda comparison, _top_n: comparison_roofline(comparison),
    "comparison_calls": comparison_calls,
}

__all__ = [
    "ALL_FIGURES",
    "COMPARISON_FIGURES",
    "Chart",
    "call_times",
    "comparison_calls",
    "comparison_operations",
    "comparison_roofline",
    "efficiency_by_bytes",
    "impact",
    "render_csv",
    "render_png",
    "render_svg",
    "roofline",
    "save_chart",
    "time_by_operation",
]
