"""What only the trace knows and a run directory has no place for: the GPU, the coverage, the troubles."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.formulas import formula
from normscope.norms.overheads import Overhead
from normscope.norms.replay import is_confirmed, is_replayed
from normscope.trace.events import Problem, Span
from normscope.trace.timeline import Timeline
from normscope.tracerun.coverage import COVERAGE_FILE, Coverage
from normscope.tracerun.examine import Examined
from normscope.tracerun.found import EVIDENCE, CutOffKernel, FiredRow, cut_off_kernels, fired_rows
from normscope.tracerun.peaks import TracedGpu
from normscope.tracerun.signatures import Signature, is_too_short

_INPUT_DIMS = b'"Input Dims"'
SUMMARY_FILE = "trace_summary.json"
TOO_SHORT = "norm calls are too short for the trace's clock, so they have no bandwidth"
_UNCONFIRMED = (
    "Nothing in the trace confirms its batch size: if that is another one, bytes and efficiency are wrong."
)
ODD_STEPS = "profiler steps have more or fewer norm calls on the GPU than most others"


class FormulaNote(msgspec.Struct, frozen=True):
    """How the bytes and FLOPs of a kind of call were counted, for the method section."""

    title: str
    bytes_moved: str
    flops: str
    source: str
    assumption: str


class StepCalls(msgspec.Struct, frozen=True):
    """A profiler step and the norm calls in it that reached the GPU."""

    name: str
    call_count: int


class CapturedShapes(msgspec.Struct, frozen=True, kw_only=True):
    """Norm calls that a graph replayed, with their inputs from the capture of a graph.

    Where ``is_confirmed`` is False, nothing in the trace tells that the capture is of the same batch size.
    """

    shapes_from: str
    is_confirmed: bool
    calls: int


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in a few figures: times in ms where the name says nothing else, bandwidth in GB/s.

    ``rows`` tells how the norms were found, and ``cut_off`` the norm kernels whose launch lies outside the
    trace. All else is about the other norm calls: ``call_count``, ``norm_us`` and ``helper_us``;
    ``recomputed_count`` of them are forward norms in the backward pass. ``replayed_count`` were replayed from
    a graph and have no bytes, ``captured`` tells of those that have some from a capture. ``by_name_us`` is
    the time of those that only the names of kernels tell. ``has_ops`` and ``has_shapes`` are about all ops
    of the host: whether there are any, and whether their inputs were recorded. ``resolution_us`` is the step
    of the trace's clock.
    """

    schema_version: str = "1.0"
    label: str
    is_simulated: bool
    gpu_key: str | None
    gpu_message: str
    bandwidth_kind: str | None
    peak_bandwidth_gbps: float | None
    achievable_bandwidth_gbps: float | None
    timeline: Timeline
    coverage: Coverage
    overheads: tuple[Overhead, ...]
    rows: tuple[FiredRow, ...]
    cut_off: tuple[CutOffKernel, ...]
    call_count: int
    recomputed_count: int
    replayed_count: int
    captured: tuple[CapturedShapes, ...]
    by_name_us: float
    norm_us: float
    helper_us: float
    resolution_us: float
    steps: tuple[StepCalls, ...]
    has_ops: bool
    has_shapes: bool
    has_modules: bool
    is_truncated: bool
    event_count: int
    problems: tuple[Problem, ...]
    formulas: tuple[FormulaNote, ...]

    @property
    def has_norms(self) -> bool:
        """Whether anything of a normalization was seen, be it only by the name of a kernel."""
        return bool(self.rows)


def summarize(
    found: Examined,
    rows: Sequence[Signature],
    timeline: Timeline,
    traced: TracedGpu,
    label: str,
) -> TraceSummary:
    """Return the summary of a trace, whose calls ``rows`` hold."""
    trace = found.linked.trace
    calls = [call for call in found.calls if call.is_in_timeline]
    steps = _steps(trace.steps, calls)
    return TraceSummary(
        label=label,
        is_simulated=traced.is_simulated,
        gpu_key=traced.key,
        gpu_message=traced.message,
        bandwidth_kind=traced.peaks.bandwidth_kind if traced.peaks else None,
        peak_bandwidth_gbps=traced.peaks.bandwidth_gbps if traced.peaks else None,
        achievable_bandwidth_gbps=traced.achievable_gbps,
        timeline=timeline,
        coverage=found.coverage,
        overheads=found.overheads.found,
        rows=fired_rows(found.calls),
        cut_off=cut_off_kernels(trace.gpu_events, found.calls),
        call_count=len(calls),
        recomputed_count=sum(call.is_recomputed for call in calls),
        replayed_count=sum(_is_bare(call) and is_replayed(found.linked, call) for call in calls),
        captured=_captured(calls),
        by_name_us=sum(call.norm_us for call in calls if call.found_by == "kernel" and _is_bare(call)),
        norm_us=sum(call.norm_us for call in calls),
        helper_us=sum(call.helper_us for call in calls),
        resolution_us=trace.resolution_us,
        steps=steps,
        has_ops=bool(trace.cpu_ops),
        has_shapes=any(_INPUT_DIMS in op.raw_args for op in trace.cpu_ops),
        has_modules=bool(trace.modules),
        is_truncated=trace.truncated,
        event_count=trace.event_count,
        problems=(*trace.problems, *found.linked.problems, *_doubts(rows, steps)),
        formulas=_formulas(calls),
    )


