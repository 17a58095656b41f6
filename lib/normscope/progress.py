"""Progress of a report: a bar with step names on a terminal, one plain line per step elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from normscope.escape import printable

StepHook = Callable[[str, int, int], None]


@contextmanager
def shown_steps() -> Iterator[StepHook]:
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
