"""What the subcommands do: call the public API, write the results, say where they are.

Heavy modules are reached through the package's lazy names, so that ``analyze`` stays quick.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

import normscope
from normscope.analysis.models import CategoryMetrics, ErrorMetrics, Metrics, Scope
from normscope.analysis.write import write_metrics
from normscope.errors import InvalidFindingsError, NormscopeError
from normscope.escape import file_stem, printable
from normscope.files import write_atomically
from normscope.inputs.rundir import category_paths, default_scope, find_categories

SAMPLE = "sample"
USUAL_CATEGORIES = ("norm_fwd", "norm_bwd")


def report(given: dict[str, Any], params_file: Path | None, cell_timeout_s: int) -> None:
    """Make a report, with a progress bar on a terminal and plain lines elsewhere."""
    from normscope.params import read_params  # noqa: PLC0415 - reads YAML, which only reports need
    from normscope.progress import shown_steps  # noqa: PLC0415 - as above
    from normscope.report.run import Limits  # noqa: PLC0415 - as above

    options = (msgspec.structs.asdict(read_params(params_file)) if params_file else {}) | given
    run_dir = options.pop("run_dir", SAMPLE)
    out_dir = options.pop("out_dir", None) or f"outputs/{file_stem(Path(run_dir).resolve().name)}"
    if "comparison_scope" not in options and run_dir != SAMPLE:
        options["comparison_scope"] = default_scope(Path(run_dir))
    with shown_steps() as on_step:
        built = normscope.build_report(
            run_dir, out_dir, on_step=on_step, limits=Limits(cell_s=cell_timeout_s), **options
        )
    if built.status == "EMPTY":
        _say("No normalization operations found; the report says so.")
    _say(str(built.html))


def analyze(run_dir: Path, scope: Scope | None, categories: Sequence[str]) -> None:
    """Write the metrics of each category; fail when one of them is an error."""
    _finish([_analyzed(run_dir, c, scope) for c in categories or _found(run_dir)], _any_error)


def findings(run_dir: Path, scope: Scope | None, categories: Sequence[str]) -> None:
    """Write the metrics and the findings of each category; fail when an analysis failed."""
    results = []
    for category in categories or _found(run_dir):
        metrics = _analyzed(run_dir, category, scope)
        path = category_paths(run_dir, category).findings_md
        write_atomically(path, normscope.render_findings(metrics).encode())
        _say(str(path))
        results.append(metrics)
    _finish(results, _failed)


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


def sample(folder: Path) -> None:
    """Write the simulated run."""
    _say(str(normscope.write_sample(folder)))


def doctor() -> None:
    """Print what a report needs and whether it is there."""
    from normscope.doctor import failures, run_checks  # noqa: PLC0415 - imports nearly everything

    checks = run_checks()
    for check in checks:
        _say(f"{'ok  ' if check.ok else 'FAIL' if check.needed else 'note'}  {check.name}: {check.detail}")
    if failures(checks):
        message = "a report can't be made here until the points marked FAIL are mended"
        raise NormscopeError(message)


def _found(run_dir: Path) -> Sequence[str]:
    return find_categories(run_dir) or USUAL_CATEGORIES


def _analyzed(run_dir: Path, category: str, scope: Scope | None) -> Metrics:
    metrics = normscope.analyze_category(run_dir, category, scope or default_scope(run_dir))
    path = write_metrics(run_dir, metrics)
    _say(f"{path}: {_summary(metrics)}")
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


def _say(line: str) -> None:
    sys.stdout.write(f"{printable(line)}\n")
