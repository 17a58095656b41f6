"""What only the trace knows and a run directory has no place for: the GPU, the coverage, the troubles."""

import msgspec

from normscope.norms.calls import NormCall
from normscope.norms.models import formula
from normscope.norms.ops import NORM_OPS
from normscope.trace.events import Problem
from normscope.trace.link import LinkedTrace
from normscope.trace.timeline import Timeline
from normscope.tracerun.coverage import NORM_UNMODELED, NORM_WITHOUT_OP, Coverage
from normscope.tracerun.peaks import TracedGpu

SUMMARY_FILE = "trace_summary.json"


class FormulaNote(msgspec.Struct, frozen=True):
    """How the bytes and FLOPs of a kind of call were counted, for the method section."""

    title: str
    bytes_moved: str
    flops: str
    source: str
    assumption: str


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in a few figures; times in ms, bandwidth in GB/s."""

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
    call_count: int
    norm_us: float
    helper_us: float
    steps: tuple[str, ...]
    has_shapes: bool
    has_modules: bool
    is_truncated: bool
    event_count: int
    problems: tuple[Problem, ...]
    formulas: tuple[FormulaNote, ...]

    @property
    def has_norms(self) -> bool:
        """Whether anything of a normalization was seen, be it only by the name of a kernel."""
        return self.call_count > 0 or any(
            g.what in (NORM_UNMODELED, NORM_WITHOUT_OP) for g in self.coverage.groups
        )


def summarize(  # noqa: PLR0913, PLR0917 - the parts of a summary
    linked: LinkedTrace,
    calls: list[NormCall],
    timeline: Timeline,
    found: TracedGpu,
    label: str,
    covered: Coverage,
) -> TraceSummary:
    """Return the summary of a trace."""
    trace = linked.trace
    return TraceSummary(
        label=label,
        is_simulated=found.is_simulated,
        gpu_key=found.key,
        gpu_message=found.message,
        bandwidth_kind=found.peaks.bandwidth_kind if found.peaks else None,
        peak_bandwidth_gbps=found.peaks.bandwidth_gbps if found.peaks else None,
        achievable_bandwidth_gbps=found.achievable_gbps,
        timeline=timeline,
        coverage=covered,
        call_count=len(calls),
        norm_us=sum(call.norm_us for call in calls),
        helper_us=sum(call.helper_us for call in calls),
        steps=tuple(step.name for step in trace.steps),
        has_shapes=any(call.cost.x_shape is not None for call in calls),
        has_modules=bool(trace.modules),
        is_truncated=trace.truncated,
        event_count=trace.event_count,
        problems=(*trace.problems, *linked.problems),
        formulas=_formulas(calls),
    )


def _formulas(calls: list[NormCall]) -> tuple[FormulaNote, ...]:
    models = dict.fromkeys(NORM_OPS[call.cost_name][0].model for call in calls)
    notes = [formula(model) for model in models]
    return tuple(
        FormulaNote(n.title, n.bytes_moved, n.flops or "", n.source, n.assumption or "") for n in notes
    )
