"""A simulated trace of any size, for benchmarks: mostly Python functions, with layer norms among them.

The file is a block of about a thousand events, repeated. Times and numbers are written so that a block is
the one before it with other leading digits: writing is then little more than copying memory.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from normscope.sample.arguments import TRACE_DTYPE, Shape
from normscope.sample.device import MARK, device_properties, mark
from normscope.sample.recorded import Event, recorded_arguments
from normscope.sample.recorded_ops import NORM_KINDS
from normscope.sample.recorder import COMPUTE_STREAM, MAIN_THREAD, PROCESS

NORMS_PER_BLOCK = 16
FRAMES_PER_NORM = 60
KERNEL_US = 40.0
SHAPE: Shape = (8, 1024, 1024)

_MARK = "@"
"""Stands for the leading digits of a time or a number: the number of the block."""
_FIRST_BLOCK = 100_000
_NORM_US = 58.0
_CHAIN_US = 8.0
_FRAMES_PER_CHAIN = 10
_FRAMES = (
    "torch/nn/modules/module.py(1782): _call_impl",
    "torch/nn/modules/module.py(1771): _wrapped_call_impl",
    "transformers/models/simulated/modeling_simulated.py(412): forward",
    "transformers/utils/generic.py(1031): check_model_inputs_and_wrap",
    "<built-in method type of type object at 0x7f6a782cea40>",
    "torch/utils/_contextlib.py(124): decorate_context",
    "simulated_framework/distributed/parallel_state.py(265): get_tensor_parallel_world_size",
    "torch/_ops.py(1243): __call__",
    "torch/nn/functional.py(2925): layer_norm",
)


def generate_large_trace(path: Path, json_bytes: int) -> Path:
    """Write a valid trace of about ``json_bytes`` bytes of JSON, in constant memory.

    Parameters
    ----------
    path
        The file; compressed (fast, not small) where its name ends in ``.gz``.
    json_bytes
        Size before compression, met to within a block of some 0.3 MB.

    Returns
    -------
    Path
        ``path``. About one event in 66 is a kernel, each launched by a layer norm on bf16 of :data:`SHAPE`
        which takes :data:`KERNEL_US`.
    """
    block = _block()
    blocks = max(1, round(json_bytes / len(_numbered(block, _FIRST_BLOCK))))
    with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else path.open("wb") as file:
        _write(file, block, blocks)
    return path


def _write(file: IO[bytes] | gzip.GzipFile, block: bytes, blocks: int) -> None:
    head = {
        MARK: mark(),
        "schemaVersion": 1,
        "deviceProperties": [device_properties()],
        "displayTimeUnit": "ms",
    }
    file.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
    for number in range(_FIRST_BLOCK, _FIRST_BLOCK + blocks):
        separator = b",\n" if number > _FIRST_BLOCK else b""
        file.write(separator + _numbered(block, number))
    file.write(b"\n]}\n")


def _numbered(block: bytes, number: int) -> bytes:
    return block.replace(_MARK.encode(), str(number).encode())


def _block() -> bytes:
    """Return the events of one block as JSON, with :data:`_MARK` before times (below 1000 µs) and numbers."""
    events = [event for place in range(NORMS_PER_BLOCK) for event in _norm(place)]
    text = ",\n".join(json.dumps(event, indent=2) for event in events)
    return re.sub(rf'"{_MARK}([0-9.]+)"', rf"{_MARK}\1", text).encode()


def _norm(place: int) -> Iterator[Event]:
    """Yield the frames, the two nested ops, the launch and the kernel of one layer norm."""
    start_us = place * _NORM_US
    first = place * (FRAMES_PER_NORM + 1)
    for frame in range(FRAMES_PER_NORM):
        chain, depth = divmod(frame, _FRAMES_PER_CHAIN)
        parent = _number(first + frame - 1) if depth else None
        name = _FRAMES[(frame * 7 + place) % len(_FRAMES)]
        frame_start = start_us + chain * _CHAIN_US + 0.3 * depth
        yield _frame(name, frame_start, _CHAIN_US - 0.1 - 0.6 * depth, first + frame, parent)
    norm_us = start_us + FRAMES_PER_NORM / _FRAMES_PER_CHAIN * _CHAIN_US
    module = {"Python module id": place}
    yield _frame(f"nn.Module: LayerNorm_{place}", norm_us, 9.5, first + FRAMES_PER_NORM, None, **module)
    chain_of_ops = NORM_KINDS["layer_norm_native"].chain
    for level, (name, words) in enumerate(chain_of_ops):
        args = {
            "External id": _number(place * 2 + level),
            "Record function id": 0,
            **recorded_arguments(words, SHAPE, "bf16"),
        }
        yield _span("cpu_op", name, norm_us + 1 + level, 8 - 2 * level, args)
    yield from _launch(norm_us + 4, place)


def _launch(launch_us: float, place: int) -> Iterator[Event]:
    name = NORM_KINDS["layer_norm_native"].kernels[0].name.replace("{T}", TRACE_DTYPE["bf16"])
    link = {"External id": _number(place * 2 + 1), "correlation": _number(place)}
    kernel_us = launch_us + 4
    yield _span("cuda_runtime", "hipLaunchKernel", launch_us, 2, {**link, "cid": 107})
    place_on_gpu = {"pid": 0, "tid": COMPUTE_STREAM}
    device = {"device": 0, "stream": COMPUTE_STREAM, "kind": "Dispatch Kernel"}
    size = {"grid": [8192, 1, 1], "block": [256, 1, 1]}
    kernel = _span("kernel", name, kernel_us, KERNEL_US, {**device, **link, **size})
    yield {**kernel, **place_on_gpu}
    arrow = {"id": _number(place), "cat": "ac2g", "name": "ac2g"}
    yield {"ph": "s", **arrow, "pid": PROCESS, "tid": MAIN_THREAD, "ts": _time(launch_us)}
    yield {"ph": "f", **arrow, **place_on_gpu, "ts": _time(kernel_us), "bp": "e"}


def _frame(
    name: str, start_us: float, duration_us: float, number: int, parent: str | None, **more: int
) -> Event:
    args = {"Python parent id": parent, "Python id": _number(number), **more, "Ev Idx": _number(number)}
    return _span("python_function", name, start_us, duration_us, args)


def _span(category: str, name: str, start_us: float, duration_us: float, args: Event) -> Event:
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": MAIN_THREAD},
        **{"ts": _time(start_us), "dur": round(duration_us, 3), "args": args},
    }


def _time(microseconds: float) -> str:
    return f"{_MARK}{microseconds:07.3f}"


def _number(number: int) -> str:
    return f"{_MARK}{number:03d}"
