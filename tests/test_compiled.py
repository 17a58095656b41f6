"""Norms inside compiled kernels: found by name, with the tensors that the kernel is given; bytes by hand."""

from pathlib import Path

import pytest

from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.compiled import ANOTHER_ADD, NO_ARGUMENTS, NOT_TOLD, fused_ops
from normscope.norms.find import find_norms
from trace_inputs import Event, base_events, kernel, launch, link_events, op
from written_run import known, written

BF16, F32 = "c10::BFloat16", "float"
LAYER_NORM = "triton_red_fused_add_addmm_mul_native_layer_norm_view_6"
RMS_NORM = "triton_red_fused_add_mean_mul_pow_rsqrt_0"


def compiled(name: str, inputs: dict[str, object], correlation: int = 1, start: float = 100.0) -> list[Event]:
    """Return a compiled kernel of 20 µs under the op of its name."""
    return [
        op(name, start, 30.0, kernel_backend="triton", **inputs),
        launch(correlation, start + 5, name="hipModuleLaunchKernel"),
        kernel(correlation, start + 50, 20.0, name),
    ]


def inputs(*tensors: tuple[str, list[int]], sizes: tuple[str, ...] = ()) -> dict[str, object]:
    """Return the arguments as recorded: the tensors, then the sizes that the kernel works on."""
    return {
        "Input Dims": [shape for _, shape in tensors] + [[] for _ in sizes],
        "Input type": [dtype for dtype, _ in tensors] + ["Scalar" for _ in sizes],
        "Concrete Inputs": ["" for _ in tensors] + list(sizes),
    }


def calls(*events: Event) -> list[NormCall]:
    return find_norms(link_events(*events), load_catalog())


@pytest.mark.parametrize(
    ("name", "variant", "direction", "fused"),
    [
        (LAYER_NORM, "LayerNorm", "forward", ("add", "addmm", "mul")),
        (RMS_NORM, "RMSNorm", "forward", (ANOTHER_ADD,)),
        (
            "triton_per_fused__to_copy_add_addmm_mean_mul_pow_rsqrt_transpose_view_8",
            "RMSNorm",
            "forward",
            ("_to_copy", "addmm", ANOTHER_ADD),
        ),
        ("triton_per_fused__fused_rms_norm_sinh_0", "RMSNorm", "forward", ("sinh",)),
        ("triton_red_fused__fused_rms_norm_backward_mul_3", "RMSNorm", "backward", ("mul",)),
        ("triton_red_fused_native_layer_norm_backward_0", "LayerNorm", "backward", ()),
        ("triton_red_fused_native_layer_norm_0", "LayerNorm", "forward", ()),
        ("triton_red_fused_add_native_layer_norm_0d1d2d3de", "LayerNorm", "forward", ("add",)),
        ("triton_fused_add_native_layer_norm_0d1d2", "LayerNorm", "forward", ("add",)),
        ("triton_helpers_native_layer_norm-kernel", "LayerNorm", "forward", (NOT_TOLD,)),
        ("triton_poi_fused_native_group_norm_silu_1", "GroupNorm", "forward", ("silu",)),
        ("triton_red_fused_native_group_norm_backward_1", "GroupNorm", "backward", ()),
        ("triton_per_fused__native_batch_norm_legit_functional_relu_2", "BatchNorm", "forward", ("relu",)),
        (
            "triton_per_fused__native_batch_norm_legit_no_training_add_relu_2",
            "BatchNorm",
            "forward",
            ("add", "relu"),
        ),
        ("triton_per_fused_native_batch_norm_backward_2", "BatchNorm", "backward", ()),
    ],
)
def test_variant_direction_and_what_is_fused_stand_in_the_name(
    name: str, variant: str, direction: str, fused: tuple[str, ...]
) -> None:
    (call,) = calls(*compiled(name, inputs((BF16, [8, 64]))))
    assert (call.found_by, call.name) == ("compiled", name)
    assert (call.variant, call.direction, call.fuses) == (variant, direction, fused)
    assert call.is_upper_bound is bool(fused)


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_add_mul_0",
        "triton_red_fused_mean_pow_0",
        "triton_red_fused_linalg_vector_norm_0",
        "triton_poi_fused_normal_functional_0",
        "triton_",
        "cpp_fused_native_layer_norm_0",
    ],
)
def test_other_compiled_kernels_are_no_norms(name: str) -> None:
    assert [c for c in calls(*compiled(name, inputs((BF16, [8, 64])))) if c.found_by == "compiled"] == []


