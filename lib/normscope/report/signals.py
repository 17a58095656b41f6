"""Turns the signals that end a process into exceptions, so that what was started is also cleaned up."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_QUIET_S = 3.0
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def ended_by_exception() -> Iterator[None]:
    """Within this block, Ctrl-C raises ``KeyboardInterrupt``; SIGTERM and SIGHUP raise ``SystemExit``.

    Signals that follow another within three seconds are ignored, so that an impatient second Ctrl-C doesn't
    cut the cleaning short. One that comes later is raised again: Python swallows an exception that happens to
    be raised in a destructor, and then the first signal was lost.

    The exit status of ``SystemExit`` is 128 and the number of the signal, as shells have it. A signal that is
    ignored or handled by the caller stays so; outside the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [n for n in numbers if before[n] in {signal.SIG_DFL, signal.default_int_handler}]

    last_s = -_QUIET_S

    def raise_now(number: int, _frame: FrameType | None) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < _QUIET_S:
            return
        last_s = now_s
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in ours:
        signal.signal(number, raise_now)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
