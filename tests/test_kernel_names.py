"""What a kernel's name tells: whether it is of a norm layer, of which, in which pass, and what it fuses."""

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.norms.kernel_names import KernelNorm, is_norm_kernel, read_kernel
from normscope.trace.read import read_trace
from real_traces import TRACES

ATEN = "void at::native::(anonymous namespace)::"
ADD_RMS = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16E"
AITER = "void aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 256, 16, "
TE = "void transformer_engine::normalization::"
AR = "void flashinfer::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::AllReduceFusionPattern)"

# By library: the name, then variant, direction and fused work as its source or a real trace has them.
BY_LIBRARY: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    # PyTorch: BatchNorm
    ("void at::native::batch_norm_collect_statistics_channels_last_kernel<V>(int)", "BatchNorm", "f", ()),
    ("void at::native::batch_norm_transform_input_channels_last_kernel<float>(int)", "BatchNorm", "f", ()),
    ("void at::native::batch_norm_reduce_statistics_kernel<float>(int)", "SyncBatchNorm", "f", ()),
    ("void at::native::batch_norm_backward_reduce_channels_last_kernel<4>(int)", "BatchNorm", "b", ()),
    ("void at::native::batch_norm_backward_elemt_kernel<float>(int)", "BatchNorm", "b", ()),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
        "batch_norm_elementwise_backward_eval(at::Tensor const&)::{lambda(float)#1}>(int)",
        "BatchNorm",
        "b",
        (),
    ),
    # PyTorch: LayerNorm, and RMSNorm in the same functions
    (f"{ATEN}vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)", "LayerNorm", "f", ()),
    (f"{ATEN}vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int)", "LayerNorm", "f", ()),
    (f"{ATEN}vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int)", "RMSNorm", "f", ()),
    (f"{ATEN}vectorized_layer_norm_kernel<float, float, (bool)1>(int)", "RMSNorm", "f", ()),
    (f"{ATEN}RowwiseMomentsCUDAKernel<c10::BFloat16, float>(long)", "LayerNorm", "f", ()),
    (f"{ATEN}RowwiseMomentsCUDAKernel<float, float, true>(long)", "RMSNorm", "f", ()),
    (f"{ATEN}LayerNormForwardCUDAKernel<float, float, true>(long)", "RMSNorm", "f", ()),
    (f"{ATEN}layer_norm_grad_input_kernel_vectorized<float, float, true>(int)", "RMSNorm", "b", ()),
    (f"{ATEN}layer_norm_grad_input_kernel_vectorized<float, float, false>(int)", "LayerNorm", "b", ()),
    (f"{ATEN}cuComputePartGradGammaBeta<float, float, true>(int)", "RMSNorm", "b", ()),
    (f"{ATEN}cuComputeGradGammaBeta<float, float>(int)", "LayerNorm", "b", ()),
    (f"{ATEN}GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, true, true>(long)", "RMSNorm", "b", ()),
    (f"{ATEN}GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, true, false>()", "LayerNorm", "b", ()),
    (f"{ATEN}GammaBetaBackwardCUDAKernel_32x32<float, float>(long)", "LayerNorm", "b", ()),
    (f"{ATEN}GammaBetaBackwardSimpleCUDAKernel<float, float, false>(long)", "LayerNorm", "b", ()),
    (
        "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb1EEEviT0_PKT_S6_S6_",
        "RMSNorm",
        "f",
        (),
    ),
    (
        "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb0EEEviT0_PKT_S6_S6_",
        "LayerNorm",
        "f",
        (),
    ),
    # PyTorch: GroupNorm
    (f"{ATEN}RowwiseMomentsCUDAKernel<c10::BFloat16>(long)", "GroupNorm", "f", ()),
    ("_ZN2at6native12_GLOBAL__N_124RowwiseMomentsCUDAKernelIfEEvlT_PKS3_", "GroupNorm", "f", ()),
    ("_ZN2at6native12_GLOBAL__N_124RowwiseMomentsCUDAKernelIffEEvlT_PKS3_", "LayerNorm", "f", ()),
    (f"{ATEN}ComputeFusedParamsCUDAKernel<float>(long)", "GroupNorm", "f", ()),
    (f"{ATEN}ComputeInternalGradientsCUDAKernel<float>(long)", "GroupNorm", "b", ()),
    (f"{ATEN}ComputeBackwardFusedParamsCUDAKernel<float>(long)", "GroupNorm", "b", ()),
    (f"{ATEN}Compute1dBackwardFusedParamsCUDAKernel<float>(long)", "GroupNorm", "b", ()),
    (f"{ATEN}GammaBetaBackwardCUDAKernel2<float>(long)", "GroupNorm", "b", ()),
    (f"{ATEN}GammaBeta1dBackwardCUDAKernel1<float>(long)", "GroupNorm", "b", ()),
    (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::(anonymous "
        "namespace)::GroupNormKernelImplInternal<float>(at::Tensor const&)::{lambda(float)#1}>>(int)",
        "GroupNorm",
        "f",
        (),
    ),
    (
        f"void at::native::elementwise_kernel<128, {ATEN}GroupNorm1dBackward<float>>(int)",
        "GroupNorm",
        "b",
        (),
    ),
    # cuDNN and MIOpen
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)",
        "BatchNorm",
        "f",
        (),
    ),
    ("_ZN5cudnn20bn_fw_tr_1C11_kernelIfEEv", "BatchNorm", "f", ()),
    ("void cudnn::bn_pointwise<float>(float)", "BatchNorm", "f", ()),
    ("void cudnn::bn_bw_1C11_singleread<float, 512, true>(float)", "BatchNorm", "b", ()),
    ("void cudnn::batchnorm_fwtr_nhwc_semiPersist<__half>(int)", "BatchNorm", "f", ()),
    ("void cudnn::batchnorm_relu_bwtr_nhwc_semiPersist<__half>(int)", "BatchNorm", "b", ("activation",)),
    (
        "void cudnn::batchnorm_add_relu_bwtr_nhwc_semiPersist<__half>(int)",
        "BatchNorm",
        "b",
        ("residual add", "activation"),
    ),
    ("MIOpenBatchNormFwdInferPerActivationEst", "BatchNorm", "f", ()),
    ("MIOpenBatchNormActivInferSpatialEstHIP", "BatchNorm", "f", ("activation",)),
    ("MIOpenBatchNormActivBwdPerActivation", "BatchNorm", "b", ("activation",)),
    ("MIOpenBatchNormBwdSpatialDScaleDBias.kd", "BatchNorm", "b", ()),
    ("AddLayernormFwdContiguous", "LayerNorm", "f", ("residual add",)),
    ("T5LayernormBwdWeightContiguous", "RMSNorm", "b", ()),
    ("GroupNormFwdContiguous", "GroupNorm", "f", ()),
    # Compiled: the variant is told, what is fused is read elsewhere
    ("triton_red_fused_add_addmm_mul_native_layer_norm_split_16", "LayerNorm", "f", ()),
    ("triton_per_fused_native_layer_norm_native_layer_norm_backward_2", "LayerNorm", "b", ()),
    ("triton_per_fused__fused_rms_norm_add_0", "RMSNorm", "f", ()),
    ("triton_per_fused__fused_rms_norm_backward_add_0", "RMSNorm", "b", ()),
    ("triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_silu_3", "RMSNorm", "f", ()),
    ("triton_poi_fused__native_batch_norm_legit_no_training_relu_1", "BatchNorm", "f", ()),
    ("triton_red_fused__native_batch_norm_legit_functional_threshold_backward_4", "BatchNorm", "f", ()),
    ("triton_red_fused__native_batch_norm_legit_functional_repeat_4", "BatchNorm", "f", ()),
    ("triton_red_fused__native_batch_norm_legit_repeat_2", "InstanceNorm", "f", ()),
    ("triton_red_fused_native_batch_norm_backward_2", "BatchNorm", "b", ()),
    ("triton_red_fused_native_group_norm_2", "GroupNorm", "f", ()),
    ("triton_red_fused_native_group_norm_backward_2", "GroupNorm", "b", ()),
    # vLLM, TensorRT-LLM, flashinfer
    ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)", "RMSNorm", "f", ()),
    ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)", "RMSNorm", "f", ("residual add",)),
    (
        "void vllm::fused_add_rms_norm_static_fp8_quant_kernel<c10::BFloat16, 8, c10::Float8_e4m3fn>(int)",
        "RMSNorm",
        "f",
        ("residual add", "fp8 quantization"),
    ),
    (
        "void vllm::rms_norm_dynamic_per_token_quant_kernel<c10::BFloat16, signed char>(int)",
        "RMSNorm",
        "f",
        ("quantization",),
    ),
    (
        "void vllm::rms_norm_kernel<c10::BFloat16, c10::Float8_e4m3fn, 8>(int)",
        "RMSNorm",
        "f",
        ("fp8 quantization",),
    ),
    ("void tensorrt_llm::kernels::fusedQKNormRopeKernel<128, true>(void*)", "RMSNorm", "f", ("RoPE",)),
    (f"{AR}1, __nv_bfloat16>(int)", "RMSNorm", "f", ("all-reduce", "residual add")),
    (f"{AR}2, __nv_bfloat16>(int)", "RMSNorm", "f", ("all-reduce", "residual add", "fp8 quantization")),
    (f"{AR}5, __nv_bfloat16>(int)", "RMSNorm", "f", ("all-reduce", "residual add", "fp4 quantization")),
    ("void flashinfer::norm::RMSNormKernel<8, __nv_bfloat16>(int)", "RMSNorm", "f", ()),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8, __half>(int)", "RMSNorm", "f", ("residual add",)),
    (
        "void flashinfer::norm::RMSNormQuantKernel<8, __half, __nv_fp8_e4m3>(int)",
        "RMSNorm",
        "f",
        ("fp8 quantization",),
    ),
    ("void flashinfer::norm::QKRMSNormKernel<8, __nv_bfloat16>(int)", "RMSNorm", "f", ()),
    ("void generalLayerNorm<__nv_bfloat16>(int)", "LayerNorm", "f", ()),
    # AITER and CK: flags tell what is fused, mangled and not
    (f"{ADD_RMS}Lb0ELb0ELb1ELi1EEEvPT0_PT_", "RMSNorm", "f", ()),
    (f"{ADD_RMS}Lb1ELb0ELb1ELi1EEEvPT0_PT_", "RMSNorm", "f", ("residual add",)),
    (f"{ADD_RMS}Lb0ELb1ELb1ELi1EEEvPT0_PT_", "RMSNorm", "f", ("quantization",)),
    (f"{ADD_RMS}Lb1ELb1ELb0ELi1EEEvPT0_PT_", "RMSNorm", "f", ("residual add", "quantization")),
    (f"{AITER}false, false, true, 1>(int)", "RMSNorm", "f", ()),
    (f"{AITER}true, false, true, 1>(int)", "RMSNorm", "f", ("residual add",)),
    (f"{AITER}false, true, false, 1>(int)", "RMSNorm", "f", ("quantization",)),
    ("void aiter::add_rmsnorm_quant_kernel<__bf16", "RMSNorm", "f", ()),
    (
        "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<(ck_tile::Rmsnorm2dFusedAddEnum)1, "
        "(ck_tile::Rmsnorm2dFusedQuantEnum)2> >(int)",
        "RMSNorm",
        "f",
        ("residual add", "quantization"),
    ),
    (
        "void ck_tile::kentry<1, ck_tile::Layernorm2dFwd<(ck_tile::Layernorm2dFusedAddEnum)0, "
        "(ck_tile::Layernorm2dFusedQuantEnum)0> >(int)",
        "LayerNorm",
        "f",
        (),
    ),
    ("void ck::kernel_normalization<ck::GridwiseNormalizationNaiveVariance<float>>()", "Other", "f", ()),
    ("kernel_gemm_layernorm_xdl_cshuffle", "LayerNorm", "f", ("GEMM",)),
    ("_quant_fused_add_rmsnorm_kernel", "RMSNorm", "f", ("residual add", "quantization")),
    ("_fused_rms_mxfp4_quant_kernel", "RMSNorm", "f", ("fp4 quantization",)),
    ("_rmsnorm_bwd_dg_reduce_triton", "RMSNorm", "b", ()),
    ("local_device_load_rmsnorm_naive", "RMSNorm", "f", ("all-reduce", "residual add")),
    ("qknorm_allreduce_fusion_kernel_1stage", "RMSNorm", "f", ("all-reduce",)),
    ("_fused_add_layernorm_kernel", "LayerNorm", "f", ("residual add",)),
    ("_layernorm_bwd_dwdb_triton", "LayerNorm", "b", ()),
    ("gated_rmsnorm_fp8_group_quant_kernel", "RMSNorm", "f", ("SiLU gate", "fp8 quantization")),
    ("fusedQKNormRopeQuantCacheShuffleKernel", "RMSNorm", "f", ("RoPE", "quantization", "KV cache write")),
    ("fused_rope_rms_2way_kernel", "RMSNorm", "f", ("RoPE",)),
    ("_ZN5aiter30allreduce_fusion_kernel_1stageIDF16bE", "RMSNorm", "f", ("all-reduce",)),
    ("kernel_normalization_f32", "Other", "f", ()),
    ("_fused_ln_modulate_fwd_kernel", "LayerNorm", "f", ("modulation",)),
    ("void (anonymous namespace)::groupnorm_kernel_dispatch_up<float, 1024u>(int)", "GroupNorm", "f", ()),
    # Apex, Transformer Engine, flash-attention, fla
    ("void (anonymous namespace)::cuApplyLayerNorm<float, float, float>(float*)", "LayerNorm", "f", ()),
    ("void (anonymous namespace)::cuApplyRMSNorm<float, float, float>(float*)", "RMSNorm", "f", ()),
    # Apex's last argument says "memory efficient", not RMSNorm.
    ("void cuComputePartGradGammaBeta<float, float, float, true>(float const*)", "LayerNorm", "b", ()),
    ("void cuComputeGradInput<float, float, float, true>(float const*)", "LayerNorm", "b", ()),
    ("void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<768u>>(int)", "LayerNorm", "f", ()),
    ("void layer_norm::ln_bwd_finalize_kernel<float>(layer_norm::BwdParams)", "LayerNorm", "b", ()),
    ("void layer_norm::ln_parallel_residual_fwd_kernel<float>(int)", "LayerNorm", "f", ("residual add",)),
    ("group_norm_nhwc_bwd_one_pass_kernel", "GroupNorm", "b", ()),
    ("void group_norm_v2::gn_cuda_kernel<__nv_bfloat16>(int)", "GroupNorm", "f", ()),
    ("void group_norm_v2::gn_bwd_cuda_kernel<__nv_bfloat16>(int)", "GroupNorm", "b", ()),
    ("void welford_kernel_c_last<float>(int)", "SyncBatchNorm", "f", ()),
    ("void batchnorm_forward_kernel<float, float, float>(int)", "SyncBatchNorm", "f", ()),
    ("void reduce_bn_c_last_kernel<float>(int)", "SyncBatchNorm", "b", ()),
    ("void nhwc_batch_norm_bwd_add_relu<float>(int)", "BatchNorm", "b", ("residual add", "activation")),
    (f"{TE}ln_fwd_tuned_kernel<T<__nv_fp8_e4m3>>(int)", "LayerNorm", "f", ("fp8 quantization",)),
    (f"{TE}rmsnorm_bwd_finalize_general_kernel<T>(int)", "RMSNorm", "b", ()),
    ("_layer_norm_fwd_1pass_kernel", "LayerNorm", "f", ()),
    ("_layer_norm_bwd_kernel", "LayerNorm", "b", ()),
    ("layer_norm_gated_fwd_kernel1", "LayerNorm", "f", ("gate",)),
    ("l2norm_fwd_kernel1", "Other", "f", ()),
    ("l2norm_bwd_kernel", "Other", "b", ()),
    # Liger, unsloth, xformers, DeepSpeed, Triton's tutorial, quack
    ("_block_rms_norm_backward_kernel", "RMSNorm", "b", ()),
    ("_fused_add_rms_norm_backward_kernel", "RMSNorm", "b", ("residual add",)),
    ("_group_norm_forward_kernel", "GroupNorm", "f", ()),
    ("_poly_norm_backward_kernel", "Other", "b", ()),
    ("_modulated_rms_norm_forward_kernel", "RMSNorm", "f", ("modulation",)),
    ("_rms_layernorm_backward", "RMSNorm", "b", ()),
    ("_gemma_rms_layernorm_forward", "RMSNorm", "f", ()),
    ("layernorm_backward", "LayerNorm", "b", ()),
    ("_rms_norm_add_kernel", "RMSNorm", "f", ("residual add",)),
    ("void fused_ln<__half, 2, 4, 256, 8>(__half*)", "LayerNorm", "f", ()),
    ("void fused_residual_ln<__half, true, 2>(__half*)", "LayerNorm", "f", ("residual add",)),
    ("void pre_rms_norm<__half, 2>(__half*)", "RMSNorm", "f", ("residual add",)),
    ("LayerNormBackward2_fused_add", "LayerNorm", "b", ("residual add",)),
    ("_layer_norm_bwd_dx_fused", "LayerNorm", "b", ()),
    ("kernel_cutlass_kernel_quackrmsnormRMSNorm_object_at__tensorptrbf16", "RMSNorm", "f", ()),
    # Names joined and spelled in other ways
    ("addrmsnormkernel", "RMSNorm", "f", ("residual add",)),
    ("SkipLayerNormKernelSmall", "LayerNorm", "f", ("residual add",)),
    ("InstanceNormalizationForward", "InstanceNorm", "f", ()),
    ("sync_batch_norm_bwd", "SyncBatchNorm", "b", ()),
    ("moe_renormalize_then_rms_norm_kernel", "RMSNorm", "f", ()),
)
OTHERS = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float>>>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::WelfordOps<float>>>(int)",
    f"{ATEN}renorm_kernel<float>(int)",
    "routingRenormalize",
    "grouped_topk_renorm_group_norm",
    "void at::native::distribution_elementwise_grid_stride_kernel<float, normal_>(int)",
    "void at::native::weight_norm_fwd_first_dim_kernel<float>(int)",
    "multi_tensor_l2norm_kernel",
    "lpnorm_cleanup_v2",
    "void at::native::vectorized_elementwise_kernel<4, rsqrt_kernel_cuda>(int)",
    f"{AR}0, __nv_bfloat16>(int)",
    f"{AR}10, __nv_bfloat16>(int)",
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "triton_poi_fused_mul_silu_0",
    "triton_per_fused__to_copy_add_div_expand_mul_pow_sum_view_3",
    "triton_poi_fused_mean_mul_pow_0",
    "Memset (Device)",
    "",
    # A norm's letters inside other words
    "abnormal_layer_kernel",
    "denormal_flush_kernel",
    "normcdf_kernel",
    "normalize_image_kernel",
    "batch_normalize_image_kernel",
    "batch_normal_sample",
    "batchnormal_kernel",
    "BATCHNORMAL_KERNEL",
    "LayerNormalizer",
    "group_normals_kernel",
    "terms_norm_kernel",
    "transforms_norm_kernel",
    "player_norm_kernel",
    "subgroup_norm_kernel",
    "align_cuda_kernel",
    "vuln_fwd_kernel",
    "turn_bn_forward",
)


