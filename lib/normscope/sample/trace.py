"""A simulated profiler trace: a file as ``torch.profiler`` writes it, whose truth is declared."""

import gzip
import json
from pathlib import Path
from typing import Any

from normscope.errors import UsageError
from normscope.sample.backward import WORLD_SIZE
from normscope.sample.device import MARK, device_properties, mark
from normscope.sample.forms import Form, in_form
from normscope.sample.recorded import Event
from normscope.sample.recorder import AUTOGRAD_THREAD, COMMUNICATION_STREAM, COMPUTE_STREAM, PROCESS, START_NS
from normscope.sample.step import run_step
from normscope.sample.training import start_training
from normscope.sample.truth import STEPS

SEED = 20240601
FIRST_STEP = 3
_USUAL = Form()


def write_sample_trace(path: Path, *, seed: int = SEED, steps: int = STEPS, form: Form = _USUAL) -> Path:
    """Write the simulated trace to ``path``.

    Parameters
    ----------
    path
        The file; compressed where its name ends in ``.gz``.
    seed
        Of the made-up timings. The means of all kernel times are the same with any seed.
    steps
        Number of training steps, at least 1.
    form
        The profiler settings to simulate.

    Returns
    -------
    Path
        ``path``. The same arguments give the same bytes every time.

    Raises
    ------
    UsageError
        The file can't be written.
    """
    text = _text(sample_trace(seed=seed, steps=steps, form=form)).encode()
    # mtime and the missing file name keep the bytes the same
    content = gzip.compress(text, compresslevel=9, mtime=0) if path.suffix == ".gz" else text
    try:
        path.write_bytes(content)
    except OSError as error:
        message = f"The sample can't be written to {path}: {error.strerror}. Choose another folder."
        raise UsageError(message) from error
    return path


def sample_trace(*, seed: int = SEED, steps: int = STEPS, form: Form = _USUAL) -> dict[str, Any]:
    """Return the simulated trace as the object that a trace file holds; see :func:`write_sample_trace`."""
    events = in_form(_simulate(seed, steps, form.scale_durations), form)
    return {
        MARK: mark(),
        "schemaVersion": 1,
        "deviceProperties": [device_properties()] if form.gpu_kernels else [],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": WORLD_SIZE, "pg_count": 1},
        **({"record_shapes": 1} if form.record_shapes else {}),
        "with_stack": 1,
        "with_modules": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": "simulated.json",
        "traceEvents": [*_names(), *events],
    }


def _simulate(seed: int, steps: int, scale: float) -> list[Event]:
    """Run the simulated training, and return its events with times in µs."""
    training = start_training(seed, steps, scale)
    recorder = training.recorder
    with recorder.frame("train.py(80): <module>"):
        for number in range(FIRST_STEP, FIRST_STEP + steps):
            run_step(training, number)
    for event in recorder.events:
        event["ts"] /= 1000
        if "dur" in event:
            event["dur"] /= 1000
    return recorder.events


def _names() -> list[Event]:
    """Return the events that name the processes and threads, as viewers show them."""
    processes = [(PROCESS, "python", "CPU"), (0, "python", "GPU 0")]
    threads = [
        *((PROCESS, thread, f"thread {thread} (python)") for thread in (PROCESS, AUTOGRAD_THREAD)),
        *((0, stream, f"stream {stream} ") for stream in (COMPUTE_STREAM, COMMUNICATION_STREAM)),
    ]
    start = START_NS / 1000
    rows = [
        *(("process_name", pid, 0, {"name": name}) for pid, name, _ in processes),
        *(("process_labels", pid, 0, {"labels": label}) for pid, _, label in processes),
        *(("thread_name", pid, tid, {"name": name}) for pid, tid, name in threads),
    ]
    return [
        {"name": name, "ph": "M", "ts": start, "pid": pid, "tid": tid, "args": args}
        for name, pid, tid, args in rows
    ]


def _text(trace: dict[str, Any]) -> str:
    """Return the trace as JSON with one event a line."""
    *head, (_, events) = trace.items()
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head]
    rows = ",\n".join(f"  {json.dumps(event)}" for event in events)
    return "{\n" + "\n".join(lines) + '\n  "traceEvents": [\n' + rows + "\n  ]\n}\n"
