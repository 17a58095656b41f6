"""What a reader of a trace's report has to know first: a broken file, an unknown GPU, norms without an op."""

from normscope.escape import html_text
from normscope.findings.render import NONE_FOUND
from normscope.report.gpu_time import named_only, named_only_sentences, share_percent
from normscope.report.tables import Cell, Html, count_of, number, percent, safe
from normscope.report.trace_data import TraceData
from normscope.trace.times import OVERRUN
from normscope.tracerun import coverage as c
from normscope.tracerun.summary import TraceSummary

HOW_TO_GIVE_PEAKS = (
    "Give the GPU with --gpu KEY (`normscope gpus` lists the keys), or its peaks with --gpu-file FILE in "
    "TraceLens' architecture format."
)
SHAPES_HINT = (
    "The trace was recorded without shapes, so bytes and efficiency aren't known; record it with "
    "record_shapes=True."
)
MODULES_HINT = (
    "The trace holds no module names; record it with with_stack=True and with_modules=True to see which "
    "layer each call belongs to."
)


def trace_banners(summary: TraceSummary) -> list[Html]:
    """Return the boxes that come before everything else."""
    return [note("The trace breaks off", _what_is_there(summary))] if summary.is_truncated else []


def overrun_note(trace: TraceData, time_ms: float) -> str | None:
    """Return the warning that kernels claim to outlast the next on their stream, None where none does.

    ``time_ms`` is the normalization time as recorded.
    """
    count = sum(problem.count for problem in trace.summary.problems if problem.what == OVERRUN)
    if not count:
        return None
    claim = "event claims" if count == 1 else "events claim"
    told = f"{count:,} GPU {claim} to run past the next on the same stream, which can't be right."
    if not trace.overrun_us:
        return f"{told} None is of a norm op, but shares of the whole time may be too low."
    clipped_ms = time_ms - trace.overrun_us / 1e3
    return (
        f"{told} The times here are as recorded and may be too long: normalization takes "
        f"{number(time_ms, 3)} ms as recorded, {number(clipped_ms, 3)} ms with those clipped where "
        "the next starts."
    )


def _what_is_there(summary: TraceSummary) -> str:
    there = count_of(summary.event_count, "event")
    return f"The file ends before the trace does. This report shows what is there: {there}."


def findings_notes(summary: TraceSummary) -> list[str]:
    """Return what a reader of the findings alone has to know of the trace, as plain sentences."""
    broken = [f"The trace breaks off. {_what_is_there(summary)}"] if summary.is_truncated else []
    return broken + (more_by_name(summary) if summary.call_count else [])


def nothing_found(summary: TraceSummary) -> str:
    """Return, as plain sentences, what a trace without a norm op tells all the same."""
    groups = named_only(summary.coverage)
    if not groups:
        return NONE_FOUND
    time_us = sum(group.time_us for group in groups)
    kernels = count_of(sum(group.count for group in groups), "kernel")
    share = percent(share_percent(time_us, summary.coverage), 1)
    return (
        f"Normalization takes {share} of kernel time, told by kernel names alone: {kernels}, "
        f"{number(time_us / 1e3, 3)} ms. {_BY_NAME_ALONE}"
    )


def unknown_gpu_box(summary: TraceSummary) -> Html:
    """Return the box that says why there are no percentages; empty where the peaks are known."""
    if summary.bandwidth_kind is not None:
        return Html("")
    advice = "" if "--gpu" in summary.gpu_message else f" {HOW_TO_GIVE_PEAKS}"
    return note("Times and bandwidth without percentages", f"{summary.gpu_message}{advice}")


def note(title: str, text: Cell) -> Html:
    """Return a box that a reader sees before going on."""
    return Html(
        f'<div class="ns-note" role="note">\n<p><strong>{html_text(title)}</strong>. {safe(text)}</p>\n</div>'
    )


def nothing_analyzed(summary: TraceSummary) -> Html:
    """Return the first screen of a trace without a norm op: what its kernels say all the same."""
    covered = summary.coverage
    groups = named_only(covered)
    time_us = sum(group.time_us for group in groups)
    if groups:
        share = percent(share_percent(time_us, covered), 1)
        title = f"Normalization takes {share} of kernel time, told by kernel names alone"
        kernels = count_of(sum(group.count for group in groups), "kernel")
        told = f"{kernels}, {number(time_us / 1e3, 3)} ms. {_BY_NAME_ALONE}"
    else:
        title = "No normalization found"
        kernels = count_of(covered.total_count, "kernel")
        told = f"No op of the trace is a norm, and none of its {kernels} has a norm's name."
    body = "\n".join(f"<p>{html_text(text)}</p>" for text in (told, _advice(summary)) if text)
    return Html(f'<div class="ns-verdict">\n<p class="ns-headline">{html_text(title)}</p>\n{body}\n</div>')


_BY_NAME_ALONE = (
    "No op that launched them is a norm whose bytes are known, so time is all that can be said: how "
    "efficient they are is not known."
)
_GRAPHS_OFF = (
    "of kernel time was replayed from captured graphs, which hide the ops. To see ops and shapes, record "
    "a few steps with graphs off (enforce_eager in vLLM, disable_cuda_graph in SGLang)."
)
_NO_HOST_OPS = (
    "The trace holds no ops of the host. Record it with ProfilerActivity.CPU among the activities, and with "
    "record_shapes=True."
)
_COMPILED = (
    "They run under compiled or custom ops. To see the norms themselves, record a few steps without "
    "torch.compile and with record_shapes=True."
)


def _advice(summary: TraceSummary) -> str:
    """Return what would make the trace say more."""
    times_us = {group.what: group.time_us for group in summary.coverage.groups}
    if c.GRAPH in times_us:
        return f"{percent(share_percent(times_us[c.GRAPH], summary.coverage), 1)} {_GRAPHS_OFF}"
    if not {c.OTHER_OPS, c.NORM_UNMODELED} & times_us.keys():
        return _NO_HOST_OPS
    return _COMPILED if c.NORM_UNMODELED in times_us else ""


def more_by_name(summary: TraceSummary) -> list[str]:
    """Return what the verdict has to add: norm kernels that the figures leave out."""
    return [f"A further {sentence}" for sentence in named_only_sentences(summary.coverage)]
