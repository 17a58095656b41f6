"""The truth behind the sample: a device that does not exist and the normalization calls of one training step.

The step trains an image encoder (BatchNorm), a transformer (LayerNorm, RMSNorm), a diffusion decoder
(GroupNorm) and a style head (InstanceNorm) in four micro-batches, next to a frozen text encoder that only
runs forward and has some RMS norms written out in Python. Every figure is made up: it is chosen so that each
kind of finding occurs.
"""

import msgspec

from normscope.sample.arguments import Dtype, Shape

PLATFORM = "Simulated GPU (no real device)"
PEAK_HBM_BW_TBS = 4.0
MEMORY_GB = 96
COMPUTE_UNITS = 200
LAST_LEVEL_CACHE_BYTES = 64 * 2**20
PEAK_TFLOPS = {
    "matrix_fp16": 600,
    "matrix_bf16": 600,
    "matrix_fp32": 120,
    "vector_fp16": 120,
    "vector_bf16": 120,
    "vector_fp32": 60,
}


class NormCall(msgspec.Struct, frozen=True):
    """All calls of one op with one shape.

    ``efficiency_percent`` is the achieved share of peak bandwidth of the mean call, and ``variation`` the
    standard deviation of the kernel time divided by its mean. A norm written out in Python achieves its share
    with all that its kernels move, not with what one kernel would.
    """

    op: str
    shape: Shape
    dtype: Dtype
    calls: int
    efficiency_percent: float
    variation: float
    module: str


_STEM = "ImageEncoder > Stem > BatchNorm2d"
_BOTTLENECK = "ImageEncoder > Stage > Bottleneck > BatchNorm2d"
_BLOCK = "Transformer > Block > LayerNorm"
_QUERY_KEY = "Transformer > Block > Attention > RMSNorm"
_TEXT_ADD = "FrozenTextEncoder > Layer > AddRMSNorm"
_TEXT_COMPILED = "FrozenTextEncoder > CompiledPrefix > AddLayerNorm"
_TEXT_PLAIN = "FrozenTextEncoder > Layer > LayerNorm"
_TEXT_WRITTEN_OUT = "FrozenTextEncoder > Layer > TextRMSNorm"
_DECODER = "DiffusionDecoder > UpBlock > ResidualBlock > GroupNorm"
_STYLE = "StyleHead > ConvBlock > InstanceNorm2d"
_HEATMAP = "HeatmapHead > BatchNorm2d"

FORWARD = (
    NormCall("batch_norm_native", (64, 256, 56, 56), "bf16", 16, 8.75, 1.25, _BOTTLENECK),
    NormCall("batch_norm_native", (64, 64, 112, 112), "bf16", 4, 9.0, 0.06, _STEM),
    NormCall("batch_norm_native", (64, 512, 28, 28), "bf16", 20, 19.0, 0.09, _BOTTLENECK),
    NormCall("batch_norm_native", (64, 128, 28, 28), "bf16", 28, 21.0, 0.05, _BOTTLENECK),
    NormCall("batch_norm_native", (64, 256, 14, 14), "bf16", 44, 14.0, 0.11, _BOTTLENECK),
    NormCall("batch_norm_native", (64, 2048, 7, 7), "bf16", 12, 28.0, 0.07, _BOTTLENECK),
    NormCall("batch_norm_miopen", (16, 128, 128, 128), "fp32", 16, 46.0, 0.04, _HEATMAP),
    NormCall("layer_norm_native", (16, 1024, 1024), "bf16", 48, 71.0, 0.08, _BLOCK),
    NormCall("rms_norm_native", (8, 16, 1024, 64), "bf16", 48, 134.0, 0.12, _QUERY_KEY),
    NormCall("rms_norm_aiter", (8192, 4096), "bf16", 16, 44.0, 0.03, _TEXT_ADD),
    NormCall("layer_norm_triton", (8192, 4096), "bf16", 20, 38.0, 0.05, _TEXT_COMPILED),
    NormCall("group_norm_native", (16, 320, 64, 64), "bf16", 16, 36.0, 0.06, _DECODER),
    NormCall("group_norm_copied", (16, 640, 32, 32), "bf16", 20, 27.0, 0.07, _DECODER),
    NormCall("group_norm_native", (16, 1280, 16, 16), "bf16", 24, 18.0, 0.10, _DECODER),
    NormCall("instance_norm_native", (8, 64, 256, 256), "bf16", 8, 22.0, 0.15, _STYLE),
    NormCall("layer_norm_unrecorded", (8192, 4096), "bf16", 8, 55.0, 0.05, _TEXT_PLAIN),
    NormCall("rms_norm_unfused", (8192, 4096), "bf16", 6, 68.0, 0.04, _TEXT_WRITTEN_OUT),
)

BACKWARD = (
    NormCall("batch_norm_backward_native", (64, 256, 56, 56), "bf16", 16, 42.0, 0.08, _BOTTLENECK),
    NormCall("batch_norm_backward_native", (64, 64, 112, 112), "bf16", 4, 16.0, 0.05, _STEM),
    NormCall("batch_norm_backward_native", (64, 512, 28, 28), "bf16", 20, 48.0, 0.10, _BOTTLENECK),
    NormCall("batch_norm_backward_native", (64, 128, 28, 28), "bf16", 28, 25.0, 0.06, _BOTTLENECK),
    NormCall("batch_norm_backward_native", (64, 256, 14, 14), "bf16", 44, 20.0, 0.07, _BOTTLENECK),
    NormCall("instance_norm_backward_native", (1, 512, 256, 256), "bf16", 8, 24.0, 0.12, _STYLE),
    NormCall("batch_norm_backward_miopen", (16, 128, 128, 128), "fp32", 16, 58.0, 0.04, _HEATMAP),
    NormCall("layer_norm_backward_native", (16, 1024, 1024), "bf16", 48, 61.0, 0.07, _BLOCK),
    NormCall("rms_norm_backward_native", (8, 16, 1024, 64), "bf16", 48, 62.0, 0.09, _QUERY_KEY),
    NormCall("group_norm_backward_native", (16, 320, 64, 64), "bf16", 16, 33.0, 0.06, _DECODER),
    NormCall("group_norm_backward_native", (16, 640, 32, 32), "bf16", 20, 29.0, 0.08, _DECODER),
    NormCall("group_norm_backward_native", (16, 1280, 16, 16), "bf16", 24, 19.5, 0.09, _DECODER),
)
"""InstanceNorm runs as a BatchNorm over one sample, so the style head has a BatchNorm backward."""
