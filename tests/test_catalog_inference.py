"""Norms of inference libraries: where each op has its tensors, and its bytes, worked out by hand."""

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import normscope.norms.catalog
from norm_events import ABSENT, BF16, F32, Argument, recorded
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import Catalog, load_catalog, read_rows
from normscope.norms.catalog.rows import RETURNED, NormRow
from normscope.norms.cost import RETURNED_BYTES, norm_cost
from normscope.norms.find import find_norms
from normscope.trace.link import link
from normscope.trace.read import read_trace
from trace_inputs import kernel, launch, link_events
from trace_inputs import op as cpu_op
from written_run import written

ROWS_OF = ("aiter.toml", "inference.toml", "sglang.toml", "vllm.toml")
FP8, FP4, E8M0 = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "c10::Float8_e8m0fnu"
INT8, UINT8, INT64 = "signed char", "unsigned char", "long int"

# R = 4 rows of N = 8 elements: E = 32.
X: Argument = (BF16, [4, 8])  # 64 bytes
W: Argument = (BF16, [8])  # 16
B: Argument = (BF16, [8])  # 16
K: Argument = (BF16, [4, 4])  # 32
KW: Argument = (BF16, [4])  # 8
Q8: Argument = (FP8, [4, 8])  # 32, a quantized output
QI: Argument = (INT8, [4, 8])  # 32
S: Argument = (F32, [4, 1])  # 16, a scale for each row
SG: Argument = (F32, [4, 2])  # 32, a scale for each 4 elements
SX: Argument = (F32, [8])  # 32, a scale for each column
ONE: Argument = (F32, [1])  # 4
EPS, NO, YES = "1e-06", "False", "True"
TEXT = ABSENT  # recorded alike: no type, no shape, no value

# T = 4 tokens with hq = 2 heads of queries, one of keys and one of values, of d = 8 elements.
QKV: Argument = (BF16, [4, 32])  # 256
HEADS = ("2", "1", "1", "8")
QUERY: Argument = (BF16, [4, 16])  # 128
KEY: Argument = (BF16, [4, 8])  # 64
ANGLES: Argument = (BF16, [100, 8])  # 16 a row; 4 tokens look up 64
POSITIONS: Argument = (INT64, [4])  # 32
CACHE: Argument = (FP8, [10, 1, 8, 16])
SLOTS: Argument = (INT64, [4])  # 32

IMAGE: Argument = (BF16, [2, 4, 2, 2])  # 64
CHANNELS: Argument = (BF16, [4])  # 8
HEADED: Argument = (BF16, [2, 2, 8])  # 64; also [S, B, H] with 4 rows
MODULATION: Argument = (BF16, [2, 8])  # 32
JOINT: Argument = (BF16, [4, 16])  # 128: queries of 8, keys of 4, values of 4