def test_each_tensor_counts_once() -> None:
    events = compiled(
        RMS_NORM,
        inputs((BF16, [8, 4096, 2048]), (BF16, [2048]), (BF16, [8, 4096, 2048]), sizes=("32768", "2048")),
    )
    (call,) = calls(*events)
    # two of 67,108,864 elements and 2,048 weights, 2 bytes each
    assert call.cost.bytes_moved == 2 * (2 * 67_108_864 + 2048)
    assert (call.cost.x_shape, call.cost.dtype) == ((8, 4096, 2048), "bf16")
    assert call.host_us == 30.0


def test_of_a_tensor_that_is_sliced_no_more_counts_than_the_kernel_works_on() -> None:
    events = compiled(
        LAYER_NORM,
        inputs((BF16, [2, 16, 32]), (BF16, [1, 4096, 32]), (F32, [2, 16, 1]), sizes=("32", "32")),
    )
    (call,) = calls(*events)
    # 32 × 32 = 1,024 points: 1,024 and 1,024 of 131,072 elements of 2 bytes, 32 of 4 bytes
    assert call.cost.bytes_moved == 2 * 1024 + 2 * 1024 + 4 * 32
    assert call.cost.x_shape == (2, 16, 32)


def test_without_the_sizes_each_tensor_counts_as_a_whole() -> None:
    (call,) = calls(*compiled(LAYER_NORM, inputs((BF16, [2, 16, 32]), (F32, [32]))))
    assert call.cost.bytes_moved == 2 * 1024 + 4 * 32


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, NO_ARGUMENTS),
        (inputs(sizes=("32",)), NO_ARGUMENTS),
        (inputs(("c10::Mystery", [8])), "element type c10::Mystery of argument 0 is not known"),
        (inputs((BF16, ["s0"])), "symbolic or unreadable size s0 in argument 0"),  # type: ignore[list-item]
    ],
)
def test_without_readable_tensors_the_bytes_are_not_known(arguments: dict[str, object], reason: str) -> None:
    (call,) = calls(*compiled(LAYER_NORM, arguments))
    assert (call.cost.bytes_moved, call.cost.missing_reason) == (None, reason)


def test_a_compiled_norm_that_a_graph_replays_has_a_time_and_no_bytes() -> None:
    events = [
        launch(1, 100.0, name="hipGraphLaunch"),
        kernel(1, 150.0, 20.0, LAYER_NORM),
        kernel(1, 180.0, 9.0, "gemm"),
    ]
    (call,) = calls(*events)
    assert (call.found_by, call.norm_us, call.cost.bytes_moved) == ("compiled", 20.0, None)
    assert call.is_upper_bound


def test_a_compiled_forward_in_the_backward_pass_is_recomputed() -> None:
    around = op("autograd::engine::evaluate_function: CompiledFunctionBackward", 90.0, 90.0)
    (call,) = calls(around, *compiled(LAYER_NORM, inputs((BF16, [8, 64]))))
    assert call.is_recomputed


def test_names_that_are_none_tell_nothing() -> None:
    for name in ("", "triton_red_fused_", "x" * 100_000):
        assert fused_ops(name) == (NOT_TOLD,)
    assert fused_ops("triton_red_fused_" + "a_" * 50_000 + "0")[:1] == ("a",)


def test_the_compiled_llama_layer_reaches_the_bandwidth_that_its_tensors_say(
    shared: Path, tmp_path: Path
) -> None:
    run = written(shared / "traces" / "compiled_llama_layer.json.gz", tmp_path)
    first = next(row for row in run.rows if row["name"] == RMS_NORM)
    # 268 MB in 77 µs, as the catalog of norms has it
    assert known(first, "Data Moved (MB)") * 2**20 == 2 * (2 * 67_108_864 + 2048)
    assert known(first, "Kernel Time (µs)_mean") == pytest.approx(77, abs=1)
    assert (first["is_upper_bound"], first["fused_with"]) == ("True", ANOTHER_ADD)


def test_a_compiled_norm_whose_launch_was_cut_off_is_not_in_the_timeline() -> None:
    cut_off = kernel(99, 10.0, 20.0, LAYER_NORM)
    within, without = sorted(calls(*base_events(), cut_off), key=lambda call: call.found_by, reverse=True)
    assert (within.found_by, within.is_in_timeline) == ("op", True)
    assert (without.found_by, without.is_in_timeline) == ("compiled", False)
