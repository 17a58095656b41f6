"""Sides of a comparison made by hand."""

import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from normscope.compare.models import CallGroup, Side
from normscope.compare.statistics import sample_of

X = "(8,768) bf16"
ARGUMENTS = f"{X}<br>(768,) bf16"


def group(
    *times_us: float, order: int = 0, changes: Mapping[str, object] = MappingProxyType({}), **more: object
) -> CallGroup:
    """Return LayerNorm calls of those times in one module; ``changes`` and ``more`` replace fields."""
    sample = sample_of(times_us)
    fields: dict[str, Any] = {
        "direction": "forward",
        "variant": "LayerNorm",
        "name": "aten::layer_norm",
        "module": "Net_0 > LayerNorm_0",
        "arguments": ARGUMENTS,
        "kernels": ("layer_norm_kernel",),
        "count": len(times_us),
        "total_us": sum(times_us),
        "times_us": times_us,
        "mean_us": sample.mean_us,
        "std_us": sample.std_us,
        **changes,
        **more,
    }
    return CallGroup(order=order, **fields)


def side(*groups: CallGroup, steps: int = 0, label: str = "a side") -> Side:
    """Return a side of those groups, in that order."""
    ordered = (msgspec.structs.replace(each, order=order) for order, each in enumerate(groups))
    return Side(label=label, kind="trace", steps=steps, groups=tuple(ordered))


def noisy(rng: random.Random, mean_us: float, count: int, spread: float = 0.05) -> list[float]:
    """Return call times with that relative standard deviation."""
    return [max(0.0, rng.gauss(mean_us, spread * mean_us)) for _ in range(count)]


def without_times(of: Side) -> Side:
    """Return what a baseline keeps of a side."""
    groups = tuple(msgspec.structs.replace(each, times_us=()) for each in of.groups)
    return msgspec.structs.replace(of, groups=groups)


def sizes(pairs: Sequence[Any]) -> list[tuple[int, int]]:
    """Return how many groups of each side each pair has."""
    return [(len(pair.first), len(pair.second)) for pair in pairs]
