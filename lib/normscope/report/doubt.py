"""Why there is no verdict: figures that are missing, can't be, or would be a guess."""

from collections.abc import Iterator

import msgspec

from normscope.analysis.models import exceeds_end_to_end
from normscope.report.key_figures import KeyFigures, lacks_peak, rests_on_guesses, rests_on_zeros
from normscope.report.results import Report
from normscope.report.tables import number
from normscope.report.trace_notes import how_to_know_shapes

_LARGE_OVERRUN = 0.1  # of the normalization time; above it no gain can be told


class Doubt(msgspec.Struct, frozen=True):
    """A reason to give no gain: words for the headline, a sentence, and what the gain needs."""

    headline: str
    sentence: str
    needs: str


def doubt(report: Report, figures: KeyFigures) -> Doubt | None:
    """Return the gravest reason why there is no verdict, or None where there is one."""
    return next(_doubts(report, figures), None)


def has_large_overrun(report: Report, figures: KeyFigures) -> bool:
    """Tell whether so much normalization time runs past the next kernel that no gain can be told from it."""
    return bool(report.trace and report.trace.overrun_us / 1e3 > _LARGE_OVERRUN * figures.time_ms)


def _doubts(report: Report, figures: KeyFigures) -> Iterator[Doubt]:
    if figures.gain is None:
        yield Doubt(
            "the end-to-end time is not known",
            "Without the end-to-end time in the metadata no gain can be estimated.",
            "the end-to-end time",
        )
    if lacks_peak(figures):
        yield Doubt(
            "the peak of the GPU is not known",
            "Without the peak of the GPU nothing tells how much of that time is needed.",
            "the GPU's peak bandwidth",
        )
    if has_large_overrun(report, figures):
        yield Doubt(
            "the times as recorded can't be right",
            "Kernels claim to run past the next on the same stream, for more than a tenth of the "
            "normalization time. Record the trace again.",
            "kernel times that end where the next one starts",
        )
    if exceeds_end_to_end(figures.time_ms, figures.end_to_end_ms):
        yield Doubt(
            "more normalization time than end-to-end time",
            _how_it_exceeds(report, number(figures.end_to_end_ms, 3)),
            "an end-to-end time that holds the normalization",
        )
    if rests_on_guesses(report, figures):
        yield Doubt(
            "efficiency is known for no operation",
            _how_to_know_efficiency(report),
            "the efficiency of an operation",
        )
    if rests_on_zeros(report):
        yield Doubt(
            "measured at 0% of the roofline",
            "A kernel that runs moves some bytes, so 0% can't be: check bytes and FLOPs in the ops table.",
            "an efficiency above 0%",
        )


def _how_it_exceeds(report: Report, end_to_end_ms: str) -> str:
    if report.trace:
        return (
            f"The trace lasts {end_to_end_ms} ms, so kernels ran at the same time or their times are wrong."
        )
    return (
        f"The end-to-end time is {end_to_end_ms} ms, which can't be where kernels run "
        "one after the other: check it in the metadata."
    )


def _how_to_know_efficiency(report: Report) -> str:
    summary = report.trace.summary if report.trace else None
    # Of norms told by kernel names alone the next sentence of the verdict says how to know more.
    hint = how_to_know_shapes(summary) if summary and not summary.by_name_us else None
    return hint or "Nothing tells how far the operations are from the roofline, so any gain would be a guess."
