"""Runs a notebook, and believes it only when every cell ran and the last one said so.

papermill reports success for ``sys.exit(0)`` in a cell, and leaves no trace of a timeout or of a dead kernel
in the notebook. So success here means: no exception, every code cell executed, no error output, and the file
that the last cell writes says ``complete``.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from normscope import errors
from normscope.errors import KernelError, NormscopeError, NotebookError, UsageError
from normscope.escape import printable, shorten
from normscope.report.kernel import Kernel, started_kernel

if TYPE_CHECKING:
    from nbformat import NotebookNode

StepHook = Callable[[str, int, int], None]
"""Called as a step begins, with its name, its number from 1, and the number of steps."""

_PARAMETER_TAGS = frozenset({"parameters", "injected-parameters"})
_STEP_COMMENT = re.compile(r"papermill_description=(\S+)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LAST_OUTPUT_TIMEOUT_S = 60  # nbclient's 4 s are too few on a loaded machine
_STARTS = 2
_ERROR_MARKER = "papermill-error-cell-tag"
SENTINEL = "metrics.json"


class Limits(msgspec.Struct, frozen=True):
    """How long a run may take: each cell, and the start of the kernel, in seconds.

    Raises
    ------
    UsageError
        A limit is less than a second.
    """

    cell_s: int = 600
    start_s: int = 60

    def __post_init__(self) -> None:
        if min(self.cell_s, self.start_s) < 1:
            message = f"a time limit of {min(self.cell_s, self.start_s)} s leaves no time; give 1 or more"
            raise UsageError(message)


DEFAULT_LIMITS = Limits()


class _Sentinel(msgspec.Struct, frozen=True):
    complete: bool = False


class _NotStartedError(Exception):
    """The kernel didn't come up; a second try may succeed."""


class _Watch:
    """What nbclient tells while it runs: the notebook with its outputs so far, and the cell it is at."""

    def __init__(self, on_cell: StepHook | None) -> None:
        self.notebook: NotebookNode | None = None
        self.step = ""
        self._on_cell = on_cell
        self.done = 0

    def notebook_started(self, notebook: "NotebookNode") -> None:
        self.notebook = notebook

    def remove_markers(self) -> None:
        """Take out the two cells of raw HTML that papermill adds on a failure."""
        if self.notebook is not None:
            cells = self.notebook.cells
            self.notebook.cells = [c for c in cells if _ERROR_MARKER not in c.metadata.get("tags", [])]

    def cell_started(self, cell: "NotebookNode", cell_index: int) -> None:
        cells: Sequence[NotebookNode] = self.notebook.cells if self.notebook else []
        self.step = step_name(cells, cell_index)
        self.done += 1
        if self._on_cell:
            self._on_cell(self.step, self.done, sum(map(_is_executable, cells)))


def run_notebook(  # noqa: PLR0913 - two files and what a caller may set
    notebook: Path,
    output: Path,
    params: Mapping[str, Any],
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_cell: StepHook | None = None,
    kernel: Kernel | None = None,
) -> int:
    """Execute ``notebook`` with ``params`` and write it, outputs included, to ``output``.

    When a cell fails, ``output`` is written too, as far as the run came; it is not when no kernel started.

    Parameters
    ----------
    notebook
        A notebook with exactly one cell tagged ``parameters``.
    output
        The file to write; its folder exists.
    params
        Plain JSON values, injected after the tagged cell. The last cell of the notebook writes a JSON file
        ``metrics.json`` with ``"complete": true`` to the folder ``params["out_dir"]``.
    limits
        The time limits, in seconds.
    on_cell
        Called before each code cell.
    kernel
        The kernel to run in, which nothing ran in yet. By default, and where that one doesn't come up, the
        run starts its own.

    Returns
    -------
    int
        How many cells ran.

    Raises
    ------
    NotebookError
        A cell failed or ended the notebook early, or the notebook can't take parameters. A cell that raised
        an error of :mod:`normscope.errors` raises that error here.
    KernelError
        A cell exceeded its time limit, or the kernel died, or twice didn't start.
    """
    import nbformat  # noqa: PLC0415 - 0.2 s that only a notebook run needs

    _check_parameters_cell(notebook)
    sentinel = Path(params["out_dir"]) / SENTINEL
    sentinel.unlink(missing_ok=True)
    watch = _Watch(on_cell)
    try:
        _execute_with_retry(notebook, params, limits, watch, kernel)
        _check_complete(watch, sentinel)
        return watch.done
    finally:
        if watch.notebook is not None:
            nbformat.write(watch.notebook, output)  # type: ignore[no-untyped-call]


def step_name(cells: "Sequence[NotebookNode]", index: int) -> str:
    """Return what the cell at ``index`` does, in words.

    That is its ``# papermill_description=`` comment, else that it sets parameters, else the nearest heading
    before it, else its number.
    """
    described = _STEP_COMMENT.search(cells[index].source)
    if described:
        return printable(described[1].replace("_", " "))
    if _PARAMETER_TAGS.intersection(cells[index].metadata.get("tags", [])):
        return "Parameters"
    for cell in reversed(cells[:index]):
        headings = _HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
        if headings:
            return printable(headings[-1])
    return f"cell {index + 1}"


