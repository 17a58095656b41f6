"""A Jupyter kernel of our own: this very Python, private sockets, nobody's settings, and no process left.

papermill would start whatever kernelspec named ``python3`` it finds first, over TCP ports that parallel runs
race for, with the user's IPython startup files. None of that may change a report.
"""

import asyncio
import contextvars
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jupyter_client.asynchronous.client import AsyncKernelClient
    from jupyter_client.manager import AsyncKernelManager

_LONGEST_SOCKET_PATH = 100  # bytes; macOS allows 104, Linux 108
_ARGV = ("-m", "ipykernel_launcher", "--ignore-cwd", "--colors=nocolor", "-f", "{connection_file}")
_BEFORE_CELLS = "--IPKernelApp.exec_lines"
_DROPPED = ("PYTHONSTARTUP", "PYTHONWARNINGS", "PYTHONINSPECT", "PYTHONDEVMODE", "PYTHONBREAKPOINT")
OF_A_REPORT = "NORMSCOPE_REPORT_KERNEL"
"""Set in this kernel's environment: whoever started it reads the results, and tells what failed."""
_SET = {
    OF_A_REPORT: "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    # Nothing here multiplies matrices, and the threads that stand ready to do so spin.
    "OPENBLAS_NUM_THREADS": "1",
    # What the notebook shows must not depend on the backend that the parent's environment names.
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    # Python 3.11 warns about its own frozen modules whenever ipykernel loads its debugger.
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


class Kernel(NamedTuple):
    """A running kernel: its manager, the file that takes what its process prints, and where to work with it.

    Jupyter's libraries keep their event loop in the context; whatever talks to the kernel runs in it.
    """

    manager: "AsyncKernelManager"
    log: Path
    context: contextvars.Context

    def last_words(self) -> str:
        """Return the last line that the kernel process printed, or an empty text."""
        with suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""


@contextmanager
def kernel_ahead(imports: Sequence[str]) -> Iterator[Kernel | None]:
    """Start a kernel before it is needed, and let it import modules until then.

    Where no process can be started this yields None: who needs a kernel will try again, and tell.
    """
    with ExitStack() as started:
        try:
            kernel = started.enter_context(started_kernel(imports))
        except OSError:
            kernel = None
        yield kernel


@contextmanager
def started_kernel(imports: Sequence[str] = ()) -> Iterator[Kernel]:
    """Start a kernel of this Python; on the way out, kill it and remove every file of it.

    Parameters
    ----------
    imports
        Modules for the kernel to import before it takes its first cell.

    Raises
    ------
    OSError
        The process can't be started, or there is no place for its files.
    """
    from jupyter_core.utils import run_sync  # noqa: PLC0415 - 0.3 s that only a notebook run needs

    folder = Path(tempfile.mkdtemp(prefix="normscope-"))
    context = contextvars.Context()
    others = context.run(run_sync(_tasks))
    try:
        manager = _new_manager(folder, imports)
        log = folder / "kernel.log"
        try:
            with log.open("wb") as sink:
                start = run_sync(manager.start_kernel)
                context.run(start, env=_environment(folder), stdout=sink, stderr=sink)
            yield Kernel(manager, log, context)
        finally:
            context.run(run_sync(_cancel_all_but), others)
            for client in manager.clients:
                client.stop_channels()
            context.run(run_sync(manager.shutdown_kernel), now=True)
    finally:
        context.run(_close_loop)
        shutil.rmtree(folder, ignore_errors=True)


def _close_loop() -> None:
    """Close the event loop of this context, which Jupyter's libraries never do."""
    from jupyter_core.utils import ensure_event_loop  # noqa: PLC0415 - as above

    loop = ensure_event_loop()
    if not loop.is_running():  # as it is when a cell of a notebook makes a report
        loop.close()


async def _tasks() -> set["asyncio.Task[Any]"]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def _cancel_all_but(others: set["asyncio.Task[Any]"]) -> None:
    """Cancel what an interrupted run left waiting, or asyncio would complain of it as the kernel dies."""
    left = await _tasks() - others
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _new_manager(folder: Path, imports: Sequence[str]) -> Any:  # noqa: ANN401 - a class made here, as its base is imported here
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager  # noqa: PLC0415 - as above
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415 - as above

    class OwnManager(AsyncKernelManager):
        """Remembers its clients: nbclient leaves the sockets open that it got from another's manager."""

        def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - traitlets
            super().__init__(**settings)
            self.clients: list[AsyncKernelClient] = []

        def client(self, **settings: Any) -> Any:  # noqa: ANN401 - the base names another class than it makes
            self.clients.append(super().client(**settings))
            return self.clients[-1]

    class ThisPython(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            # -P keeps a module of the current folder, such as a user's pandas.py, out of the kernel.
            argv = [sys.executable, "-P", *_ARGV, *(f"{_BEFORE_CELLS}=import {name}" for name in imports)]
            return KernelSpec(argv=argv, language="python", display_name=kernel_name)

    return OwnManager(
        kernel_spec_manager=ThisPython(), connection_file=str(folder / "k.json"), **_transport(folder)
    )


def _transport(folder: Path) -> dict[str, Any]:
    """Return the settings for Unix sockets in ``folder``, or for TCP where these can't be."""
    sockets = str(folder / "k-ipc")
    if sys.platform == "win32" or len(os.fsencode(sockets)) > _LONGEST_SOCKET_PATH:
        return {"transport": "tcp"}
    return {"transport": "ipc", "ip": sockets}


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    settings = folder / "matplotlibrc"
    settings.touch()
    return kept | _SET | {"IPYTHONDIR": str(folder / "ipython"), "MATPLOTLIBRC": str(settings)}
