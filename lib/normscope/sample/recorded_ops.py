"""How each simulated op appears in a profiler trace: its nested ops, their arguments and its kernels."""

import msgspec

from normscope.sample import unfused
from normscope.sample.ops import OP_KINDS, Kernel, OpLink
from normscope.sample.recorded import Event


class RecordedKind(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run an op.

    ``chain`` holds the nested ops, the outermost first; the kernels are launched by the last. Autograd knows
    the outermost ``autograd_depth`` of them, so these have a sequence number in training. ``backward``
    is the key of the kind that autograd runs for it. A backward kind has the ``node`` of autograd that calls
    it, the incoming gradients ``grads`` of that node and the parameters whose gradients it computes.
    ``innermost_details`` is what the last op of the chain has besides its arguments.
    A norm written out in Python has ``small_ops`` in place of a chain and of kernels.
    ``{T}`` in a kernel's name stands for the C++ type of the activation, ``{t}`` for its short name.
    """

    chain: tuple[OpLink, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    small_ops: tuple[unfused.SmallOp, ...] = ()
    variant: str = ""
    library: str = "PyTorch Native"
    frames: tuple[str, ...] = ()
    backward: str = ""
    node: str = ""
    grads: str = "activation"
    parameters: str = ""
    launch_call: str = "hipLaunchKernel"
    has_arguments: bool = True
    autograd_depth: int = 4
    innermost_details: Event = {}

    @property
    def direction(self) -> str:
        """``forward`` or ``backward``."""
        return "backward" if self.node else "forward"


_EPS = "1.0000000000000001e-05"
_EPS_SMALL = "9.9999999999999995e-07"
_BATCH_NORM = f"activation channel channel channel channel True 0.10000000000000001 {_EPS}"
_INSTANCE_NORM = f"absent absent absent absent True 0.10000000000000001 {_EPS}"
_BATCH_NORM_BACKWARD = "activation activation channel channel channel channel_stat channel_stat"
_LAYER_NORM = f"activation [{{N}}] feature feature {_EPS}"
_RMS_NORM = f"activation [{{N}}] feature {_EPS_SMALL}"
_GROUP_NORM = f"channel channel {{B}} {{C}} {{HW}} {{G}} {_EPS_SMALL}"


def _batch_norm_chain(inner: str) -> tuple[OpLink, ...]:
    outer = ("aten::batch_norm", "aten::_batch_norm_impl_index")
    return (*((name, f"{_BATCH_NORM} True") for name in outer), (inner, _BATCH_NORM))


def _layer_norm(*, has_arguments: bool, backward: str) -> RecordedKind:
    kind = OP_KINDS["layer_norm_native"]
    return RecordedKind(
        chain=(("aten::layer_norm", f"{_LAYER_NORM} True"), ("aten::native_layer_norm", _LAYER_NORM)),
        kernels=kind.kernels,
        variant="LayerNorm",
        frames=kind.python_frames,
        backward=backward,
        has_arguments=has_arguments,
    )


def _group_norm(activation: str) -> RecordedKind:
    kind = OP_KINDS["group_norm_native"]
    return RecordedKind(
        chain=(
            ("aten::group_norm", f"{activation} {{G}} channel channel {_EPS_SMALL} True"),
            ("aten::native_group_norm", f"{activation} {_GROUP_NORM}"),
        ),
        kernels=kind.kernels,
        variant="GroupNorm",
        frames=kind.python_frames,
        backward="group_norm_backward_native",
    )


NORM_KINDS = {
    "batch_norm_native": RecordedKind(
        chain=_batch_norm_chain("aten::native_batch_norm"),
        kernels=OP_KINDS["batch_norm_native"].kernels,
        variant="BatchNorm",
        frames=OP_KINDS["batch_norm_native"].python_frames,
        backward="batch_norm_backward_native",
    ),
    "batch_norm_miopen": RecordedKind(
        chain=_batch_norm_chain("aten::miopen_batch_norm"),
        kernels=(
            Kernel("MIOpenBatchNormFwdTrainSpatialMeanVariance", 0.5),
            Kernel("MIOpenBatchNormFwdTrainSpatialFinalMeanVariance", 0.05),
            Kernel("MIOpenBatchNormFwdTrainSpatialNorm", 0.45),
        ),
        variant="BatchNorm",
        library="MIOpen",
        frames=OP_KINDS["batch_norm_miopen"].python_frames,
        backward="batch_norm_backward_miopen",
        launch_call="hipExtModuleLaunchKernel",
    ),
    "layer_norm_native": _layer_norm(has_arguments=True, backward="layer_norm_backward_native"),
    "layer_norm_unrecorded": _layer_norm(has_arguments=False, backward=""),
    "layer_norm_triton": RecordedKind(
        chain=(
            ("Torch-Compiled Region: 0/0", ""),
            (
                "triton_per_fused_add_native_layer_norm_3",
                "activation activation activation activation feature feature {R} {N}",
            ),
        ),
        kernels=OP_KINDS["layer_norm_triton"].kernels,
        variant="LayerNorm",
        library="Triton",
        frames=OP_KINDS["layer_norm_triton"].python_frames,
        launch_call="hipModuleLaunchKernel",
        innermost_details={
            "num_warps": 8,
            "stream": 0,
            "kernel_backend": "triton",
            "kernel_name": "triton_per_fused_add_native_layer_norm_3",
            "kernel_kwargs": "XBLOCK=1",
            "num_stages": 1,
            "kernel_file": "simulated/triton_per_fused_add_native_layer_norm_3.py",
            "kernel_hash": "simulated",
        },
    ),
    "rms_norm_native": RecordedKind(
        chain=(("aten::rms_norm", _RMS_NORM), ("aten::_fused_rms_norm", _RMS_NORM)),
        kernels=OP_KINDS["rms_norm_native"].kernels,
        variant="RMSNorm",
        frames=OP_KINDS["rms_norm_native"].python_frames,
        backward="rms_norm_backward_native",
    ),
    "rms_norm_aiter": RecordedKind(
        chain=(("aiter::add_rmsnorm", f"activation activation activation activation feature {_EPS_SMALL}"),),
        kernels=OP_KINDS["rms_norm_aiter"].kernels,
        variant="RMSNorm",
        library="AITER",
        frames=OP_KINDS["rms_norm_aiter"].python_frames,
    ),
    "rms_norm_unfused": RecordedKind(
        small_ops=unfused.RMS_NORM,
        variant="RMSNorm",
        frames=("text_encoder.py(31): forward",),
    ),
    "group_norm_native": _group_norm("activation"),
    "group_norm_copied": _group_norm("channels_last"),
    "instance_norm_native": RecordedKind(
        chain=(
            ("aten::instance_norm", f"activation {_INSTANCE_NORM} True"),
            ("aten::batch_norm", f"instance_view {_INSTANCE_NORM} True"),
            ("aten::_batch_norm_impl_index", f"instance_view {_INSTANCE_NORM} True"),
            ("aten::native_batch_norm", f"instance_view {_INSTANCE_NORM}"),
        ),
        kernels=OP_KINDS["instance_norm_native"].kernels,
        variant="InstanceNorm",
        frames=OP_KINDS["instance_norm_native"].python_frames,
        backward="instance_norm_backward_native",
    ),
    "batch_norm_backward_native": RecordedKind(
        chain=(("aten::native_batch_norm_backward", f"{_BATCH_NORM_BACKWARD} True {_EPS} [True,True,True]"),),
        kernels=OP_KINDS["batch_norm_backward_native"].kernels,
        variant="BatchNorm",
        node="NativeBatchNormBackward0",
        parameters="channel channel",
    ),
    "instance_norm_backward_native": RecordedKind(
        chain=(
            (
                "aten::native_batch_norm_backward",
                "activation activation absent absent absent channel_stat channel_stat "
                f"True {_EPS} [True,False,False]",
            ),
        ),
        kernels=OP_KINDS["batch_norm_backward_native"].kernels,
        variant="BatchNorm",
        node="NativeBatchNormBackward0",
    ),
    "batch_norm_backward_miopen": RecordedKind(
        chain=(("aten::miopen_batch_norm_backward", f"{_BATCH_NORM_BACKWARD} {_EPS}"),),
        kernels=OP_KINDS["batch_norm_backward_miopen"].kernels,
        variant="BatchNorm",
        library="MIOpen",
        node="MiopenBatchNormBackward0",
        parameters="channel channel",
        launch_call="hipExtModuleLaunchKernel",
    ),
    "layer_norm_backward_native": RecordedKind(
        chain=(
            (
                "aten::native_layer_norm_backward",
                "activation activation [{N}] row_stat row_stat feature feature [True,True,True]",
            ),
        ),
        kernels=OP_KINDS["layer_norm_backward_native"].kernels,
        variant="LayerNorm",
        node="NativeLayerNormBackward0",
        parameters="feature feature",
    ),
    "rms_norm_backward_native": RecordedKind(
        chain=(
            (
                "aten::_fused_rms_norm_backward",
                "activation activation [{N}] row_stat feature [True,True]",
            ),
        ),
        kernels=OP_KINDS["rms_norm_backward_native"].kernels,
        variant="RMSNorm",
        node="FusedRmsNormBackward0",
        parameters="feature",
        grads="activation absent",
    ),
    "group_norm_backward_native": RecordedKind(
        chain=(
            (
                "aten::native_group_norm_backward",
                "activation activation group_stat group_stat channel {B} {C} {HW} {G} [True,True,True]",
            ),
        ),
        kernels=OP_KINDS["group_norm_backward_native"].kernels,
        variant="GroupNorm",
        node="NativeGroupNormBackward0",
        parameters="channel channel",
        grads="activation absent absent",
    ),
}
"""Every simulated normalization by a short key, with the schemas of the ATen ops and of AITER's."""

_CONV = "activation conv_weight absent [1,1] [1,1] [1,1]"
_CLAMP = "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar({T}), ...>(...)"

OTHER_KINDS = {
    "conv": RecordedKind(
        chain=(
            ("aten::conv2d", f"{_CONV} 1"),
            ("aten::convolution", f"{_CONV} False [0,0] 1"),
            ("aten::_convolution", f"{_CONV} False [0,0] 1 False False True True"),
            ("aten::miopen_convolution", "activation conv_weight absent [1,1] [1,1] [1,1] 1 False False"),
        ),
        kernels=(Kernel("igemm_fwd_gtcx3_nhwc_{t}_bx0_ex1_bt256x128x32_wt32x32x8_ws1x1_wr2x2"),),
        frames=("torch/nn/modules/conv.py(564): forward", "torch/nn/modules/conv.py(546): _conv_forward"),
        backward="conv_backward",
        autograd_depth=2,
        launch_call="hipExtModuleLaunchKernel",
    ),
    "conv_backward": RecordedKind(
        chain=(
            (
                "aten::convolution_backward",
                "activation activation conv_weight [0] [1,1] [1,1] [1,1] False [0,0] 1 [True,True,False]",
            ),
        ),
        kernels=(
            Kernel("igemm_bwd_gtcx3_nhwc_{t}_bx0_ex1_bt256x128x32_wt32x32x8_ws1x1_wr2x2", 0.5),
            Kernel("igemm_wrw_gtcx3_nhwc_{t}_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2", 0.5),
        ),
        node="ConvolutionBackward0",
        parameters="conv_weight",
        launch_call="hipExtModuleLaunchKernel",
    ),
    "linear": RecordedKind(
        chain=(
            ("aten::linear", "activation linear_weight feature"),
            ("aten::addmm", "feature rows linear_weight 1 1"),
        ),
        kernels=(Kernel("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN"),),
        frames=("torch/nn/modules/linear.py(134): forward",),
        backward="linear_backward",
        launch_call="hipExtModuleLaunchKernel",
    ),
    "linear_backward": RecordedKind(
        chain=(("aten::mm", "rows linear_weight"),),
        kernels=(
            Kernel("Cijk_Ailk_Bljk_BBS_BH_UserArgs_MT256x256x64_MI16x16x1_SN", 0.5),
            Kernel("Cijk_Ailk_Bjlk_BBS_BH_UserArgs_MT256x192x64_MI16x16x1_SN", 0.5),
        ),
        node="AddmmBackward0",
        parameters="linear_weight feature",
        grads="rows",
        launch_call="hipExtModuleLaunchKernel",
    ),
    "relu": RecordedKind(
        chain=(("aten::relu", "activation"), ("aten::clamp_min", "activation 0")),
        kernels=(Kernel(_CLAMP),),
        frames=("torch/nn/modules/activation.py(144): forward",),
        backward="relu_backward",
        autograd_depth=1,
    ),
    "relu_backward": RecordedKind(
        chain=(("aten::threshold_backward", "activation activation 0"),),
        kernels=(
            Kernel(
                "void at::native::vectorized_elementwise_kernel<4, at::native::threshold_kernel<{T}>>(...)"
            ),
        ),
        node="ReluBackward0",
    ),
}
"""What else the simulated model runs."""