@pytest.mark.parametrize(("name", "variant", "direction", "fuses"), BY_LIBRARY, ids=lambda v: str(v)[:60])
def test_a_norm_kernels_name_tells_variant_direction_and_fused_work(
    name: str, variant: str, direction: str, fuses: tuple[str, ...]
) -> None:
    found = read_kernel(name)
    assert found is not None
    expected = (variant, {"f": "forward", "b": "backward"}[direction], fuses)
    assert (found.variant, found.direction, found.fuses) == expected
    assert is_norm_kernel(name)


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_sounds_like_a_norm_is_none(name: str) -> None:
    assert read_kernel(name) is None
    assert not is_norm_kernel(name)


def test_the_part_is_the_kernels_bare_name() -> None:
    name = f"{ADD_RMS}Lb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"
    expected = KernelNorm("RMSNorm", "forward", ("residual add",), "add_rmsnorm_quant_kernel")
    assert read_kernel(name) == expected


@lru_cache(maxsize=1)
def _coverage(shared: Path) -> dict[str, Any]:
    coverage: dict[str, Any] = json.loads((shared / "traces" / "coverage.json").read_text())
    return coverage


@lru_cache(maxsize=len(TRACES))
def _kernels(shared: Path, trace: str) -> Counter[str]:
    events = read_trace(shared / "traces" / f"{trace}.json.gz").gpu_events
    return Counter(event.name for event in events if event.kind == "kernel")


