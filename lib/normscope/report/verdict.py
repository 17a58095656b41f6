"""The verdict of a report: one headline and two sentences."""

from normscope.analysis.models import exceeds_end_to_end
from normscope.report.doubt import doubt
from normscope.report.key_figures import KeyFigures
from normscope.report.results import Report, failed
from normscope.report.tables import Html, count_of, number, percent, safe
from normscope.report.trace_notes import limits_of_figures

# Potential gain in % of GPU time, from which on a headline applies; findings start at 0.5 (contract §6).
_HEADLINES = ((5.0, "Large potential"), (1.0, "Moderate potential"), (0.0, "Small potential"))


def verdict_html(report: Report, figures: KeyFigures) -> Html:
    """Return the headline and what it rests on."""
    more = limits_of_figures(report.trace.summary) if report.trace else []
    sentences = [_verdict_sentence(report, figures), *more]
    body = "\n".join(f"<p>{safe(sentence)}</p>" for sentence in sentences)
    return Html(
        f'<div class="ns-verdict">\n<p class="ns-headline">{safe(_headline(report, figures))}</p>\n'
        f"{body}\n</div>"
    )


def _headline(report: Report, figures: KeyFigures) -> str:
    if failed(report):
        return "Incomplete: no verdict"
    reason = doubt(report, figures)
    if reason or figures.gain is None:
        return f"No verdict: {reason.headline if reason else 'no gain is known'}"
    if not figures.gain.findings:
        return "Nothing worth fixing"
    middle = figures.gain.middle
    words = next(words for threshold, words in _HEADLINES if middle >= threshold)
    return f"{words}: about {percent(middle, 1)} of GPU time"


def _verdict_sentence(report: Report, figures: KeyFigures) -> str:
    share = f"takes {percent(figures.share_percent, 1)} of GPU time"
    if figures.share_percent is None or exceeds_end_to_end(figures.time_ms, figures.end_to_end_ms):
        share = f"takes {number(figures.time_ms, 3)} ms"
    reach = ""
    if figures.bandwidth is not None and not figures.bandwidth.peak_tbs:
        reach = f" and reaches {number(figures.bandwidth.achieved_tbs)} TB/s"
    elif figures.bandwidth is not None and figures.bandwidth.peak_tbs:
        part = 100 * figures.bandwidth.achieved_tbs / figures.bandwidth.peak_tbs
        reach = f" and reaches {percent(part, 1)} of peak memory bandwidth"
    bound = f", of which {figures.upper_bound}{',' if reach else ''}" if figures.upper_bound else ""
    return f"Normalization {share}{bound}{reach}. {_outlook(report, figures)}"


def _outlook(report: Report, figures: KeyFigures) -> str:
    reason = doubt(report, figures)
    if reason or figures.gain is None:
        return reason.sentence if reason else ""
    if not figures.gain.findings:
        return "No group of operations could save 0.5% of GPU time or more."
    target = "trace 2" if report.comparison_scope == "comparative" else "the roofline"
    findings = count_of(figures.gain.findings, "finding")
    return (
        f"Closing the gap to {target} in {findings} would save "
        f"{number(figures.gain.low, 1)} to {percent(figures.gain.high, 1)}."
    )
