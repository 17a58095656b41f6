"""One side of a comparison, read from whatever holds it: a trace, a run directory, results or a baseline."""

import os
import re
from collections.abc import Iterable, Mapping
from math import fsum, inf
from pathlib import Path

import msgspec
from msgspec import UNSET

from normscope.analysis.analyze import analyze_category
from normscope.analysis.call_times import CallTimes
from normscope.analysis.models import CategoryMetrics, ErrorMetrics, Metrics, Operation
from normscope.compare.baseline import decode_baseline
from normscope.compare.models import CallGroup, Side, SideKind
from normscope.compare.statistics import sample_of
from normscope.errors import InputError, NoNormsError, NormscopeError, UsageError
from normscope.hardware.registry import gpu
from normscope.inputs.rundir import check_run_dir, find_categories
from normscope.inputs.versions import check_version, read_versioned
from normscope.norms.bare_names import bare_kernel_name
from normscope.params import SAMPLE, make_params
from normscope.report.results import ReportResults
from normscope.report.source import is_trace, trace_to_run
from normscope.report.trace_data import TraceData, read_trace_files
from normscope.trace.source import Progress
from normscope.tracerun.summary import TraceSummary

Place = tuple[str, int]
"""A category, and a place in the operations of its metrics."""

RESULTS_FILE = "metrics.json"
BETWEEN_MODULES = " > "
_FIRST_KEY = re.compile(rb'\s*\{\s*"(\w{1,40})"')
_OWN_KEYS = frozenset(
    field.encode_name for model in (Side, ReportResults) for field in msgspec.structs.fields(model)
)
_NUMBERED_KERNEL = re.compile(r"Kernel [0-9]+: ")
_LARGEST_ROUNDING_US = 0.5001  # the metrics round to the microsecond


class SideSource(msgspec.Struct, frozen=True, kw_only=True):
    """A side, and what lies behind it.

    Attributes
    ----------
    side
        The side itself.
    run_dir
        The run directory or report that holds it; None for a baseline, or for results on their own.
    metrics
        Its metrics, of the standalone scope where they were made for the purpose; empty for a baseline.
    places
        The operation that each group of the side belongs to; empty for a baseline.
    summary
        What only a trace knows; None for a run of another origin.
    """

    side: Side
    run_dir: Path | None = None
    metrics: tuple[CategoryMetrics, ...] = ()
    places: tuple[Place, ...] = ()
    summary: TraceSummary | None = None


