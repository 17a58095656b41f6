"""The key figures as cards, each with its unit and what it is a share of."""

from normscope.escape import MISSING
from normscope.report.doubt import doubt
from normscope.report.key_figures import Bandwidth, KeyFigures
from normscope.report.results import Report, operations_of
from normscope.report.tables import Html, count_of, number, percent, safe


def cards_html(report: Report, figures: KeyFigures) -> Html:
    """Return the cards of the first screen."""
    cards = [
        _share_card(figures),
        _reach_card(report, figures),
        _gain_card(report, figures),
        _count_card(report, figures),
    ]
    return Html('<div class="ns-cards">\n' + "\n".join(cards) + "\n</div>")


def _card(title: str, value: str, detail: str) -> Html:
    return Html(
        f'<div class="ns-card"><p class="ns-card-title">{safe(title)}</p>'
        f'<p class="ns-card-value">{safe(value)}</p><p class="ns-card-detail">{safe(detail)}</p></div>'
    )


def _share_card(figures: KeyFigures) -> Html:
    detail = f"{number(figures.time_ms, 2)} ms; end-to-end time not known"
    if figures.end_to_end_ms is not None:
        detail = f"{number(figures.time_ms, 2)} of {number(figures.end_to_end_ms, 2)} ms"
    if figures.upper_bound:
        detail += f"; of which {figures.upper_bound}"
    return _card("Share of GPU time", percent(figures.share_percent, 1), detail)


def _reach_card(report: Report, figures: KeyFigures) -> Html:
    if report.comparison_scope == "comparative":
        return _comparison_card(figures)
    bandwidth = figures.bandwidth
    if bandwidth is None:
        return _card("Achieved bandwidth", MISSING, "not known for any operation")
    against = "the GPU's peak is not known"
    if bandwidth.peak_tbs:
        part = percent(100 * bandwidth.achieved_tbs / bandwidth.peak_tbs, 1)
        against = f"{part} of the {number(bandwidth.peak_tbs, 1)} TB/s peak"
    detail = f"{against}; {_coverage(bandwidth)}"
    return _card("Achieved bandwidth", f"{number(bandwidth.achieved_tbs)} TB/s", detail)


def _coverage(bandwidth: Bandwidth) -> str:
    if bandwidth.covered_percent >= 99.95:
        return "all of the time measured"
    return f"{percent(bandwidth.covered_percent, 0)} of the time measured"


def _comparison_card(figures: KeyFigures) -> Html:
    if figures.trace2_time_ms is None or figures.trace2_time_ms <= 0:
        return _card("Against trace 2", MISSING, "trace 2 time not known for every operation")
    gap_ms = figures.time_ms - figures.trace2_time_ms
    change = 100 * abs(gap_ms) / figures.trace2_time_ms
    word = "slower" if gap_ms > 0 else "faster"
    return _card(
        "Against trace 2",
        f"{percent(change, 0)} {word}",
        f"{number(figures.time_ms, 3)} ms in trace 1, {number(figures.trace2_time_ms, 3)} ms in trace 2; "
        "in % of trace 2's time",
    )


def _gain_card(report: Report, figures: KeyFigures) -> Html:
    reason = doubt(report, figures)
    if reason:
        return _card("Potential gain", MISSING, f"needs {reason.needs}")
    if figures.gain is None or not figures.gain.findings or figures.end_to_end_ms is None:
        return _card("Potential gain", "below 0.5%", "of GPU time, in every group of operations")
    saved_ms = figures.gain.middle * figures.end_to_end_ms / 100
    span = f"{number(figures.gain.low, 1)} to {percent(figures.gain.high, 1)} of GPU time"
    return _card("Potential gain", percent(figures.gain.middle, 1), f"{span}, about {number(saved_ms, 2)} ms")


def _count_card(report: Report, figures: KeyFigures) -> Html:
    anomalies = sum(each.operation.efficiency.is_anomaly for each in operations_of(report))
    detail = f"in {count_of(figures.signatures, 'operation signature')}"
    if anomalies:
        detail += f", {count_of(anomalies, 'anomaly', 'anomalies')}"
    return _card("Normalization calls", f"{figures.calls:,}", detail)
