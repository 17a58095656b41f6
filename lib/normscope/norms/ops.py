"""The normalization ops: which model counts each one, and where its arguments lie.

One row per op and argument layout. The layout is the op's schema written as a list of roles, so that a row
can be held against ``native_functions.yaml`` by eye; ``_`` is an argument that no formula needs. To add an
op, add a row.
"""

from collections.abc import Mapping, Sequence

import msgspec

from normscope.norms.models import MODELS, Model


class NormOp(msgspec.Struct, frozen=True):
    """One op with one argument layout.

    Attributes
    ----------
    name
        As recorded in a trace.
    model
        What it computes: variant, direction, bytes and FLOPs.
    roles
        Position of each argument that a formula needs.
    wrapper
        Another norm op below it does the work.
    training
        Fixed by the op; ``None`` where an argument says it or where it has no meaning.
    scalar_at
        This layout holds only where that argument is a scalar; ``None``: wherever no other layout holds.
    """

    name: str
    model: Model
    roles: Mapping[str, int]
    wrapper: bool = False
    training: bool | None = None
    scalar_at: int | None = None


def _row(  # noqa: PLR0913 - one parameter per column of the table
    name: str,
    model: str,
    layout: str,
    *,
    wrapper: bool = False,
    training: bool | None = None,
    scalar_at: int | None = None,
) -> NormOp:
    roles = {role: index for index, role in enumerate(layout.split()) if role != "_"}
    return NormOp(name, MODELS[model], roles, wrapper, training, scalar_at)


_BN = "x weight bias running_mean running_var training _ _"
_BN_NO_FLAG = "x weight bias running_mean running_var _ _"
_BN_BACKWARD = "dy x weight running_mean running_var save_mean save_invstd training _ mask _"
_BN_IMPL_BACKWARD = "_ x dy weight running_mean running_var save_mean save_invstd training _ mask _"
# cuDNN and MIOpen take x before dy, run in training only, and always compute all three gradients.
_BN_VENDOR_BACKWARD = "x dy weight running_mean running_var save_mean save_invstd _ _"

