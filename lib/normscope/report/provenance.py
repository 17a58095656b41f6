"""``provenance.json``: where a report comes from. The only file that differs between two runs."""

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from normscope import __version__
from normscope.compare.models import COMPARISON_FILE
from normscope.errors import InputError
from normscope.inputs.rundir import category_paths
from normscope.params import ReportParams
from normscope.resources import checkout

FILE_NAME = "provenance.json"
SCHEMA_VERSION = "1.0"
_PACKAGES = (
    "ipykernel",
    "jupyter-client",
    "markdown-it-py",
    "matplotlib",
    "msgspec",
    "nbclient",
    "nbconvert",
    "nbformat",
    "pandas",
    "papermill",
)


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its path below the folder it belongs to, with ``/``, its size and its SHA-256 in hex."""

    path: str
    size_bytes: int
    sha256: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, with what, when, and what was written.

    ``input_label`` is the run as the user gave it, or the last part of an absolute path. ``git_commit`` is
    the commit of the normscope checkout, with ``-dirty`` after it when that had changes, or null for an
    installed package. No host and no user is named.
    """

    generator: Literal["normscope"] = "normscope"
    schema_version: str = SCHEMA_VERSION
    normscope_version: str
    git_commit: str | None
    python_version: str
    platform: str
    packages: dict[str, str]
    input_label: str
    inputs: tuple[FileRecord, ...]
    parameters: ReportParams
    started_utc: datetime
    finished_utc: datetime
    outputs: tuple[FileRecord, ...]


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a provenance file, of any version, that tells whose folder it is."""

    generator: Literal["normscope"]
    outputs: tuple[FileRecord, ...] = ()


def encode_provenance(provenance: Provenance) -> bytes:
    """Return the bytes of ``provenance.json``: UTF-8 JSON, two spaces of indent, a final newline."""
    return msgspec.json.format(msgspec.json.encode(provenance), indent=2) + b"\n"


def decode_provenance(data: bytes) -> Provenance:
    """Read back what :func:`encode_provenance` wrote.

    Raises
    ------
    msgspec.DecodeError
        The data is not a provenance file of this version.
    """
    return msgspec.json.decode(data, type=Provenance)


def written_files(folder: Path) -> frozenset[str] | None:
    """Return the names of the files that make up the report in ``folder``, or ``None`` if there is none."""
    try:
        mark = msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=_Mark)
    except (OSError, msgspec.DecodeError):
        return None
    return frozenset(record.path for record in mark.outputs) | {FILE_NAME}


def input_records(run_dir: Path, categories: Iterable[str]) -> tuple[FileRecord, ...]:
    """Describe the files that an analysis of ``categories`` reads, as far as they exist, sorted by path.

    Raises
    ------
    InputError
        A file is there but can't be read.
    """
    data = run_dir / "category_data"
    paths = {data / "category_manifest.json", data / COMPARISON_FILE, run_dir / "cache" / "cmd_prefix.txt"}
    for category in categories:
        named = category_paths(run_dir, category)
        paths |= {named.ops_csv, named.metadata_json, named.fusion_json}
    try:
        return tuple(_record(path, run_dir) for path in sorted(paths) if path.is_file())
    except OSError as error:
        message = f"{error.filename} can't be read ({error.strerror}); see that you may read the run"
        raise InputError(message) from None


def output_records(folder: Path) -> tuple[FileRecord, ...]:
    """Describe every file below ``folder``, sorted by path."""
    return tuple(_record(path, folder) for path in sorted(folder.rglob("*")) if path.is_file())


def _record(path: Path, root: Path) -> FileRecord:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(path=path.relative_to(root).as_posix(), size_bytes=path.stat().st_size, sha256=digest)


def make_provenance(
    folder: Path, shown_params: ReportParams, inputs: tuple[FileRecord, ...], started_utc: datetime
) -> Provenance:
    """Describe the report in ``folder``, finished now.

    Parameters
    ----------
    folder
        The finished report, without its provenance file.
    shown_params
        The parameters, with labels for the two paths.
    inputs
        What :func:`input_records` returned before the run.
    started_utc
        When the run began.
    """
    return Provenance(
        normscope_version=__version__,
        git_commit=git_commit(),
        python_version=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=dict(_installed(_PACKAGES)),
        input_label=shown_params.run_dir,
        inputs=inputs,
        parameters=shown_params,
        started_utc=started_utc,
        finished_utc=datetime.now(UTC),
        outputs=output_records(folder),
    )


def _installed(names: Iterable[str]) -> Mapping[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Return the commit of the normscope checkout, or ``None`` for an installed package or without git."""
    root, git = checkout(), shutil.which("git")
    if root is None or git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 - fixed
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
