"""What the subcommands do: call the public API, write the results, say where they are.

Heavy modules are reached through the package's lazy names, so that ``analyze`` stays quick.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import normscope
from normscope.analysis.models import CategoryMetrics, ErrorMetrics, Metrics
from normscope.analysis.write import write_metrics
from normscope.errors import (
    BreachError,
    ExportError,
    InvalidFindingsError,
    NoNormsError,
    NormscopeError,
    UsageError,
)
from normscope.escape import MISSING, printable
from normscope.files import write_atomically
from normscope.inputs.rundir import category_paths, default_scope, find_categories, unknown_categories

if TYPE_CHECKING:
    from normscope.cli_options import RunOptions
    from normscope.compare.models import Side
    from normscope.compare.sides import SideSource
    from normscope.compare.verdict import Verdict
    from normscope.tracerun.summary import TraceSummary

USUAL_CATEGORIES = ("norm_fwd", "norm_bwd")


def report(given: dict[str, Any], params_file: Path | None, cell_timeout_s: int) -> None:
    """Make a report, with a progress bar on a terminal and plain lines elsewhere."""
    from normscope.params import read_given  # noqa: PLC0415 - reads YAML, which only reports need
    from normscope.progress import shown_bytes, shown_steps  # noqa: PLC0415 - as above
    from normscope.report.run import Limits  # noqa: PLC0415 - as above

    limits = Limits(cell_s=cell_timeout_s)
    options = (read_given(params_file) if params_file else {}) | given
    with shown_bytes() as on_progress, shown_steps() as on_step:
        built = normscope.build_report(on_step=on_step, on_progress=on_progress, limits=limits, **options)
    for warning in built.warnings:
        _warn(warning)
    if not built.has_norms:
        message = (
            f"the trace holds no normalization, as an op or as a kernel; its GPU time is in {built.html}"
        )
        raise NoNormsError(message)
    if built.status == "EMPTY":
        _say("No normalization operations found; the report says so.")
    _say(str(built.html))


def analyze(trace: str | None, options: "RunOptions", choice: dict[str, str]) -> None:
    """Write the metrics of each category; fail when one of them is an error.

    A trace becomes a run directory in ``output_dir`` first, and its findings are written as well.
    """
    if trace is None:
        _refuse_choice(choice)
        found = _found(options)
        _finish([_analyzed(options, category) for category in found], _any_error)
        return
    summary = _trace_to_run(trace, options.output_dir, choice)
    for warning in unknown_categories(options.output_dir, options.category):
        _warn(warning)
    found = options.category or find_categories(options.output_dir)
    _finish([_with_findings(options, category) for category in found], _failed)
    if not summary.has_norms:
        message = f"{summary.label} holds no normalization, as an op or as a kernel"
        raise NoNormsError(message)


def compare(
    sources: tuple[str, str],
    options: "RunOptions",
    choices: tuple[dict[str, str], dict[str, str]],
    shared: dict[str, str],
    *,
    with_report: bool,
) -> None:
    """Hold trace 1 against trace 2: the answer, then the comparative run directory with its findings.

    ``choices`` is what is said about each, ``shared`` what is said about both traces.
    """
    from normscope.compare.answer import spoken  # noqa: PLC0415 - only comparisons need it
    from normscope.compare.pairing import compare_sides  # noqa: PLC0415 - as above
    from normscope.compare.write import write_comparison  # noqa: PLC0415 - as above

    _refuse_overwriting(sources, options.output_dir)
    with TemporaryDirectory(prefix="normscope-") as made:
        sides = _read_sources(sources, choices, shared, Path(made))
        comparison = compare_sides(*(found.side for found in sides))
        categories = write_comparison(sides[0], comparison, options.output_dir)
    for line in spoken(comparison):
        _say(line)
    for number, found in enumerate(sides, start=1):
        for line in _trace_notes_of(found):
            _say(f"Trace {number}: {line}")
    _finish([_with_findings(options, category) for category in categories], _failed)
    if with_report:
        _report_on(options.output_dir, options.output_dir.parent / "report")


def _report_on(run_dir: Path, out_dir: Path) -> None:
    """Make the report of a comparison that was just written."""
    from normscope.progress import shown_steps  # noqa: PLC0415 - which only reports need

    with shown_steps() as on_step:
        built = normscope.build_report(run_dir, out_dir, comparison_scope="comparative", on_step=on_step)
    for warning in built.warnings:
        _warn(warning)
    _say(str(built.html))


def coverage(trace: str, choice: dict[str, str], *, as_json: bool) -> None:
    """Print what all kernel time of a trace belongs to, as a table or as JSON."""
    from normscope.params import make_params  # noqa: PLC0415 - as above
    from normscope.progress import shown_bytes  # noqa: PLC0415 - as above
    from normscope.report.source import examine_trace, trace_label  # noqa: PLC0415 - as above
    from normscope.tracerun.coverage_text import coverage_text  # noqa: PLC0415 - as above
    from normscope.tracerun.write import json_text  # noqa: PLC0415 - as above

    label = trace_label(trace)
    with shown_bytes() as on_progress:
        found = examine_trace(make_params({"run_dir": trace, **choice}), on_progress)
    if as_json:
        sys.stdout.write(json_text(found.coverage).decode())
    else:
        for line in coverage_text(label, found):
            _say(line)
    if not found.calls:
        message = f"{label} holds no normalization, as an op or as a kernel"
        raise NoNormsError(message)


def gpus() -> None:
    """Print the GPUs of the registry with their peaks."""
    from normscope.hardware.registry import all_gpus  # noqa: PLC0415 - reads its data file

    _say(f"{'key':<22} {'name':<42} {'peak GB/s':>9} {'achievable':>10}")
    for gpu in all_gpus():
        peak, best = gpu.peak_bandwidth_gbps, gpu.achievable_bandwidth_gbps
        figures = [f"{figure.value:,.0f}" if figure else MISSING for figure in (peak, best)]
        _say(f"{gpu.key:<22} {gpu.name:<42} {figures[0]:>9} {figures[1]:>10}")
    _say("Peak: the vendor's datasheet. Achievable: the best published measurement. Both in GB/s, 1e9 bytes.")


def baseline(source: str, file: Path, choice: dict[str, str]) -> None:
    """Write what later results are compared with."""
    from normscope.compare.baseline import encode_baseline  # noqa: PLC0415 - as above

    (side,) = _sides([source], choice)
    write_atomically(file, encode_baseline(side))
    _say(str(file))


def check(
    sources: tuple[str, str],
    limits_file: Path,
    outputs: Mapping[str, Path],
    choice: dict[str, str],
    *,
    allow_other_gpu: bool,
) -> None:
    """Hold a result against a baseline: the two sources; ``outputs`` says which files to write where."""
    from normscope.compare import gate, gate_output  # noqa: PLC0415 - as above
    from normscope.compare.limits import read_limits  # noqa: PLC0415 - as above
    from normscope.compare.pairing import compare_sides  # noqa: PLC0415 - as above
    from normscope.compare.verdict import encode_verdict  # noqa: PLC0415 - as above

    limits = read_limits(limits_file)
    result, base = _sides(sources, choice)
    if not allow_other_gpu:
        gate.require_same_gpu(result, base)
    verdict = gate.check(compare_sides(result, base), limits)
    write_as: dict[str, Callable[[Verdict], bytes]] = {
        "json": encode_verdict,
        "junit": gate_output.junit_xml,
        "markdown": lambda each: gate_output.markdown_summary(each).encode(),
    }
    for name, path in outputs.items():
        write_atomically(path, write_as[name](verdict))
    for line in gate_output.text_lines(verdict):
        _say(line)
    if verdict.outcome == "breached":
        count = len(verdict.of("breached"))
        message = f"{count} of {len(verdict.checks)} checks breached; the table lists breaches first"
        raise BreachError(message)


def _sides(sources: Sequence[str], choice: dict[str, str]) -> "list[Side]":
    """Read what is compared; the run directories of traces aren't kept."""
    with TemporaryDirectory(prefix="normscope-") as folder:
        return [found.side for found in _read_sources(sources, [{}] * len(sources), choice, Path(folder))]


