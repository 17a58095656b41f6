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
from pathlib import Path

from normscope.errors import ExportError, UsageError
from normscope.report.provenance import written_files

_SWAP_TRIES = 20
_NAME_LENGTH = 40  # characters, of the 255 bytes a name may have
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def check_target(target: Path) -> None:
    """Make sure that ``target`` may be replaced: it is absent, empty, or a report without foreign files.

    Hidden files, such as Jupyter's checkpoints, don't count.

    Raises
    ------
    UsageError
        It is a file, the current folder, or holds something that no report wrote.
    """
    try:
        is_folder = stat.S_ISDIR(target.stat().st_mode)
    except OSError:  # most often it isn't there; whatever else it is, making the folder will tell
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
    """Return the files of ``folder`` that no report wrote, even while other runs replace it."""
    for _ in range(_SWAP_TRIES):
        written = written_files(folder)
        with suppress(FileNotFoundError):
            names = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
            foreign = sorted({n.as_posix() for n in names if not _is_hidden(n)} - (written or frozenset()))
            if not foreign or written_files(folder) == written:
                return foreign
    return []  # it changes all the time, so other runs own it


def _is_hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


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
    with suppress(OSError):
        old.rename(place)
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)


def _cant_replace(target: Path, error: OSError) -> str:
    return f"{target} can't be replaced ({error.strerror}); close what uses it, or choose another folder"


def _beside(target: Path, role: str) -> Path:
    return target.parent / f".{target.name[:_NAME_LENGTH]}.{role}-{secrets.token_hex(6)}"


def remove_report(folder: Path) -> None:
    """Delete ``folder`` if it is a report."""
    if written_files(folder) is not None:
        shutil.rmtree(folder, ignore_errors=True)