def _told(shared: Path, trace: str) -> Counter[tuple[str, str, tuple[str, ...]]]:
    told: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for name, count in _kernels(shared, trace).items():
        if norm := read_kernel(name):
            told[norm.variant, norm.direction, norm.fuses] += count
    return told


@pytest.mark.parametrize("trace", TRACES)
def test_real_traces_have_as_many_norm_kernels_as_were_counted(shared: Path, trace: str) -> None:
    """Explicit, compiled and unlinked ones; those of norms written out in Python carry no name."""
    counted = _coverage(shared)[trace]
    groups = [counted.get("explicit"), counted.get("unlinked"), *counted.get("compiled_fused", ())]
    assert _told(shared, trace).total() == sum(group["count"] for group in groups if group)


@pytest.mark.parametrize("trace", ["sglang_decode_graph_mi300x", "sglang_prefill_mi300x"])
def test_half_of_a_decoders_norms_carry_a_residual_add(shared: Path, trace: str) -> None:
    """36 layers: 73 norms around their blocks, all but the first with a residual, and 72 of q and k."""
    assert _told(shared, trace) == {
        ("RMSNorm", "forward", ("residual add",)): 72,
        ("RMSNorm", "forward", ()): 73,
    }


def test_kernels_of_other_real_traces_are_told(shared: Path) -> None:
    add = ("residual add",)
    assert _told(shared, "vllm_piecewise_graph") == {
        ("RMSNorm", "forward", add): 48,
        ("RMSNorm", "forward", ()): 1,
    }
    assert _told(shared, "vllm_eager_b200") == {
        ("RMSNorm", "forward", add): 72,
        ("RMSNorm", "forward", ()): 1,
    }
    # Four kernels, 20 times each; one of the four is the backward's.
    assert _told(shared, "gpu_only_mi210") == {
        ("BatchNorm", "forward", ()): 60,
        ("BatchNorm", "backward", ()): 20,
    }
    assert _told(shared, "sd35_compiled_mi300x") == {
        ("LayerNorm", "forward", ()): 616 + 180,
        ("RMSNorm", "forward", ()): 608,
        ("GroupNorm", "forward", ()): 60,
    }
    assert _told(shared, "owlv2_h100") == {("LayerNorm", "forward", ()): 385}


