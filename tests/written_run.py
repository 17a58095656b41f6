"""A trace written as a run directory, and its files read back without the library's own readers."""

import csv
import io
import json
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from normscope.tracerun.examine import NormSources
from normscope.tracerun.peaks import GpuChoice
from normscope.tracerun.summary import TraceSummary
from normscope.tracerun.write import write_trace_run
from trace_inputs import Event, as_json

CATEGORIES = ("norm_fwd", "norm_bwd")
Row = dict[str, str]


class WrittenRun(msgspec.Struct, frozen=True):
    """A run directory and the summary of its trace."""

    folder: Path
    summary: TraceSummary

    def table(self, category: str) -> list[Row]:
        """Return the ops table of a category, no row where there is none."""
        return _rows(self.folder / "category_data" / f"{category}_ops.csv")

    @property
    def rows(self) -> list[Row]:
        """Return the rows of both directions."""
        return [row for category in CATEGORIES for row in self.table(category)]

    @property
    def calls(self) -> list[Row]:
        """Return every call."""
        return _rows(self.folder / "category_data" / "norm_calls.csv")

    def metadata(self, category: str) -> dict[str, Any]:
        """Return the metadata of a category."""
        return self._json(f"metadata/{category}_metadata.json")

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the list of categories."""
        return self._json("category_data/category_manifest.json")

    @property
    def summary_file(self) -> dict[str, Any]:
        """Return the summary as written."""
        return self._json("category_data/trace_summary.json")

    @property
    def groups(self) -> dict[str, tuple[int, float]]:
        """Return count and time in µs of each group of the coverage."""
        covered = self.summary.coverage
        return {name: (covered.count(name), covered.us(name)) for name, _ in covered.groups}

    @property
    def coverage_file(self) -> dict[str, Any]:
        """Return the coverage as written."""
        return self._json("category_data/coverage.json")

    @property
    def problems(self) -> dict[str, int]:
        """Return the count of each problem."""
        return {problem.what: problem.count for problem in self.summary.problems}

    def _json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text("utf-8"), parse_constant=_refuse)
        return found


def _refuse(constant: str) -> None:
    message = f"{constant} is no JSON"
    raise AssertionError(message)


def _rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(row: Row, column: str) -> float | None:
    """Return a cell as a number, None where it is empty."""
    return float(row[column]) if row[column] else None


def known(row: Row, column: str) -> float:
    """Return a cell as a number; there has to be one."""
    return float(row[column])


def written(
    source: Path | BinaryIO,
    folder: Path,
    gpu: GpuChoice | None = None,
    norms: NormSources | None = None,
) -> WrittenRun:
    """Write the run directory of a trace into ``folder``."""
    return WrittenRun(folder, write_trace_run(source, folder, label="a trace", gpu=gpu, norms=norms))


def written_events(
    folder: Path, *events: Event, gpu: GpuChoice | None = None, **metadata: object
) -> WrittenRun:
    """Write the run directory of a trace of ``events``."""
    return written_bytes(folder, as_json(list(events), **metadata), gpu)


def written_bytes(folder: Path, content: bytes, gpu: GpuChoice | None = None) -> WrittenRun:
    """Write the run directory of a trace file's ``content``."""
    return written(io.BytesIO(content), folder, gpu)
