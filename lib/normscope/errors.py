"""Every way normscope can fail, each with its exit code.

::

    NormscopeError            1  the analysis failed, or something unexpected did
    ├── UsageError            2  a wrong option or parameter
    ├── InputError            3  an input file can't be read or makes no sense
    ├── NoNormsError          4  the trace holds no normalization
    ├── NotebookError         5  a cell of the notebook failed
    ├── KernelError           6  a cell timed out, or the kernel died or didn't start
    ├── ExportError           7  the HTML or the results could not be written
    ├── InvalidFindingsError  8  a findings file breaks its contract
    ├── NoGpuActivityError    9  the trace holds nothing that ran on a GPU
    └── BreachError          10  a limit of the gate is breached

A message is one sentence or two: what is wrong, where, and what to do next. It is shown to the user as it
is, so it holds no traceback and no markup.
"""


class NormscopeError(Exception):
    """The analysis failed, or something unexpected did."""

    exit_code = 1


class UsageError(NormscopeError):
    """A wrong option or parameter."""

    exit_code = 2


class InputError(NormscopeError):
    """An input file can't be read or makes no sense."""

    exit_code = 3


class NoNormsError(NormscopeError):
    """The trace holds no normalization."""

    exit_code = 4


class NotebookError(NormscopeError):
    """A cell of the notebook failed."""

    exit_code = 5


class KernelError(NormscopeError):
    """A cell timed out, or the kernel died or didn't start."""

    exit_code = 6


class ExportError(NormscopeError):
    """The HTML or the results could not be written."""

    exit_code = 7


class InvalidFindingsError(NormscopeError):
    """A findings file breaks its contract."""

    exit_code = 8


class NoGpuActivityError(NormscopeError):
    """The trace holds nothing that ran on a GPU."""

    exit_code = 9


class BreachError(NormscopeError):
    """A limit of the gate is breached."""

    exit_code = 10
