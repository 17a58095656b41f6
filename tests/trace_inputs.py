"""Tiny traces: one LayerNorm call, its launch and its kernel, and what can be wrong with them."""

import copy
import gzip
import io
import json
from typing import Any

from normscope.trace.events import Trace
from normscope.trace.link import LinkedTrace, link
from normscope.trace.read import read_trace

Event = dict[str, Any]

HOST_THREAD = (500, 501)
GPU_STREAM = (0, 7)
KERNEL = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)"
KERNEL_US = 12.5
CORRELATION = 77
EPOCH_US = 1_726_134_043_823_422.0

INPUTS = {
    "Input Dims": [[8, 128, 1024], [], [1024], [1024], []],
    "Input type": ["c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"],
    "Input Strides": [[131072, 1024, 1], [], [1], [1], []],
    "Concrete Inputs": ["", "[1024]", "", "", "1.0000000000000001e-05"],
}


def op(name: str, ts: float, dur: float, **changes: object) -> Event:
    """Return a cpu_op; ``changes`` replace or add to its ``args``, or to the event for its own keys."""
    return _changed(_event("cpu_op", name, HOST_THREAD, ts, dur), changes)


def launch(
    correlation: int, ts: float, dur: float = 5.0, name: str = "cudaLaunchKernel", **changes: object
) -> Event:
    """Return a launch on the host."""
    return _changed(
        _event("cuda_runtime", name, HOST_THREAD, ts, dur), {"correlation": correlation, **changes}
    )


def kernel(
    correlation: int | None, ts: float, dur: float = KERNEL_US, name: str = KERNEL, **changes: object
) -> Event:
    """Return a kernel on stream 7 of GPU 0."""
    ids = {"device": 0, "stream": 7, "grid": [1024, 1, 1], "block": [32, 4, 1]}
    known = {} if correlation is None else {"correlation": correlation}
    return _changed(_event("kernel", name, GPU_STREAM, ts, dur), {**ids, **known, **changes})


def frame(name: str, ts: float, dur: float, **changes: object) -> Event:
    """Return a python_function event."""
    return _changed(_event("python_function", name, HOST_THREAD, ts, dur), changes)


def annotation(name: str, ts: float, dur: float, **changes: object) -> Event:
    """Return a user annotation on the host."""
    return _changed(_event("user_annotation", name, HOST_THREAD, ts, dur), changes)


def _event(category: str, name: str, track: tuple[int, int], ts: float, dur: float) -> Event:
    pid, tid = track
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {},
    }


def _changed(event: Event, changes: dict[str, object]) -> Event:
    for key, value in changes.items():
        holder = event if key in event else event["args"]
        holder[key] = value
    return event


def base_events(start: float = 100.0) -> list[Event]:
    """Return one LayerNorm: two nested ops, a launch, a kernel of 12.5 µs on bf16 [8, 128, 1024]."""
    ids = {"External id": 11, **INPUTS}
    return [
        op("aten::layer_norm", start, 60.0, **ids),
        op("aten::native_layer_norm", start + 5, 50.0, **{**ids, "External id": 12}),
        launch(CORRELATION, start + 20),
        kernel(CORRELATION, start + 30),
    ]


def base_document(events: list[Event] | None = None, /, **metadata: object) -> dict[str, Any]:
    """Return a whole trace of ``events`` (the LayerNorm if there are none given)."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Simulated GPU", "totalGlobalMem": 64, "numSms": 8}],
        "record_shapes": 1,
        **metadata,
        "traceEvents": base_events() if events is None else copy.deepcopy(events),
        "traceName": "tiny.json",
    }


def _with(event: Event, args: Event) -> Event:
    event["args"] |= args
    return event


def whole_document() -> dict[str, Any]:
    """Return a trace with every kind of event: a norm and its backward, a copy, a step, a module."""
    inputs = {
        "Input Dims": [[2, 8], [], [8], [8], []],
        "Input type": ["float", "ScalarList", "float", "float", "Scalar"],
        "Input Strides": [[8, 1], [], [1], [1], []],
        "Concrete Inputs": ["", "[8]", "", "", "1e-05"],
        "External id": 3,
        "Sequence number": 5,
        "Fwd thread id": 0,
    }
    backward = {"Sequence number": 5, "Fwd thread id": 1}
    events = [
        annotation("ProfilerStep#1", 1, 5000),
        frame("nn.Module: LayerNorm_0", 50, 200, **{"Python id": 1, "Python parent id": None}),
        op("aten::layer_norm", 100, 60, **inputs),
        op("aten::native_layer_norm", 105, 50, **inputs),
        op("aten::contiguous", 106, 10),
        launch(1, 107, 2),
        kernel(1, 150, 3, name="copy"),
        launch(2, 120),
        _with(kernel(2, 160), {"External id": 3, "context": 1, "blocks per SM": 1.5, "warps per SM": 6.0}),
        op("NativeLayerNormBackward0", 1000, 90, tid=9, **backward),
        op("aten::native_layer_norm_backward", 1010, 50, tid=9),
        launch(3, 1020, tid=9),
        kernel(3, 1100, 7, name="layer_norm_grad_input_kernel"),
        launch(4, 1200, name="hipMemsetAsync"),
        kernel(4, 1210, 2, name="Memset (Device)", cat="gpu_memset"),
        kernel(None, 1300, 5, name="layer_norm", cat="gpu_user_annotation"),
    ]
    return base_document(
        events,
        distributedInfo={"backend": "nccl", "rank": 0, "world_size": 2},
        displayTimeUnit="ms",
        with_stack=1,
    )


def as_json(events: list[Event] | None = None, /, **metadata: object) -> bytes:
    """Return a whole trace as the profiler would write it."""
    return json.dumps(base_document(events, **metadata), indent=1).encode()


def read(content: bytes) -> Trace:
    """Read ``content`` as a trace."""
    return read_trace(io.BytesIO(content))


def read_events(*events: Event, **metadata: object) -> Trace:
    """Read a trace of ``events``."""
    return read(as_json(list(events), **metadata))


def link_events(*events: Event, **metadata: object) -> LinkedTrace:
    """Read and link a trace of ``events``."""
    return link(read_events(*events, **metadata))


def problems(trace: Trace | LinkedTrace) -> dict[str, int]:
    """Return the count of each problem."""
    return {problem.what: problem.count for problem in trace.problems}


def with_raw_name(event_name: bytes, good: int = 2) -> bytes:
    """Return ``good`` LayerNorms, a frame with the name written raw as ``event_name``, and a LayerNorm."""
    marker = "RAW-NAME"
    events = [
        *(event for turn in range(good) for event in base_events(100.0 + 1000 * turn)),
        frame(marker, 1, 2),
        *base_events(10_000.0),
    ]
    for number, event in enumerate(event for event in events if "correlation" in event["args"]):
        event["args"]["correlation"] = CORRELATION + number // 2
    return as_json(events).replace(marker.encode(), event_name)


def gzipped(content: bytes) -> bytes:
    """Return ``content`` as one gzip member."""
    return gzip.compress(content, mtime=0)
