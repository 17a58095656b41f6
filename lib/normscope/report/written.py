"""Which files of a folder normscope wrote: those may be replaced, and no others."""

from pathlib import Path
from typing import Literal

import msgspec

from normscope.analysis.models import Scope
from normscope.report.provenance import written_files
from normscope.report.run import SENTINEL

_FIGURES = (
    "call_times",
    "comparison_calls",
    "comparison_operations",
    "comparison_roofline",
    "efficiency_by_bytes",
    "impact",
    "roofline",
    "time_by_operation",
)
_DATA = ("comparison.json", "coverage.json", "norm_calls.csv", "trace_summary.json")
_SUFFIXES = (".csv", ".png", ".svg")
_OF_EVERY_RUN = frozenset(
    {
        *(SENTINEL, "findings.md"),
        *(f"category_data/{name}" for name in _DATA),
        *(f"figures/{figure}{suffix}" for figure in _FIGURES for suffix in _SUFFIXES),
    }
)


class _Category(msgspec.Struct, frozen=True):
    category: str


class _Results(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a results file, of any version, that tells which files lie beside it."""

    schema_version: str
    complete: Literal[True]
    status: Literal["OK", "ERROR", "EMPTY"]
    comparison_scope: Scope
    label: str
    categories: tuple[_Category, ...]


def own_files(folder: Path) -> frozenset[str] | None:
    """Return the names of the files in ``folder`` that normscope wrote, or ``None`` if it isn't ours.

    A report says so in its provenance. The notebook alone, run in Jupyter or by papermill, leaves none: there
    the results file says it, and names the categories that the other files belong to.
    """
    by_report, by_notebook = written_files(folder), _files_of_notebook(folder)
    if by_report is None:
        return by_notebook
    return by_report | (by_notebook or frozenset())


def _files_of_notebook(folder: Path) -> frozenset[str] | None:
    try:
        results = msgspec.json.decode((folder / SENTINEL).read_bytes(), type=_Results)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    names = [each.category for each in results.categories]
    return _OF_EVERY_RUN.union(
        (f"category_data/{name}_metrics.json" for name in names),
        (f"category_findings/{name}_findings.md" for name in names),
    )
