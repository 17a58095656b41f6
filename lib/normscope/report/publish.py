"""Moves a finished report to its place in one piece, so that a failed run leaves the last good one.

A report is made in a hidden folder beside its place, on the same disk, and swapped in by renaming.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from normscope.errors import ExportError, UsageError
from normscope.escape import shorten
from normscope.report.written import own_files

_SWAP_TRIES = 20
_NAME_LENGTH = 40  # characters, of the 255 bytes a name may have
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_HARMLESS = (".DS_Store", ".ipynb_checkpoints", ".~lock*")
"""What desktops, Jupyter and office programs leave in any folder that they open."""


def check_target(target: Path) -> None:
    """Make sure that ``target`` may be replaced: it is absent, empty, or a report without foreign files.

    What desktops and Jupyter leave in a report doesn't count.

    Raises
    ------
    UsageError
        It is a file, the current folder, holds something that no report wrote, or can't have that name.
    """
    try:
        is_folder = stat.S_ISDIR(target.stat().st_mode)
    except OSError as error:  # most often it isn't there; whatever else it is, making the folder will tell
        if error.errno == errno.ENAMETOOLONG:
            message = f"the name {shorten(target.name, 80)} is too long; choose a shorter one"
            raise UsageError(message) from None
        is_folder = False
        if not target.is_symlink():
            return
    if not is_folder:
        message = f"{target} is a file, not a folder; choose another folder"
        raise UsageError(message)
    if Path.cwd().is_relative_to(target.resolve()):
        message = f"{target} is the current folder or above it and can't be replaced; choose another folder"
        raise UsageError(message)
    foreign = _foreign_files(target)
    if foreign:
        message = f"{target} holds {foreign[0]}, which no report wrote; choose another folder, or empty it"
        raise UsageError(message)


def _foreign_files(folder: Path) -> list[str]:
    """Return what ``folder`` holds that no report wrote, even while other runs replace it."""
    for _ in range(_SWAP_TRIES):
        with suppress(FileNotFoundError):
            before = _identity(folder)
            own = own_files(folder)
            foreign = sorted(_files_in(folder) - (own or frozenset()))
            if own is None:
                foreign = foreign or sorted(path.name for path in folder.iterdir())
            if _identity(folder) == before:
                return foreign
    return []  # it changes all the time, so other runs own it


def _identity(folder: Path) -> tuple[int, int]:
    """Return what changes when another folder takes this place; a new one may get an old number."""
    found = folder.stat()
    return found.st_ino, found.st_ctime_ns


def _files_in(folder: Path) -> set[str]:
    """Return the names of all files below ``folder`` but the harmless ones; a link is a file."""
    found = set()
    for place, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in (*files, *links):
            path = Path(place, name).relative_to(folder)
            if not any(fnmatchcase(part, pattern) for part in path.parts for pattern in _HARMLESS):
                found.add(path.as_posix())
    return found


def _refuse_unreadable(error: OSError) -> None:
    if isinstance(error, FileNotFoundError):
        raise error
    message = f"{error.filename} can't be looked through ({error.strerror}); choose another folder"
    raise UsageError(message)


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``target`` when the block succeeds.

    When the block raises, the folder is removed and ``target`` is left as it was. Folders above ``target``
    are made. The block may itself move the folder elsewhere before it raises.

    Raises
    ------
    UsageError
        ``target`` may not be replaced, see :func:`check_target`.
    ExportError
        The folder can't be written.
    """
    check_target(target)
    folder = _beside(Path(os.path.realpath(target)), "partial")  # a link to a folder stays a link
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        message = f"{target} can't be written ({error.strerror}); choose a folder you may write"
        raise ExportError(message) from None
    try:
        yield folder
        check_target(target)  # a run takes long enough for somebody to put a file there
        swap_in(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def swap_in(folder: Path, target: Path) -> None:
    """Rename ``folder`` to ``target``; what was there is deleted afterwards, or put back if this fails.

    Raises
    ------
    ExportError
        The folder can't be renamed.
    """
    place = Path(os.path.realpath(target))
    for _ in range(_SWAP_TRIES):
        old = _beside(place, "old")
        try:
            with suppress(FileNotFoundError):
                place.rename(old)
            folder.rename(place)
        except BaseException as error:
            _put_back(old, place)
            if isinstance(error, OSError) and error.errno in _OCCUPIED:
                continue  # another run was faster; this report is the newer one
            if isinstance(error, OSError):
                raise ExportError(_cant_replace(target, error)) from None
            raise
        shutil.rmtree(old, ignore_errors=True)
        return
    message = f"other runs keep writing {target}; give each run its own folder"
    raise ExportError(message)


def _put_back(old: Path, place: Path) -> None:
    """Undo the first of the two renames, or delete ``old`` where another run's report is newer."""
    try:
        old.rename(place)
    except OSError as error:  # also where there was nothing to move
        if error.errno in _OCCUPIED:
            shutil.rmtree(old, ignore_errors=True)


def _cant_replace(target: Path, error: OSError) -> str:
    return f"{target} can't be replaced ({error.strerror}); close what uses it, or choose another folder"


def _beside(target: Path, role: str) -> Path:
    return target.parent / f".{target.name[:_NAME_LENGTH]}.{role}-{secrets.token_hex(6)}"


def remove_report(folder: Path) -> None:
    """Delete ``folder`` if it is a report and nothing else is in it."""
    if own_files(folder) is not None and not _foreign_files(folder):
        shutil.rmtree(folder, ignore_errors=True)
