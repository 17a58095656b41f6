"""A run of the simulated training: the kernel times that are still to come, and how a chain of ops runs."""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec

from normscope.sample.arguments import BYTES_PER_ELEMENT, TRACE_DTYPE, Dtype, Shape
from normscope.sample.ops import THREADS_PER_BLOCK, workgroups_for
from normscope.sample.recorded import Event, recorded_arguments
from normscope.sample.recorded_ops import NORM_KINDS, OTHER_KINDS, RecordedKind
from normscope.sample.recorder import GpuWork, Recorder
from normscope.sample.truth import BYTES_PER_NS, Truth, durations_ns, sample_truth

Signature = tuple[str, Shape]
"""A kind and the shape of its activation."""

_OTHER_US = {"conv": 118, "conv_backward": 236, "linear": 104, "linear_backward": 208}
"""Mean kernel time of what is limited by arithmetic."""
_ELEMENTWISE_EFFICIENCY = 0.7
_ELEMENTWISE_OPERANDS = {"relu": 2, "relu_backward": 3}
_COPY_KERNEL = (
    "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda({T})#1}>(...)>(int, ...)"
)
_COPY_CHAIN = (
    ("aten::contiguous", "channels_last 0"),
    ("aten::clone", "channels_last 0"),
    ("aten::copy_", "activation channels_last False"),
)


class Call(msgspec.Struct, frozen=True):
    """What the backward pass has to undo; ``event`` is the forward op's."""

    kind: str
    shape: Shape
    dtype: Dtype
    sequence: int
    event: Event


class Training(msgspec.Struct):
    """What is recorded so far, and the kernel times of the calls that are still to come."""

    recorder: Recorder
    rng: random.Random
    rows: tuple[Truth, ...]
    norm_ns: dict[Signature, Iterator[int]]
    helper_ns: dict[Signature, Iterator[int]]
    steps: int


def start_training(seed: int, steps: int, scale: float) -> Training:
    """Draw all kernel times of a run of ``steps`` steps, which take ``scale`` times as long as declared."""
    rng = random.Random(seed)  # noqa: S311 - made-up timings, no secret
    rows = sample_truth(steps)
    norm_ns: dict[Signature, Iterator[int]] = {}
    helper_ns: dict[Signature, Iterator[int]] = {}
    for row in rows:
        signature = (row.kind, row.shape)
        factor = row.first_call_factor
        norm_ns[signature] = iter(
            durations_ns(row.duration_us, row.calls, rng, variation=row.variation, first_call_factor=factor)
        )
        if row.helper_kernels_per_call:
            helper_ns[signature] = iter(durations_ns(row.helper_us, row.calls, rng, variation=0.05))
    return Training(Recorder(rng, scale), rng, rows, norm_ns, helper_ns, steps)


def run_chain(training: Training, key: str, shape: Shape, dtype: Dtype, links: Event) -> Event:
    """Run the nested ops of a kind and its kernels, and return the event of the outermost op.

    ``links`` are the arguments that tie a forward op to its backward one.
    """
    kind = NORM_KINDS.get(key) or OTHER_KINDS[key]
    with ExitStack() as stack:
        events = []
        for depth, (name, words) in enumerate(kind.chain):
            known = links if depth < kind.autograd_depth else {}
            has_arguments = kind.has_arguments and words
            arguments = recorded_arguments(words, shape, dtype) if has_arguments else {}
            events.append(stack.enter_context(training.recorder.op(name, {**known, **arguments})))
        events[-1]["args"].update(kind.innermost_details)
        if (key, shape) in training.helper_ns:
            _copy_layout(training, (key, shape), dtype)
        duration_ns = _next_duration_ns(training, key, shape, dtype)
        _launch_kernels(training, kind, duration_ns, shape, dtype)
    return events[0]


def run_small_ops(training: Training, key: str, shape: Shape, dtype: Dtype) -> None:
    """Run the small ops of a norm that is written out in Python, each with its kernel."""
    (shares,) = (row.kernel_shares for row in training.rows if (row.kind, row.shape) == (key, shape))
    parts = _split(_next_duration_ns(training, key, shape, dtype), shares)
    for small_op, part in zip(NORM_KINDS[key].small_ops, parts, strict=True):
        with ExitStack() as stack:
            for name, words in small_op.chain:
                stack.enter_context(training.recorder.op(name, recorded_arguments(words, shape, dtype)))
            training.recorder.launch(kernel_work(small_op.kernel, part, small_op.workgroups(shape)))


def kernel_work(
    name: str, duration_ns: int, workgroups: int, launch_call: str = "hipLaunchKernel"
) -> GpuWork:
    """Describe one kernel."""
    size = {"grid": [workgroups, 1, 1], "block": [THREADS_PER_BLOCK, 1, 1]}
    return GpuWork(
        name=name,
        duration_ns=duration_ns,
        details={"kind": "Dispatch Kernel", **size},
        launch_details={"kernel": name, **size, "shared memory": 0},
        launch_call=launch_call,
    )


def _next_duration_ns(training: Training, key: str, shape: Shape, dtype: Dtype) -> int:
    if (key, shape) in training.norm_ns:
        return next(training.norm_ns[key, shape])
    if key in _OTHER_US:
        return round(1000 * _OTHER_US[key] * training.rng.uniform(0.85, 1.15))
    size = _ELEMENTWISE_OPERANDS[key] * math.prod(shape) * BYTES_PER_ELEMENT[dtype]
    return round(size / (_ELEMENTWISE_EFFICIENCY * BYTES_PER_NS))


def _launch_kernels(
    training: Training, kind: RecordedKind, duration_ns: int, shape: Shape, dtype: Dtype
) -> None:
    """Launch all kernels of a call; together they take exactly ``duration_ns``."""
    parts = _split(duration_ns, [kernel.share for kernel in kind.kernels])
    for kernel, part in zip(kind.kernels, parts, strict=True):
        name = kernel.name.replace("{T}", TRACE_DTYPE[dtype]).replace("{t}", dtype)
        training.recorder.launch(kernel_work(name, part, kernel.workgroups(shape), kind.launch_call))


def _split(total: int, shares: Sequence[float]) -> list[int]:
    parts = [round(total * share) for share in shares[:-1]]
    return [*parts, total - sum(parts)]


def _copy_layout(training: Training, signature: Signature, dtype: Dtype) -> None:
    """Copy an activation whose channels lie next to each other, as an op does that can't read it so."""
    shape = signature[1]
    with ExitStack() as stack:
        for name, words in _COPY_CHAIN:
            stack.enter_context(training.recorder.op(name, recorded_arguments(words, shape, dtype)))
        name = _COPY_KERNEL.replace("{T}", TRACE_DTYPE[dtype])
        training.recorder.launch(
            kernel_work(name, next(training.helper_ns[signature]), workgroups_for(math.prod(shape)))
        )
