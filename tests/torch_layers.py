"""The norm layers of ``torch.nn`` as cases: how each is built and called, and what follows from that by hand.

The formulas are those of the reference, written out anew. Symbols as there: E elements, B batch, C channels,
G groups, N elements of a row, R rows, s the bytes of an element. Parameters and running statistics are fp32.
"""

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from torch_profiles import Event, profiled

if TYPE_CHECKING:
    from torch import Tensor, nn

FP32 = 4
CHANNELS = 8
GROUPS = 4
BATCHED = {1: (3, CHANNELS, 5), 2: (3, CHANNELS, 4, 5), 3: (3, CHANNELS, 2, 4, 5)}
ROWS = (3, 6, 16)

Argument = tuple[str, list[int], str]
"""Type, sizes and value of an argument, as the profiler writes them."""
ABSENT: Argument = ("", [], "")
Roles = dict[str, Argument]


def tensor(kind: str, *sizes: int) -> Argument:
    return kind, list(sizes), ""


def scalar(value: object) -> Argument:
    return "Scalar", [], str(value)


def listed(*values: object) -> Argument:
    return "ScalarList", [], str(list(values))


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass of a layer has to look like.

    Attributes
    ----------
    variant
        Which normalization the call counts as.
    chain
        Each norm op, outermost first, with its arguments by role.
    training
        Whether the statistics of the batch are used; ``None`` where that has no meaning.
    bytes_moved
        By the formula of the reference.
    """

    variant: str
    chain: dict[str, Roles]
    training: bool | None
    bytes_moved: int


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A layer of ``torch.nn`` in one of its forms."""

    layer: str
    shape: tuple[int, ...]
    weight: bool = True
    bias: bool = True
    tracks: bool = False
    train: bool = True
    half: bool = False
    """The input is bf16 and the call made under autocast; parameters stay fp32."""
    normalized: tuple[int, ...] = ()

    def __str__(self) -> str:
        flags = {"weight": self.weight, "bias": self.bias, "tracks": self.tracks, "train": self.train}
        set_flags = [name for name, value in flags.items() if value]
        sizes = "x".join(map(str, (*self.shape, *self.normalized)))
        return "-".join((self.layer, sizes, *set_flags, "bf16" if self.half else "fp32"))

    @property
    def family(self) -> str:
        """The layer without its number of axes."""
        return self.layer.rstrip("d123")

    @property
    def kind(self) -> str:
        return "c10::BFloat16" if self.half else "float"

    @property
    def size(self) -> int:
        return 2 if self.half else FP32

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def batch_statistics(self) -> bool:
        """Without running statistics there are no others."""
        return self.train or not self.tracks

    def parameters(self, *sizes: int) -> Roles:
        return {
            "weight": tensor("float", *sizes) if self.weight else ABSENT,
            "bias": tensor("float", *sizes) if self.bias else ABSENT,
        }

    def running(self, channels: int, kind: str = "float") -> Roles:
        found = tensor(kind, channels) if self.tracks else ABSENT
        return {"running_mean": found, "running_var": found}

    @property
    def mask(self) -> Argument:
        return listed(True, self.weight, self.bias)


def cases() -> Iterator[Case]:
    """Yield every layer with and without its parameters and statistics, in both modes and both types."""
    for train, half in product((True, False), repeat=2):
        for kind, axes, affine, tracks in product(
            ("BatchNorm", "InstanceNorm"), BATCHED, (True, False), (True, False)
        ):
            yield Case(
                layer=f"{kind}{axes}d",
                shape=BATCHED[axes],
                weight=affine,
                bias=affine,
                tracks=tracks,
                train=train,
                half=half,
            )
        for normalized, (weight, bias) in product(
            (ROWS[2:], ROWS[1:]), ((True, True), (True, False), (False, False))
        ):
            yield Case(
                layer="LayerNorm",
                shape=ROWS,
                weight=weight,
                bias=bias,
                normalized=normalized,
                train=train,
                half=half,
            )
        for affine, axes in product((True, False), BATCHED):
            yield Case(
                layer="GroupNorm", shape=BATCHED[axes], weight=affine, bias=affine, train=train, half=half
            )
        for normalized, affine in product((ROWS[2:], ROWS[1:]), (True, False)):
            yield Case(
                layer="RMSNorm",
                shape=ROWS,
                weight=affine,
                bias=False,
                normalized=normalized,
                train=train,
                half=half,
            )