Case = tuple[str, str, tuple[Argument, ...], int | None]
CASES: tuple[Case, ...] = (
    # --- AITER: x 64 + weight 16 + y 64
    ("aiter-rms-norm", "aiter::rms_norm", (X, W, EPS, "0"), 144),
    ("aiter-rms-norm", "aiter::rmsnorm2d_fwd_ck", (X, W, EPS), 144),
    ("aiter-rmsnorm", "aiter::rmsnorm", (X, X, W, EPS), 144),
    ("aiter-rmsnorm", "aiter::rmsnorm", (X, X, W, EPS, NO), 144),
    # x 64 + residual 64 + weight 16 + y 64 + residual 64
    ("aiter-add-rmsnorm", "aiter::add_rmsnorm", (X, X, X, X, W, EPS), 272),
    ("aiter-add-rmsnorm", "aiter::rmsnorm2d_fwd_with_add_ck", (X, X, X, X, W, EPS, "0"), 272),
    ("aiter-add-rmsnorm", "aiter::rmsnorm2d_fwd_with_add", (X, X, X, X, W, EPS, NO, "0"), 272),
    ("aiter-add-rmsnorm-in-place", "aiter::fused_add_rms_norm_cu", (X, X, W, EPS), 272),
    # 272 + one statistic of 4 bytes for each of 4 rows
    ("aiter-add-rmsnorm-triton", "_RMSNorm2dFwdWithAdd", (X, X, X, X, W, EPS, YES), 288),
    # x 64 + weight 16 + fp8 32 + scales 16
    ("aiter-rmsnorm-quant", "aiter::rmsnorm_quant", (Q8, X, S, W, EPS, "0", NO, NO), 128),
    ("aiter-rmsnorm-quant", "aiter::rmsnorm2d_fwd_with_dynamicquant_ck", (QI, X, S, W, EPS, "0"), 128),
    # x 64 + weight 16 + fp4, two in a byte 16 + scales of one byte 4
    (
        "aiter-rmsnorm-quant",
        "aiter::rmsnorm_quant",
        ((FP4, [4, 4]), X, (E8M0, [4, 1]), W, EPS, "8", NO, NO),
        100,
    ),
    # x 64 + residual 2·64 + weight 16 + fp8 32 + scales 16
    ("aiter-add-rmsnorm-quant", "aiter::add_rmsnorm_quant", (Q8, X, X, X, S, W, EPS, "0", NO, NO), 256),
    # x 64 + weight 16 + scales of x 32 + int8 32 + scales 16
    (
        "aiter-rmsnorm-smoothquant",
        "aiter::rmsnorm2d_fwd_with_smoothquant",
        (QI, X, SX, S, W, EPS, "0"),
        160,
    ),
    # 160 + residual 2·64, and 64 more where the output before quantization is kept
    (
        "aiter-add-rmsnorm-smoothquant",
        "aiter::rmsnorm2d_fwd_with_add_smoothquant_ck",
        (QI, X, X, X, SX, S, W, EPS, ABSENT, "0"),
        288,
    ),
    (
        "aiter-add-rmsnorm-smoothquant",
        "aiter::rmsnorm2d_fwd_with_add_smoothquant_ck",
        (QI, X, X, X, SX, S, W, EPS, X, "0"),
        352,
    ),
    # x 64 + residual 2·64 + weight 16 + y 64; padded to a multiple of 6, y has 4·12·2 = 96
    (
        "aiter-allreduce-rmsnorm",
        "aiter::fused_allreduce_rmsnorm_",
        (X, X, W, EPS, TEXT, NO, "0", NO),
        272,
    ),
    ("aiter-allreduce-rmsnorm", "aiter::fused_allreduce_rmsnorm_", (X, X, W, EPS, TEXT, NO, "6", NO), 304),
    ("aiter-allreduce-rmsnorm-unpadded", "aiter::fused_allreduce_rmsnorm_", (X, X, W, EPS, TEXT, NO), 272),
    # x 64 + residual 2·64 + weight 16 + fp8 32 + a scale of 4 for each row 16; with y 64 more
    (
        "aiter-allreduce-rmsnorm-quant",
        "aiter::fused_allreduce_rmsnorm_quant_",
        (X, X, W, EPS, TEXT, NO, NO),
        256,
    ),
    (
        "aiter-allreduce-rmsnorm-quant-both",
        "aiter::fused_allreduce_rmsnorm_quant_emit_bf16_",
        (X, X, W, EPS, TEXT, NO, NO),
        320,
    ),
    # two groups of 4 a row: scales 32 in place of 16
    (
        "aiter-allreduce-rmsnorm-group-quant",
        "aiter::fused_allreduce_rmsnorm_quant_per_group_",
        (X, X, W, EPS, TEXT, "4", NO, NO),
        272,
    ),
    (
        "aiter-allreduce-rmsnorm-group-quant-both",
        "aiter::fused_allreduce_rmsnorm_quant_per_group_emit_bf16_",
        (X, X, W, EPS, TEXT, "4", NO, NO),
        336,
    ),
    # 128 read + weights 16 + 8 + 128 written
    ("aiter-qk-norm-allreduce", "aiter::fused_qknorm_allreduce_", (JOINT, W, KW, EPS, TEXT), 280),
    # 280 + positions 32 + 4 rows of 16 from the table of angles
    (
        "aiter-qk-norm-allreduce-rope",
        "aiter::fused_qknorm_allreduce_rope_",
        (JOINT, W, KW, ANGLES, POSITIONS, "4", "4", EPS, TEXT),
        376,
    ),
    ("aiter-allreduce-rmsnorm-first", "aiter::fused_allreduce_rmsnorm", ("1", X, X, W, EPS, "0", "0"), 144),
    (
        "aiter-allreduce-rmsnorm-first-shifted",
        "aiter::fused_allreduce_rmsnorm",
        (ONE, "1", X, X, W, EPS, "0", "0"),
        144,
    ),
    (
        "aiter-allreduce-rmsnorm-low",
        "aiter::fused_allreduce_rmsnorm",
        ("1", X, X, X, X, W, EPS, "0", "0", YES, NO),
        272,
    ),
    # the padded output has 4·12·2 = 96
    (
        "aiter-allreduce-rmsnorm-low",
        "aiter::fused_allreduce_rmsnorm_pad",
        ("1", X, X, X, (BF16, [4, 12]), W, EPS, "0", "0", YES, NO),
        304,
    ),
    (
        "aiter-allreduce-rmsnorm-low-shifted",
        "aiter::fused_allreduce_rmsnorm",
        (ONE, "1", X, X, X, X, W, EPS, "0", "0", YES, NO),
        272,
    ),
    (
        "aiter-allreduce-rmsnorm-low-quant",
        "aiter::fused_allreduce_rmsnorm_quant",
        ("1", X, X, X, Q8, S, W, EPS, "0", "0", YES),
        256,
    ),
    # x 64 + residual 2·64 + weight 16 + fp4 as bytes 16 + scales 4
    (
        "aiter-allreduce-rmsnorm-low-quant-shifted",
        "aiter::fused_allreduce_rmsnorm_mxfp4_quant",
        (ONE, "1", X, X, X, (UINT8, [4, 4]), (UINT8, [4, 1]), W, EPS, "0", "0", YES, "0"),
        228,
    ),
    (
        "aiter-qk-norm-allreduce-low",
        "aiter::fused_qknorm_allreduce",
        ("1", JOINT, W, KW, X, K, K, EPS, "0", "0"),
        280,
    ),
    (
        "aiter-qk-norm-allreduce-low-shifted",
        "aiter::fused_qknorm_allreduce",
        (ONE, "1", JOINT, W, KW, X, K, K, EPS, "0", "0"),
        280,
    ),
    # x 64 + weight 16 + bias 16 + y 64; a bias of x is 16 more; without parameters 128
    ("aiter-layer-norm", "aiter::layer_norm", (X, W, B, EPS, ABSENT), 160),
    ("aiter-layer-norm", "aiter::layernorm2d_fwd_ck", (X, W, B, EPS, B), 176),
    ("aiter-layer-norm", "aiter::layer_norm", (X, ABSENT, ABSENT, EPS, ABSENT), 128),
    ("aiter-add-layer-norm", "aiter::layernorm2d_fwd_with_add", (X, X, X, X, W, B, EPS, ABSENT), 288),
    # x 64 + weight 16 + bias 16 + scales of x 32 + int8 32 + scales 16; with a residual 128 more
    (
        "aiter-layer-norm-smoothquant",
        "aiter::layernorm2d_fwd_with_smoothquant",
        (QI, X, SX, S, W, B, EPS, ABSENT),
        176,
    ),
    (
        "aiter-add-layer-norm-smoothquant",
        "aiter::layernorm2d_fwd_with_add_smoothquant",
        (QI, X, X, X, SX, S, W, B, EPS, ABSENT),
        304,
    ),
    # x 64 + weight 8 + bias 8 + y 64
    ("aiter-group-norm-old", "aiter::_groupnorm_run", (IMAGE, "2", CHANNELS, CHANNELS, EPS), 144),
    (
        "aiter-group-norm",
        "aiter::_groupnorm_run",
        (IMAGE, (F32, [64]), IMAGE, "2", CHANNELS, CHANNELS, EPS),
        144,
    ),
    # x 64 + gate 64 + weight 16 + fp8 32 + scales 8
    (
        "aiter-gated-rmsnorm-quant",
        "aiter::gated_rmsnorm_fp8_group_quant",
        ((FP8, [2, 16]), (F32, [2, 1]), HEADED, HEADED, W, EPS, "16", NO),
        184,
    ),
    (
        "aiter-gated-rmsnorm-quant",
        "aiter::gated_rmsnorm_fp8_per_token_quant",
        ((FP8, [2, 16]), (F32, [2]), HEADED, HEADED, W, EPS),
        184,
    ),
    # queries 64 + 16, keys 32 + 8, and both once more, be the outputs given or returned
    ("aiter-qk-rmsnorm", "aiter::_fused_qk_rmsnorm_kernel", (X, W, EPS, K, KW, EPS, X, K), 216),
    ("aiter-qk-rmsnorm", "aiter::_fused_qk_rmsnorm_kernel", (X, W, EPS, K, KW, EPS, ABSENT, ABSENT), 216),
    # fp8 32 + scales 16 + queries 64 + 16 + keys 2·32 + 8
    (
        "aiter-qk-rmsnorm-quant",
        "aiter::fused_qk_rmsnorm_group_quant",
        (Q8, S, X, W, EPS, ABSENT, K, ABSENT, K, KW, EPS, ABSENT, "8", NO, NO),
        200,
    ),
    # 200 + the output before quantization 64 + residual 2·64
    (
        "aiter-qk-rmsnorm-quant",
        "aiter::_fused_qk_rmsnorm_group_quant_kernel",
        (Q8, S, X, W, EPS, X, K, X, K, KW, EPS, X, "8", NO, NO),
        392,
    ),
    (
        "aiter-qk-rmsnorm-quant",
        "aiter::_fused_qk_rmsnorm_per_token_quant_kernel",
        (Q8, S, X, W, EPS, ABSENT, K, ABSENT, K, KW, EPS, ABSENT, NO),
        200,
    ),
    # nothing quantized: queries 2·64 + 16, keys 2·32 + 8
    (
        "aiter-qk-rmsnorm-quant-shifted",
        "aiter::_fused_qk_rmsnorm_group_quant_kernel",
        (ONE, ABSENT, ABSENT, X, W, EPS, X, K, ABSENT, K, KW, EPS, ABSENT, "8", NO, NO),
        216,
    ),
    # read 256, weights 2·16, angles 64, positions 32, slots 32; queries 4·2·8·2 = 128 in place;
    # keys and values 4·2·8 = 64 to the fp8 cache
    (
        "aiter-qk-norm-rope-cache",
        "aiter::fused_qk_norm_rope_cache_quant_shuffle",
        (QKV, *HEADS, EPS, W, W, ANGLES, YES, POSITIONS, CACHE, CACHE, SLOTS, TEXT, ONE, ONE),
        608,
    ),
    (
        "aiter-qk-norm-rope-cache",
        "aiter::fused_qk_norm_rope_cache_block_quant_shuffle",
        (
            *(QKV, *HEADS, EPS, W, W, ANGLES, YES, POSITIONS, CACHE, CACHE, SLOTS),
            *((INT64, [2]), TEXT, ONE, ONE, "0"),
        ),
        608,
    ),
    (
        "aiter-qk-norm-rope-cache-split",
        "aiter::_fused_qk_norm_rope_cache_quant_shuffle_hip",
        (
            *(QUERY, KEY, KEY, *HEADS, EPS, W, W, ANGLES, YES, POSITIONS, CACHE, CACHE, SLOTS),
            *(TEXT, ONE, ONE),
        ),
        608,
    ),
    # the same with an output for queries, and with outputs for keys and values of 64 each
    (
        "aiter-qk-norm-rope-cache-out",
        "aiter::fused_qk_norm_rope_cache_pts_quant_shuffle",
        (
            *(QKV, W, W, ANGLES, POSITIONS, "4", *HEADS, YES, EPS, QUERY, CACHE, CACHE, SLOTS),
            *(ONE, ONE, ABSENT, ABSENT, NO, YES, "16", "16", "8"),
        ),
        608,
    ),
    (
        "aiter-qk-norm-rope-cache-out",
        "aiter::fused_qk_norm_rope_cache_pts_quant_shuffle",
        (
            *(QKV, W, W, ANGLES, POSITIONS, "4", *HEADS, YES, EPS, QUERY, CACHE, CACHE, SLOTS),
            *(ONE, ONE, KEY, KEY, YES, YES, "16", "16", "8"),
        ),
        736,
    ),
    # 128 + 64 and 64 + 32 read, weights 4·16, angles 4·8·4 + 2·8·4 = 192, 192 + 96 written
    (
        "aiter-qk-norm-rope-2way",
        "aiter::fused_qk_norm_rope_2way",
        (
            *(QUERY, KEY, (BF16, [2, 16]), (BF16, [2, 8]), W, W, W, W, (F32, [4, 8]), (F32, [2, 8])),
            *("1", "4", "2", "2", "1", "8", NO, EPS, (BF16, [6, 16]), (BF16, [6, 8])),
        ),
        832,
    ),
    # 128 + 64 read, weights 2·16, angles 128, 128 + 64 written
    (
        "aiter-qk-norm-rope-1way",
        "aiter::fused_qk_norm_rope_1way",
        (QUERY, KEY, W, W, (F32, [4, 8]), "1", "4", "2", "1", "8", NO, EPS, QUERY, KEY),
        544,
    ),
    ("aiter-qk-norm-rope-other", "aiter::_fused_qk_norm_rope_group_quant_kernel", (QUERY, KEY), None),
    # --- vLLM
    ("vllm-rms-norm", "_C::rms_norm", (X, X, W, EPS), 144),
    ("vllm-add-rms-norm", "_C::fused_add_rms_norm", (X, X, W, EPS), 272),
    # x 64 + weight 16 + one scale 4 + fp8 32; with a residual 128 more
    ("vllm-rms-norm-static-quant", "_C::rms_norm_static_fp8_quant", (Q8, X, W, (F32, []), EPS), 116),
    (
        "vllm-add-rms-norm-static-quant",
        "_C::fused_add_rms_norm_static_fp8_quant",
        (Q8, X, X, W, ONE, EPS),
        244,
    ),
    # x 64 + weight 16 + int8 32 + scales 16; a limit of the scale is 4 more, a residual 128
    (
        "vllm-rms-norm-token-quant",
        "_C::rms_norm_dynamic_per_token_quant",
        (QI, X, W, S, EPS, ABSENT, ABSENT),
        128,
    ),
    (
        "vllm-rms-norm-token-quant",
        "_C::rms_norm_dynamic_per_token_quant",
        (Q8, X, W, S, EPS, ONE, X),
        260,
    ),
    # scales for groups of 4: 32
    (
        "vllm-rms-norm-block-quant",
        "_C::rms_norm_per_block_quant",
        (Q8, X, W, SG, EPS, ABSENT, ABSENT, "4", NO),
        144,
    ),
    (
        "vllm-rms-norm-block-quant",
        "_C::rms_norm_per_block_quant",
        (Q8, X, W, SG, EPS, ABSENT, X, "4", NO),
        272,
    ),
    # 2·4 tokens·3 heads·8·2 = 384 + weights 32 + positions 32 + angles 64
    (
        "vllm-qk-norm-rope",
        "_C::fused_qk_norm_rope",
        (QKV, *HEADS, EPS, W, W, ANGLES, YES, POSITIONS),
        512,
    ),
    # a table of 2 rows is read once, though 4 tokens look something up
    (
        "vllm-qk-norm-rope",
        "_C::fused_qk_norm_rope",
        (QKV, *HEADS, EPS, W, W, (BF16, [2, 8]), YES, POSITIONS, "-1"),
        480,
    ),
    # x 64 + residual 2·64 + weight 16, and the norm over x 64 or to an output 64
    (
        "vllm-allreduce-rms-norm",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "0", "8", YES, YES, YES, "64", "1", ABSENT, ABSENT, ABSENT, ABSENT),
        272,
    ),
    (
        "vllm-allreduce-rms-norm",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "0", "8", YES, YES, YES, "64", "1", X, ABSENT, ABSENT, ABSENT),
        272,
    ),
    # fp8 32 + its scale 4 in place of the norm
    (
        "vllm-allreduce-rms-norm",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "0", "8", YES, YES, YES, "64", "2", ABSENT, Q8, ABSENT, ONE),
        244,
    ),
    # fp4 as bytes 16 + its scales 4 + the scale of all 4
    (
        "vllm-allreduce-rms-norm-flag",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (
            *(X, X, W, EPS, "0", "8", YES, YES, YES, "64", "3", NO),
            *(ABSENT, (UINT8, [4, 4]), (UINT8, [4, 1]), ONE),
        ),
        232,
    ),
    (
        "vllm-allreduce-rms-norm-short",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "8", YES, YES, "64", "1", X, ABSENT, ABSENT, ABSENT),
        272,
    ),
    (
        "vllm-allreduce-rms-norm-short",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "8", YES, YES, "64", "2", ABSENT, Q8, ABSENT, ONE, "0."),
        244,
    ),
    (
        "vllm-allreduce-rms-norm-first",
        "vllm::flashinfer_trtllm_fused_allreduce_norm",
        (X, X, W, EPS, "0", "8", YES, YES, YES, "64", ABSENT),
        272,
    ),
    # --- vLLM with AITER
    ("vllm-aiter-rms-norm", "vllm::rocm_aiter_rms_norm", (X, W, EPS), 144),
    ("vllm-aiter-add-rms-norm", "vllm::rocm_aiter_rmsnorm2d_fwd_with_add", (X, X, W, EPS), 272),
    # x 64 + weight 16 + 32 + scales 16; with a residual 128 more
    (
        "vllm-aiter-rms-norm-token-quant",
        "vllm::rocm_aiter_rmsnorm_fused_dynamic_quant",
        (X, W, EPS, "24"),
        128,
    ),
    (
        "vllm-aiter-rms-norm-token-quant-out",
        "vllm::rocm_aiter_rmsnorm_fused_dynamic_quant",
        (Q8, X, W, S, EPS),
        128,
    ),
    (
        "vllm-aiter-add-rms-norm-token-quant",
        "vllm::rocm_aiter_rmsnorm_fused_add_dynamic_quant",
        (X, X, W, EPS, "24"),
        256,
    ),
    (
        "vllm-aiter-add-rms-norm-token-quant-out",
        "vllm::rocm_aiter_rmsnorm_fused_add_dynamic_quant",
        (Q8, X, X, W, S, EPS),
        256,
    ),
    # x 64 + weight 16 + fp8 32 + 2 scales a row 32; groups of 3 need 3 scales a row: 48
    (
        "vllm-aiter-rms-norm-group-quant",
        "vllm::rocm_aiter_rmsnorm_fp8_group_quant",
        (X, W, EPS, "4"),
        144,
    ),
    (
        "vllm-aiter-rms-norm-group-quant",
        "vllm::rocm_aiter_rmsnorm_fp8_group_quant",
        (X, W, EPS, "3"),
        160,
    ),
    (
        "vllm-aiter-add-rms-norm-group-quant",
        "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant",
        (X, X, W, EPS, "4"),
        272,
    ),
    # x 64 + residual 2·64 + weight 16 + y 4·12·2 = 96; not padded 64
    ("vllm-aiter-add-rms-norm-pad", "vllm::rocm_aiter_triton_add_rmsnorm_pad", (X, W, EPS, X, "6"), 304),
    ("vllm-aiter-add-rms-norm-pad", "vllm::rocm_aiter_triton_add_rmsnorm_pad", (X, W, EPS, X, "0"), 272),
    # x 64 + weight 16 + gate 64 + fp8 32 + scales 32
    (
        "vllm-aiter-gated-rms-norm-group-quant",
        "vllm::rocm_aiter_fused_rms_gated_fp8_group_quant",
        (X, W, ABSENT, X, EPS, YES, TEXT, "4"),
        208,
    ),
    ("vllm-aiter-allreduce-rms-norm", "vllm::rocm_aiter_fused_allreduce_rmsnorm", (X, X, W, EPS), 272),
    ("vllm-aiter-qk-rms-norm", "vllm::fused_mla_dual_rms_norm", (X, W, K, KW, EPS, EPS), 216),
    # --- SGLang
    ("sglang-aiter-rmsnorm", "sglang_profiler::rmsnorm_rmsnorm2d_fwd_109", (X, W), 144),
    (
        "sglang-aiter-add-rmsnorm",
        "sglang_profiler::rmsnorm_rmsnorm2d_fwd_with_add_7",
        (X, X, X, X, W),
        272,
    ),
    ("sglang-qk-norm-reshape", "sglang_profiler::utils__reshape_for_qk_norm_486", (X,), None),
    ("sgl-kernel-rmsnorm", "sgl_kernel::gemma_rmsnorm", (X, X, W, EPS, YES), 144),
    ("sgl-kernel-add-rmsnorm", "sgl_kernel::fused_add_rmsnorm", (X, X, W, EPS, YES), 272),
    # 384 + weights 32 + positions 32, and no table of angles
    (
        "sgl-kernel-qk-norm-rope",
        "sgl_kernel::fused_qk_norm_rope",
        (
            *(QKV, *HEADS, EPS, W, W, "10000.", YES, (INT64, [4])),
            *("1.", "1.", "1.", "1.", "8"),
        ),
        448,
    ),
    # --- others
    ("tensorrt-llm-rmsnorm", "trtllm::flashinfer_rmsnorm", (X, W, EPS), 144),
    ("tensorrt-llm-add-rmsnorm", "trtllm::flashinfer_gemma_fused_add_rmsnorm", (X, X, W, EPS), 272),
    ("deepspeed-block", "DeepSpeedTransformerFunction", (X,), None),
    ("deepspeed-block-backward", "DeepSpeedTransformerFunctionBackward", (X,), None),
    # x 64 + gate 64 + weight 16 + y 64 + a statistic for each row 16
    ("fla-gated-norm", "LayerNormGatedFunction", (X, X, W, ABSENT, ABSENT, EPS, NO, NO, YES), 224),
    # layer norm: x 64 + gate 64 + weight 16 + bias 16 + residual 2·64 + y 64 + two statistics 32
    ("fla-gated-norm", "LayerNormGatedFunction", (X, X, W, B, X, EPS, NO, NO, NO), 384),
    ("fla-gated-norm-backward", "LayerNormGatedFunctionBackward", (X,), None),
    ("fla-l2-norm", "L2NormFunction", (X, EPS), 128),
    ("fla-l2-norm-backward", "L2NormFunctionBackward", (X,), None),
    # x 64 + scale 32 + shift 32 + y 64 + two statistics of 4 for each of 4 rows 32
    ("primus-ln-modulate", "primus::fused_ln_modulate", (HEADED, MODULATION, MODULATION, EPS), 224),
    # dy 64 + x 64 + statistics 32 + scale 32 + dx 64 + gradients of scale and shift 64
    (
        "primus-ln-modulate-backward",
        "primus::fused_ln_modulate_backward",
        (HEADED, HEADED, (F32, [4]), (F32, [4]), MODULATION),
        320,
    ),
    # x 64 + weight 16 + bias 16 + y 64 + statistics 32
    ("apex-cudnn-layer-norm", "cudnn::layer_norm", (X, "[8]", W, B, EPS), 192),
    # dy 64 + x 64 + dx 64 + statistics 32 + weight 16 + gradients of weight and bias 32
    (
        "apex-cudnn-layer-norm-backward",
        "cudnn::layer_norm_backward",
        ((BF16, [4, 8]), (F32, [4, 1, 1, 1]), (F32, [4, 1, 1, 1]), X, "[8]", W, B),
        272,
    ),
)
# Rows that take the rest from the forward op have a test of their own.
OTHER_OPS = ("aiter-add-rmsnorm-triton-backward",)

