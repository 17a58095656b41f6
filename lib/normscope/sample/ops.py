"""How each simulated normalization op runs: the Python around it and its GPU kernels.

``{T}`` in a kernel name stands for the data type of the activation.
"""

import math

import msgspec

from normscope.sample.arguments import Shape

OpLink = tuple[str, str]
"""Name and argument words of one op of a chain."""
THREADS_PER_BLOCK = 256
_ELEMENTS_PER_THREAD = 4


class Kernel(msgspec.Struct, frozen=True):
    """One GPU kernel of an op, and its share of the op's kernel time.

    It starts one workgroup a channel where ``per_channel``, else as many as its elements need.
    """

    name: str
    share: float = 1.0
    per_channel: bool = False

    def workgroups(self, shape: Shape) -> int:
        """Return how many workgroups a launch on an activation of ``shape`` starts."""
        return shape[1] if self.per_channel else workgroups_for(math.prod(shape))


def workgroups_for(elements: int) -> int:
    """Return how many workgroups cover so many elements."""
    return math.ceil(elements / (_ELEMENTS_PER_THREAD * THREADS_PER_BLOCK))


class OpKind(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a normalization: its kernels, and the Python frames inside its module."""

    kernels: tuple[Kernel, ...]
    python_frames: tuple[str, ...] = ()


_AT = "void at::native::"
_AT_LOCAL = "void at::native::(anonymous namespace)::"
_MANUAL_UNROLL = "elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<"
_COLLECT_STATISTICS = (
    _AT + "batch_norm_collect_statistics_kernel<at::native::Var, {T}, {T}, float, int>"
    "(at::GenericPackedTensorAccessor<{T} const, 3ul, at::RestrictPtrTraits, int>, float, float, ...)"
)
_TRANSFORM_INPUT = _AT + "batch_norm_transform_input_kernel<{T}, {T}, float, true, int>(...)"
_BATCH_NORM_KERNELS = (
    Kernel(_COLLECT_STATISTICS, 0.55, per_channel=True),
    Kernel(
        _AT_LOCAL + "unrolled_elementwise_kernel_for_multi_outputs<3, "
        "at::native::(anonymous namespace)::batch_norm_update_stats_and_invert(at::Tensor const&, ...)"
        "::{lambda()#1}>(int, ...)",
        0.05,
    ),
    Kernel(_TRANSFORM_INPUT, 0.40),
)
_BATCH_NORM_FRAMES = (
    "torch/nn/modules/batchnorm.py(193): forward",
    "torch/nn/functional.py(2822): batch_norm",
)

OP_KINDS = {
    "batch_norm_native": OpKind(
        kernels=_BATCH_NORM_KERNELS,
        python_frames=_BATCH_NORM_FRAMES,
    ),
    "batch_norm_miopen": OpKind(
        kernels=(Kernel("MIOpenBatchNormFwdTrainSpatial"),),
        python_frames=_BATCH_NORM_FRAMES,
    ),
    "layer_norm_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "vectorized_layer_norm_kernel<{T}, float, false>"
                "(int, float, {T} const*, {T} const*, {T} const*, float*, float*, {T}*)"
            ),
        ),
        python_frames=(
            "torch/nn/modules/normalization.py(229): forward",
            "torch/nn/functional.py(2925): layer_norm",
        ),
    ),
    "layer_norm_triton": OpKind(
        kernels=(Kernel("triton_per_fused_add_native_layer_norm_3"),),
        python_frames=("torchinductor/output_code.py(187): call",),
    ),
    "rms_norm_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "vectorized_layer_norm_kernel<{T}, float, true>"
                "(int, float, {T} const*, {T} const*, {T} const*, float*, float*, {T}*)"
            ),
        ),
        python_frames=(
            "torch/nn/modules/normalization.py(412): forward",
            "torch/nn/functional.py(2951): rms_norm",
        ),
    ),
    "rms_norm_aiter": OpKind(
        kernels=(
            Kernel("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_"),
        ),
        python_frames=("aiter/ops/rmsnorm.py(76): rmsnorm2d_fwd_with_add",),
    ),
    "group_norm_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "RowwiseMomentsCUDAKernel<{T}>(long, float, ...)",
                0.52,
            ),
            Kernel(_AT_LOCAL + "ComputeFusedParamsCUDAKernel<{T}>(long, ...)", 0.04),
            Kernel(
                _AT
                + _MANUAL_UNROLL
                + "at::native::(anonymous namespace)::GroupNormKernelImplInternal<{T}>(...)::"
                "{lambda({T}, float, float)#1}>(...)>(int, ...)",
                0.44,
            ),
        ),
        python_frames=(
            "torch/nn/modules/normalization.py(325): forward",
            "torch/nn/functional.py(2979): group_norm",
        ),
    ),
    "instance_norm_native": OpKind(
        kernels=(Kernel(_COLLECT_STATISTICS, 0.58), Kernel(_TRANSFORM_INPUT, 0.42)),
        python_frames=(
            "torch/nn/modules/instancenorm.py(124): forward",
            "torch/nn/functional.py(2887): instance_norm",
        ),
    ),
    "batch_norm_backward_native": OpKind(
        kernels=(Kernel(_AT + "batch_norm_backward_kernel<{T}, {T}, float, int>(...)", per_channel=True),),
    ),
    "batch_norm_backward_miopen": OpKind(
        kernels=(Kernel("MIOpenBatchNormBwdSpatial"),),
    ),
    "layer_norm_backward_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "layer_norm_grad_input_kernel_vectorized<{T}, float, "
                "false>({T} const*, {T} const*, float const*, float const*, {T} const*, {T}*, int)",
                0.70,
            ),
            Kernel(
                _AT_LOCAL + "cuComputePartGradGammaBeta<{T}, float, false>(...)",
                0.25,
            ),
            Kernel(_AT_LOCAL + "cuComputeGradGammaBeta<{T}, float, false>(...)", 0.05),
        ),
    ),
    "rms_norm_backward_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "layer_norm_grad_input_kernel_vectorized<{T}, float, "
                "true>({T} const*, {T} const*, float const*, float const*, {T} const*, {T}*, int)",
                0.75,
            ),
            Kernel(
                _AT_LOCAL + "cuComputePartGradGammaBeta<{T}, float, true>(...)",
                0.25,
            ),
        ),
    ),
    "group_norm_backward_native": OpKind(
        kernels=(
            Kernel(
                _AT_LOCAL + "ComputeInternalGradientsCUDAKernel<{T}>(long, ...)",
                0.42,
            ),
            Kernel(
                _AT_LOCAL + "ComputeBackwardFusedParamsCUDAKernel<{T}>(long, ...)",
                0.06,
            ),
            Kernel(
                _AT
                + _MANUAL_UNROLL
                + "at::native::(anonymous namespace)::GroupNormBackwardKernelImplInternal<{T}>(...)::"
                "{lambda({T}, {T}, float, float)#1}>(...)>(int, ...)",
                0.47,
            ),
            Kernel(_AT_LOCAL + "GammaBetaBackwardCUDAKernel2<{T}>(long, ...)", 0.05),
        ),
    ),
}
"""Every simulated op by a short key."""
