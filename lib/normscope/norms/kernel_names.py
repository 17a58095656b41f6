"""What a GPU kernel's name alone tells about a normalization, for kernels whose op is not known."""

import re
from functools import lru_cache
from typing import TypeVar

import msgspec

from normscope.norms.bare_names import bare_kernel_name
from normscope.norms.catalog.rows import Direction, Variant

Told = TypeVar("Told")

# Every pattern takes time linear in the name: a repeat is bounded, or its match can start in one place only.
# Words begin with their letter and look back from there, which lets a search skip to that letter.

# A word starts after no letter, at a capital ("cuApplyLayerNorm", "QKRMSNorm"), or after what is often
# joined to it.
_STARTED = (
    r"(?:(?<![A-Za-z][A-Za-z])|(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]|MS[Nn])"
    r"|(?<=qk[a-z])|(?<=add[a-z])|(?<=skip[a-z])|(?<=sync[a-z])|(?<=fused[a-z]))"
)
# It ends where no small letter follows ("batch_normal" is no norm), or before what is often joined to it.
_END = r"(?![a-z])"
_NORM_END = r"(?i:ali[sz]ation)?(?:(?![a-z]|AL)|(?=kernel|fwd|bwd|forward|backward|quant))"


def _word(word: str, end: str = _END) -> str:
    first, rest = word[0], word[1:]
    return rf"[{first}{first.upper()}]{_STARTED}(?i:{rest}){end}"


def _norm(word: str) -> str:
    return _word(word + "_?norm", _NORM_END)


def _table(*rows: tuple[str, Told]) -> tuple[tuple[re.Pattern[str], Told], ...]:
    return tuple((re.compile(pattern), told) for pattern, told in rows)


# Functions that PyTorch has for both LayerNorm and RMSNorm: the last template argument tells RMSNorm.
_LAYER_OR_RMS = (
    r"(?:layer_norm_kernel|layer_norm_grad_input_kernel(?:_vectorized)?|RowwiseMomentsCUDAKernel"
    r"|LayerNormForwardCUDAKernel|cuCompute(?:Part)?GradGammaBeta|GammaBetaBackward\w{0,40})"
)
_RMS_BY_ARGUMENT = (
    rf"at::native::(?:[(<](?:anonymous namespace|unnamed)[)>]::)?(?:vectorized_)?{_LAYER_OR_RMS}"
    rf"<[^<>]{{1,200}},\s?(?:true|\(bool\)1)>"
    rf"|2at6native\w{{0,60}}?{_LAYER_OR_RMS}I\w{{1,80}}?Lb1EEEv"
)
# GroupNorm's moments have one template argument, LayerNorm's have two or three.
_GROUP_MOMENTS = r"RowwiseMomentsCUDAKernel(?:<[^,<>]{1,60}>|I(?:[fd]|N3c10(?:8BFloat16|4Half)E)EEv)"
# An all-reduce says by a number what follows it: 0 is nothing, 1 to 5 are RMSNorm with a residual.
_REDUCED_NORM = r"AllReduceFusionPattern(?:E|\))"

