"""Comparisons made by hand, for the gate: what pairs with what is written down, not found."""

from collections.abc import Sequence
from typing import Any

import msgspec

from normscope.compare.gate import check
from normscope.compare.limits import Limits, parse_limits
from normscope.compare.models import CallGroup, Comparison, Pair, Side, Significance
from normscope.compare.verdict import Check, Verdict

LAYER_NORM = "aten::native_layer_norm"
REAL = Significance(test="Mann-Whitney U", p_value=0.001, effect_size=-0.9, is_real=True)
NOISE = Significance(test="Mann-Whitney U", p_value=0.6, effect_size=-0.1, is_real=False)


def group(total_us: float = 1000.0, count: int = 10, /, **changes: object) -> CallGroup:
    """Return calls of a layer norm, forward."""
    values: dict[str, Any] = {
        "direction": "forward",
        "variant": "LayerNorm",
        "name": LAYER_NORM,
        "module": "Net_0 > Norm_1",
        "arguments": "(4096,1024) bf16<br>(1024,) bf16",
        "order": 0,
        "count": count,
        "total_us": total_us,
        "mean_us": total_us / count,
    }
    return CallGroup(**values | changes)


def side(*groups: CallGroup, **changes: object) -> Side:
    """Return a side of 10 ms end to end."""
    values: dict[str, Any] = {"label": "run", "kind": "trace", "gpu": "GPU A", "end_to_end_ms": 10.0}
    return Side(**values | {"groups": groups} | changes)


def compared(
    first: Side,
    second: Side,
    tests: Sequence[Significance | None] = (),
    scale: float = 1.0,
    **changes: object,
) -> Comparison:
    """Pair groups of equal place as far as both sides go; ``tests`` are the worth of the first pairs."""
    both = min(len(first.groups), len(second.groups))
    pairs = tuple(
        Pair(
            first=(place,),
            second=(place,),
            paired_by="arguments",
            time1_us=first.groups[place].total_us,
            time2_us=second.groups[place].total_us * scale,
            significance=tests[place] if place < len(tests) else None,
        )
        for place in range(both)
    )
    values: dict[str, Any] = {
        "first": first,
        "second": second,
        "scale": scale,
        "normalized": "as recorded" if scale == 1 else "per step",
        "pairs": pairs,
        "only_first": tuple(range(both, len(first.groups))),
        "only_second": tuple(range(both, len(second.groups))),
    }
    return Comparison(**values | changes)


def limits(text: str) -> Limits:
    return parse_limits(text, "limits.toml")


def judged(comparison: Comparison, text: str) -> Verdict:
    return check(comparison, limits(text))


def only(verdict: Verdict, key: str) -> Check:
    """Return the one check of a key."""
    (found,) = [each for each in verdict.checks if each.key == key]
    return found


def renamed(group: CallGroup, **changes: object) -> CallGroup:
    return msgspec.structs.replace(group, **changes)