def findings(options: "RunOptions") -> None:
    """Write the metrics and the findings of each category; fail when an analysis failed."""
    _finish([_with_findings(options, category) for category in _found(options)], _failed)


def validate(file: Path, tier: str, scope: str, metrics: Path | None, *, fix: bool) -> None:
    """Check a findings file, after mending it where ``fix`` asks for that."""
    if fix:
        result = normscope.fix_findings_file(file, tier, scope, metrics)
        for change in result.changed:
            _say(f"fixed: {change}")
        passed, errors = result.passed, list(result.errors)
    else:
        passed, errors = normscope.validate_findings_file(file, tier, scope, metrics)
    if passed:
        _say(f"PASS: {file} is valid")
        return
    for error in errors:
        _say(f"  - {error}")
    count = len(errors)
    message = f"{file} breaks its contract in {count} place{'' if count == 1 else 's'}, listed above"
    raise InvalidFindingsError(message)


def sample(file: Path) -> None:
    """Write the simulated trace."""
    _say(str(normscope.write_sample(file)))


def doctor() -> None:
    """Print what a report needs and whether it is there."""
    from normscope.doctor import failures, run_checks  # noqa: PLC0415 - imports nearly everything

    checks = run_checks()
    for check in checks:
        _say(f"{'ok  ' if check.ok else 'FAIL' if check.needed else 'note'}  {check.name}: {check.detail}")
    if failures(checks):
        message = "a report can't be made here until the points marked FAIL are mended"
        raise NormscopeError(message)


def _found(options: "RunOptions") -> Sequence[str]:
    for warning in unknown_categories(options.output_dir, options.category):
        _warn(warning)
    return options.category or find_categories(options.output_dir) or USUAL_CATEGORIES


