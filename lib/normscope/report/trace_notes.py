"""What a reader of a trace's report has to know first: a broken file, an unknown GPU, norms without an op."""

from normscope.escape import html_text
from normscope.findings.render import NONE_FOUND
from normscope.report.gpu_time import share
from normscope.report.tables import Cell, Html, count_of, number, safe
from normscope.report.trace_data import TraceData
from normscope.trace.times import OVERRUN
from normscope.tracerun.coverage import Coverage
from normscope.tracerun.found import HOW_TO_ADD_ROWS
from normscope.tracerun.summary import TraceSummary, captured_notes

HOW_TO_GIVE_PEAKS = (
    "Give the GPU with --gpu KEY (`normscope gpus` lists the keys), or its peaks with --gpu-file FILE in "
    "TraceLens' architecture format."
)
_SHAPES_HINT = (
    "The trace was recorded without shapes, so bytes and efficiency aren't known; record it with "
    "record_shapes=True."
)
MODULES_HINT = (
    "The trace holds no module names; record it with with_stack=True and with_modules=True to see which "
    "layer each call belongs to."
)


def how_to_know_shapes(summary: TraceSummary) -> str | None:
    """Return why norm calls have no shapes, and what would give them some; None where neither is known."""
    if not summary.call_count:
        return None
    if summary.replayed_count:
        return f"{_replayed(summary.replayed_count)} {_HOW_TO_CAPTURE}"
    if not summary.has_ops:
        return _NO_HOST_OPS
    return None if summary.has_shapes else _SHAPES_HINT


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
    return broken + (limits_of_figures(summary) if summary.call_count else [])


def limits_of_figures(summary: TraceSummary) -> list[str]:
    """Return what the figures on norms don't hold, or hold beside the norms, a sentence each."""
    covered = summary.coverage
    compiled_us = covered.us("compiled_fused")
    cut_off_us = covered.us("unlinked")
    sentences = []
    if compiled_us:
        sentences.append(f"{share(covered, compiled_us)} {_COMPILED}")
    if summary.by_name_us:
        why = how_to_know_shapes(summary) or _advice(summary)
        sentences.append(f"{share(covered, summary.by_name_us)} {_BY_NAME} {why}")
    sentences += captured_notes(summary)
    if cut_off_us:
        sentences.append(f"A further {share(covered, cut_off_us)} {_CUT_OFF}{_bounded(covered)}")
    return sentences


def nothing_found(summary: TraceSummary) -> str:
    """Return, as plain sentences, what a trace without a norm call tells all the same."""
    return f"{_only_cut_off(summary)}. {_kernels_cut_off(summary)}" if summary.cut_off else NONE_FOUND


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
    """Return the first screen of a trace without a norm call: what its kernels say all the same."""
    if summary.cut_off:
        title, told = _only_cut_off(summary), _kernels_cut_off(summary)
    else:
        title = "No normalization found"
        kernels = count_of(summary.coverage.all_kernels, "kernel")
        told = f"No op of the trace is a norm, and none of its {kernels} has a norm's name."
    body = "\n".join(f"<p>{html_text(text)}</p>" for text in (told, _advice(summary)))
    return Html(f'<div class="ns-verdict">\n<p class="ns-headline">{html_text(title)}</p>\n{body}\n</div>')


_COMPILED = (
    "of kernel time lies in norms inside compiled kernels, fused with other work: an upper bound of the "
    "norms' time. To see the norms alone, record a few steps without torch.compile and with "
    "record_shapes=True."
)
_BY_NAME = (
    "of kernel time lies in norms told by kernel names alone: their time is known, their efficiency is not."
)
_CUT_OFF = (
    "of kernel time lies in norm kernels whose launch was cut off; of all figures only those on all GPU time "
    "hold them."
)
_HOW_TO_CAPTURE = (
    "To know their shapes, give the folder of traces that were recorded while the graphs were captured, "
    "those of all batch sizes, with --capture FOLDER; or record a few steps with graphs off "
    "(enforce_eager in vLLM, disable_cuda_graph in SGLang) and with record_shapes=True."
)
_GRAPHS_OFF = (
    "of kernel time, norms apart, was replayed from captured graphs, which hide the ops. To see ops and "
    "shapes, record a few steps with graphs off (enforce_eager in vLLM, disable_cuda_graph in SGLang)."
)
_NO_HOST_OPS = (
    "The trace holds no ops of the host. Record it with ProfilerActivity.CPU among the activities, and with "
    "record_shapes=True."
)


def _only_cut_off(summary: TraceSummary) -> str:
    part = share(summary.coverage, summary.coverage.us("unlinked"))
    return f"Normalization takes {part} of kernel time, in kernels whose launch was cut off"


def _kernels_cut_off(summary: TraceSummary) -> str:
    covered = summary.coverage
    kernels = count_of(covered.count("unlinked"), "kernel")
    return (
        f"{kernels}, {number(covered.us('unlinked') / 1e3, 3)} ms. The profiler saw them run and not start, "
        f"so time is all that can be said: how efficient they are is not known.{_bounded(covered)}"
    )


def _replayed(calls: int) -> str:
    told = "1 norm call was" if calls == 1 else f"{calls:,} norm calls were"
    return f"{told} replayed from captured graphs, which hide ops and shapes."


def _bounded(covered: Coverage) -> str:
    bounded_us = covered.unlinked.upper_bound_us
    return (
        f" {number(bounded_us / 1e3, 3)} ms of it lie in compiled kernels: an upper bound."
        if bounded_us
        else ""
    )


def _advice(summary: TraceSummary) -> str:
    """Return what would make the trace say more."""
    covered = summary.coverage
    if graph_us := covered.us("other_graph_kernels"):
        return f"{share(covered, graph_us)} {_GRAPHS_OFF}"
    has_ops = covered.count("other_ops", "not_a_norm_layer", "helper_copies", "compiled_fused")
    return HOW_TO_ADD_ROWS if has_ops else _NO_HOST_OPS
