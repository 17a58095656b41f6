"""Makes a report: parameters → notebook → export → provenance → one finished folder."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Literal, NamedTuple

import msgspec

from normscope.errors import ExportError, NormscopeError, UsageError
from normscope.inputs.rundir import check_run_dir, default_scope, unknown_categories
from normscope.params import SAMPLE, ReportParams, make_params
from normscope.report.kernel import Kernel, kernel_ahead
from normscope.report.provenance import (
    FILE_NAME,
    FileRecord,
    encode_provenance,
    make_provenance,
)
from normscope.report.publish import check_target, remove_report, staging, swap_in
from normscope.report.run import DEFAULT_LIMITS, SENTINEL, Limits, StepHook, run_notebook
from normscope.report.scrub import Relabel, relabeler, scrub_folder, scrub_notebook
from normscope.report.signals import ended_by_exception
from normscope.report.source import NOT_FOR_RUNS, RunSource, default_out_dir, is_trace, opened_source
from normscope.resources import notebook_path
from normscope.trace.source import Progress

REPORT_NOTEBOOK = "report.ipynb"
FAILED_NOTEBOOK = "report.failed.ipynb"
_KERNEL_IMPORTS = ("matplotlib.pyplot", "normscope.figures", "normscope.report.notebook")
_HERE = "."  # how a report names its own folder, so that it is the same wherever it is made


class BuiltReport(msgspec.Struct, frozen=True, kw_only=True):
    """A finished report: its folder, its page, and whether the run held any normalization operation.

    ``has_norms`` is False only for a trace without any sign of a normalization, be it a kernel's name.
    ``warnings`` are sentences on categories that were asked for and that the run doesn't have.
    """

    out_dir: Path
    html: Path
    status: Literal["OK", "EMPTY"]
    has_norms: bool = True
    warnings: tuple[str, ...] = ()


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the notebook's last cell says about the analysis."""

    status: Literal["OK", "ERROR", "EMPTY"]
    errors: tuple[str, ...] = ()


class _Job(NamedTuple):
    """One run: what it is to do, under which names the reader sees it, and where its files are for now."""

    notebook: Path
    params: ReportParams
    shown: ReportParams
    inputs: tuple[FileRecord, ...]
    target: Path
    stage: Path
    relabel: Relabel
    started_utc: datetime


def build_report(  # noqa: PLR0913 - two paths and what a caller may set
    run_dir: str | Path = SAMPLE,
    out_dir: str | Path | None = None,
    *,
    notebook: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_step: StepHook | None = None,
    on_progress: Progress | None = None,
    **options: Any,  # noqa: ANN401 - checked by make_params
) -> BuiltReport:
    """Make the report of a run in ``out_dir``.

    A report that is already there is replaced when the new one is finished. When the notebook or the analysis
    fails, it stays, and what there is of the new one goes to the folder ``<out_dir>.failed``.

    Parameters
    ----------
    run_dir
        A profiler trace, ``-`` for one on standard input, a TraceLens run directory, or the word ``sample``
        for the bundled simulated trace.
    out_dir
        The folder that becomes the report; folders above it are made. By default it is in ``outputs`` and
        named after the run.
    notebook
        The notebook to run in place of the bundled one.
    limits
        The time limits of a cell and of the kernel's start, in seconds.
    on_step
        Called as each step begins, with its name, its number from 1, and the number of steps.
    on_progress
        Called while a trace is read, with the bytes read so far and the size of the file or None.
    **options
        The other fields of :class:`normscope.params.ReportParams`. A ``comparison_scope`` that isn't given is
        that of the run's manifest.

    Raises
    ------
    UsageError
        A parameter is wrong, or ``out_dir`` lies in the run or holds something that is not a report.
    InputError
        The run can't be read.
    NoGpuActivityError
        The trace holds nothing that ran on a GPU.
    NotebookError, KernelError
        The notebook failed; the message names the step, and where the notebook is kept.
    ExportError
        The results can't be written.
    NormscopeError
        A category could not be analyzed.
    """
    started_utc = datetime.now(UTC)
    params = _resolved(run_dir, out_dir, options)
    target = Path(params.out_dir)
    _check_targets(target)
    # The kernel starts first: it needs as long to come up as this process to read a trace.
    with (
        ended_by_exception(),
        kernel_ahead(_KERNEL_IMPORTS) as kernel,
        opened_source(params, on_progress) as source,
    ):
        _check_apart(source.folder, target)
        with _reported_target(target), staging(target) as stage:
            job = _job(params, source, stage, notebook or notebook_path(), started_utc)
            status = _fill(job, kernel, limits, on_step)
        remove_report(_failed_folder(target))
        unknown = unknown_categories(source.folder, params.categories)
    return BuiltReport(
        out_dir=target,
        html=target / "report.html",
        status=status,
        has_norms=status == "OK" or source.summary is None or source.summary.has_norms,
        warnings=unknown,
    )


def _resolved(run_dir: str | Path, out_dir: str | Path | None, options: dict[str, Any]) -> ReportParams:
    """Return the parameters, checked; what isn't given is told by the run."""
    run = _text(run_dir)
    given = {"run_dir": run} | ({} if out_dir is None else {"out_dir": _text(out_dir)}) | options
    make_params(given)
    told: dict[str, str] = {"out_dir": default_out_dir(run)}
    if not is_trace(run):
        check_run_dir(Path(run))
        told["comparison_scope"] = default_scope(Path(run))
    return make_params(told | given)


@contextmanager
def _reported_target(target: Path) -> Iterator[None]:
    """Turn what the operating system says while the report is made into a sentence about ``target``."""
    try:
        yield
    except OSError as error:
        message = f"{target} can't be written ({error.strerror}); see that there is space and permission"
        raise ExportError(message) from None