def _is_bare(call: NormCall) -> bool:
    return call.cost.bytes_moved is None


def _captured(calls: Sequence[NormCall]) -> tuple[CapturedShapes, ...]:
    counts = Counter(call.shapes_from for call in calls if call.shapes_from is not None)
    return tuple(
        CapturedShapes(shapes_from=name, is_confirmed=is_confirmed(name), calls=count)
        for name, count in counts.most_common()
    )


def _steps(steps: Sequence[Span], calls: Sequence[NormCall]) -> tuple[StepCalls, ...]:
    counts = Counter(step_of(steps, call.ts_us) for call in calls)
    return tuple(StepCalls(step.name, counts[place]) for place, step in enumerate(steps))


def step_of(steps: Sequence[Span], ts_us: float) -> int | None:
    """Return which of the profiler ``steps``, which are in order of time, holds a moment; None for none."""
    place = bisect_right(steps, ts_us, key=attrgetter("ts_us")) - 1
    return place if place >= 0 and ts_us <= steps[place].end_us else None


def _doubts(rows: Sequence[Signature], steps: Sequence[StepCalls]) -> list[Problem]:
    """Return what is doubtful about the calls: rates that the clock can't give, steps that lost kernels."""
    too_short = sum(len(row.calls) for row in rows if is_too_short(row))
    usual = Counter(step.call_count for step in steps).most_common(1)
    odd = sum(step.call_count != usual[0][0] for step in steps)
    return [Problem(what, count) for what, count in ((TOO_SHORT, too_short), (ODD_STEPS, odd)) if count]


def _formulas(calls: Sequence[NormCall]) -> tuple[FormulaNote, ...]:
    rows = {call.row.id: call.row for call in calls}
    notes = dict.fromkeys(note for row in rows.values() if (note := formula(row)) is not None)
    return tuple(FormulaNote(n.title, n.bytes_moved, n.flops or "", n.source, n.assumption) for n in notes)


def _bounded(time_us: float | None) -> str:
    return f" {time_us / 1e3:,.3f} ms of it are an upper bound: compiled kernels." if time_us else ""


def captured_notes(summary: TraceSummary) -> Iterator[str]:
    """Yield where the shapes of replayed norms are from, a sentence for each capture."""
    for captured in summary.captured:
        count = captured.calls
        calls = "1 replayed norm call has its" if count == 1 else f"{count:,} replayed norm calls have their"
        doubt = "" if captured.is_confirmed else f" {_UNCONFIRMED}"
        yield f"{calls} shapes from the capture {captured.shapes_from}.{doubt}"


def trace_notes(summary: TraceSummary) -> Iterator[str]:
    """Yield what a reader of the figures must know about the trace, a sentence each."""
    yield summary.gpu_message
    if summary.is_truncated:
        yield "The trace breaks off; the figures are those of what is there."
    if summary.cut_off:
        unlinked = summary.coverage.unlinked
        yield (
            f"{unlinked.count:,} norm kernels ({unlinked.us / 1e3:,.3f} ms) have their launch outside the "
            f"trace: {COVERAGE_FILE} alone holds them.{_bounded(unlinked.upper_bound_us)}"
        )
    yield from captured_notes(summary)
    for row in summary.rows:
        if row.evidence == "unverified":
            fit = "norm call fits" if row.calls == 1 else "norm calls fit"
            yield f"{row.calls:,} {fit} the row {row.row}, which is {EVIDENCE[row.evidence]}."
    for problem in summary.problems:
        place = "" if problem.first_offset is None else f", the first at byte {problem.first_offset:,}"
        yield f"{problem.count:,} {problem.what}{place}."
