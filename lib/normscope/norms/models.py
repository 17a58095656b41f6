"""One model per kind of norm call: what it is, and which formulas count its bytes and FLOPs."""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from normscope.norms import flops, sync_traffic, traffic

Direction = Literal["forward", "backward"]
Variant = Literal["BatchNorm", "SyncBatchNorm", "InstanceNorm", "LayerNorm", "GroupNorm", "RMSNorm"]
Count = Callable[..., int]


class Model(msgspec.Struct, frozen=True):
    """What a kind of norm call is and how it is counted.

    Attributes
    ----------
    variant, direction
        Which normalization, and whether it is the forward or the backward pass.
    bytes_moved
        Compulsory traffic, a function of ``normscope.norms.traffic``.
    flops
        A function of ``normscope.norms.flops``; ``None`` where operations are not counted.
    """

    variant: Variant
    direction: Direction
    bytes_moved: Count
    flops: Count | None


class Formula(msgspec.Struct, frozen=True):
    """A model in words, as the report's method section prints it.

    Attributes
    ----------
    title
        What is counted.
    bytes_moved, flops
        The formulas; ``flops`` is ``None`` where operations are not counted.
    source
        Where the shapes, types and accesses come from.
    assumption
        What the bytes take for granted.
    """

    title: str
    bytes_moved: str
    flops: str | None
    source: str
    assumption: str


MODELS: Mapping[str, Model] = {
    "batch_norm": Model("BatchNorm", "forward", traffic.batch_norm, flops.batch_norm),
    "batch_norm_backward": Model(
        "BatchNorm", "backward", traffic.batch_norm_backward, flops.batch_norm_backward
    ),
    "instance_norm": Model("InstanceNorm", "forward", traffic.instance_norm, flops.instance_norm),
    "layer_norm": Model("LayerNorm", "forward", traffic.layer_norm, flops.layer_norm),
    "layer_norm_backward": Model(
        "LayerNorm", "backward", traffic.layer_norm_backward, flops.layer_norm_backward
    ),
    "group_norm": Model("GroupNorm", "forward", traffic.group_norm, flops.group_norm),
    "group_norm_backward": Model(
        "GroupNorm", "backward", traffic.group_norm_backward, flops.layer_norm_backward
    ),
    "rms_norm": Model("RMSNorm", "forward", traffic.rms_norm, flops.rms_norm),
    "rms_norm_backward": Model("RMSNorm", "backward", traffic.rms_norm_backward, flops.rms_norm_backward),
    "library_rms_norm": Model("RMSNorm", "forward", traffic.library_rms_norm, flops.library_rms_norm),
    "library_group_norm": Model("GroupNorm", "forward", traffic.library_group_norm, flops.group_norm),
    "sync_stats": Model("SyncBatchNorm", "forward", sync_traffic.sync_stats, flops.sync_stats),
    "sync_gather": Model("SyncBatchNorm", "forward", sync_traffic.sync_gather, None),
    "sync_apply": Model("SyncBatchNorm", "forward", sync_traffic.sync_apply, flops.sync_apply),
    "sync_reduce_backward": Model(
        "SyncBatchNorm", "backward", sync_traffic.sync_reduce_backward, flops.sync_reduce_backward
    ),
    "sync_apply_backward": Model(
        "SyncBatchNorm", "backward", sync_traffic.sync_apply_backward, flops.sync_apply_backward
    ),
}


def formula(model: Model) -> Formula:
    """Return ``model`` in words, read from the docstrings of its two functions."""
    paragraphs = _paragraphs(model.bytes_moved)
    counted = _paragraphs(model.flops) if model.flops else {}
    return Formula(
        title=paragraphs["title"].rstrip("."),
        bytes_moved=paragraphs["Formula"],
        flops=counted.get("FLOPs"),
        source=paragraphs["Source"],
        assumption=paragraphs["Assumes"],
    )


def _paragraphs(function: Count) -> dict[str, str]:
    """Split a docstring into its title and the paragraphs that start with a label and a colon."""
    title, *rest = (" ".join(text.split()) for text in (function.__doc__ or "").split("\n\n"))
    labelled = (text.partition(": ") for text in rest)
    return {"title": title} | {label: text for label, _, text in labelled}