def _job(params: ReportParams, source: RunSource, stage: Path, notebook: Path, started_utc: datetime) -> _Job:
    return _Job(
        notebook=notebook,
        params=_absolute(params, source.folder, stage),
        shown=_shown(params),
        inputs=source.inputs,
        target=Path(params.out_dir),
        stage=stage,
        relabel=_relabeler(params, source.folder, stage),
        started_utc=started_utc,
    )


def _text(path: str | Path) -> str:
    """Return ``path`` as text; a :class:`~pathlib.Path` is always a path, also where it is ``sample``."""
    text = os.fspath(path)
    return os.path.join(".", text) if isinstance(path, Path) and text == SAMPLE else text  # noqa: PTH118 - keeps ./


def _check_targets(target: Path) -> None:
    check_target(target)
    check_target(_failed_folder(target))


def _check_apart(run: Path, target: Path) -> None:
    """Refuse a place in the run; that a run lies in the place is refused as what no report wrote."""
    if target.resolve().is_relative_to(run.resolve()):
        message = f"{target} lies in the run directory, which stays as it is; choose a folder outside it"
        raise UsageError(message)


def _failed_folder(target: Path) -> Path:
    return target.with_name(f"{target.name}.failed")


def _absolute(params: ReportParams, run: Path, stage: Path) -> ReportParams:
    """Return the parameters for the notebook, for which everything is a run directory."""
    return msgspec.structs.replace(params, run_dir=str(run), out_dir=str(stage), **NOT_FOR_RUNS)


def _shown(params: ReportParams) -> ReportParams:
    return msgspec.structs.replace(
        params,
        run_dir=_label(params.run_dir),
        out_dir=_label(params.out_dir),
        gpu_file=_label(params.gpu_file),
        catalog=_label(params.catalog),
        capture=_label(params.capture),
    )


def _relabeler(params: ReportParams, run: Path, stage: Path) -> Relabel:
    labels = {run: _label(params.run_dir), stage: _HERE, Path(params.out_dir).absolute(): _HERE}
    return relabeler(labels)


def _label(path: str) -> str:
    """Return ``path`` as given if it is relative, else its last part: no absolute path is shown."""
    return (Path(path).name or "root") if Path(path).is_absolute() else path


def _fill(
    job: _Job, kernel: Kernel | None, limits: Limits, on_step: StepHook | None
) -> Literal["OK", "EMPTY"]:
    """Make the whole report in ``job.stage``; when that fails, move what there is to the failed folder."""
    try:
        outcome = _run_and_export(job, kernel, limits, on_step)
    except NormscopeError as error:
        raise type(error)(_keep_failed(job, job.relabel(str(error)))) from None
    _write_provenance(job)
    if outcome.status == "ERROR":
        failed = _publish_failed(job)
        causes = job.relabel("; ".join(error.rstrip(".") for error in outcome.errors))
        message = f"{causes}. The report of what could be analyzed is in {failed}"
        raise NormscopeError(message)
    return outcome.status


def _run_and_export(job: _Job, kernel: Kernel | None, limits: Limits, on_step: StepHook | None) -> _Outcome:
    export = Thread(target=import_module, args=("normscope.report.export",), daemon=True)

    def on_cell(name: str, number: int, total: int) -> None:
        if export.ident is None:  # the kernel works now and this process waits: import what comes afterwards
            export.start()
        if on_step:
            on_step(name, number, total + 1)

    executed = job.stage / REPORT_NOTEBOOK
    given = msgspec.to_builtins(job.params)
    try:
        ran = run_notebook(job.notebook, executed, given, limits=limits, on_cell=on_cell, kernel=kernel)
    finally:
        if export.ident is not None:  # what is imported while Python ends makes it forget why it does
            export.join()
    if on_step:
        on_step("Export", ran + 1, ran + 1)
    from normscope.report.export import export_report  # noqa: PLC0415 - imports nbconvert

    scrub_folder(job.stage, job.relabel)
    _scrub_file(executed, job)
    export_report(executed, job.stage)
    return msgspec.json.decode((job.stage / SENTINEL).read_bytes(), type=_Outcome)


def _scrub_file(path: Path, job: _Job) -> None:
    import nbformat  # noqa: PLC0415 - loaded by now

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    shown = msgspec.to_builtins(job.shown) | {"out_dir": _HERE}
    scrub_notebook(notebook, shown, job.relabel)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def _write_provenance(job: _Job) -> None:
    provenance = make_provenance(job.stage, job.shown, job.inputs, job.started_utc)
    (job.stage / FILE_NAME).write_bytes(encode_provenance(provenance))


def _keep_failed(job: _Job, text: str) -> str:
    """Keep the notebook of a failed run, if one ran, and return ``text`` with the place."""
    from normscope.report.export import export_failed  # noqa: PLC0415 - imports nbconvert

    executed = job.stage / REPORT_NOTEBOOK
    if not executed.exists():
        return text
    kept = job.stage / FAILED_NOTEBOOK
    executed.rename(kept)
    _remove_all_but(kept)
    _scrub_file(kept, job)
    with suppress(NormscopeError):  # the notebook itself is kept, and the first error is the one to tell
        export_failed(kept, job.stage)
    _write_provenance(job)
    return f"{text.rstrip('.')}. What ran is kept in {_publish_failed(job)}"


def _remove_all_but(kept: Path) -> None:
    for path in kept.parent.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path != kept:
            path.unlink()


def _publish_failed(job: _Job) -> str:
    failed = _failed_folder(job.target)
    swap_in(job.stage, failed)
    return str(failed)