def _trace_to_run(trace: str, folder: Path, choice: dict[str, str]) -> "TraceSummary":
    """Write the run directory of a trace, or of the sample, to ``folder``."""
    from normscope.findings.overheads import overhead_notes  # noqa: PLC0415 - as above
    from normscope.params import make_params  # noqa: PLC0415 - as above
    from normscope.progress import shown_bytes  # noqa: PLC0415 - as above
    from normscope.report.source import trace_to_run  # noqa: PLC0415 - as above
    from normscope.tracerun.summary import trace_notes  # noqa: PLC0415 - as above

    with shown_bytes() as on_progress:
        summary, _ = trace_to_run(make_params({"run_dir": trace, **choice}), folder, on_progress)
    for line in trace_notes(summary):
        _say(line)
    for note in overhead_notes(summary.overheads, summary.timeline.total_ms):
        if note.matters:
            _say(f"{note.title}: {note.explanation} {note.advice}")
    return summary


def _refuse_overwriting(sources: Iterable[str], run_dir: Path) -> None:
    """Refuse to write the comparison over one of its sides."""
    out = run_dir.parent.resolve()
    written = (run_dir.resolve(), out / "report")
    for source in sources:
        if not Path(source).exists():
            continue
        place = Path(source).resolve()
        if place == out or any(place.is_relative_to(folder) for folder in written):
            message = f"{source} lies in what --out writes, and would be lost; choose another folder"
            raise UsageError(message)


def _read_sources(
    sources: Sequence[str], choices: Sequence[dict[str, str]], shared: dict[str, str], folder: Path
) -> "list[SideSource]":
    """Read each side; traces become run directories in ``folder``, and only they take what is ``shared``."""
    from normscope.compare.sides import read_source, reads_as_trace  # noqa: PLC0415 - only comparisons need it
    from normscope.params import STDIN  # noqa: PLC0415 - as above
    from normscope.progress import shown_bytes  # noqa: PLC0415 - as above

    if list(sources).count(STDIN) > 1:
        message = "standard input can be read once; give all but one of the inputs as files"
        raise UsageError(message)
    traces = [reads_as_trace(source) for source in sources]
    if not any(traces):
        _refuse_choice(shared)
    found = []
    for place, (source, is_trace, own) in enumerate(zip(sources, traces, choices, strict=True)):
        choice = own | (shared if is_trace else {})
        with shown_bytes() as on_progress:
            read = read_source(source, folder=folder / str(place), choice=choice, on_progress=on_progress)
        found.append(read)
    return found


def _trace_notes_of(found: "SideSource") -> Iterator[str]:
    """Yield what a reader must know about the trace of a side; nothing where it is none."""
    from normscope.tracerun.summary import trace_notes  # noqa: PLC0415 - as above

    if found.summary is not None:
        yield from trace_notes(found.summary)


def _refuse_choice(choice: dict[str, str]) -> None:
    if choice:
        message = f"--{next(iter(choice)).replace('_', '-')} is for profiler traces; give the trace first"
        raise UsageError(message)


def _analyzed(options: "RunOptions", category: str) -> Metrics:
    run_dir = options.output_dir
    metrics = normscope.analyze_category(
        run_dir, category, options.comparison_scope or default_scope(run_dir)
    )
    try:
        path = write_metrics(run_dir, metrics)
    except ExportError:
        _finish([metrics], _failed)  # a run that can't be analyzed is the first trouble to tell
        raise
    _say(f"{path}: {_summary(metrics)}")
    return metrics


def _with_findings(options: "RunOptions", category: str) -> Metrics:
    metrics = _analyzed(options, category)
    path = category_paths(options.output_dir, category).findings_md
    write_atomically(path, normscope.render_findings(metrics).encode())
    _say(str(path))
    return metrics


def _summary(metrics: Metrics) -> str:
    if isinstance(metrics, ErrorMetrics):
        return "no normalization operations found" if metrics.reason == "missing" else "the analysis failed"
    count, found = len(metrics.operations), len(metrics.category_findings)
    return (
        f"{count} operation signature{'' if count == 1 else 's'}, {metrics.total_time_ms} ms, "
        f"{found} finding{'' if found == 1 else 's'}"
    )


def _any_error(metrics: Metrics) -> bool:
    return isinstance(metrics, ErrorMetrics)


def _failed(metrics: Metrics) -> bool:
    return isinstance(metrics, ErrorMetrics) and metrics.reason == "failed"


def _finish(results: Sequence[Metrics], is_failure: Callable[[Metrics], bool]) -> None:
    wrong = [m for m in results if is_failure(m) and not isinstance(m, CategoryMetrics)]
    if wrong:
        raise NormscopeError("; ".join(f"{m.category}: {m.error}" for m in wrong))


def _warn(sentence: str) -> None:
    sys.stderr.write(f"normscope: {printable(sentence)}\n")


def _say(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")
