"""The formulas that a row of the catalog can name: bytes and FLOPs of a norm call."""

from collections.abc import Callable, Mapping

import msgspec

from normscope.norms import eager_traffic, flops, library_traffic, sync_traffic, traffic, training_traffic
from normscope.norms.catalog.rows import NormRow

Count = Callable[..., int]

BYTES: Mapping[str, Count] = {
    count.__name__: count
    for count in (
        *(traffic.batch_norm, traffic.batch_norm_backward, traffic.instance_norm),
        *(traffic.layer_norm, traffic.layer_norm_backward),
        *(traffic.group_norm, traffic.group_norm_backward),
        *(traffic.rms_norm, traffic.rms_norm_backward),
        *(sync_traffic.sync_stats, sync_traffic.sync_gather, sync_traffic.sync_apply),
        *(sync_traffic.sync_reduce_backward, sync_traffic.sync_apply_backward),
        *(library_traffic.tensors, library_traffic.tensors_or_like_inputs),
        *(library_traffic.qk_norm_rope, library_traffic.qk_norm_rope_cache),
        library_traffic.ln_modulate_backward,
        *(training_traffic.fused_norm, training_traffic.norm_into_arguments, training_traffic.mixed_norm),
        *(training_traffic.fused_norm_backward, training_traffic.add_batch_norm),
        *(training_traffic.group_norm_sums, eager_traffic.one_kernel),
    )
}
"""Compulsory traffic in bytes by name."""

FLOPS: Mapping[str, Count] = {
    count.__name__: count
    for count in (
        *(flops.batch_norm, flops.batch_norm_backward, flops.instance_norm),
        *(flops.layer_norm, flops.layer_norm_backward, flops.group_norm),
        *(flops.rms_norm, flops.rms_norm_backward, flops.library_rms_norm),
        *(flops.library_norm, flops.library_norm_backward),
        *(flops.sync_stats, flops.sync_apply, flops.sync_reduce_backward, flops.sync_apply_backward),
    )
}
"""Floating-point operations by name."""


class Formula(msgspec.Struct, frozen=True):
    """The formulas of a row in words, as the report's method section prints them.

    Attributes
    ----------
    title
        What is counted.
    bytes_moved, flops
        The formulas; None where they are not counted.
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


def formula(row: NormRow) -> Formula | None:
    """Return the formulas of ``row`` in words, from their docstrings; None where bytes aren't counted."""
    if row.sums_pieces:
        return Formula(
            title=f"{row.variant} in pieces, {row.direction}",
            bytes_moved="the bytes of the norm ops below it, added up",
            flops="likewise",
            source=row.source,
            assumption="each piece moves its tensors on its own; the collective between them is not counted",
        )
    if not row.bytes:
        return None
    paragraphs = _paragraphs(BYTES[row.bytes])
    counted = _paragraphs(FLOPS[row.flops]) if row.flops else {}
    return Formula(
        title=paragraphs["title"].rstrip("."),
        bytes_moved=paragraphs["Formula"],
        flops=counted.get("FLOPs"),
        source=paragraphs.get("Source", row.source),
        assumption=paragraphs["Assumes"],
    )


def _paragraphs(function: Count) -> dict[str, str]:
    """Split a docstring into its title and the paragraphs that start with a label and a colon."""
    title, *rest = (" ".join(text.split()) for text in (function.__doc__ or "").split("\n\n"))
    labelled = (text.partition(": ") for text in rest)
    return {"title": title} | {label: text for label, _, text in labelled}