def built(case: Case) -> "nn.Module":
    """Return the module of ``case``."""
    from torch import nn

    layer: nn.Module
    if case.layer == "LayerNorm":
        layer = nn.LayerNorm(case.normalized, elementwise_affine=case.weight, bias=case.bias)
    elif case.layer == "RMSNorm":
        layer = nn.RMSNorm(case.normalized, elementwise_affine=case.weight)
    elif case.layer == "GroupNorm":
        layer = nn.GroupNorm(GROUPS, CHANNELS, affine=case.weight)
    else:
        layer = getattr(nn, case.layer)(CHANNELS, affine=case.weight, track_running_stats=case.tracks)
    return layer.train(case.train)


@cache
def layer_profile(case: Case, checkpoint: str = "") -> list[Event]:
    """Return the events of one call of ``case`` and its backward pass.

    ``checkpoint`` recomputes the call in the backward pass: ``reentrant`` or ``hooked`` says which way.
    """
    import torch
    from torch.utils import checkpoint as checkpointing

    layer = built(case)
    dtype = torch.bfloat16 if case.half else torch.float32
    x = torch.randn(case.shape, dtype=dtype, requires_grad=True)
    dy = torch.randn(case.shape, dtype=dtype)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=case.half):
            y: Tensor = (
                checkpointing.checkpoint(layer, x, use_reentrant=checkpoint == "reentrant")
                if checkpoint
                else layer(x)
            )
        torch.autograd.backward(y, dy)

    return profiled(step)


def expected_forward(case: Case) -> Expected:
    """Return what the forward pass of ``case`` has to look like."""
    return _FORWARD[case.family](case)


def expected_backward(case: Case) -> Expected | None:
    """Return what the backward pass of ``case`` has to look like; ``None`` where it has no norm op."""
    return _BACKWARD[case.family](case) if case.family in _BACKWARD else None


def _running_kind(case: Case) -> str:
    """Without a weight, an instance norm casts its running statistics to the type of x."""
    return case.kind if case.family == "InstanceNorm" and not case.weight else "float"


def _batch_norm_chain(case: Case, shape: tuple[int, ...]) -> dict[str, Roles]:
    channels = shape[1]
    roles = {
        "x": tensor(case.kind, *shape),
        **case.parameters(channels),
        **case.running(channels, _running_kind(case)),
        "training": scalar(case.batch_statistics),
    }
    names = ("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm")
    return dict.fromkeys(names, roles)


def _statistics_bytes(case: Case, saved: int) -> int:
    """Two saved fp32 statistics and the running ones, read and written; in evaluation these are only read."""
    running = 2 * CHANNELS * FP32 if case.tracks else 0
    return 2 * saved * FP32 + 2 * running if case.batch_statistics else running


def _batch_norm(case: Case) -> Expected:
    affine = CHANNELS * FP32 * (case.weight + case.bias)
    return Expected(
        variant="BatchNorm",
        chain=_batch_norm_chain(case, case.shape),
        training=case.batch_statistics,
        bytes_moved=2 * case.elements * case.size + affine + _statistics_bytes(case, CHANNELS),
    )


def _folded(case: Case) -> tuple[int, ...]:
    """An instance norm is a batch norm of one sample with B times the channels."""
    return (1, case.shape[0] * CHANNELS, *case.shape[2:])


def _instance_norm(case: Case) -> Expected:
    roles = {
        "x": tensor(case.kind, *case.shape),
        **case.parameters(CHANNELS),
        **case.running(CHANNELS),
        "training": scalar(case.batch_statistics),
    }
    affine = CHANNELS * FP32 * (case.weight + case.bias)
    statistics = _statistics_bytes(case, case.shape[0] * CHANNELS)
    return Expected(
        variant="InstanceNorm",
        chain={"aten::instance_norm": roles, **_batch_norm_chain(case, _folded(case))},
        training=case.batch_statistics,
        bytes_moved=2 * case.elements * case.size + affine + statistics,
    )


def _layer_norm(case: Case) -> Expected:
    roles = {
        "x": tensor(case.kind, *case.shape),
        "normalized_shape": listed(*case.normalized),
        **case.parameters(*case.normalized),
    }
    width = math.prod(case.normalized)
    rows = case.elements // width
    return Expected(
        variant="LayerNorm",
        chain={"aten::layer_norm": roles, "aten::native_layer_norm": roles},
        training=None,
        bytes_moved=2 * case.elements * case.size
        + width * FP32 * (case.weight + case.bias)
        + 2 * rows * FP32,
    )


def _group_statistics_bytes(case: Case) -> int:
    """Of the type of x, but fp32 where x is bf16 and the weight fp32."""
    return 2 * case.shape[0] * GROUPS * (FP32 if case.weight else case.size)


def _group_norm(case: Case) -> Expected:
    roles = {
        "x": tensor(case.kind, *case.shape),
        **case.parameters(CHANNELS),
        "groups": scalar(GROUPS),
    }
    return Expected(
        variant="GroupNorm",
        chain={"aten::group_norm": roles, "aten::native_group_norm": roles},
        training=None,
        bytes_moved=2 * case.elements * case.size
        + CHANNELS * FP32 * (case.weight + case.bias)
        + _group_statistics_bytes(case),
    )


