"""What PyTorch's own profiler writes for a call on the CPU, and the GPU events that such a profile lacks.

A CPU profile has no launch and no kernel, and without kernels nothing counts. ``with_pretend_kernels``
adds them where a GPU would have them: one for each op of ``ONE_KERNEL``, whatever that op is made of on the
CPU, and one for each other ATen op that calls nothing else and isn't in ``NO_KERNEL``.
"""

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

Event = dict[str, Any]

KERNEL_US = 20
LAUNCH_DELAY_US = 5
GPU, STREAM = 0, 7

ONE_KERNEL = frozenset(
    f"aten::{name}"
    for name in (
        *("native_batch_norm", "native_layer_norm", "native_group_norm", "linalg_vector_norm"),
        *("native_batch_norm_backward", "native_layer_norm_backward", "native_group_norm_backward"),
        *("addmm", "mm", "cat", "clamp_min_"),
        *("add", "add_", "sub", "rsub", "mul", "mul_", "div", "div_", "pow", "relu", "eq", "ge", "copy_"),
        *("mean", "sum", "var", "var_mean", "std", "rsqrt", "where", "masked_fill_", "clamp"),
    )
)
"""Ops that one kernel does on a GPU; on the CPU they call others, as the mean does with the sum."""
NO_KERNEL = frozenset(
    f"aten::{name}"
    for name in (
        *("empty", "empty_like", "empty_strided", "resize_", "result_type", "detach", "alias", "expand"),
        *("view", "reshape", "_reshape_alias", "as_strided", "unfold", "narrow", "slice", "flatten"),
        *("permute", "transpose", "t", "unsqueeze", "squeeze", "resolve_conj", "arange", "scalar_tensor"),
        *("to", "_to_copy", "type_as", "contiguous", "lift_fresh", "item", "_local_scalar_dense"),
    )
)
"""Ops that only look at a tensor another way, make room for one, or leave the work to others."""


class Op(msgspec.Struct, frozen=True):
    """A ``cpu_op`` event with those that it calls."""

    event: Event
    children: list["Op"]

    @property
    def name(self) -> str:
        """The name as recorded."""
        found: str = self.event["name"]
        return found

    @property
    def end_us(self) -> float:
        """End on the trace's clock."""
        return float(self.event["ts"] + self.event["dur"])


def profiled(run: Callable[[], object], *, modules: bool = True) -> list[Event]:
    """Return the events of a profile of ``run()`` on the CPU; ``modules`` records Python calls, too."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=modules) as profiler:
        run()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[Event] = json.loads(path.read_text("utf-8"))["traceEvents"]
    return events


def op_tree(events: Iterable[Event]) -> list[Op]:
    """Return the ops that nothing calls, by time, each with those that it calls."""
    roots: list[Op] = []
    open_ops: dict[tuple[object, object], list[Op]] = defaultdict(list)
    ops = (event for event in events if event.get("cat") == "cpu_op")
    for event in sorted(ops, key=lambda event: (event["ts"], -event["dur"], event["args"]["External id"])):
        op = Op(event, [])
        around = open_ops[event["pid"], event["tid"]]
        while around and op.end_us > around[-1].end_us + 1e-3:  # the profiler's clock ticks in ns
            around.pop()
        (around[-1].children if around else roots).append(op)
        around.append(op)
    return roots


def with_pretend_kernels(events: Iterable[Event]) -> list[Event]:
    """Return ``events`` with a launch and a kernel on a GPU for each op that would have them there.

    Each kernel takes ``KERNEL_US``, and all run one after another on one stream.
    """
    found = list(events)
    free_us = 0.0
    added: list[Event] = []
    for correlation, op in enumerate(_launching(op_tree(found)), start=1):
        launch_us = _between_children(op)
        start_us = max(launch_us + LAUNCH_DELAY_US, free_us)
        free_us = start_us + KERNEL_US
        added += _launch_and_kernel(op, correlation, launch_us, start_us)
    return [*found, *added]


def _launching(ops: Iterable[Op]) -> list[Op]:
    """Return the ops that start a kernel on a GPU, in the order of their starts."""
    found: list[Op] = []
    for op in ops:
        same = [child for child in op.children if child.name == op.name]
        if op.name in ONE_KERNEL and not same:
            found.append(op)
        elif op.name in ONE_KERNEL:  # the overload with a number calls the one with a tensor
            found += _launching(same)
        elif op.children:
            found += _launching(op.children)
        elif _is_compiled(op.name) or (op.name.startswith("aten::") and op.name not in NO_KERNEL):
            found.append(op)
    return found


def _is_compiled(name: str) -> bool:
    return "cpp_fused_" in name


def _between_children(op: Op) -> float:
    """Return the middle of the longest time that ``op`` spends in no other op."""
    starts = [*(child.event["ts"] for child in op.children), op.end_us]
    ends = [op.event["ts"], *(child.end_us for child in op.children)]
    end, start = max(zip(ends, starts, strict=True), key=lambda gap: gap[1] - gap[0])
    return float(end + start) / 2


def _launch_and_kernel(op: Op, correlation: int, launch_us: float, start_us: float) -> tuple[Event, Event]:
    ids = {"correlation": correlation, "External id": op.event["args"]["External id"]}
    launch = {
        **{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel"},
        **{"pid": op.event["pid"], "tid": op.event["tid"], "ts": launch_us, "dur": 0, "args": ids},
    }
    kernel = {
        **{"ph": "X", "cat": "kernel", "name": f"void at::native::pretend_kernel<{op.name}>(int)"},
        **{"pid": GPU, "tid": STREAM, "ts": start_us, "dur": KERNEL_US},
        "args": {**ids, "device": GPU, "stream": STREAM, "grid": [64, 1, 1], "block": [256, 1, 1]},
    }
    return launch, kernel