_CK = "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE"
_CK_TRAITS = (
    "NS_18Rmsnorm2dFwdTraitsILb1ELb0ELNS_21Rmsnorm2dFusedAddEnumE{}ELNS_23Rmsnorm2dFusedQuantEnumE{}E"
)
_AITER = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb{}ELb{}ELb1ELi1EEEvPT0_PT_PfS4_"
KERNELS: tuple[tuple[str, str], ...] = (
    ("aiter-rms-norm", "void aiter::rmsnorm_opus_kernel<float>(float*)"),
    ("aiter-rmsnorm", _AITER.format(0, 0)),
    (
        "aiter-rmsnorm",
        "void aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 64, 8, false, false, true, 1>(x)",
    ),
    ("aiter-add-rmsnorm", _AITER.format(1, 0)),
    ("aiter-add-rmsnorm", "void aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 64, 8, true, false>(x)"),
    ("aiter-rmsnorm-quant-kernel", _AITER.format(1, 1)),
    ("aiter-rmsnorm-quant-kernel", _AITER.format(0, 1)),
    ("aiter-rmsnorm-quant-kernel", "aiter::rmsnorm_quant_opus"),
    ("aiter-rmsnorm-quant-kernel", "_quant_rms_norm_kernel"),
    ("aiter-rmsnorm-quant-kernel", "_quant_fused_add_rmsnorm_kernel"),
    ("aiter-rmsnorm-quant-kernel", "_fused_rms_fp8_group_quant_kernel"),
    ("aiter-rmsnorm-quant-kernel", "_fused_rms_mxfp4_quant_kernel"),
    ("aiter-add-rmsnorm-triton", "_fused_add_rmsnorm_kernel"),
    ("aiter-rmsnorm-triton", "_rmsnorm_kernel_large_m_small_n"),
    ("aiter-rmsnorm-triton-backward", "_rmsnorm_bwd_triton"),
    ("aiter-rmsnorm-triton-backward", "_rmsnorm_bwd_dg_reduce_triton"),
    ("aiter-allreduce-rmsnorm", "void aiter::local_device_load_rmsnorm_naive<__bf16>(x)"),
    ("aiter-allreduce-rmsnorm", "_ZN5aiter30allreduce_fusion_kernel_1stageIDF16bE"),
    ("aiter-qk-norm-allreduce", "void aiter::qknorm_allreduce_fusion_kernel_1stage<__bf16>(x)"),
    ("aiter-layer-norm-triton", "_layernorm_kernel"),
    ("aiter-add-layer-norm-triton", "_fused_add_layernorm_kernel"),
    ("aiter-layer-norm-triton-backward", "_layernorm_bwd_dx_fused_triton"),
    ("aiter-layer-norm-triton-backward", "_layernorm_bwd_dwdb_triton"),
    (
        "aiter-group-norm-old",
        "void (anonymous namespace)::groupnorm_kernel_dispatch_up<__hip_bfloat16, 1024u>(x)",
    ),
    ("aiter-group-norm-old", "void (anonymous namespace)::groupnorm_kernel_dispatch_down<__hip_bfloat16>(x)"),
    ("aiter-gated-rmsnorm-quant", "void aiter::gated_rmsnorm_fp8_group_quant_kernel<__bf16>(x)"),
    ("aiter-qk-rmsnorm", "void aiter::fused_qk_rmsnorm_kernel<__bf16>(x)"),
    ("aiter-qk-rmsnorm", "void aiter::fused_qk_rmsnorm_group_quant_kernel<__bf16>(x)"),
    ("aiter-qk-norm-rope-cache", "void fusedQKNormRopeQuantCacheShuffleKernel<__bf16, 128>(x)"),
    ("aiter-qk-norm-rope-2way", "void fused_rope_rms_2way_kernel<__bf16>(x)"),
    ("vllm-rms-norm", "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)"),
    ("vllm-rms-norm", "_ZN4vllm15rms_norm_kernelIN3c108BFloat16ELi8ELi2EEEv"),
    (
        "vllm-add-rms-norm",
        "std::enable_if<true, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(x)",
    ),
    ("vllm-add-rms-norm", "_ZN4vllm25fused_add_rms_norm_kernelIN3c108BFloat16ELi8EEEv"),
    ("vllm-rms-norm-static-quant", "void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16>(x)"),
    ("vllm-add-rms-norm-static-quant", "void vllm::fused_add_rms_norm_static_fp8_quant_kernel<float>(x)"),
    ("vllm-rms-norm-token-quant", "void vllm::rms_norm_dynamic_per_token_quant_kernel<float>(x)"),
    ("vllm-rms-norm-block-quant", "void vllm::rms_norm_per_block_quant_kernel<float>(x)"),
    ("vllm-qk-norm-rope", "void tensorrt_llm::kernels::fusedQKNormRopeKernel<128, false>(__nv_bfloat16*)"),
    ("flashinfer-rmsnorm", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(x)"),
    ("flashinfer-qk-rmsnorm", "void flashinfer::norm::QKRMSNormKernel<8u, __nv_bfloat16>(x)"),
    ("flashinfer-rmsnorm-quant", "void flashinfer::norm::RMSNormQuantKernel<8u>(x)"),
    ("flashinfer-add-rmsnorm", "void flashinfer::norm::FusedAddRMSNormKernel<8u, __half>(x)"),
    ("flashinfer-add-rmsnorm-quant", "void flashinfer::norm::FusedAddRMSNormQuantKernel<8u>(x)"),
    ("flashinfer-layer-norm", "void tensorrt_llm::kernels::generalLayerNorm<__nv_bfloat16>(x)"),
    ("flashinfer-dit-layer-norm", "void meta_fused_layernorm<3072>(x)"),
    ("xformers-rms-norm", "_rms_norm_kernel"),
    ("xformers-add-rms-norm", "_rms_norm_add_kernel"),
    ("deepspeed-add-layer-norm", "void fused_residual_ln<__half, 2>(x)"),
    ("deepspeed-add-layer-norm", "void fused_bias_residual_layer_norm<float, 2>(x)"),
    ("deepspeed-layer-norm", "void fused_ln<__half, 2>(x)"),
    ("deepspeed-add-rms-norm", "void pre_rms_norm<__half, 2>(x)"),
    ("deepspeed-rms-norm", "void rms_norm<__half, 2>(x)"),
    ("deepspeed-layer-norm-backward", "void LayerNormBackward1<__half>(x)"),
    ("deepspeed-layer-norm-backward", "void LayerNormBackward2_fused_add<__half>(x)"),
    ("ck-rmsnorm", _CK + _CK_TRAITS.format(0, 0)),
    ("ck-add-rmsnorm", _CK + _CK_TRAITS.format(1, 0)),
    ("ck-rmsnorm-quant", _CK + _CK_TRAITS.format(1, 2)),
    (
        "ck-rmsnorm",
        "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<float, (ck_tile::Rmsnorm2dFusedAddEnum)0>>(x)",
    ),
    ("ck-add-rmsnorm", "void ck_tile::kentry<1, ck_tile::X<float, (ck_tile::Rmsnorm2dFusedAddEnum)1>>(x)"),
    ("ck-layer-norm", "void ck_tile::kentry<1, ck_tile::Layernorm2dFwd<float>>(x)"),
    ("ck-gemm-layer-norm", "void ck::kernel_gemm_layernorm_xdl_cshuffle_v1<float>(x)"),
    ("ck-batch-norm", "void ck::gridwise_batchnorm_forward<float>(x)"),
    ("ck-normalization", "void ck::kernel_normalization<float>(x)"),
    ("miopen-t5-norm", "T5LayernormFwdContiguous"),
    ("miopen-t5-norm-backward", "T5LayernormBwdContiguous"),
    ("miopen-t5-norm-backward", "T5LayernormBwdWeightContiguous"),
    ("miopen-add-layer-norm", "AddLayernormFwdContiguous"),
    ("miopen-layer-norm", "LayernormFwdContiguous"),
    ("miopen-group-norm", "GroupNormFwdContiguous"),
    ("fla-gated-norm", "layer_norm_gated_fwd_kernel"),
    ("fla-gated-norm", "layer_norm_gated_fwd_kernel1"),
    ("fla-gated-norm-backward", "layer_norm_gated_bwd_kernel"),
    ("fla-l2-norm", "l2norm_fwd_kernel1"),
    ("fla-l2-norm-backward", "l2norm_bwd_kernel"),
    ("primus-ln-modulate", "_fused_ln_modulate_fwd_kernel"),
)
# Kernels of other libraries, whose names are close.
OTHER_KERNELS = (
    "_rms_norm_forward_kernel",
    "_fused_add_rms_norm_forward_kernel",
    "_layer_norm_fwd_1pass_kernel",
    "layernorm_forward",
    "void transformer_engine::normalization::rmsnorm_fwd_general_kernel<float>(x)",
    "void cuApplyRMSNorm<float>(x)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(x)",
    "void vllm::act_and_mul_kernel<float>(x)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<float>(x)",
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The rows as they come with normscope."""
    return load_catalog()


@pytest.fixture(scope="module")
def rows() -> tuple[NormRow, ...]:
    """The rows of the inference libraries."""
    folder = Path(normscope.norms.catalog.__file__).parent
    return tuple(row for name in ROWS_OF for row in read_rows((folder / name).read_bytes(), name))


@pytest.mark.parametrize(("row_id", "op", "arguments", "expected"), CASES)
def test_an_op_moves_the_bytes_worked_out_by_hand(
    catalog: Catalog, row_id: str, op: str, arguments: tuple[Argument, ...], expected: int | None
) -> None:
    args = recorded(*arguments)
    row = catalog.layout(op, args.types)
    assert row is not None
    assert row.id == row_id
    assert norm_cost(row, args).bytes_moved == expected


def test_every_row_has_a_case(rows: tuple[NormRow, ...]) -> None:
    by_op = {row_id for row_id, *_ in CASES} | set(OTHER_OPS)
    by_kernel = {row_id for row_id, _ in KERNELS}
    assert {row.id for row in rows if row.ops or row.op_pattern} == by_op
    assert {row.id for row in rows if row.kernels} == by_kernel
    assert {row.id for row in rows} == by_op | by_kernel


def test_every_returned_tensor_has_a_size() -> None:
    assert set(RETURNED) == set(RETURNED_BYTES)


@pytest.mark.parametrize(("row_id", "name"), KERNELS)
def test_a_kernel_belongs_to_its_row(catalog: Catalog, row_id: str, name: str) -> None:
    fitting = [row.id for row in catalog.rows if row.how in ("op", "kernel") and row.names_kernel(name)]
    assert fitting[0] == row_id


@pytest.mark.parametrize("name", OTHER_KERNELS)
def test_kernels_of_others_fit_no_row(rows: tuple[NormRow, ...], name: str) -> None:
    assert [row.id for row in rows if row.names_kernel(name)] == []


@pytest.mark.parametrize(
    ("row_id", "name"),
    [
        ("aiter-rmsnorm", _AITER.format(0, 0)),
        ("aiter-add-rmsnorm", _AITER.format(1, 0)),
        ("ck-add-rmsnorm", _CK + _CK_TRAITS.format(1, 0)),
        ("vllm-add-rms-norm", "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(x)"),
        ("flashinfer-rmsnorm", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(x)"),
        ("fla-l2-norm", "l2norm_fwd_kernel"),
    ],
)
def test_the_catalog_finds_a_kernel_by_its_name(catalog: Catalog, row_id: str, name: str) -> None:
    row = catalog.of_kernel(name)
    assert row is not None
    assert row.id == row_id


@pytest.mark.parametrize(
    "beginning", ["add_rmsnorm_quant_kernelI", "add_rmsnorm_quant_kernel<", "gated_rmsnorm_fp8_", "_"]
)
def test_patterns_come_to_an_end_on_hostile_names(rows: tuple[NormRow, ...], beginning: str) -> None:
    """The beginning of a fitting name over and over: a pattern that backtracks over them would not end."""
    fitting = {row.id for row in rows if row.names_kernel(beginning * 20_000)}
    assert fitting <= {"aiter-rmsnorm-quant-kernel"}


def test_backward_takes_x_and_weight_from_the_forward_op(catalog: Catalog) -> None:
    """dy 64 + x 64 + dx 64 + one statistic a row 16 + weight 16 and its gradient 16."""
    forward = recorded(X, X, X, X, W, EPS, YES)
    row = catalog.layout("_RMSNorm2dFwdWithAdd", forward.types)
    backward = catalog.layout("_RMSNorm2dFwdWithAddBackward", recorded(X).types)
    assert row is not None
    assert backward is not None
    assert norm_cost(backward, recorded(X), (row, forward)).bytes_moved == 240


def test_a_view_with_gaps_between_rows_counts_by_its_shape(catalog: Catalog) -> None:
    """Rows of 2880 in a tensor whose rows are 3072 apart: 4·888·2880·2 + 2880·2."""
    x = (BF16, [888, 2880])
    args = msgspec.structs.replace(
        recorded(x, x, (BF16, [2880]), EPS), strides=[[3072, 1], [2880, 1], [1], []]
    )
    assert norm_cost(catalog.layout("_C::fused_add_rms_norm", args.types), args).bytes_moved == 20_465_280


@pytest.mark.parametrize(
    ("op", "arguments", "reason"),
    [
        ("vllm::rocm_aiter_rmsnorm_fp8_group_quant", (X, W, EPS, "0"), "the group size is 0"),
        (
            "vllm::rocm_aiter_rmsnorm_fp8_group_quant",
            (X, W, EPS, "s0"),
            "argument 3 should be a size and is s0",
        ),
        (
            "LayerNormGatedFunction",
            (X, X, W, ABSENT, ABSENT, EPS, NO, NO),
            "argument 8 (is_rms) is not recorded",
        ),
        # ops that can't be called without what is missing
        ("_C::fused_add_rms_norm", (X,), "argument 1 (residual) is not recorded"),
        ("_C::fused_add_rms_norm", (X, X, ABSENT, EPS), "argument 2 (weight) is not recorded"),
        ("_C::rms_norm", (ABSENT, X, W, EPS), "argument 0 (y) is not recorded"),
        ("aiter::add_rmsnorm", (X,), "argument 1 (x) is not recorded"),
        ("aiter::add_rmsnorm", (X, X, X, ABSENT, W, EPS), "argument 3 (residual_out) is not recorded"),
        ("_C::fused_qk_norm_rope", (QKV, *HEADS, EPS, W), "argument 7 (key_weight) is not recorded"),
        (
            "aiter::fused_qk_norm_rope_1way",
            (QUERY, KEY, W, W, (F32, [4, 8])),
            "argument 12 (y) is not recorded",
        ),
    ],
)
def test_bytes_are_not_guessed(
    catalog: Catalog, op: str, arguments: tuple[Argument, ...], reason: str
) -> None:
    args = recorded(*arguments)
    cost = norm_cost(catalog.layout(op, args.types), args)
    assert (cost.bytes_moved, cost.flops, cost.missing_reason) == (None, None, reason)


def test_flops_of_a_fused_norm(catalog: Catalog) -> None:
    """Squares, their sum and the scaling 3E, weight E, residual E, and 2 for each row: 5·32 + 2·4."""
    args = recorded(X, X, W, EPS)
    assert norm_cost(catalog.layout("_C::fused_add_rms_norm", args.types), args).flops == 168
    assert (
        norm_cost(catalog.layout("trtllm::flashinfer_rmsnorm", args.types), recorded(X, W, EPS)).flops == 136
    )


def test_layouts_of_one_op_differ_by_a_condition(catalog: Catalog, rows: tuple[NormRow, ...]) -> None:
    """A row without a condition is tried last, so that no other row of its op is out of reach."""
    for name in {name for row in rows for name in row.ops}:
        layouts = catalog.of_op(name)
        assert all(row.has_condition for row in layouts[:-1]), name
        assert len({(row.scalar_at, row.argument_count) for row in layouts}) == len(layouts), name


_INPUTS = {
    "Input Dims": [[4, 8], [8], []],
    "Input type": [BF16, BF16, "Scalar"],
    "Input Strides": [[8, 1], [1], []],
    "Concrete Inputs": ["", "", EPS],
}


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("vllm::rocm_aiter_rms_norm", "aiter::rms_norm"), "aiter::rms_norm"),
        (("vllm::rocm_aiter_rms_norm",), "vllm::rocm_aiter_rms_norm"),
        (("aiter::fused_allreduce_rmsnorm_", "aiter::rms_norm"), "aiter::fused_allreduce_rmsnorm_"),
    ],
)
def test_a_wrapper_leaves_the_call_to_the_op_below(names: tuple[str, ...], shown: str) -> None:
    nested = [cpu_op(name, 100.0 + depth, 40.0 - 2 * depth, **_INPUTS) for depth, name in enumerate(names)]
    linked = link_events(*nested, launch(7, 110.0), kernel(7, 200.0, name=_CK + _CK_TRAITS.format(0, 0)))
    (call,) = find_norms(linked, load_catalog())
    assert (call.name, call.found_by, call.cost.bytes_moved) == (shown, "op", 144)


def _calls(trace: Path) -> list[NormCall]:
    return find_norms(link(read_trace(trace)), load_catalog())


def test_vllm_on_b200(shared: Path) -> None:
    """73 calls: fused add moves 4·888·2880·2 + 2880·2 bytes at 3.26 TB/s, as the reference document says."""
    calls = _calls(shared / "traces" / "vllm_eager_b200.json.gz")
    assert Counter((call.name, call.found_by) for call in calls) == {
        ("_C::fused_add_rms_norm", "op"): 72,
        ("_C::rms_norm", "op"): 1,
    }
    added = [call for call in calls if call.name == "_C::fused_add_rms_norm"]
    assert {call.cost.bytes_moved for call in added} == {20_465_280}
    total_us = sum(call.kernel_us for call in added)
    assert total_us == pytest.approx(452.1, abs=0.05)
    assert 72 * 20_465_280 / total_us / 1e6 == pytest.approx(3.26, abs=0.005)


def test_the_ops_table_names_the_library_of_vllm(shared: Path, tmp_path: Path) -> None:
    rows = written(shared / "traces/vllm_eager_b200.json.gz", tmp_path).rows
    libraries = {row["norm_library"] for row in rows if row["name"].startswith("_C::")}
    assert libraries == {"vLLM"}


def test_sglang_on_mi300x(shared: Path) -> None:
    """Names, counts and bytes are the reference's, though the profiler's ops around them are norm ops too."""
    calls = _calls(shared / "traces" / "sglang_prefill_mi300x.json.gz")
    expected = json.loads((shared / "traces/expected/sglang_prefill_mi300x.json").read_bytes())["norm_rows"]
    found = Counter((call.name, round((call.cost.bytes_moved or 0) / 2**20, 6)) for call in calls)
    assert found == {(row["name"], round(row["data_moved_mib"], 6)): row["count"] for row in expected}


def test_group_norm_of_aiter_on_mi300x(shared: Path) -> None:
    """x [1, 512, 128, 128] in bf16: 2·8388608·2 and two parameters of 512."""
    calls = _calls(shared / "traces" / "sd35_compiled_mi300x.json.gz")
    found = [call for call in calls if call.name == "aiter::_groupnorm_run"]
    assert len(found) == 30
    first = [call for call in found if call.cost.x_shape == (1, 512, 128, 128)]
    assert first
    assert {call.cost.bytes_moved for call in first} == {33_556_480}
    assert {call.variant for call in found} == {"GroupNorm"}


def test_graph_replays_are_told_by_the_names_of_kernels(shared: Path) -> None:
    """49 norms, 48 of them with a residual, by the flags in the name of the kernel."""
    calls = _calls(shared / "traces" / "vllm_piecewise_graph.json.gz")
    assert Counter(call.row.id for call in calls) == {"ck-add-rmsnorm": 48, "ck-rmsnorm": 1}
