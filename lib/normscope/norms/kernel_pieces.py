"""Kernels that together are one norm: which pieces a library launches in a row, and in what order.

Without an op around them only their names and their order tell. So only pieces that follow each other
directly on a stream are joined: one op launches them back to back.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from normscope.trace.events import GpuEvent
from normscope.trace.nesting import NONE


class _Norm(msgspec.Struct, frozen=True):
    """Patterns of a norm's kernels in the order of their launches; each may be left out."""

    pieces: tuple[re.Pattern[str], ...]
    main: int
    """The piece that tells what the norm is and names its call."""


def _norm(*pieces: str, main: int) -> _Norm:
    return _Norm(tuple(re.compile(piece) for piece in pieces), main)


_ROW_MOMENTS = "RowwiseMomentsCUDAKernel"
_LAYER_GRADIENT = "layer_norm_grad_input_kernel"
_PART_OF_GAMMA = "cuComputePartGradGammaBeta"
_GAMMA = "cuComputeGradGammaBeta"
_GROUP_GRADIENT = "GroupNormBackwardKernelImplInternal"

_NORMS = (
    # PyTorch's native batch norm; without the first piece where it doesn't train.
    _norm(
        "batch_norm_collect_statistics(?:_channels_last)?_kernel",
        "batch_norm_update_stats_and_invert|batch_norm_calc_invstd",
        "batch_norm_transform_input(?:_channels_last)?_kernel|batch_norm_elementwise(?!_backward)",
        main=2,
    ),
    _norm(
        "batch_norm_backward_reduce(?:_channels_last)?_kernel",
        "batch_norm_backward_elemt(?:_channels_last)?_kernel",
        main=1,
    ),
    # LayerNorm and RMSNorm where the vectorized kernel doesn't fit, and their backward passes.
    _norm(_ROW_MOMENTS, "LayerNormForwardCUDAKernel", main=1),
    _norm(_LAYER_GRADIENT, _PART_OF_GAMMA, _GAMMA, main=0),
    _norm(_LAYER_GRADIENT, "GammaBetaBackward(?:Simple)?CUDAKernel(?![12])", main=0),
    # Apex computes the gradients of the parameters first.
    _norm(_PART_OF_GAMMA, _GAMMA, "cuComputeGradInput", main=2),
    # GroupNorm; its backward pass runs one kernel before and after it has the factors.
    _norm(
        _ROW_MOMENTS,
        "ComputeFusedParamsCUDAKernel",
        "GroupNormKernelImplInternal|GroupNorm1dForward",
        main=2,
    ),
    _norm(
        "ComputeInternalGradientsCUDAKernel",
        _GROUP_GRADIENT,
        "Compute(?:1d)?BackwardFusedParamsCUDAKernel",
        f"{_GROUP_GRADIENT}|GroupNorm1dBackward",
        "GammaBeta(?:1d)?BackwardCUDAKernel[12]",
        main=0,
    ),
    # MIOpen's batch norm in pieces, for large inputs.
    _norm(
        "MIOpenBatchNormFwdTrainSpatialMeanVariance",
        "MIOpenBatchNormFwdTrainSpatialFinalMeanVariance",
        "MIOpenBatchNormFwdTrainSpatialNorm",
        main=2,
    ),
    _norm(
        "MIOpenBatchNormBwdSpatialMeanVariance",
        "MIOpenBatchNormBwdSpatialFinalMeanVariance",
        "MIOpenBatchNormBwdSpatialDScaleDBias",
        "MIOpenBatchNormBwdSpatialFinalDScaleDBias",
        "MIOpenBatchNormBwdSpatialDX",
        main=4,
    ),
    _norm("groupnorm_kernel_dispatch_up", "groupnorm_kernel_dispatch_down", main=1),
    # Apex's and Transformer Engine's fast LayerNorm.
    _norm("ln_bwd_kernel", "ln_bwd_finalize_kernel", main=0),
    # The Triton tutorial's, which many copy.
    _norm("_layer_norm_bwd_dx_fused", "_layer_norm_bwd_dwdb", main=0),
)


@lru_cache(maxsize=16384)
def _places(name: str) -> Mapping[int, tuple[int, ...]]:
    """Return where a kernel of that name may stand: its places in each of ``_NORMS`` that has it."""
    found = {
        number: tuple(place for place, piece in enumerate(norm.pieces) if piece.search(name))
        for number, norm in enumerate(_NORMS)
    }
    return {number: places for number, places in found.items() if places}


def leading_pieces(names: Sequence[str]) -> int:
    """Return how many of the kernels ``names``, from the first on, are pieces of one norm; at least 1.

    Examples
    --------
    >>> leading_pieces(["RowwiseMomentsCUDAKernel", "LayerNormForwardCUDAKernel", "gemm"])
    2
    """
    return max((_length(number, names) for number in _places(names[0])), default=1)


def main_piece(names: Sequence[str]) -> int:
    """Return which of the pieces ``names`` of one norm tells what it is, by its place; else the first."""
    for number in _places(names[0]):
        if _length(number, names) == len(names):
            main = _NORMS[number].pieces[_NORMS[number].main]
            return next((place for place, name in enumerate(names) if main.search(name)), 0)
    return 0


def _length(number: int, names: Sequence[str]) -> int:
    """Return how many names fit one norm of the table, each at a later place than the one before."""
    last = NONE
    for count, name in enumerate(names):
        place = next((place for place in _places(name).get(number, ()) if place > last), None)
        if place is None:
            return count
        last = place
    return len(names)


def followers(events: Sequence[GpuEvent], kernels: Sequence[int]) -> dict[int, int]:
    """Return for each of ``kernels`` the GPU event that runs next on its stream, where there is one."""
    wanted = {index for index in kernels if _places(events[index].name)}
    if not wanted:
        return {}
    found: dict[int, int] = {}
    last: dict[tuple[object, ...], int] = {}
    for index, event in enumerate(events):
        stream = (event.pid, event.device, event.stream)
        before = last.get(stream, NONE)
        if before in wanted:
            found[before] = index
        last[stream] = index
    return found
