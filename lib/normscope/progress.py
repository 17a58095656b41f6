"""Progress of a report: a bar with step names on a terminal, one plain line per step elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tqdm import tqdm

from normscope.escape import printable

if TYPE_CHECKING:
    from normscope.report.run import StepHook
    from normscope.trace.source import Progress


@contextmanager
def shown_bytes() -> Iterator["Progress"]:
    """Yield the function to call while a file is read, with the bytes read so far and its size or None.

    Small files are read before a bar could be seen, so one appears only after a moment.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _size: None
        return
    with tqdm(unit="B", unit_scale=True, desc="Reading", file=sys.stderr, delay=0.5, leave=False) as bar:

        def show(done: int, size: int | None) -> None:
            bar.total = size
            bar.update(done - bar.n)

        yield show


@contextmanager
def shown_steps() -> Iterator["StepHook"]:
    """Yield the function to call as each step begins, with its name, its number and the number of steps."""
    if not sys.stderr.isatty():
        yield _print_step
        return
    with tqdm(total=1, bar_format="{desc:<32.32} {bar:30} {n_fmt}/{total_fmt}", file=sys.stderr) as bar:

        def show(name: str, number: int, steps: int) -> None:
            bar.total = steps
            bar.set_description_str(printable(name), refresh=False)
            bar.n = number
            bar.refresh()

        yield show


def _print_step(name: str, number: int, steps: int) -> None:
    sys.stderr.write(f"[{number}/{steps}] {printable(name)}\n")