_VARIANTS: tuple[tuple[re.Pattern[str], Variant], ...] = _table(
    (_norm(r"rms(?:_?layer)?"), "RMSNorm"),
    (_norm(r"t5_?layer"), "RMSNorm"),
    (_RMS_BY_ARGUMENT, "RMSNorm"),
    (rf"{_word('rope_rms')}|{_word('fused_rms', '')}_\w{{0,40}}?quant", "RMSNorm"),
    (rf"{_REDUCED_NORM}[1-5](?![0-9])", "RMSNorm"),
    # AITER's all-reduce kernels of that name are those with a norm; other libraries' need not be.
    (r"aiter(?:::|[0-9]{2})allreduce_fusion_kernel", "RMSNorm"),
    (_norm(r"sync_?batch"), "SyncBatchNorm"),
    (r"batch_norm_reduce_statistics", "SyncBatchNorm"),
    (rf"{_word('welford_kernel')}|{_word('reduce_bn')}", "SyncBatchNorm"),
    (_word("batchnorm_(?:forward|backward)", r"_(?:c_last_kernel|kernel[<I])"), "SyncBatchNorm"),
    (_norm(r"instance"), "InstanceNorm"),
    # Compiled InstanceNorm is a batch norm of the input's own statistics with repeated parameters.
    (
        r"\A(?=triton_\w*_native_batch_norm_legit_(?!functional|no_training))triton_\w*_repeat_",
        "InstanceNorm",
    ),
    (_norm(r"batch"), "BatchNorm"),
    (_word("bn_(?:fw|bw|pointwise|addrelu|(?:stats|apply)_kernel)"), "BatchNorm"),
    (_word("dbn_(?:stats|apply)_kernel"), "BatchNorm"),
    (_norm(r"group"), "GroupNorm"),
    (_GROUP_MOMENTS, "GroupNorm"),
    (r"Compute(?:1d)?(?:Backward)?FusedParams|ComputeInternalGradients", "GroupNorm"),
    (r"GammaBeta1dBackward|GammaBetaBackwardCUDAKernel[12]", "GroupNorm"),
    (_word("gn_(?:bwd_)?cuda_kernel"), "GroupNorm"),
    (_norm(r"layer"), "LayerNorm"),
    (_word("ln_(?:parallel_residual_)?(?:fwd|bwd)"), "LayerNorm"),
    (_word("fused_(?:residual_)?ln"), "LayerNorm"),
    (r"RowwiseMoments|GammaBetaBackward", "LayerNorm"),
    (r"cuCompute(?:(?:Part)?GradGammaBeta|GradInput)", "LayerNorm"),
    # The norm of queries and keys is RMSNorm in the libraries that fuse it.
    (_norm(r"qk"), "RMSNorm"),
    # Compiled from Python: the square's mean, its power and root; the ops are sorted by name.
    (r"\A(?=triton_\w*_mean_)(?=triton_\w*_pow_)triton_\w*_rsqrt(?![a-z])", "RMSNorm"),
    (_word("l2norm_(?:fwd|bwd)"), "Other"),
    (_norm(r"poly"), "Other"),
    (r"GridwiseNormalization|(?<![a-z])kernel_normalization", "Other"),
)
# Other things called norm: a name that has one is of no layer, unless it spells LayerNorm or RMSNorm too.
_NO_LAYER = re.compile(r"(?i)renorm|weight_norm|multi_tensor_l2norm|lpnorm|Norm(?:One|Two)Ops")
_LAYER_ANYWAY = re.compile(rf"{_norm(r'rms(?:_?layer)?')}|{_norm('layer')}")

_COMPILED = "triton_"
_COMPILED_BACKWARD = re.compile(r"norm_backward")
_BACKWARD = re.compile(
    r"(?i)bwd|backward|bwtr|bn_bw|dbn_|reduce_bn_|norm_?grad|grad_input|GradInput|GradGammaBeta"
    r"|InternalGradients"
)

# Kernels whose template arguments say what they fuse, whatever their names promise.
_FLAGGED = re.compile(rf"add_rmsnorm_quant_kernel|norm2dFused|{_REDUCED_NORM}")
_ADD_QUANT = r"add_rmsnorm_quant_kernel(?:I\w{0,120}?Li[0-9]{1,5}E%s|<[^<>]{0,200}?[0-9],\s?%s)"
_FUSED_BY_ARGUMENT = _table(
    (rf"{_REDUCED_NORM}[1-5]", "all-reduce"),
    (rf"{_REDUCED_NORM}[1-5]", "residual add"),
    (rf"{_REDUCED_NORM}[24]", "fp8 quantization"),
    (rf"{_REDUCED_NORM}[35]", "fp4 quantization"),
    (r"norm2dFusedAddEnum(?:E|\))[12]", "residual add"),
    (r"norm2dFusedQuantEnum(?:E|\))[12]", "quantization"),
    (_ADD_QUANT % ("Lb1E", "true"), "residual add"),
    (_ADD_QUANT % ("Lb[01]ELb1E", r"(?:true|false),\s?true"), "quantization"),
)
_FUSED_BY_WORD = _table(
    (r"(?i:all_?reduce)|local_device_load_rmsnorm", "all-reduce"),
    (
        rf"{_word('add', '')}(?=_?(?i:relu|rms|layer)|[^a-z]|\Z)|{_word('residual')}"
        rf"|{_word('skip_?layer', '')}|{_word('pre_rms_norm')}|local_device_load_rmsnorm",
        "residual add",
    ),
    (r"(?i:dropout)", "dropout"),
    (_word("rope"), "RoPE"),
    (r"gated_rmsnorm_fp8", "SiLU gate"),
    (r"(?i:gated)(?!_rmsnorm_fp8)", "gate"),
    (_word("modulated?"), "modulation"),
    (r"Activ(?=Fwd|Bwd|Infer)|(?i:relu|silu|swish|gelu)", "activation"),
    (r"(?i:fp4|float4)", "fp4 quantization"),
    (r"(?i:fp8|float8)", "fp8 quantization"),
    (r"(?i:\A(?![\s\S]*(?:fp|float)[48])[\s\S]*quant)", "quantization"),
    (r"(?i:kv_?cache)|CacheShuffle", "KV cache write"),
    (_word("pad"), "padding"),
    (_word("gemm"), "GEMM"),
)


