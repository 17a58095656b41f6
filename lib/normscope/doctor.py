"""Does this machine have what a report needs? One check per row."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from normscope import __version__
from normscope.errors import NormscopeError

PACKAGES = ("papermill", "nbformat", "nbclient", "nbconvert", "ipykernel", "pandas", "matplotlib", "msgspec")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FONT = "DejaVu Sans"


class Check(msgspec.Struct, frozen=True):
    """One point: what was looked at, whether it is well, whether a report needs it, and what was seen."""

    name: str
    ok: bool
    needed: bool
    detail: str


def run_checks() -> tuple[Check, ...]:
    """Look at this machine and return what was seen; starts and ends one kernel."""
    return tuple(_checked(name, needed, look) for name, needed, look in _CHECKS)


def failures(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks that keep a report from being made."""
    return tuple(check for check in checks if check.needed and not check.ok)


def _checked(name: str, needed: bool, look: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, needed=needed, detail=look())
    except OSError as error:
        return Check(name, ok=False, needed=needed, detail=error.strerror or str(error))
    except (NormscopeError, PackageNotFoundError) as error:
        return Check(name, ok=False, needed=needed, detail=str(error))


def _normscope() -> str:
    return f"{__version__}, Python {platform.python_version()}"


def _packages() -> str:
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES)


def _kernel() -> str:
    from normscope.report.kernel import started_kernel  # noqa: PLC0415 - a second, only when asked

    with started_kernel():
        return f"starts ({Path(sys.executable).name})"


def _font() -> str:
    from matplotlib import font_manager  # noqa: PLC0415 - as above

    try:
        return f"{FONT} at {Path(font_manager.findfont(FONT, fallback_to_default=False)).name}"
    except ValueError:
        message = f"{FONT} is missing; install matplotlib again"
        raise NormscopeError(message) from None


def _browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        message = "none found; only the browser tests need one"
        raise NormscopeError(message)
    return Path(found).name


def _writable(folder: Path) -> str:
    if not os.access(folder, os.W_OK):
        message = f"{folder} can't be written; run normscope in a folder of your own"
        raise NormscopeError(message)
    return "writable"


_CHECKS: tuple[tuple[str, bool, Callable[[], str]], ...] = (
    ("normscope", True, _normscope),
    ("packages", True, _packages),
    ("kernel", True, _kernel),
    ("font", True, _font),
    ("browser", False, _browser),
    ("current folder", True, lambda: _writable(Path.cwd())),
    ("temporary folder", True, lambda: _writable(Path(tempfile.gettempdir()))),
)
