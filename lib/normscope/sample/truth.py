"""The truth behind the simulated trace: what a right reading of it must find, one row per norm signature."""

import math
import random
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from normscope.sample import workload
from normscope.sample.arguments import BYTES_PER_ELEMENT, GROUPS, Dtype, Shape
from normscope.sample.recorded_ops import NORM_KINDS, RecordedKind
from normscope.sample.workload import NormCall

STEPS = 2
"""Steps that :mod:`normscope.sample.workload` counts its calls over."""
BYTES_PER_NS = workload.PEAK_HBM_BW_TBS * 1000
STAT_BYTES = 4
COPY_EFFICIENCY = 0.55
"""Share of the peak bandwidth that a simulated layout copy reaches."""
FIRST_CALL_FACTOR = {"group_norm_native": 4.0}
"""How many times its mean the first call of a signature takes, where that is not 1."""
UNMODELED = frozenset({"layer_norm_unrecorded"})
FUSED_WITH = {"layer_norm_triton": ("add",)}
"""What a compiler put into the same kernel, where it did: the times are then upper bounds."""
FOUND_AS: dict[str, Literal["compiled", "unfused"]] = {
    "layer_norm_triton": "compiled",
    "rms_norm_unfused": "unfused",
}
"""What a finding about the norm calls it, where that is not just a norm."""


class Sizes(msgspec.Struct, frozen=True):
    """The numbers that the traffic of a call depends on: elements, samples, channels and so on."""

    elements: int
    samples: int
    channels: int
    features: int
    rows: int
    itemsize: int


_COMPULSORY_BYTES: dict[str, Callable[[Sizes], int]] = {
    "batch_norm": lambda n: (2 * n.elements + 6 * n.channels) * n.itemsize + 2 * n.channels * STAT_BYTES,
    "layer_norm": lambda n: (2 * n.elements + 2 * n.features) * n.itemsize + 2 * n.rows * STAT_BYTES,
    "layer_norm_triton": lambda n: (4 * n.elements + 2 * n.features) * n.itemsize,
    "rms_norm": lambda n: (2 * n.elements + n.features) * n.itemsize + n.rows * STAT_BYTES,
    "rms_norm_unfused": lambda n: (2 * n.elements + n.features) * n.itemsize,
    "rms_norm_aiter": lambda n: (4 * n.elements + n.features) * n.itemsize,
    "group_norm": lambda n: (2 * n.elements + 2 * n.channels + 2 * n.samples * GROUPS) * n.itemsize,
    "instance_norm": lambda n: 2 * n.elements * n.itemsize + 2 * n.samples * n.channels * STAT_BYTES,
    "batch_norm_backward": lambda n: (
        (3 * n.elements + 3 * n.channels) * n.itemsize + 2 * n.channels * STAT_BYTES
    ),
    "instance_norm_backward": lambda n: 3 * n.elements * n.itemsize + 2 * n.channels * STAT_BYTES,
    "layer_norm_backward": lambda n: (3 * n.elements + 3 * n.features) * n.itemsize + 2 * n.rows * STAT_BYTES,
    "rms_norm_backward": lambda n: (3 * n.elements + 2 * n.features) * n.itemsize + n.rows * STAT_BYTES,
    "group_norm_backward": lambda n: (3 * n.elements + 3 * n.channels + 2 * n.samples * GROUPS) * n.itemsize,
}
"""Every input read once and every output written once, by the longest key that an op's key begins with.

Statistics of batch, layer and RMS norm are fp32; those of group norm have the type of the activation. Batch
norm also reads and writes its running mean and variance. One kernel in place of an unfused norm would save
no statistics. The backward of instance norm runs as a batch norm over one sample, so its channels are those
of all samples.
"""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """One norm signature of the trace.

    ``op`` is the outermost norm op and ``shape`` its activation's; an unfused norm has no norm op and is
    named after its module. ``bytes_per_call`` is the compulsory traffic, or None where the trace does not
    tell it; then ``efficiency_percent`` is None, too. ``launched_bytes_per_call`` is what all kernels of an
    unfused norm move. ``workgroups`` are those of its longest kernel, ``bounds`` what follows from them and
    from the bytes. ``duration_us`` is the mean time of the norm's own kernels in one call, of which each has
    its share in ``kernel_shares``; ``helper_us`` is that of the copies under it. Both times are exact to the
    nanosecond.
    """

    kind: str
    op: str
    variant: str
    direction: str
    library: str
    shape: Shape
    dtype: Dtype
    module: str
    calls: int
    found_as: Literal["norm", "compiled", "unfused"]
    bytes_per_call: int | None
    launched_bytes_per_call: int | None
    duration_us: float
    helper_us: float
    efficiency_percent: float | None
    kernel_shares: tuple[float, ...]
    helper_kernels_per_call: int
    variation: float
    first_call_factor: float
    workgroups: int
    fused_with: tuple[str, ...]

    @property
    def bounds(self) -> frozenset[str]:
        """Whether the call leaves compute units idle or fits the last-level cache."""
        tests = {
            "under-filled": self.workgroups < workload.COMPUTE_UNITS,
            "cache-resident": (self.bytes_per_call or math.inf) <= workload.LAST_LEVEL_CACHE_BYTES,
        }
        return frozenset(bound for bound, holds in tests.items() if holds)

    @property
    def kernels_per_call(self) -> int:
        """Number of the norm's own kernels in one call."""
        return len(self.kernel_shares)

    @property
    def total_us(self) -> float:
        """Time of all kernels under all calls."""
        return self.calls * (self.duration_us + self.helper_us)


