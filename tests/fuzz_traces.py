"""A fuzzer of traces: damaged files either give a run that can be analyzed, or one sentence.

``make fuzz`` runs it for ``FUZZ_SECONDS``. Case after case damages a sound trace, as ``FUZZ_SEED`` and the
number of the case decide, so that ``python tests/fuzz_traces.py CASE`` repeats one.
"""

import gzip
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import ErrorMetrics
from normscope.errors import NormscopeError
from normscope.inputs.rundir import find_categories
from normscope.sample.trace import sample_trace
from trace_inputs import as_json, base_document, whole_document, with_raw_name
from written_run import written_bytes

LONGEST_S = 10.0
MOST_MEMORY = 4 << 30
MOST_RESIDENT_KIB = 1 << 20
MOST_DAMAGES = 6
MOST_FAILURES = 5

Damage = Callable[[Random, bytes], bytes]

TOKENS = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u", b'"\\ud800"', b"\x00", b"\xff\xfe", b"\n"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"Infinity",
        b"-inf",
        b"1e999",
        b"-1",
        b"0",
        b"1e-320",
        b"18446744073709551616",
    ),
    *(b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"}," * 50, b"]}", b"/*", b"\xef\xbb\xbf", b" " * 70_000),
    *(
        b'"ts"',
        b'"dur"',
        b'"cat"',
        b'"args"',
        b'"traceEvents": [',
        b'"correlation"',
        b'"kernel"',
        b'"cpu_op"',
    ),
    *(b'"gpu_memset"', b'"aten::instance_norm"', b'"ProfilerStep#1"', b'"Input Dims"', b'"ScalarList"'),
)


class TooSlow(Exception):  # noqa: N818 - what it says
    """A case takes longer than it may."""


def sound_traces() -> list[bytes]:
    """Return the traces to damage, the small ones first."""
    simulated = sample_trace(steps=1)
    simulated["traceEvents"] = simulated["traceEvents"][::17]
    return [
        as_json(),
        json.dumps(whole_document()).encode(),
        json.dumps(base_document()["traceEvents"]).encode(),
        with_raw_name(b'{"device": "cpu"}\\x', good=3),
        json.dumps(simulated, indent=1).encode(),
    ]


def place(rng: Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def span(rng: Random, data: bytes) -> tuple[int, int]:
    start = place(rng, data)
    return start, min(len(data), start + int(rng.expovariate(1 / 40)) + 1)


def flip(rng: Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def delete(rng: Random, data: bytes) -> bytes:
    start, end = span(rng, data)
    return data[:start] + data[end:]


def duplicate(rng: Random, data: bytes) -> bytes:
    start, end = span(rng, data)
    at = place(rng, data)
    return data[:at] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[at:]


def truncate(rng: Random, data: bytes) -> bytes:
    return data[: place(rng, data)]


def insert(rng: Random, data: bytes) -> bytes:
    at = place(rng, data)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def replace(rng: Random, data: bytes) -> bytes:
    start, end = span(rng, data)
    return data[:start] + rng.choice(TOKENS) + data[end:]


def change_number(rng: Random, data: bytes) -> bytes:
    """Put another number where one stands."""
    at = place(rng, data)
    while at < len(data) and not data[at : at + 1].isdigit():
        at += 1
    end = at
    while end < len(data) and data[end : end + 1] in b"0123456789.":
        end += 1
    number = rng.choice(
        (b"-1", b"0", b"1e18", b"1e308", b"0.0001", b"77", b"1", b"null", b'"7"', b"[7]", b"2.5")
    )
    return data[:at] + number + data[end:] if at < end else data


def change_word(rng: Random, data: bytes) -> bytes:
    """Put one quoted word of the trace where another stands."""
    words = data.split(b'"')
    if len(words) < 4:
        return data
    at, other = (2 * rng.randrange(len(words) // 2) + 1 for _ in range(2))
    words[at] = words[other]
    return b'"'.join(words)


DAMAGES: tuple[Damage, ...] = (
    *(flip, delete, duplicate, truncate, insert, replace),
    *(change_number, change_number, change_word, change_word),
)


def damaged(traces: list[bytes], rng: Random) -> bytes:
    """Return one trace with some damage, now and then two spliced together or badly compressed."""
    data = rng.choice(traces[:-1]) if rng.random() < 0.9 else traces[-1]
    if rng.random() < 0.1:
        other = rng.choice(traces)
        data = data[: place(rng, data)] + other[place(rng, other) :]
    for _ in range(rng.randint(1, MOST_DAMAGES)):
        data = rng.choice(DAMAGES)(rng, data)
    if rng.random() < 0.2:
        data = gzip.compress(data, 1, mtime=0)
        if rng.random() < 0.7:
            data = rng.choice((flip, delete, truncate, duplicate))(rng, data)
    return data


def check(data: bytes, folder: Path) -> bool:
    """Return whether ``data`` gives a run; it has to be one that the analysis reads, or one sentence."""
    try:
        run = written_bytes(folder, data)
    except NormscopeError as error:
        message = str(error)
        assert message.strip(), "an error without words"
        assert "\n" not in message, "an error of several lines"
        assert message.isprintable(), "an error with control characters"
        return False
    assert run.summary_file["event_count"] >= 1
    for category in find_categories(run.folder):
        metrics = analyze_category(run.folder, category)
        assert not isinstance(metrics, ErrorMetrics), f"the analysis can't read the run: {metrics}"
    return True


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    message = f"longer than {LONGEST_S:.0f} s"
    raise TooSlow(message)


def failure_of(data: bytes, folder: Path) -> tuple[bool, str | None]:
    """Return whether a case gave a run, and what went wrong: the error and where it came from."""
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        return check(data, folder), None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames[-4:]))
        return False, f"{type(error).__name__}: {str(error)[:200]} at {where}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fuzz(seconds: float, seed: int, only: int | None) -> int:
    """Try case after case; return the exit status."""
    traces = sound_traces()
    failures: dict[str, int] = {}
    runs = case = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="normscope-fuzz-") as folder:
        while (case == 0 or time.monotonic() < end) and len(failures) < MOST_FAILURES:
            number = case if only is None else only
            data = damaged(traces, Random(f"{seed}/{number}"))
            worked, failure = failure_of(data, Path(folder))
            runs += worked
            case += 1
            if failure and failure.split(" at ")[-1] not in {each.split(" at ")[-1] for each in failures}:
                failures[failure] = number
                kept = Path(tempfile.gettempdir()) / f"normscope-fuzz-case-{number}.bin"
                kept.write_bytes(data)
                say(f"case {number}: {failure}\n  kept as {kept}")
            if only is not None:
                break
    peak_kib = resident_kib()
    if peak_kib > MOST_RESIDENT_KIB:
        failures[f"{peak_kib / 1024:.0f} MiB of memory"] = -1
        say(f"memory rose to {peak_kib / 1024:.0f} MiB")
    say(f"{case} cases of seed {seed}: {runs} runs, {case - runs} without, {len(failures)} failures")
    return 1 if failures else 0


def main(arguments: list[str]) -> int:
    """Run for the time that the environment gives."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGALRM, _too_slow)
    settings: dict[str, Any] = {
        "seconds": float(os.environ.get("FUZZ_SECONDS", "180")),
        "seed": int(os.environ.get("FUZZ_SEED", "1")),
        "only": int(arguments[0]) if arguments else None,
    }
    return fuzz(**settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
