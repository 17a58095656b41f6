"""A norm written out in Python: the small ops that it is made of, each with a kernel of its own.

Ops that launch nothing, such as the one that makes room for a result, are left out.
"""

import math

import msgspec

from normscope.sample.arguments import Dtype, Shape
from normscope.sample.ops import OpLink, workgroups_for
from normscope.sample.recorded import TENSORS

SHORTEST_KERNEL_NS = 4_000
"""What a kernel takes that moves next to nothing."""


class SmallOp(msgspec.Struct, frozen=True, kw_only=True):
    """One small op.

    ``chain`` holds it and the ops nested in it, the outermost first; the kernel is launched by the last.
    ``reads`` and ``writes`` are the words of the tensors that the kernel reads and writes.
    """

    chain: tuple[OpLink, ...]
    kernel: str
    reads: str
    writes: str

    def bytes_moved(self, shape: Shape, dtype: Dtype) -> int:
        """Return what the kernel reads and writes."""
        words = f"{self.reads} {self.writes}".split()
        return sum(TENSORS[word].size_bytes(shape, dtype) for word in words)

    def workgroups(self, shape: Shape) -> int:
        """Return how many workgroups cover the largest tensor."""
        words = f"{self.reads} {self.writes}".split()
        return workgroups_for(max(math.prod(TENSORS[word].shape(shape)) for word in words))

    def duration_ns(self, shape: Shape, dtype: Dtype, bytes_per_ns: float) -> int:
        """Return how long the kernel takes at a bandwidth."""
        return max(round(self.bytes_moved(shape, dtype) / bytes_per_ns), SHORTEST_KERNEL_NS)


def _cast(source: str, target: str, type_code: str, kernel: str) -> SmallOp:
    """Return a cast; ``type_code`` is PyTorch's number of the type that it casts to."""
    return SmallOp(
        chain=(
            ("aten::to", f"{source} {type_code} False False absent"),
            ("aten::_to_copy", f"{source} {type_code} absent absent absent False absent"),
            ("aten::copy_", f"{target} {source} False"),
        ),
        kernel=kernel,
        reads=source,
        writes=target,
    )


def _elementwise(name: str, words: str, kernel: str, reads: str, writes: str) -> SmallOp:
    return SmallOp(chain=((name, words),), kernel=kernel, reads=reads, writes=writes)


_VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, at::native::"
_PRODUCT = (
    "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<"
    "at::native::BinaryFunctor<{t}, {t}, {t}, at::native::binary_internal::MulFunctor<float>>>(...)>"
    "(int, ...)"
)

RMS_NORM = (
    _cast(
        *("activation", "activation_fp32", "6"),
        "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl<"
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>(...)>(int, ...)",
    ),
    _elementwise(
        *("aten::pow", "activation_fp32 2"),
        _VECTORIZED + "(anonymous namespace)::pow_tensor_scalar_kernel_impl<float, float>(...), ...>(...)",
        *("activation_fp32", "activation_fp32"),
    ),
    _elementwise(
        *("aten::mean", "activation_fp32 [-1] True absent"),
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
        "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>>(...)",
        *("activation_fp32", "row_stat"),
    ),
    _elementwise(
        *("aten::add", "row_stat number 1"),
        _VECTORIZED + "CUDAFunctorOnSelf_add<float>, ...>(int, ...)",
        *("row_stat", "row_stat"),
    ),
    _elementwise(
        *("aten::rsqrt", "row_stat"),
        _VECTORIZED + "rsqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, ...>(int, ...)",
        *("row_stat", "row_stat"),
    ),
    _elementwise(
        *("aten::mul", "activation_fp32 row_stat"),
        _PRODUCT.replace("{t}", "float"),
        *("activation_fp32 row_stat", "activation_fp32"),
    ),
    _cast(
        *("activation_fp32", "activation", "15"),
        _VECTORIZED + "bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, ...>(int, ...)",
    ),
    _elementwise(
        *("aten::mul", "feature activation"),
        _PRODUCT.replace("{t}", "c10::BFloat16"),
        *("feature activation", "activation"),
    ),
)
"""An RMS norm of a bf16 activation that is computed in fp32 and gets its weight in bf16, as Llama has it."""
