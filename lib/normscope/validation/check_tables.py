"""Rules on the Data table of a finding: its columns, and the cells that repeat the metrics file."""

from collections.abc import Iterator

from normscope.validation.facts import Facts, OperationFacts, cell_text, is_verbatim, operations_named
from normscope.validation.parse import Candidate, Document, Row, Table, within
from normscope.validation.placeholders import is_gap, placeholders
from normscope.validation.problem import Problem, quoted

COLUMNS = {
    "standalone": (
        *("Operation", "Args", "Kernel Path", "Kernel Name", "Time (ms)", "%E2E", "Count", "FLOPS/Byte"),
        *("Efficiency", "Bound"),
    ),
    "comparative": (
        *("Operation", "Args (T1)", "Kernel Path", "Kernel Name", "Trace 1 Time (ms)", "Trace 2 Time (ms)"),
        *("Count (T1/T2)", "Difference (ms)", "FLOPS/Byte (T1)", "Bound (T1)"),
    ),
}
VERBATIM_KEYS = {
    "Args": "args",
    "Args (T1)": "args",
    "Kernel Path": "launcher_path",
    "Kernel Name": "kernel_name_trunc",
}


def table_problems(doc: Document, facts: Facts | None, scope: str) -> Iterator[Problem]:
    """Check the Data table of every candidate."""
    for candidate in doc.candidates:
        for label in within(doc.labels, candidate):
            if label.name == "Data" and not within(doc.tables, label):
                yield Problem(label.line, "there is no table after **Data**", f"add one: {_header(scope)}")
        for table in data_tables(doc, candidate):
            yield from _one_table(table, facts, scope)


def data_tables(doc: Document, candidate: Candidate) -> tuple[Table, ...]:
    """Return the tables under the Data label of a candidate; there should be one."""
    labels = [label for label in within(doc.labels, candidate) if label.name == "Data"]
    return tuple(table for label in labels for table in within(doc.tables, label))


def has_columns(table: Table, scope: str) -> bool:
    """Tell whether the table begins with the columns of the contract."""
    wanted = COLUMNS[scope]
    return table.columns[: len(wanted)] == wanted


def cells_of(table: Table, row: Row, scope: str) -> dict[str, str]:
    """Return the cells of a row by column name; empty where the row has too many or too few.

    Only cells of columns beyond those of the contract may be left out at the end.
    """
    fits = len(COLUMNS[scope]) <= len(row.cells) <= len(table.columns)
    return dict(zip(table.columns, row.cells, strict=False)) if fits else {}


def named_operations(cells: dict[str, str], facts: Facts) -> tuple[OperationFacts, ...]:
    """Return the operations of the metrics file that a row may show: those of its name."""
    return operations_named(cells["Operation"], facts.operations)


def wrong_columns(cells: dict[str, str], operation: OperationFacts) -> tuple[str, ...]:
    """Return the columns of a row that don't show the names of ``operation`` verbatim."""
    return tuple(
        column
        for column, key in VERBATIM_KEYS.items()
        if column in cells and not is_verbatim(cells[column], getattr(operation, key))
    )


def _one_table(table: Table, facts: Facts | None, scope: str) -> Iterator[Problem]:
    if not has_columns(table, scope):
        yield _column_problem(table, scope)
        return  # without the right header a cell can't be told from its neighbour
    if not table.rows:
        yield Problem(table.line, "the table has no rows", "add one row for each operation of the finding")
    for row in table.rows:
        cells = cells_of(table, row, scope)
        if not cells:
            message = f"the row has {len(row.cells)} cells, the header has {len(table.columns)}"
            yield Problem(row.line, message, "give it as many, and write a pipe in a name as &#124;")
            continue
        yield from _gap_problems(row, cells)
        if facts:
            yield from _verbatim_problems(row, cells, facts)


def _column_problem(table: Table, scope: str) -> Problem:
    missing = [column for column in COLUMNS[scope] if column not in table.columns]
    what = f"the table lacks {', '.join(missing)}" if missing else "the columns of the table are out of order"
    return Problem(table.line, f"{what} (scope {scope})", f"begin the header with {_header(scope)}")


def _header(scope: str) -> str:
    return f"`| {' | '.join(COLUMNS[scope])} |`"


def _gap_problems(row: Row, cells: dict[str, str]) -> Iterator[Problem]:
    for column, cell in cells.items():
        if (
            column != "Operation"
            and column not in VERBATIM_KEYS
            and (is_gap(cell) or any(placeholders(cell)))
        ):
            message = f"{quoted(column)} is {quoted(cell)}, which says nothing"
            yield Problem(row.line, message, "write the value, or — where it is not known")


def _verbatim_problems(row: Row, cells: dict[str, str], facts: Facts) -> Iterator[Problem]:
    operations = named_operations(cells, facts)
    if not operations:
        message = f"the metrics file has no operation {quoted(cells['Operation'])}"
        yield Problem(row.line, message, "copy the name of an operation of the finding")
        return
    nearest = min(operations, key=lambda operation: len(wrong_columns(cells, operation)))
    for column in wrong_columns(cells, nearest):
        wanted = cell_text(getattr(nearest, VERBATIM_KEYS[column]))
        message = f"{column} is {quoted(cells[column])}, which is not what the metrics file has"
        yield Problem(row.line, message, f"write {quoted(wanted)}")
