"""The notebook as it is committed: clean, readable, and nothing but calls of the library."""

import re
from typing import Any

import nbformat
import pytest

from normscope.params import ReportParams
from normscope.resources import notebook_path

MAX_LINES = 12


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    notebook = nbformat.read(notebook_path(), as_version=4)  # type: ignore[no-untyped-call]
    return list(notebook.cells)


def code_of(cells: list[Any]) -> list[Any]:
    return [cell for cell in cells if cell.cell_type == "code"]


def tagged(cells: list[Any], tag: str) -> list[Any]:
    return [cell for cell in cells if tag in cell.metadata.get("tags", [])]


def test_it_is_valid_and_runs_on_the_python3_kernel() -> None:
    notebook = nbformat.read(notebook_path(), as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "papermill" not in notebook.metadata


def test_it_holds_no_outputs_and_no_execution_counts(cells: list[Any]) -> None:
    assert [cell.id for cell in code_of(cells) if cell.outputs or cell.execution_count is not None] == []


def test_its_cell_ids_are_words_and_unique(cells: list[Any]) -> None:
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name)] == []


def test_one_cell_is_tagged_parameters_and_one_findings(cells: list[Any]) -> None:
    assert [len(tagged(cells, tag)) for tag in ("parameters", "findings")] == [1, 1]


def test_the_parameters_are_those_of_the_model_with_its_defaults_and_a_comment_each(cells: list[Any]) -> None:
    source = tagged(cells, "parameters")[0].source
    values: dict[str, object] = {}
    exec(source, {}, values)
    defaults = ReportParams()
    assert values == {name: getattr(defaults, name) for name in ReportParams.__struct_fields__}
    assert all(re.search(r"\S  # \w", line) for line in source.splitlines())


def test_the_first_code_cell_sets_the_inline_backend(cells: list[Any]) -> None:
    assert code_of(cells)[0].source.startswith("%matplotlib inline\n")


def test_code_cells_are_short_and_only_call_the_library(cells: list[Any]) -> None:
    too_long = [cell.id for cell in code_of(cells) if len(cell.source.splitlines()) > MAX_LINES]
    defining = [
        cell.id for cell in cells if re.search(r"^\s*(def|class|for|while) ", cell.source, re.MULTILINE)
    ]
    assert (too_long, [name for name in defining if name in {c.id for c in code_of(cells)}]) == ([], [])


def test_no_cell_names_an_absolute_path(cells: list[Any]) -> None:
    assert [cell.id for cell in cells if re.search(r"""(^|[\s"'(])(/\w|[A-Z]:\\|~/)""", cell.source)] == []


def test_every_section_has_a_heading_and_the_answer_comes_first(cells: list[Any]) -> None:
    headings = [cell.source.splitlines()[0] for cell in cells if cell.cell_type == "markdown"]
    assert headings == [
        "# Normalization report",
        "## The answer",
        "## Where the time goes",
        "## Roofline",
        "## Efficiency against bytes moved",
        "## Potential gain",
        "## Findings",
        "## Every operation",
        "## Data quality",
        "## Method and hardware",
        "## Files",
    ]


def test_the_steps_under_the_answer_are_told_apart(cells: list[Any]) -> None:
    ids = [cell.id for cell in cells]
    under = cells[ids.index("answer") + 1 : ids.index("time-heading")]
    names = [re.search(r"papermill_description=(\S+)", cell.source) for cell in under]
    assert len({name[1] for name in names if name}) == len(under)