class KernelNorm(msgspec.Struct, frozen=True):
    """What a kernel's name tells about the normalization it belongs to.

    Attributes
    ----------
    variant
        Which normalization; ``Other`` for a layer of another kind, or where the name does not tell the kind.
        A kernel for both LayerNorm and RMSNorm is LayerNorm unless the name says otherwise, and one that
        PyTorch launches for BatchNorm, SyncBatchNorm and InstanceNorm is BatchNorm.
    direction
        The pass. The name does not tell a forward kernel that a backward pass runs again.
    fuses
        Other work in the same kernel, as ``residual add``, ``fp8 quantization`` or ``RoPE``; not in the order
        of execution. Empty for compiled kernels, and where the name does not tell.
    part
        The bare name of the kernel, for display: which of the kernels of a call it is.
    """

    variant: Variant
    direction: Direction
    fuses: tuple[str, ...]
    part: str


# Whatever a pattern finds holds one of these, in small letters: a quick look that most kernels fail.
_HINTS = (
    *("norm", "bn_", "ln_", "gn_", "moments", "gammabeta", "fusedparams", "internalgradients", "gradinput"),
    *("welford_kernel", "rope_rms", "fused_rms", "allreducefusionpattern", "allreduce_fusion_kernel"),
    *("fused_ln", "residual_ln", "_rsqrt"),
)


@lru_cache(maxsize=65536)
def read_kernel(name: str) -> KernelNorm | None:
    """Return what a GPU kernel's name tells about a normalization, None where it is not of a norm layer.

    What PyTorch also launches for other ops is not told by its name and gives None: the ``WelfordOps``
    reduction of a batch norm is that of ``var_mean`` too.

    Examples
    --------
    >>> read_kernel("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)").fuses
    ('residual add',)
    >>> read_kernel("void at::native::(anonymous namespace)::renorm_kernel<float>(int)") is None
    True
    """
    if not _is_hinted(name):
        return None
    variant = next((variant for pattern, variant in _VARIANTS if pattern.search(name)), None)
    if variant is None or (_NO_LAYER.search(name) and not _LAYER_ANYWAY.search(name)):
        return None
    compiled = name.startswith(_COMPILED)
    backward = (_COMPILED_BACKWARD if compiled else _BACKWARD).search(name)
    return KernelNorm(
        variant=variant,
        direction="backward" if backward else "forward",
        fuses=() if compiled else _fused_work(name),
        part=bare_kernel_name(name),
    )


def _is_hinted(name: str) -> bool:
    small = name.lower()
    return any(hint in small for hint in _HINTS)


def is_norm_kernel(name: str) -> bool:
    """Tell whether a GPU kernel's name is that of a normalization layer.

    Examples
    --------
    >>> is_norm_kernel("void vectorized_layer_norm_kernel<float>"), is_norm_kernel("renorm_kernel")
    (True, False)
    """
    return read_kernel(name) is not None


def _fused_work(name: str) -> tuple[str, ...]:
    table = _FUSED_BY_ARGUMENT if _FLAGGED.search(name) else _FUSED_BY_WORD
    return tuple(work for pattern, work in table if pattern.search(name))
