"""The analysis step through a command prefix: in a container, on a cluster node, wherever the user runs it.

``cache/cmd_prefix.txt`` of the run directory is somebody's shell command, so it is read only when the
parameter ``command_prefix`` asks for it.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec

from normscope.analysis.models import CategoryMetrics, Metrics, Scope, decode_metrics
from normscope.errors import InputError, NormscopeError
from normscope.escape import printable, shorten

PREFIX_FILE = "cache/cmd_prefix.txt"
PLACEHOLDER = "{CMD}"
_MESSAGE_WIDTH = 300


def read_prefix(run_dir: Path) -> str:
    """Return the command template of a run directory.

    Raises
    ------
    InputError
        The file can't be read or has no ``{CMD}`` in it.
    """
    try:
        template = (run_dir / PREFIX_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"{PREFIX_FILE} can't be read in the run directory, and command_prefix asks for it; "
            "write the command template there, or leave command_prefix empty to analyze in this Python"
        )
        raise InputError(message) from error
    if PLACEHOLDER not in template:
        message = f"{PREFIX_FILE} has no {PLACEHOLDER} in it; put {PLACEHOLDER} where the command belongs"
        raise InputError(message)
    return template


def prefixed_command(template: str, run_dir: Path, category: str, scope: Scope) -> str:
    """Return the shell command that analyzes ``category``, with every argument quoted."""
    command = [
        *("python3", "-m", "normscope", "analyze"),
        *("--output-dir", str(run_dir), "--comparison-scope", scope, "--category", category),
    ]
    return template.replace(PLACEHOLDER, shlex.join(command))


def analyze_through_prefix(run_dir: Path, category: str, scope: Scope) -> Metrics:
    """Run the analysis through the command prefix and return the metrics it left in the run.

    Raises
    ------
    InputError
        The prefix file is missing or has no ``{CMD}``.
    NormscopeError
        The command failed, or left no metrics of its own.
    """
    command = prefixed_command(read_prefix(run_dir), run_dir, category, scope)
    metrics_file = run_dir / "category_data" / f"{category}_metrics.json"
    before = _stamp(metrics_file)
    done = subprocess.run(  # noqa: S602 - the user asked for this shell command by name
        command, shell=True, check=False, capture_output=True, env=_environment(), stdin=subprocess.DEVNULL
    )
    written = _stamp(metrics_file) not in (None, before)
    if not written:
        raise NormscopeError(_complaint(category, done.returncode, done.stderr))
    try:
        metrics = decode_metrics(metrics_file.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        message = (
            f"the command of {PREFIX_FILE} left a metrics file for {category} that normscope can't read; "
            "see that it runs this version of normscope"
        )
        raise NormscopeError(message) from error
    if done.returncode and isinstance(metrics, CategoryMetrics):
        raise NormscopeError(_complaint(category, done.returncode, done.stderr))
    return metrics


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _environment() -> dict[str, str]:
    """Return this environment with the folder of this Python first, so that ``python3`` is this one."""
    here = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)])}


def _complaint(category: str, exit_code: int, stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    said = f": {shorten(printable(lines[-1]), _MESSAGE_WIDTH)}" if lines else " and printed no reason"
    if exit_code == 0:
        return f"the command of {PREFIX_FILE} wrote no metrics for {category}{said}"
    return f"the command of {PREFIX_FILE} failed for {category} with exit code {exit_code}{said}"
