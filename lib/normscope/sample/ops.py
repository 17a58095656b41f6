"""How each simulated normalization op appears in a trace: its arguments, traffic, calls and kernels.

``{T}`` in a kernel name stands for the data type of the activation; ``{B}``, ``{C}``, ``{HW}``, ``{N}`` and
``{R}`` in a setting for the batch size, the channels, the pixels, the last axis and the number of rows.
"""

import msgspec

from normscope.sample.arguments import ARGUMENTS, GROUPS, Dtype, Shape


class Kernel(msgspec.Struct, frozen=True):
    """One GPU kernel of an op, and its share of the op's kernel time."""

    name: str
    share: float = 1.0


class OpKind(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a normalization, as a profiler records it.

    ``arguments`` are words of :data:`normscope.sample.arguments.ARGUMENTS`, in the order of the op's schema;
    ``settings`` are the values of those that are numbers and lists. ``also_moved`` names the tensors that
    the op moves besides reading each argument once: its results, and buffers that it updates in place.
    ``python_frames`` and ``dispatch`` surround the op in the call stack.
    """

    name: str
    arguments: str
    also_moved: str
    settings: tuple[str, ...]
    flops_per_element: int
    kernels: tuple[Kernel, ...]
    python_frames: tuple[str, ...] = ()
    dispatch: tuple[str, ...] = ()
    has_model: bool = True


def bytes_moved(kind: OpKind, shape: Shape, dtype: Dtype) -> int:
    """Return the compulsory traffic of one call: every input read once, every output written once."""
    words = f"{kind.arguments} {kind.also_moved}".split()
    return sum(ARGUMENTS[word].size_bytes(shape, dtype) for word in words)


_AT = "void at::native::"
_AT_LOCAL = "void at::native::(anonymous namespace)::"
_MANUAL_UNROLL = "elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<"
_COLLECT_STATISTICS = (
    _AT + "batch_norm_collect_statistics_kernel<at::native::Var, {T}, {T}, float, int>"
    "(at::GenericPackedTensorAccessor<{T} const, 3ul, at::RestrictPtrTraits, int>, float, float, ...)"
)
_TRANSFORM_INPUT = _AT + "batch_norm_transform_input_kernel<{T}, {T}, float, true, int>(...)"
_BATCH_NORM_KERNELS = (
    Kernel(_COLLECT_STATISTICS, 0.55),
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
_BATCH_NORM_RESULTS = "activation channel_stat channel_stat channel channel"

OP_KINDS = {
    "batch_norm_native": OpKind(
        name="aten::batch_norm",
        arguments="activation channel channel channel channel number number number number",
        also_moved=_BATCH_NORM_RESULTS,
        settings=("True", "0.1", "1e-05", "True"),
        flops_per_element=5,
        kernels=_BATCH_NORM_KERNELS,
        python_frames=_BATCH_NORM_FRAMES,
        dispatch=("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm"),
    ),
    "batch_norm_miopen": OpKind(
        name="aten::miopen_batch_norm",
        arguments="activation channel channel channel channel number number number",
        also_moved=_BATCH_NORM_RESULTS,
        settings=("True", "0.1", "1e-05"),
        flops_per_element=5,
        kernels=(Kernel("MIOpenBatchNormFwdTrainSpatial"),),
        python_frames=_BATCH_NORM_FRAMES,
        dispatch=("aten::batch_norm", "aten::_batch_norm_impl_index", "aten::miopen_batch_norm"),
    ),
    "layer_norm_native": OpKind(
        name="aten::layer_norm",
        arguments="activation list feature feature number number",
        also_moved="activation row_stat row_stat",
        settings=("[{N}]", "1e-05", "True"),
        flops_per_element=5,
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
        dispatch=("aten::layer_norm", "aten::native_layer_norm"),
    ),
    "layer_norm_triton": OpKind(
        name="triton_per_fused_add_native_layer_norm_3",
        arguments="activation activation feature feature number number",
        also_moved="activation activation",
        settings=("{R}", "{N}"),
        flops_per_element=6,
        kernels=(Kernel("triton_per_fused_add_native_layer_norm_3"),),
        python_frames=("torchinductor/output_code.py(187): call",),
        dispatch=("triton_per_fused_add_native_layer_norm_3",),
        has_model=False,
    ),
    "rms_norm_native": OpKind(
        name="aten::_fused_rms_norm",
        arguments="activation list feature number",
        also_moved="activation row_stat",
        settings=("[{N}]", "1e-06"),
        flops_per_element=4,
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
        dispatch=("aten::rms_norm", "aten::_fused_rms_norm"),
    ),
    "rms_norm_aiter": OpKind(
        name="aiter::rmsnorm2d_fwd_with_add",
        arguments="activation activation activation activation feature number number",
        also_moved="",  # the two results are arguments
        settings=("1e-06", "0"),
        flops_per_element=5,
        kernels=(
            Kernel("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_"),
        ),
        python_frames=("aiter/ops/rmsnorm.py(76): rmsnorm2d_fwd_with_add",),
        dispatch=("aiter::rmsnorm2d_fwd_with_add",),
    ),
    "group_norm_native": OpKind(
        name="aten::group_norm",
        arguments="activation number channel channel number number",
        also_moved="activation group_stat group_stat",
        settings=(str(GROUPS), "1e-06", "True"),
        flops_per_element=5,
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
        dispatch=("aten::group_norm", "aten::native_group_norm"),
    ),
    "instance_norm_native": OpKind(
        name="aten::instance_norm",
        arguments="activation absent absent absent absent number number number number",
        also_moved="activation instance_stat instance_stat",
        settings=("True", "0.1", "1e-05", "True"),
        flops_per_element=5,
        kernels=(Kernel(_COLLECT_STATISTICS, 0.58), Kernel(_TRANSFORM_INPUT, 0.42)),
        python_frames=(
            "torch/nn/modules/instancenorm.py(124): forward",
            "torch/nn/functional.py(2887): instance_norm",
        ),
        dispatch=("aten::instance_norm", "aten::batch_norm", "aten::native_batch_norm"),
    ),
    "batch_norm_backward_native": OpKind(
        name="aten::native_batch_norm_backward",
        arguments=(
            "activation activation channel channel_unread channel_unread channel_stat channel_stat "
            "number number list"
        ),
        also_moved="activation channel channel",
        settings=("True", "1e-05", "[True, True, True]"),
        flops_per_element=9,
        kernels=(Kernel(_AT + "batch_norm_backward_kernel<{T}, {T}, float, int>(...)"),),
        dispatch=(
            "autograd::engine::evaluate_function: NativeBatchNormBackward0",
            "NativeBatchNormBackward0",
            "aten::native_batch_norm_backward",
        ),
    ),
    "batch_norm_backward_miopen": OpKind(
        name="aten::miopen_batch_norm_backward",
        arguments=(
            "activation activation channel channel_unread channel_unread channel_stat channel_stat number"
        ),
        also_moved="activation channel channel",
        settings=("1e-05",),
        flops_per_element=9,
        kernels=(Kernel("MIOpenBatchNormBwdSpatial"),),
        dispatch=(
            "autograd::engine::evaluate_function: MiopenBatchNormBackward0",
            "MiopenBatchNormBackward0",
            "aten::miopen_batch_norm_backward",
        ),
    ),
    "layer_norm_backward_native": OpKind(
        name="aten::native_layer_norm_backward",
        arguments="activation activation list row_stat row_stat feature feature_unread list",
        also_moved="activation feature feature",
        settings=("[{N}]", "[True, True, True]"),
        flops_per_element=9,
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
        dispatch=(
            "autograd::engine::evaluate_function: NativeLayerNormBackward0",
            "NativeLayerNormBackward0",
            "aten::native_layer_norm_backward",
        ),
    ),
    "rms_norm_backward_native": OpKind(
        name="aten::_fused_rms_norm_backward",
        arguments="activation activation list row_stat feature list",
        also_moved="activation feature",
        settings=("[{N}]", "[True, True]"),
        flops_per_element=8,
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
        dispatch=(
            "autograd::engine::evaluate_function: FusedRmsNormBackward0",
            "FusedRmsNormBackward0",
            "aten::_fused_rms_norm_backward",
        ),
    ),
    "group_norm_backward_native": OpKind(
        name="aten::native_group_norm_backward",
        arguments="activation activation group_stat group_stat channel number number number number list",
        also_moved="activation channel channel",
        settings=("{B}", "{C}", "{HW}", str(GROUPS), "[True, True, True]"),
        flops_per_element=9,
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
        dispatch=(
            "autograd::engine::evaluate_function: NativeGroupNormBackward0",
            "NativeGroupNormBackward0",
            "aten::native_group_norm_backward",
        ),
    ),
}
"""Every simulated op by a short key. Argument positions follow the PyTorch and AITER op schemas."""
