"""Turns the signals that end a process into exceptions, so that what was started is also cleaned up."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def ended_by_exception() -> Iterator[None]:
    """Within this block, Ctrl-C raises ``KeyboardInterrupt``; SIGTERM and SIGHUP raise ``SystemExit``.

    The first signal is raised, later ones are ignored until the block is left, so that an impatient second
    Ctrl-C doesn't cut the cleaning short. The exit status of ``SystemExit`` is 128 and the number of the
    signal, as shells have it. A signal that is ignored or handled by the caller stays so; outside the main
    thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [n for n in numbers if before[n] in {signal.SIG_DFL, signal.default_int_handler}]

    def raise_once(number: int, _frame: FrameType | None) -> NoReturn:
        for each in ours:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in ours:
        signal.signal(number, raise_once)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
