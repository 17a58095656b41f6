"""Kernels that no op launched, told by their names: what is a norm layer and what only sounds like one."""

import pytest

from normscope.norms.kernel_names import is_norm_kernel

NORMS = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int)",
    "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float, float const*)",
    "void at::native::(anonymous namespace)::ComputeFusedParamsCUDAKernel<float>(long, long, long)",
    "void at::native::(anonymous namespace)::ComputeInternalGradientsCUDAKernel<float>(long)",
    "void at::native::(anonymous namespace)::ComputeBackwardFusedParamsCUDAKernel<float>(long)",
    "void at::native::(anonymous namespace)::GammaBetaBackwardSimpleCUDAKernel<float, float, false>(long)",
    "void at::native::batch_norm_collect_statistics_channels_last_kernel<float>(int)",
    "MIOpenBatchNormFwdTrainSpatialMeanVariance",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)",
    "void cudnn::batchnorm_bwtr_nhwc_semiPersist<__half>(int)",
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)",
    "void ck_tile::kentry<ck_tile::Rmsnorm2dFwd<float>>(int)",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_",
    "groupnorm_kernel_dispatch_up",
    "void flash_attn::ln_fwd_kernel<float>(int)",
    "_ln_fwd_kernel::ln_bwd_kernel",
    "void apex::cuApplyRMSNorm<float>(int)",
    "void cuComputeGradInput<float>(int)",
    "l2norm_fwd_kernel",
    "fused_residual_ln",
    "triton_red_fused_add_addmm_mul_native_layer_norm_split_unsqueeze_view_16",
    "triton_red_fused_add_mean_mul_pow_rsqrt_0",
    "triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_3",
    "moe_renormalize_then_rms_norm_kernel_renorm_rms_norm",
)
OTHERS = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float>>>(int)",
    "void at::native::(anonymous namespace)::renorm_kernel<float>(int)",
    "routingRenormalize",
    "void at::native::distribution_elementwise_grid_stride_kernel<float, normal_>(int)",
    "void at::native::weight_norm_fwd_first_dim_kernel<float>(int)",
    "multi_tensor_l2norm_kernel",
    "lpnorm_cleanup_v2",
    "void at::native::vectorized_elementwise_kernel<4, rsqrt_kernel_cuda>(int)",
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "triton_poi_fused_mul_silu_0",
    "Memset (Device)",
    "",
)


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_kernel_is_known_by_its_name(name: str) -> None:
    assert is_norm_kernel(name)


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_sounds_like_a_norm_is_none(name: str) -> None:
    assert not is_norm_kernel(name)