def test_every_kind_of_norm_layer_of_a_real_trace_is_told(shared: Path) -> None:
    """Six calls of each kind, three with and three without parameters; 57 kernels in each pass in all."""
    by_kind: Counter[tuple[str, str]] = Counter()
    for (variant, direction, fuses), count in _told(shared, "norm_layers_mi300x").items():
        assert fuses == ()
        by_kind[variant, direction] += count
    assert by_kind == {
        ("LayerNorm", "forward"): 6,
        ("LayerNorm", "backward"): 9,  # dx six times, dgamma and dbeta in one kernel three times
        ("RMSNorm", "forward"): 6,
        ("RMSNorm", "backward"): 12,  # dx six times, dgamma in two kernels three times
        ("GroupNorm", "forward"): 15,  # moments and apply six times each, parameters three times
        ("GroupNorm", "backward"): 24,  # sums and parameters 6 + 6, dx 6 + 3, dgamma and dbeta 3
        ("BatchNorm", "forward"): 30,  # InstanceNorm too: MIOpen 3 + 3 x 3, native 3 x 6
        ("BatchNorm", "backward"): 12,  # one kernel each
    }


HOSTILE = (
    "rms_norm" * 12_500,
    "triton_mean_" * 8_000 + "pow_",
    "renorm" * 16_000 + "batch_norm",
    "at::native::RowwiseMomentsCUDAKernel<" * 2_700,
    "2at6nativelayer_norm_kernelI" * 3_500,
    "add_rmsnorm_quant_kernelILi1E" * 3_400,
    "rms_norm<" + "<(" * 50_000,
    "rms_norm" + ")>]}" * 25_000,
    "_ZN" + "S" * 100_000,
    "_Z" + "9" * 100_000,
    "fused_rms_" * 10_000,
)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:20])
def test_names_of_a_hundred_thousand_characters_are_read(name: str) -> None:
    """A pattern that tried again from every place would not return."""
    found = read_kernel(name)
    assert found is None or found.part


@pytest.mark.parametrize(
    "name", ["rms_norm_kernel\n<", "\nvoid rms_norm_kernel>>>(", "((rms_norm_kernel", "\x00rms_norm_kernel"]
)
def test_broken_names_of_norms_are_still_norms(name: str) -> None:
    found = read_kernel(name)
    assert found is not None
    assert found.variant == "RMSNorm"


PIECES = st.sampled_from(
    [
        "rms_norm",
        "layer_norm",
        "batch",
        "_Z",
        "N",
        "12",
        "I",
        "E",
        "Lb1E",
        "<",
        ">",
        "(",
        ")",
        "{",
        "::",
        ", ",
        "true",
        "triton_",
        "_mean",
        "_pow",
        "_rsqrt",
        "renorm",
        "quant",
        "kentry",
        "elementwise_kernel",
        "\n",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_any_name_is_read(name: str) -> None:
    found = read_kernel(name)
    assert is_norm_kernel(name) == (found is not None)
    assert found is None or found.part
