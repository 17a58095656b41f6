"""Writing files so that a reader finds the old content or the new one, never a part."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from normscope.errors import ExportError

_ORDINARY_FILE = 0o666


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, making the folders above it, in one step.

    Raises
    ------
    ExportError
        The file can't be written; nothing is left behind.
    """
    target = path.resolve()
    name = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()
        message = (
            f"{path}: can't be written ({error.strerror}); check the folder's permissions and free space"
        )
        raise ExportError(message) from None


def _mode(target: Path) -> int:
    """Return the mode of the file that is replaced, or that of a new file."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return _ORDINARY_FILE & ~mask