def _is_executable(cell: "NotebookNode") -> bool:
    tags = cell.metadata.get("tags", [])
    return bool(cell.cell_type == "code" and cell.source.strip() and "skip-execution" not in tags)


def _check_parameters_cell(notebook: Path) -> None:
    import nbformat  # noqa: PLC0415 - as above

    try:
        cells = nbformat.read(notebook, as_version=4).cells  # type: ignore[no-untyped-call]
    except Exception as error:  # nbformat raises whatever its parsers raise
        message = f"{notebook.name} is not a notebook ({type(error).__name__}); restore it"
        raise NotebookError(message) from None
    count = sum("parameters" in cell.metadata.get("tags", []) for cell in cells)
    if count != 1:
        message = (
            f"{notebook.name} has {count or 'no'} cells tagged `parameters`; "
            "tag exactly one, or the parameters would have no effect"
        )
        raise NotebookError(message)


def _execute_with_retry(
    notebook: Path, params: Mapping[str, Any], limits: Limits, watch: _Watch, first: Kernel | None
) -> None:
    for attempt in range(1, _STARTS + 1):
        try:
            return _execute(notebook, params, limits, watch, first if attempt == 1 else None)
        except _NotStartedError as error:
            if attempt == _STARTS:
                message = f"the notebook's kernel didn't start ({error}); `normscope doctor` checks it"
                raise KernelError(message) from None
    return None


def _execute(
    notebook: Path, params: Mapping[str, Any], limits: Limits, watch: _Watch, given: Kernel | None
) -> None:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError  # noqa: PLC0415 - as above
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415 - as above

    try:
        with nullcontext(given) if given else started_kernel() as kernel:
            kernel.context.run(_call_papermill, notebook, params, limits, watch, kernel)
    except PapermillExecutionError:
        watch.remove_markers()  # the error output itself says more, see _check_complete
    except CellTimeoutError:
        message = (
            f"the step {watch.step!r} took longer than {limits.cell_s} s; allow more time, or a smaller input"
        )
        raise KernelError(message) from None
    except DeadKernelError:
        message = f"the notebook's kernel died in the step {watch.step!r}, often for lack of memory"
        raise KernelError(message) from None
    except OSError as error:
        if watch.notebook is not None:
            raise
        raise _NotStartedError(error.strerror or str(error)) from None


def _call_papermill(
    notebook: Path, params: Mapping[str, Any], limits: Limits, watch: _Watch, kernel: Kernel
) -> None:
    from papermill.execute import execute_notebook  # noqa: PLC0415 - as above

    logger = logging.getLogger("papermill")  # would print its own account of a failure
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    try:
        execute_notebook(  # type: ignore[no-untyped-call]
            str(notebook).replace("{", "{{").replace("}", "}}"),
            None,
            dict(params),
            kernel_name="python3",
            language="python",
            progress_bar=False,
            request_save_on_cell_execute=False,
            autosave_cell_every=0,
            start_timeout=limits.start_s,
            execution_timeout=limits.cell_s,
            iopub_timeout=_LAST_OUTPUT_TIMEOUT_S,
            record_timing=False,
            store_widget_state=False,
            shutdown_kernel="immediate",
            km=kernel.manager,
            on_notebook_start=watch.notebook_started,
            on_cell_execute=watch.cell_started,
        )
    except RuntimeError as error:
        if watch.notebook is None:
            raise _NotStartedError(kernel.last_words() or str(error)) from None
        raise


def _check_complete(watch: _Watch, sentinel: Path) -> None:
    cells: Sequence[NotebookNode] = watch.notebook.cells if watch.notebook else []
    for index, cell in enumerate(cells):
        failure = next((o for o in cell.get("outputs", []) if o.output_type == "error"), None)
        if failure is not None:
            raise _cell_error(step_name(cells, index), failure)
        if _is_executable(cell) and cell.execution_count is None:
            message = (
                f"the step {step_name(cells, index)!r} didn't run, though no cell failed; see its notebook"
            )
            raise NotebookError(message)
    try:
        complete = msgspec.json.decode(sentinel.read_bytes(), type=_Sentinel).complete
    except (OSError, msgspec.DecodeError):
        complete = False
    if not complete:
        message = f"every cell ran, but the last one didn't write a complete {sentinel.name}"
        raise NotebookError(message)


def _cell_error(step: str, failure: "NotebookNode") -> NormscopeError:
    """Return the exception for an error output: our own error again, or a :class:`NotebookError`."""
    if failure.ename == "SystemExit":
        return NotebookError(f"the step {step!r} ended the notebook early, by sys.exit({failure.evalue})")
    lines = [line.strip() for line in _TERMINAL_COLOUR.sub("", failure.evalue).split("\n")]
    text = shorten(printable(next(filter(None, reversed(lines)), "")), 500)
    own = getattr(errors, failure.ename, None)
    if isinstance(own, type) and issubclass(own, NormscopeError):
        error: NormscopeError = own(text)
        return error
    return NotebookError(f"the step {step!r} failed: {printable(failure.ename)}: {text}".rstrip(": "))
