import pytest

from normscope.analysis.arguments import render_arguments
from normscope.analysis.call_stack import call_chain, read_call_stack
from normscope.analysis.models import Direction, Variant
from normscope.analysis.names import kernel_names, norm_direction, norm_library, norm_variant


@pytest.mark.parametrize(
    ("op", "variant"),
    [
        ("aten::batch_norm", "BatchNorm"),
        ("aten::native_batch_norm_backward", "BatchNorm"),
        ("aten::miopen_batch_norm", "BatchNorm"),
        ("aten::layer_norm", "LayerNorm"),
        ("aten::native_layer_norm_backward", "LayerNorm"),
        ("aten::group_norm", "GroupNorm"),
        ("aiter::_groupnorm_run", "GroupNorm"),
        ("aten::instance_norm", "InstanceNorm"),
        ("aten::_fused_rms_norm", "RMSNorm"),
        ("aiter::rmsnorm2d_fwd", "RMSNorm"),
        ("_C::fused_add_rms_norm", "RMSNorm"),
        ("custom::norm|weird", "Other"),
        ("aten::linear", "Other"),
        ("", "Other"),
    ],
)
def test_the_variant_is_read_from_the_op_name(op: str, variant: Variant) -> None:
    assert norm_variant(op) == variant


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("norm_fwd", "forward"),
        ("norm_bwd", "backward"),
        ("aten::native_layer_norm_backward", "backward"),
        ("aiter::rmsnorm2d_fwd", "forward"),
        ("MIOpenBatchNormBwdSpatial", "unknown"),
        ("norm", "unknown"),
        ("aten::forwarding_norm", "unknown"),
    ],
)
def test_the_direction_is_read_from_whole_words(name: str, direction: Direction) -> None:
    assert norm_direction(name) == direction


@pytest.mark.parametrize(
    ("op", "kernels", "library"),
    [
        ("aiter::rmsnorm2d_fwd", [], "AITER"),
        ("vllm::rocm_aiter_rms_norm", [], "AITER"),
        ("FBGEMM::norm", [], "FBGEMM"),
        ("aten::miopen_batch_norm", ["void at::native::x"], "MIOpen"),
        ("my_triton_norm", [], "Triton"),
        ("aten::x", ["void at::native::a", "aiter::rmsnorm_kernel"], "AITER"),
        ("aten::x", ["void ck_tile::kentry<1>"], "CK"),
        ("aten::x", ["_ZN7ck_tile6kentryILi1"], "CK"),
        ("aten::x", ["FmhaBwdKernel"], "CK"),
        ("aten::x", ["Cijk_Ailk"], "Tensile"),
        ("aten::x", ["wvSplitK_hf"], "rocBLAS"),
        ("aten::x", ["splitKreduce_kernel"], "rocBLAS"),
        ("aten::x", ["void rocprim::detail"], "rocPRIM"),
        ("aten::x", ["triton_red_fused_0"], "Triton"),
        ("aten::x", ["void at::native::vectorized_layer_norm_kernel"], "PyTorch Native"),
        ("aten::x", ["MIOpenBatchNormFwdTrainSpatialNorm"], None),
        ("aten::x", [], None),
    ],
)
def test_the_library_follows_the_contract(op: str, kernels: list[str], library: str | None) -> None:
    assert norm_library(op, kernels) == library


def test_kernel_names_are_found_without_evaluating_the_cell() -> None:
    cell = "[{'name': 'a<b>', 'mean_duration_us': np.float64(3.1)}, {'name': 'c', 'stream': 0}]"
    assert kernel_names(cell) == ("a<b>", "c")
    assert kernel_names(None) == ()


@pytest.mark.parametrize(
    ("dims", "types", "args"),
    [
        ("((8, 768), (768,), ())", "('c10::BFloat16', 'float', 'Scalar')", "(8,768) bf16<br>(768,) fp32"),
        ("((2,), ())", "('c10::Half', 'ScalarList')", "(2,) fp16<br>() ScalarList"),
        ("((2, 3), (3,))", "('double', '')", "(2,3) fp64<br>(3,)"),
        (
            "((4,), (4,), (4,))",
            "('unsigned char', 'c10::Float4_e2m1fn_x2', 'x')",
            "(4,) fp8<br>(4,) fp4<br>(4,) x",
        ),
        ("((), ())", "('', 'Scalar')", None),
        ("not a literal", "('float',)", None),
        (None, "('float',)", None),
    ],
)
def test_arguments_are_written_as_the_contract_says(dims: str | None, types: str, args: str | None) -> None:
    assert render_arguments(dims, types) == args


def test_the_last_frame_is_the_kernel() -> None:
    stack = read_call_stack("['nn.Module: Net_0', 'aten::layer_norm', 'kernel_a']")
    assert (stack.kernel_name, stack.module_chain) == ("kernel_a", ("Net_0",))


def test_nested_frames_are_numbered_kernels_cut_at_75_characters() -> None:
    stack = read_call_stack(repr(["aten::x", ["launch", "k" * 80], ["launch", "short"]]))
    assert stack.kernel_name == f"Kernel 1: {'k' * 80}<br>Kernel 2: short"
    assert stack.kernel_name_trunc == f"Kernel 1: {'k' * 75}...<br>Kernel 2: short"


def test_the_call_chain_leaves_out_the_dispatch_internals() -> None:
    frames = [
        "nn.Module: Net_0",
        "torch/nn/modules/module.py(1): _call_impl",
        "model.py(3): forward",
        "plain",
        "aten::x",
    ]
    assert call_chain(repr(frames)) == ("nn.Module: Net_0", "model.py(3): forward", "aten::x")


@pytest.mark.parametrize("cell", [None, "", "nan", "[]", "[broken", "('a', 'b')", "3"])
def test_a_cell_that_is_no_list_of_frames_holds_none(cell: str | None) -> None:
    assert read_call_stack(cell).kernel_name == ""
    assert call_chain(cell) == ()
