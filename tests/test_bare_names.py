"""The bare name of a kernel: its function, from demangled and mangled names of all kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.norms.bare_names import bare_kernel_name

BARE = (
    (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
        "vectorized_layer_norm_kernel",
    ),
    (
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
        "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
        "fused_add_rms_norm_kernel",
    ),
    ("void <unnamed>::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16>(cutlass_80_tensorop_bf16::Params)", "Kernel2"),
    ("unsigned int ns::Outer<float>::inner<2>(int)", "inner"),
    ("rms_norm(float*, int) [clone .kd]", "rms_norm"),
    ("attn_fwd.kd", "attn_fwd"),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "triton_red_fused_add_mean_mul_pow_rsqrt_0"),
    ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_1"),
    ("Cijk_Ailk_Bljk_BBS_BH_MT128x128", "Cijk_Ailk_Bljk_BBS_BH_MT128x128"),
    # Kernels that run what they are given
    (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::(anonymous "
        "namespace)::GroupNormKernelImplInternal<float>(at::Tensor const&)::{lambda(float)#1}>>(int)",
        "elementwise_kernel (GroupNormKernelImplInternal)",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
        "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int)",
        "vectorized_elementwise_kernel (MulFunctor)",
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >()",
        "reduce_kernel (MeanOps)",
    ),
    ("void at::native::reduce_kernel<512, 1>(int)", "reduce_kernel"),
    ("void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<float> >(int)", "Rmsnorm2dFwd"),
    # Mangled
    ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1EEEvPT0_", "add_rmsnorm_quant_kernel"),
    ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassEEEEEvT_", "Rmsnorm2dFwd"),
    (
        "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb1EEEvi",
        "vectorized_layer_norm_kernel",
    ),
    (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
        "vectorized_elementwise_kernel (FillFunctor)",
    ),
    ("_Z8attn_fwdPf", "attn_fwd"),
    # Broken
    ("", ""),
    ("((((", "(((("),
    ("_Z", "_Z"),
    ("_Z99short", "_Z99short"),
    ("kernel<<<a>(", "kernel"),
    ("void\n\nkernel>>(int", "kernel"),
)


@pytest.mark.parametrize(("name", "bare"), BARE, ids=[bare or "nothing" for _, bare in BARE])
def test_the_function_is_left(name: str, bare: str) -> None:
    assert bare_kernel_name(name) == bare


@pytest.mark.parametrize(
    "unit", ["<(", ")>", "_Z", "_ZS", "_Z9", "elementwise_kernel<", "(anonymous)::", "a:"]
)
def test_long_names_are_read(unit: str) -> None:
    """Work that began again from every place would not return."""
    assert bare_kernel_name(unit * 50_000)


@given(st.text(alphabet="_ZNIE019S<>(){}[]:. ab\n", min_size=1))
def test_any_name_has_a_bare_name(name: str) -> None:
    assert bare_kernel_name(name)