def read_source(
    source: str | Path,
    *,
    folder: Path,
    choice: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> SideSource:
    """Read one side of a comparison.

    Parameters
    ----------
    source
        A profiler trace (``-`` for standard input, ``sample`` for the bundled one), a run directory, a report
        folder or its ``metrics.json``, or a baseline file.
    folder
        Where a trace becomes a run directory; not touched for any other source.
    choice
        The parameters that only a trace has, by their names: ``gpu``, ``gpu_file``, ``peaks``, ``catalog``
        and ``capture``.
    on_progress
        Called while a trace is read, with the bytes read so far and the size of the file or None.

    Raises
    ------
    InputError
        The source can't be read, or is of a version that can't be.
    NoNormsError
        It holds no normalization.
    NoGpuActivityError
        A trace holds nothing that ran on a GPU.
    UsageError
        The choice is wrong, or the source is no trace.
    """
    text = os.fspath(source)
    if isinstance(source, Path) and text == SAMPLE:
        text = os.path.join(".", text)  # noqa: PTH118 - keeps ./, which makes it a path
    if reads_as_trace(text):
        found = _from_trace(text, folder, choice or {}, on_progress)
    else:
        _refuse_choice(text, choice or {})
        path = Path(text)
        found = _from_file(path) if path.is_file() else _from_folder(path)
    if not found.side.groups:
        message = f"{found.side.label} holds no normalization, so there is nothing to compare"
        raise NoNormsError(message)
    return found


def reads_as_trace(source: str) -> bool:
    """Tell whether a source is a profiler trace: a file that isn't ours, standard input, or the sample."""
    return is_trace(source) and not _is_own_file(source)


def _is_own_file(source: str) -> bool:
    """Tell whether a file is results or a baseline, by its first key: no key of a trace is among theirs."""
    path = Path(source)
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = _FIRST_KEY.match(file.read(4096))
    except OSError:  # reading it as a trace says what is wrong
        return False
    return start is not None and start.group(1).decode() in _OWN_KEYS


def _refuse_choice(source: str, choice: Mapping[str, str]) -> None:
    if choice:
        given = " and ".join(sorted(choice))
        message = f"{given} {'is' if len(choice) == 1 else 'are'} for profiler traces, and {source} is none"
        raise UsageError(message)


def _from_trace(
    source: str, folder: Path, choice: Mapping[str, str], on_progress: Progress | None
) -> SideSource:
    trace_to_run(make_params({"run_dir": source, **choice}), folder, on_progress)
    return _from_run(folder, "trace")


def _from_folder(folder: Path) -> SideSource:
    check_run_dir(folder)
    results = folder / RESULTS_FILE
    return _from_file(results) if results.is_file() else _from_run(folder, "run directory")


def _from_run(folder: Path, kind: SideKind) -> SideSource:
    analyses = [analyze_category(folder, category) for category in find_categories(folder)]
    return _source(_succeeded(analyses, folder.name), kind, folder, Path(os.path.realpath(folder)).name)


def _succeeded(analyses: Iterable[Metrics], label: str) -> tuple[CategoryMetrics, ...]:
    found = []
    for metrics in analyses:
        if isinstance(metrics, ErrorMetrics):
            if metrics.reason == "failed":
                message = f"{label}, {metrics.category}: {metrics.error}"
                raise InputError(message)
            continue
        found.append(metrics)
    return tuple(found)


def _from_file(path: Path) -> SideSource:
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"{path} can't be read ({error.strerror}); check the path and its permissions"
        raise InputError(message) from None
    if path.name != RESULTS_FILE and _is_baseline(data):
        return SideSource(side=decode_baseline(data, path.name))
    results = read_versioned(data, ReportResults, what="results of a report", where=path.name)
    if not results.complete:
        message = f"{path}: the report was not finished; make it again"
        raise InputError(message)
    for metrics in results.categories:
        check_version(metrics.schema_version, what="results of a report", where=path.name)
    return _source(_succeeded(results.categories, results.label), "results", path.parent, results.label)


def _is_baseline(data: bytes) -> bool:
    """Tell a baseline from results; what is neither is read, and refused, as results."""
    try:
        return "groups" in msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _source(metrics: tuple[CategoryMetrics, ...], kind: SideKind, folder: Path, label: str) -> SideSource:
    data = read_trace_files(folder, metrics)
    summary = data.summary if data else None
    drafts = [draft for each in metrics for draft in _groups(each, data)]
    ordered = sorted(range(len(drafts)), key=lambda place: (drafts[place].start_us, place))
    groups = tuple(
        msgspec.structs.replace(drafts[place].group, order=order) for order, place in enumerate(ordered)
    )
    hardware = [each.hardware for each in metrics]
    side = Side(
        label=summary.label if summary else label,
        kind=kind,
        gpu=_gpu_name(next((known.platform for known in hardware if known.platform), None)),
        peak_bandwidth_tbs=next((h.peak_hbm_bw_tbs for h in hardware if h.peak_hbm_bw_tbs), None),
        end_to_end_ms=next((h.end_to_end_ms for h in hardware if h.end_to_end_ms), None),
        steps=sum(step.call_count > 0 for step in summary.steps) if summary else 0,
        groups=groups,
        coverage_us=_coverage_us(summary),
    )
    return SideSource(
        side=side,
        run_dir=folder,
        metrics=metrics,
        places=tuple(drafts[place].place for place in ordered),
        summary=summary,
    )


def _coverage_us(summary: TraceSummary | None) -> dict[str, float]:
    return {name: summary.coverage.us(name) for name, _ in summary.coverage.groups} if summary else {}


def _gpu_name(platform: str | None) -> str | None:
    """Return the name of a GPU as our registry has it, where a run directory names it by its key."""
    if platform is None:
        return None
    try:
        return gpu(platform).name
    except NormscopeError:
        return platform


class _Draft(msgspec.Struct, frozen=True):
    """A group whose place among all others isn't known yet."""

    group: CallGroup
    place: Place
    start_us: float


def _groups(metrics: CategoryMetrics, data: TraceData | None) -> Iterable[_Draft]:
    """Yield the calls of each operation, apart by module where the calls are known."""
    calls = {c.operation_index: c for c in data.calls if c.category == metrics.category} if data else {}
    is_standalone = metrics.comparison_scope == "standalone"
    for index, operation in enumerate(metrics.operations):
        whole = _whole(operation, is_standalone=is_standalone)
        if not whole.total_us and index in metrics.data_quality.operations_without_time:
            whole = msgspec.structs.replace(whole, has_time=False)
        place = metrics.category, index
        if index in calls:
            yield from (_Draft(group, place, start) for group, start in _by_module(whole, calls[index]))
        else:
            yield _Draft(whole, place, inf)


def _whole(operation: Operation, *, is_standalone: bool) -> CallGroup:
    """Return all calls of an operation, as its metrics have them.

    A run directory of ours numbers its modules, and the metrics name only that of the first call: all calls
    can't be put down to it.
    """
    found_by = None if operation.found_by is UNSET else operation.found_by
    total_us = _total_us(operation)
    return CallGroup(
        direction=operation.direction,
        variant=operation.variant,
        kind=operation.kind,
        found_by=found_by,
        name=operation.name,
        module="" if found_by else BETWEEN_MODULES.join(operation.module_chain),
        arguments=None if operation.args is UNSET else operation.args,
        library=operation.library,
        kernels=tuple(map(bare_kernel_name, kernels_in(operation.kernel_name))),
        order=0,
        count=operation.count,
        total_us=total_us,
        mean_us=total_us / operation.count if operation.count else 0.0,
        std_us=operation.kernel_time_std_us,
        efficiency_percent=operation.efficiency.efficiency_percent if is_standalone else None,
        bytes_moved_per_call=operation.bytes_moved_per_call,
    )


def _total_us(operation: Operation) -> float:
    """Return the kernel time: mean × calls where that only undoes the rounding of the sum."""
    rounded_us = operation.time_ms * 1e3
    exact_us = (operation.kernel_time_mean_us or 0.0) * operation.count
    return exact_us if abs(exact_us - rounded_us) <= _LARGEST_ROUNDING_US else rounded_us


def kernels_in(kernel_name: str) -> list[str]:
    """Return the names in ``Kernel 1: …<br>Kernel 2: …``, or that of a single kernel."""
    if not _NUMBERED_KERNEL.match(kernel_name):
        return [kernel_name] if kernel_name else []
    return [_NUMBERED_KERNEL.sub("", name, count=1) for name in kernel_name.split("<br>")]


def _by_module(whole: CallGroup, calls: CallTimes) -> Iterable[tuple[CallGroup, float]]:
    """Yield the calls of each module, with the start of the first."""
    places: dict[str, list[int]] = {}
    for place, module in enumerate(calls.modules):
        places.setdefault(module, []).append(place)
    for module, own in places.items():
        sample = sample_of([calls.kernel_us[place] for place in own])
        group = msgspec.structs.replace(
            whole,
            module=module,
            count=len(own),
            total_us=fsum(sample.times_us),
            times_us=sample.times_us,
            mean_us=sample.mean_us,
            std_us=sample.std_us,
        )
        yield group, min((calls.starts_us[place] for place in own), default=inf) if calls.starts_us else inf