def _rms_norm(case: Case) -> Expected:
    roles = {
        "x": tensor(case.kind, *case.shape),
        "normalized_shape": listed(*case.normalized),
        "weight": tensor("float", *case.normalized) if case.weight else ABSENT,
    }
    width = math.prod(case.normalized)
    # The fused op takes no weight of another type than the input's.
    names = ("aten::rms_norm",) if case.half and case.weight else ("aten::rms_norm", "aten::_fused_rms_norm")
    return Expected(
        variant="RMSNorm",
        chain=dict.fromkeys(names, roles),
        training=None,
        bytes_moved=2 * case.elements * case.size
        + width * FP32 * case.weight
        + case.elements // width * FP32,
    )


def _batch_norm_backward(case: Case) -> Expected:
    return _batch_norm_backward_on(case, case.shape)


def _batch_norm_backward_on(case: Case, shape: tuple[int, ...]) -> Expected:
    channels = shape[1]
    running_kind = _running_kind(case)
    # On the CPU the statistics are bf16 where no fp32 tensor goes with x; a GPU keeps them in fp32.
    is_mixed = case.weight or (case.tracks and running_kind == "float")
    kind, size = ("float", FP32) if is_mixed else (case.kind, case.size)
    saved = tensor(kind, channels if case.batch_statistics else 0)
    roles = {
        "dy": tensor(case.kind, *shape),
        "x": tensor(case.kind, *shape),
        "weight": case.parameters(channels)["weight"],
        **case.running(channels, running_kind),
        "save_mean": saved,
        "save_invstd": saved,
        "training": scalar(case.batch_statistics),
        "mask": case.mask,
    }
    if case.batch_statistics:
        activations = 3 * case.elements
        statistics = 2 * channels * size
    else:  # x is needed for the gradient of the weight alone, and so is the mean
        activations = (2 + case.weight) * case.elements
        statistics = (1 + case.weight) * channels * size
    weights = 3 * case.weight * channels * FP32
    return Expected(
        variant="BatchNorm",
        chain={"aten::native_batch_norm_backward": roles},
        training=case.batch_statistics,
        bytes_moved=activations * case.size + statistics + weights,
    )


def _instance_norm_backward(case: Case) -> Expected:
    return _batch_norm_backward_on(case, _folded(case))


def _layer_norm_backward(case: Case) -> Expected:
    width = math.prod(case.normalized)
    rows = case.elements // width
    outer = case.shape[: -len(case.normalized)]
    # On the CPU the statistics are bf16 where no fp32 weight is given; a GPU keeps them in fp32.
    kind, size = ("float", FP32) if case.weight else (case.kind, case.size)
    saved = tensor(kind, *outer, *(1 for _ in case.normalized))
    roles = {
        "dy": tensor(case.kind, *case.shape),
        "x": tensor(case.kind, *case.shape),
        "normalized_shape": listed(*case.normalized),
        "save_mean": saved,
        "save_invstd": saved,
        **case.parameters(*case.normalized),
        "mask": case.mask,
    }
    parameters = width * FP32 * (2 * case.weight + case.bias)
    return Expected(
        variant="LayerNorm",
        chain={"aten::native_layer_norm_backward": roles},
        training=None,
        bytes_moved=3 * case.elements * case.size + 2 * rows * size + parameters,
    )


def _group_norm_backward(case: Case) -> Expected:
    saved = tensor("float" if case.weight else case.kind, case.shape[0], GROUPS)
    roles = {
        "dy": tensor(case.kind, *case.shape),
        "x": tensor(case.kind, *case.shape),
        "save_mean": saved,
        "save_invstd": saved,
        "weight": case.parameters(CHANNELS)["weight"],
        "groups": scalar(GROUPS),
        "mask": case.mask,
    }
    return Expected(
        variant="GroupNorm",
        chain={"aten::native_group_norm_backward": roles},
        training=None,
        bytes_moved=3 * case.elements * case.size
        + _group_statistics_bytes(case)
        + CHANNELS * FP32 * (2 * case.weight + case.bias),
    )


_FORWARD = {
    "BatchNorm": _batch_norm,
    "InstanceNorm": _instance_norm,
    "LayerNorm": _layer_norm,
    "GroupNorm": _group_norm,
    "RMSNorm": _rms_norm,
}
_BACKWARD = {
    "BatchNorm": _batch_norm_backward,
    "InstanceNorm": _instance_norm_backward,
    "LayerNorm": _layer_norm_backward,
    "GroupNorm": _group_norm_backward,
}
