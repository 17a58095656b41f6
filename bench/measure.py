"""Measuring: whole processes, and two ways to do a thing in turn so that both meet the same machine."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One measured claim: a ratio and the bound it must keep."""

    claim: str
    measured: str
    floor: str
    ratio: float
    bound: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound


class Pairs(msgspec.Struct, frozen=True):
    """The times of two ways to do a thing, in seconds, run in turn."""

    ours: list[float]
    floor: list[float]

    @property
    def ratio(self) -> float:
        """The median of the ratios of each pair: a slow minute of the machine hits both sides of a pair."""
        return statistics.median(a / b for a, b in zip(self.ours, self.floor, strict=True))


def measure_in_turn(ours: Callable[[], float], floor: Callable[[], float], pairs: int) -> Pairs:
    """Run ours, floor, ours, floor, … after one unmeasured run of each, which fills the file cache."""
    ours()
    floor()
    times = [(ours(), floor()) for _ in range(pairs)]
    return Pairs([a for a, _ in times], [b for _, b in times])


def process_seconds(command: Sequence[str | Path], folder: Path) -> float:
    """Return the wall time of a whole process from its start to its end.

    Python's modules are compiled, as those of an installed program are, also where the environment forbids
    Python to write beside their sources: the first run compiles them into ``folder``.

    Raises
    ------
    RuntimeError
        It failed; the message holds what it printed.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        status = process.wait()
        seconds = time.perf_counter() - start
        if status:
            output.seek(0)
            message = f"{command[0]} ended with status {status}:\n{output.read().decode(errors='replace')}"
            raise RuntimeError(message)
    return seconds


def call_seconds(function: Callable[[], object]) -> float:
    """Return the wall time of one call in this process."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def show_seconds(times: Sequence[float]) -> str:
    """Return the median of some times, for a reader."""
    seconds = statistics.median(times)
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def environment_note() -> str:
    """Return what the reader must know about the machine: how many processors, and how busy they are."""
    return f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
