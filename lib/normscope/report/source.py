"""Where a report starts: a run directory, a trace or the bundled sample, each made a run directory."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from normscope.errors import InputError, UsageError
from normscope.escape import file_stem, printable
from normscope.inputs.rundir import check_run_dir, find_categories
from normscope.params import SAMPLE, STDIN, ReportParams
from normscope.report.provenance import FileRecord, input_records
from normscope.trace.collector_pause import collector_paused
from normscope.trace.source import Progress
from normscope.tracerun.examine import Examined, NormSources, examine
from normscope.tracerun.peaks import GpuChoice
from normscope.tracerun.summary import TraceSummary
from normscope.tracerun.write import write_trace_run

SAMPLE_LABEL = "simulated sample"
_OUTPUTS = "outputs"
_SAMPLE_FILE = "simulated_step.json"  # not compressed: it is read once, at once
_TRACE_SUFFIXES = (".gz", ".json", ".pt.trace")


# The parameters that only a trace has, and what they are for a run directory.
NOT_FOR_RUNS: Mapping[str, str] = {
    **{"gpu": "", "gpu_file": "", "peaks": "datasheet"},
    **{"catalog": "", "capture": ""},
}


class RunSource(msgspec.Struct, frozen=True):
    """A run directory to analyze, what was read for it, and, where it was a trace, what that holds."""

    folder: Path
    inputs: tuple[FileRecord, ...]
    summary: TraceSummary | None = None


@contextmanager
def opened_source(params: ReportParams, on_progress: Progress | None = None) -> Iterator[RunSource]:
    """Yield the run directory that ``params.run_dir`` stands for; one made of a trace is gone afterwards.

    Raises
    ------
    InputError
        There is nothing to read, or it makes no sense.
    NoGpuActivityError
        A trace holds nothing that ran on a GPU.
    UsageError
        The GPU can't be used as given.
    """
    path = Path(params.run_dir)
    if not is_trace(params.run_dir):
        check_run_dir(path)
        _refuse_trace_parameters(params)
        folder = path.absolute()
        yield RunSource(folder, input_records(folder, params.categories or find_categories(folder)))
        return
    with tempfile.TemporaryDirectory(prefix="normscope-") as made:
        folder = Path(made) / file_stem(trace_label(params.run_dir))
        summary, records = trace_to_run(params, folder, on_progress)
        yield RunSource(folder, records, summary)


def _refuse_trace_parameters(params: ReportParams) -> None:
    given = [name for name, usual in NOT_FOR_RUNS.items() if getattr(params, name) != usual]
    if given:
        message = (
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for profiler traces; a run "
            "directory names its GPU and peaks in metadata/, and its norms in the ops tables"
        )
        raise UsageError(message)


def is_trace(run_dir: str) -> bool:
    """Tell whether a run is given as a profiler trace: a file, standard input, or the sample."""
    return run_dir in (SAMPLE, STDIN) or os.path.isfile(run_dir)  # noqa: PTH113 - pathlib raises for long names


def trace_label(run_dir: str) -> str:
    """Return the name of a trace for people: its file name without the endings, no path."""
    if run_dir == SAMPLE:
        return SAMPLE_LABEL
    if run_dir == STDIN:
        return "standard input"
    name = Path(run_dir).name
    for suffix in _TRACE_SUFFIXES:
        name = name.removesuffix(suffix)
    return printable(name) or "trace"


def default_out_dir(run_dir: str) -> str:
    """Return where the report of a run goes if nobody says: ``outputs`` and the name of the run."""
    if run_dir == SAMPLE:
        return f"{_OUTPUTS}/{SAMPLE}"
    name = trace_label(run_dir) if is_trace(run_dir) else Path(os.path.realpath(run_dir)).name
    return f"{_OUTPUTS}/{file_stem(name)}"


def trace_to_run(
    params: ReportParams, folder: Path, on_progress: Progress | None = None
) -> tuple[TraceSummary, tuple[FileRecord, ...]]:
    """Write the run directory of the trace ``params.run_dir``; raises as `opened_source` does.

    The records are those of the trace and of the files that were given with it.
    """
    label = trace_label(params.run_dir)
    choice = GpuChoice(key=params.gpu or None, file=_path(params.gpu_file), peaks=params.peaks)
    norms = _norm_sources(params)

    def write(source: Path | BinaryIO) -> TraceSummary:
        return write_trace_run(source, folder, label=label, gpu=choice, norms=norms, on_progress=on_progress)

    if params.run_dir == STDIN:
        stream = _Hashed(sys.stdin.buffer)
        summary = write(cast(BinaryIO, stream))
        return summary, (stream.record(), *_given_records(params))
    with _trace_file(params.run_dir) as trace:
        return write(trace), (_record_of(trace), *_given_records(params))


def examine_trace(params: ReportParams, on_progress: Progress | None = None) -> Examined:
    """Find every norm in the trace ``params.run_dir``, and write nothing; raises as `opened_source` does."""
    label, norms = trace_label(params.run_dir), _norm_sources(params)
    if params.run_dir == STDIN:
        return examine(sys.stdin.buffer, label=label, norms=norms, on_progress=on_progress)
    with _trace_file(params.run_dir) as trace:
        return examine(trace, label=label, norms=norms, on_progress=on_progress)


def _norm_sources(params: ReportParams) -> NormSources:
    """Return what the parameters give to find more norms."""
    return NormSources(catalog=_path(params.catalog), capture=_path(params.capture))


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _given_records(params: ReportParams) -> tuple[FileRecord, ...]:
    """Describe the files that were given beside the trace: peaks, rows of the catalog, captures."""
    files = [file for file in (_path(params.gpu_file), _path(params.catalog)) if file]
    captures = _capture_records(Path(params.capture)) if params.capture else ()
    return (*map(_record_of, files), *captures)


def _capture_records(folder: Path) -> tuple[FileRecord, ...]:
    try:
        files = sorted(file for file in folder.iterdir() if file.is_file())
    except OSError as error:
        message = f"{folder} can't be read ({error.strerror}); give the folder that holds the captured traces"
        raise InputError(message) from None
    return tuple(
        msgspec.structs.replace(_record_of(file), path=f"{folder.name}/{file.name}") for file in files
    )


@contextmanager
def _trace_file(run_dir: str) -> Iterator[Path]:
    """Yield the trace file; that of the sample is made for the purpose."""
    if run_dir != SAMPLE:
        yield Path(run_dir)
        return
    from normscope.sample import write_sample  # noqa: PLC0415 - only the sample needs its generator

    with tempfile.TemporaryDirectory(prefix="normscope-") as made:
        with collector_paused():
            trace = write_sample(Path(made) / _SAMPLE_FILE)
        yield trace


def _record_of(trace: Path) -> FileRecord:
    try:
        with trace.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(path=trace.name, size_bytes=trace.stat().st_size, sha256=digest)
    except OSError as error:
        message = f"{trace} can't be read ({error.strerror}); check the path and its permissions"
        raise InputError(message) from None


class _Hashed:
    """Standard input that remembers what went through it: it can't be read a second time."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._size = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        self._size += len(data)
        return data

    def record(self) -> FileRecord:
        return FileRecord(path="-", size_bytes=self._size, sha256=self._digest.hexdigest())