_ROWS: tuple[NormOp, ...] = (
    # Batch norm. The vendor libraries take the same forward arguments as the native op.
    _row("aten::batch_norm", "batch_norm", _BN, wrapper=True),
    _row("aten::_batch_norm_impl_index", "batch_norm", _BN, wrapper=True),
    _row("aten::native_batch_norm", "batch_norm", _BN),
    _row("aten::cudnn_batch_norm", "batch_norm", _BN),
    _row("aten::miopen_batch_norm", "batch_norm", _BN),
    _row("aten::_native_batch_norm_legit", "batch_norm", _BN),
    # The overload without running statistics has the same name in a trace.
    _row("aten::_native_batch_norm_legit", "batch_norm", "x weight bias training _ _", scalar_at=3),
    _row("aten::_native_batch_norm_legit_functional", "batch_norm", _BN),
    _row("aten::_native_batch_norm_legit_no_training", "batch_norm", _BN_NO_FLAG, training=False),
    _row("aten::_batch_norm_with_update", "batch_norm", _BN_NO_FLAG, training=True),
    _row("aten::_batch_norm_no_update", "batch_norm", _BN_NO_FLAG, training=False),
    _row("aten::quantized_batch_norm", "batch_norm", _BN_NO_FLAG, training=False),
    _row("aten::_batch_norm_impl_index_backward", "batch_norm_backward", _BN_IMPL_BACKWARD, wrapper=True),
    _row("aten::native_batch_norm_backward", "batch_norm_backward", _BN_BACKWARD),
    _row("aten::batch_norm_backward", "batch_norm_backward", _BN_BACKWARD),
    _row("aten::cudnn_batch_norm_backward", "batch_norm_backward", _BN_VENDOR_BACKWARD, training=True),
    _row("aten::miopen_batch_norm_backward", "batch_norm_backward", _BN_VENDOR_BACKWARD, training=True),
    # Synchronized batch norm: pieces around a collective.
    _row("aten::batch_norm_stats", "sync_stats", "x _"),
    _row("aten::batch_norm_update_stats", "sync_stats", "x running_mean running_var _"),
    _row("aten::batch_norm_gather_stats", "sync_gather", "x mean invstd running_mean running_var _ _ _"),
    _row(
        "aten::batch_norm_gather_stats_with_counts",
        "sync_gather",
        "x mean invstd running_mean running_var _ _ counts",
    ),
    _row("aten::batch_norm_elemt", "sync_apply", "x weight bias save_mean save_invstd _"),
    _row(
        "aten::batch_norm_backward_reduce",
        "sync_reduce_backward",
        "dy x save_mean save_invstd weight dx_flag dweight_flag dbias_flag",
    ),
    _row(
        "aten::batch_norm_backward_elemt",
        "sync_apply_backward",
        "dy x save_mean save_invstd weight sum_dy sum_dy_xmu counts",
    ),
    # Instance norm has no backward op of its own: a batch norm backward on [1, B*C, ...] does it.
    _row("aten::instance_norm", "instance_norm", _BN, wrapper=True),
    _row("aten::layer_norm", "layer_norm", "x normalized_shape weight bias _ _", wrapper=True),
    _row("aten::native_layer_norm", "layer_norm", "x normalized_shape weight bias _"),
    _row(
        "aten::native_layer_norm_backward",
        "layer_norm_backward",
        "dy x normalized_shape save_mean save_invstd weight bias mask",
    ),
    _row("aten::group_norm", "group_norm", "x groups weight bias _ _", wrapper=True),
    _row("aten::native_group_norm", "group_norm", "x weight bias _ _ _ groups _"),
    _row(
        "aten::native_group_norm_backward",
        "group_norm_backward",
        "dy x save_mean save_invstd weight _ _ _ groups mask",
    ),
    # aten::rms_norm does the work itself, in eight elementwise kernels, where the fused op can't.
    _row("aten::rms_norm", "rms_norm", "x normalized_shape weight _", wrapper=True),
    _row("aten::_fused_rms_norm", "rms_norm", "x normalized_shape weight _"),
    _row(
        "aten::_fused_rms_norm_backward",
        "rms_norm_backward",
        "dy x normalized_shape save_invstd weight mask",
    ),
    # AITER, inference only. Since July 2026 _groupnorm_run takes the output first.
    _row("aiter::rms_norm", "library_rms_norm", "x weight _ _"),
    _row("aiter::rmsnorm", "library_rms_norm", "y x weight _ _"),
    _row("aiter::add_rmsnorm", "library_rms_norm", "y x residual residual_out weight _ _"),
    _row("aiter::_groupnorm_run", "library_group_norm", "x groups weight bias _", scalar_at=1),
    _row("aiter::_groupnorm_run", "library_group_norm", "y _ x groups weight bias _"),
)


def _by_name(rows: Sequence[NormOp]) -> Mapping[str, tuple[NormOp, ...]]:
    """Group the layouts of each op, those with a condition first."""
    table: dict[str, tuple[NormOp, ...]] = {}
    for row in sorted(rows, key=lambda row: row.scalar_at is None):
        table[row.name] = (*table.get(row.name, ()), row)
    return table


NORM_OPS: Mapping[str, tuple[NormOp, ...]] = _by_name(_ROWS)
"""Every known norm op by name; more than one row where its argument layout differs between versions."""


def is_norm_op(name: str) -> bool:
    """Tell whether ``name`` is a normalization op that the table knows."""
    return name in NORM_OPS


def select_layout(name: str, types: object) -> NormOp | None:
    """Return the row of ``name`` whose argument layout fits the recorded ``types``.

    ``None`` where the op is not in the table.
    """
    for row in NORM_OPS.get(name, ()):
        if row.scalar_at is None or _is_scalar(types, row.scalar_at):
            return row
    return None


def _is_scalar(types: object, index: int) -> bool:
    return isinstance(types, list | tuple) and index < len(types) and types[index] == "Scalar"