def sample_truth(steps: int = STEPS) -> tuple[Truth, ...]:
    """Return what the simulated trace of ``steps`` steps holds, forward before backward.

    Returns
    -------
    tuple of Truth
        In the order in which the ops run in the forward pass; backward ones run in the reverse order.
    """
    forward = sorted(workload.FORWARD, key=lambda call: _ROOTS.index(call.module.split(" > ")[0]))
    return tuple(_truth(call, steps) for call in (*forward, *workload.BACKWARD))


_ROOTS = list(dict.fromkeys(call.module.split(" > ")[0] for call in workload.FORWARD))


def _truth(call: NormCall, steps: int) -> Truth:
    key = call.op
    kind = NORM_KINDS[key]
    size = compulsory_bytes(key, call.shape, call.dtype)
    kernels = _kernels(call, kind, size)
    duration_ns = round(sum(kernel.duration_ns for kernel in kernels))
    is_copied = key == "group_norm_copied"
    copied_bytes = 2 * math.prod(call.shape) * BYTES_PER_ELEMENT[call.dtype]
    is_modeled = key not in UNMODELED
    return Truth(
        kind=key,
        op=_name(call, kind),
        variant=kind.variant,
        direction=kind.direction,
        library=kind.library,
        shape=call.shape,
        dtype=call.dtype,
        module=call.module,
        calls=call.calls // STEPS * steps,
        found_as=FOUND_AS.get(key, "norm"),
        bytes_per_call=size if is_modeled else None,
        launched_bytes_per_call=_launched_bytes(call, kind),
        duration_us=duration_ns / 1000,
        helper_us=round(copied_bytes / (COPY_EFFICIENCY * BYTES_PER_NS)) / 1000 if is_copied else 0.0,
        efficiency_percent=100 * size / (duration_ns * BYTES_PER_NS) if is_modeled else None,
        kernel_shares=tuple(kernel.duration_ns / duration_ns for kernel in kernels),
        helper_kernels_per_call=int(is_copied),
        variation=call.variation,
        first_call_factor=FIRST_CALL_FACTOR.get(key, 1.0),
        workgroups=max(kernels, key=lambda kernel: kernel.duration_ns).workgroups,
        fused_with=FUSED_WITH.get(key, ()),
    )


class _Kernel(msgspec.Struct, frozen=True):
    duration_ns: float
    workgroups: int


def _kernels(call: NormCall, kind: RecordedKind, size: int) -> list[_Kernel]:
    """Return the kernels of a call, which takes whole ns; one with small ops gets each from its own bytes."""
    bytes_per_ns = call.efficiency_percent / 100 * BYTES_PER_NS
    if kind.small_ops:
        return [
            _Kernel(op.duration_ns(call.shape, call.dtype, bytes_per_ns), op.workgroups(call.shape))
            for op in kind.small_ops
        ]
    duration_ns = round(size / bytes_per_ns)
    return [_Kernel(kernel.share * duration_ns, kernel.workgroups(call.shape)) for kernel in kind.kernels]


def _name(call: NormCall, kind: RecordedKind) -> str:
    if kind.small_ops:
        return f"eager::{call.module.split(' > ')[-1]}"
    return next(name for name, _ in kind.chain if "norm" in name)


def _launched_bytes(call: NormCall, kind: RecordedKind) -> int | None:
    moved = [op.bytes_moved(call.shape, call.dtype) for op in kind.small_ops]
    return sum(moved) or None


def compulsory_bytes(kind: str, shape: Shape, dtype: Dtype) -> int:
    """Return the compulsory traffic of one call of a norm kind on an activation of ``shape``, in bytes."""
    sizes = Sizes(
        elements=math.prod(shape),
        samples=shape[0],
        channels=shape[1],
        features=shape[-1],
        rows=math.prod(shape[:-1]),
        itemsize=BYTES_PER_ELEMENT[dtype],
    )
    key = max((key for key in _COMPULSORY_BYTES if kind.startswith(key)), key=len)
    return _COMPULSORY_BYTES[key](sizes)


def durations_ns(
    mean_us: float, calls: int, rng: random.Random, *, variation: float, first_call_factor: float = 1.0
) -> list[int]:
    """Draw the kernel times of ``calls`` calls, in ns, whose sum is exactly ``calls`` times the mean.

    Real kernel times have a long right tail, so these have one too. The first is ``first_call_factor`` times
    the others' level where that is above 1.
    """
    noise = [rng.expovariate(1) ** 3 for _ in range(calls)]
    centre = math.fsum(noise) / calls
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in noise) / max(calls - 1, 1)) or 1.0
    weights = [max(1 + variation * (value - centre) / spread, 0.05) for value in noise]
    weights[0] = first_call_factor if first_call_factor > 1 else weights[0]
    unit_ns = round(mean_us * 1000) * calls / math.fsum(weights)
    ends = [round(unit_ns * total) for total in accumulate(weights)]
    return [end - start for start, end in pairwise([0, *ends])]
