"""Bytes, FLOPs and facts of norm calls, by hand and by their laws."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from norm_events import (
    ABSENT,
    BF16,
    CATALOG,
    F32,
    F64,
    HALF,
    cost,
    cost_of,
    cpu_ops,
    moved,
    operations,
    real_args,
    recorded,
    row_args,
)
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import NO_LAYOUT, NO_MODEL, QUANTITIES, describing_op
from normscope.norms.formulas import BYTES, FLOPS, Count, formula
from normscope.trace.events import OpArgs

# Parameters of each op as PyTorch's schemas list them; `-` is one that no formula needs.
SCHEMAS = {
    "aten::batch_norm": "input weight bias running_mean running_var training - - -",
    "aten::_batch_norm_impl_index": "input weight bias running_mean running_var training - - -",
    "aten::_batch_norm_impl_index_backward": "- input grad_output weight running_mean running_var save_mean "
    "save_var_transform train - output_mask -",
    "aten::native_batch_norm": "input weight bias running_mean running_var training - -",
    "aten::native_batch_norm_backward": "grad_out input weight running_mean running_var save_mean "
    "save_invstd train - output_mask",
    "aten::cudnn_batch_norm": "input weight bias running_mean running_var training - -",
    "aten::cudnn_batch_norm_backward": "input grad_output weight running_mean running_var save_mean "
    "save_var - -",
    "aten::miopen_batch_norm": "input weight bias running_mean running_var training - -",
    "aten::miopen_batch_norm_backward": "input grad_output weight running_mean running_var save_mean "
    "save_var -",
    "aten::_native_batch_norm_legit": "input weight bias running_mean running_var training - -",
    "aten::_native_batch_norm_legit_no_training": "input weight bias running_mean running_var - -",
    "aten::_native_batch_norm_legit_functional": "input weight bias running_mean running_var training - -",
    "aten::_batch_norm_with_update": "input weight bias running_mean running_var - -",
    "aten::_batch_norm_no_update": "input weight bias running_mean running_var - -",
    "aten::batch_norm_backward": "grad_out input weight running_mean running_var save_mean save_var update - "
    "output_mask -",
    "aten::batch_norm_stats": "input -",
    "aten::batch_norm_update_stats": "input running_mean running_var -",
    "aten::batch_norm_gather_stats": "input mean invstd running_mean running_var - - -",
    "aten::batch_norm_gather_stats_with_counts": "input mean invstd running_mean running_var - - counts",
    "aten::batch_norm_elemt": "input weight bias save_mean save_invstd -",
    "aten::batch_norm_backward_reduce": "grad_out input save_mean save_invstd weight input_g weight_g bias_g",
    "aten::batch_norm_backward_elemt": "grad_out input save_mean save_invstd weight sum_dy sum_dy_xmu count",
    "aten::instance_norm": "input weight bias running_mean running_var use_input_stats - - -",
    "aten::layer_norm": "input normalized_shape weight bias - -",
    "aten::native_layer_norm": "input normalized_shape weight bias -",
    "aten::native_layer_norm_backward": "grad_out input normalized_shape save_mean rstd weight bias "
    "output_mask",
    "aten::group_norm": "input num_groups weight bias - -",
    "aten::native_group_norm": "input weight bias - - - group -",
    "aten::native_group_norm_backward": "grad_out input save_mean rstd weight - - - group output_mask",
    "aten::rms_norm": "input normalized_shape weight -",
    "aten::_fused_rms_norm": "input normalized_shape weight -",
    "aten::_fused_rms_norm_backward": "grad_out input normalized_shape rstd weight output_mask",
    "aten::quantized_batch_norm": "input weight bias running_mean running_var - - -",
}
ROLE = {
    "input": "x",
    "grad_out": "dy",
    "grad_output": "dy",
    "rstd": "save_invstd",
    "save_var": "save_invstd",
    "save_var_transform": "save_invstd",
    "train": "training",
    "update": "training",
    "use_input_stats": "training",
    "num_groups": "groups",
    "group": "groups",
    "output_mask": "mask",
    "input_g": "dx_flag",
    "weight_g": "dweight_flag",
    "bias_g": "dbias_flag",
    "count": "counts",
}
NORM_OPS = sorted({name for row in CATALOG.rows if row.purpose == "norm" for name in row.ops})
ATEN_NORMS = [name for name in NORM_OPS if name.startswith("aten::")]
SHAPE = [8, 16, 32, 32]
ELEMENTS = 131072
X, C16, STATS = (F32, SHAPE), (F32, [16]), (F32, [16])


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_role_lies_where_the_schema_has_it(name: str) -> None:
    row = CATALOG.of_op(name)[-1]
    for index, parameter in enumerate(SCHEMAS[name].split()):
        role = ROLE.get(parameter, parameter)
        if parameter != "-":
            assert row.roles.get(role) == index, parameter
    assert max(row.roles.values()) < len(SCHEMAS[name].split())


def test_the_table_holds_every_aten_norm_op_and_no_other() -> None:
    assert set(ATEN_NORMS) == set(SCHEMAS)
    assert not CATALOG.is_norm_op("aten::linalg_vector_norm")
    assert not CATALOG.is_norm_op("aten::_weight_norm_interface")
    assert not CATALOG.is_norm_op("")


def test_backward_ops_are_told_by_their_name() -> None:
    for name in ATEN_NORMS:
        expected = "backward" if "backward" in name else "forward"
        assert {row.direction for row in CATALOG.of_op(name)} == {expected}, name


def test_wrappers_are_the_ops_that_call_another_norm_op() -> None:
    assert {name for name in ATEN_NORMS if CATALOG.of_op(name)[0].wrapper} == {
        "aten::batch_norm",
        "aten::_batch_norm_impl_index",
        "aten::_batch_norm_impl_index_backward",
        "aten::instance_norm",
        "aten::layer_norm",
        "aten::group_norm",
        "aten::rms_norm",
    }


@pytest.mark.parametrize("count", [*BYTES.values(), *FLOPS.values()])
def test_every_formula_asks_only_for_known_quantities(count: Count) -> None:
    assert set(count.__annotations__) - {"return"} <= set(QUANTITIES)


@pytest.mark.parametrize("row", CATALOG.rows, ids=lambda row: row.id)
def test_every_row_that_counts_bytes_tells_how_in_words(row: NormRow) -> None:
    words = formula(row)
    if not row.bytes and not row.sums_pieces:
        assert words is None
        return
    assert words is not None
    assert all((words.title, words.bytes_moved, words.source, words.assumption))
    assert (words.flops is None) == (not row.flops and not row.sums_pieces)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        # 2 * 4 B * 131072 = 1048576; weight and bias 16 * 8; saved statistics 2 * 16 * 4; running 4 * 16 * 4
        ("aten::native_batch_norm", (X, C16, C16, STATS, STATS, "True"), 1048576 + 128 + 128 + 256),
        ("aten::native_batch_norm", (X, C16, C16, STATS, STATS, "False"), 1048576 + 128 + 128),
        ("aten::native_batch_norm", (X, ABSENT, ABSENT, ABSENT, ABSENT, "True"), 1048576 + 128),
        ("aten::_native_batch_norm_legit", (X, C16, C16, STATS, STATS, "True"), 1048576 + 128 + 128 + 256),
        ("aten::_native_batch_norm_legit", (X, C16, C16, "True", "0.1", "1e-05"), 1048576 + 128 + 128),
        ("aten::_native_batch_norm_legit_no_training", (X, C16, C16, STATS, STATS), 1048576 + 128 + 128),
        ("aten::_batch_norm_with_update", (X, C16, C16, STATS, STATS), 1048576 + 128 + 128 + 256),
        ("aten::_batch_norm_no_update", (X, C16, C16, STATS, STATS), 1048576 + 128 + 128),
        # 8-bit activations, fp32 parameters: 2 * 131072 + 4 tensors of 16 * 4
        (
            "aten::quantized_batch_norm",
            (("c10::quint8", SHAPE), C16, C16, STATS, STATS, "1e-05", "0.1", "0"),
            262144 + 256,
        ),
        # one pass over x, two statistics written
        ("aten::batch_norm_stats", (X, "1e-05"), 524288 + 128),
        ("aten::batch_norm_update_stats", (X, STATS, STATS, "0.1"), 524288 + 128 + 256),
        # means and deviations of 4 GPUs read, 4 counts, two statistics written, running ones updated
        (
            "aten::batch_norm_gather_stats_with_counts",
            (X, (F32, [4, 16]), (F32, [4, 16]), STATS, STATS, "0.1", "1e-05", (F32, [4])),
            512 + 16 + 128 + 256,
        ),
        ("aten::batch_norm_elemt", (X, C16, C16, STATS, STATS, "1e-05"), 1048576 + 128 + 128),
        # dy and x read; mean, deviation read; two sums written; both parameter gradients written
        (
            "aten::batch_norm_backward_reduce",
            (X, X, STATS, STATS, C16, "True", "True", "True"),
            1048576 + 128 + 128 + 128,
        ),
        (
            "aten::batch_norm_backward_reduce",
            (X, X, STATS, STATS, C16, "True", "False", "False"),
            1048576 + 128 + 128,
        ),
        (
            "aten::batch_norm_backward_reduce",
            (X, X, STATS, STATS, C16, "False", "True", "False"),
            1048576 + 128 + 64,
        ),
        # dy, x, dx; weight, mean, deviation and two sums of 16 * 4; one count
        (
            "aten::batch_norm_backward_elemt",
            (X, X, STATS, STATS, C16, STATS, STATS, ("int", [1])),
            3 * 524288 + 5 * 64 + 4,
        ),
        # bf16 activations, fp32 parameters: statistics of group norm are fp32 then, else as x
        (
            "aten::native_group_norm",
            ((BF16, SHAPE), C16, C16, "8", "16", "1024", "4", "1e-05"),
            4 * ELEMENTS + 128 + 2 * 32 * 4,
        ),
        (
            "aten::native_group_norm",
            ((BF16, SHAPE), (BF16, [16]), (BF16, [16]), "8", "16", "1024", "4", "1e-05"),
            4 * ELEMENTS + 64 + 2 * 32 * 2,
        ),
        # double: everything eight bytes wide, statistics too
        (
            "aten::native_layer_norm",
            ((F64, [4, 10]), "[10]", (F64, [10]), ABSENT, "1e-05"),
            2 * 8 * 40 + 80 + 2 * 4 * 8,
        ),
        # the unfused form has no less to move than the fused one
        ("aten::rms_norm", ((BF16, [6, 10]), "[10]", (F32, [10]), ABSENT), 4 * 60 + 40 + 24),
        ("aiter::rms_norm", ((BF16, [6, 10]), (BF16, [10]), "1e-05", "0"), 4 * 60 + 20),
        (
            "aiter::_groupnorm_run",
            ((BF16, [2, 8, 4]), "4", (BF16, [8]), (BF16, [8]), "1e-06"),
            4 * 64 + 32,
        ),
        (
            "aiter::_groupnorm_run",
            (
                (BF16, [2, 8, 4]),
                (F32, [64]),
                (BF16, [2, 8, 4]),
                "4",
                (BF16, [8]),
                (BF16, [8]),
                "1e-06",
            ),
            4 * 64 + 32,
        ),
    ],
)
def test_bytes_by_hand(name: str, arguments: tuple[object, ...], expected: int) -> None:
    assert moved(name, *arguments) == expected  # type: ignore[arg-type]


def test_the_normalized_shape_comes_from_the_weight_where_its_value_is_not_recorded() -> None:
    with_values = recorded((BF16, [4, 768]), "[768]", (BF16, [768]), (BF16, [768]), "1e-05")
    without = OpArgs(dims=with_values.dims, types=with_values.types)
    assert cost_of("aten::native_layer_norm", without) == cost_of("aten::native_layer_norm", with_values)


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("aten::linalg_vector_norm", recorded((F32, [1])), NO_MODEL),
        # no layout of this op has 12 arguments
        ("vllm::flashinfer_trtllm_fused_allreduce_norm", recorded(*[(BF16, [4, 8])] * 12), NO_LAYOUT),
        ("aten::layer_norm", OpArgs(), "no shapes recorded"),
        ("aten::layer_norm", recorded((F32, ["s0", 768]), "[768]", (F32, [768])), "s0"),
        ("aten::layer_norm", OpArgs(dims=[[4, 8], []], types=[F32, "ScalarList"]), "not recorded"),
        ("aten::layer_norm", recorded(ABSENT, "[8]"), "no input tensor"),
        ("aten::layer_norm", recorded((F32, [4, 8]), "[16]"), "doesn't fit"),
        ("aten::batch_norm", OpArgs(dims=[[4, 8]], types=[F32], concrete=[""]), "not recorded"),
        ("aten::batch_norm", recorded((F32, [4]), None, None, None, None, "True"), "no channel axis"),
        ("aten::group_norm", recorded((F32, [4, 8]), "s1"), "s1"),
        (
            "aten::native_layer_norm_backward",
            recorded((F32, [4, 8]), (F32, [4, 8]), "[8]", (F32, [4, 1]), (F32, [4, 1]), None, None, "[True]"),
            "no entry for dweight",
        ),
    ],
)
def test_what_the_trace_does_not_say_is_unknown_with_its_reason(name: str, args: OpArgs, reason: str) -> None:
    found = cost_of(name, args)
    assert found.bytes_moved is None
    assert found.missing_reason is not None
    assert reason in found.missing_reason


def test_an_unknown_byte_count_leaves_the_shape_and_type_known() -> None:
    found = cost_of("aten::batch_norm", OpArgs(dims=[[4, 8, 2]], types=[BF16]))
    assert (found.x_shape, found.dtype, found.compute_spec) == ((4, 8, 2), "bf16", "vector_bf16")
    assert (found.bytes_moved, found.training, found.has_weight) == (None, None, False)


def test_facts_tell_calls_apart() -> None:
    found = cost("aten::native_batch_norm", X, C16, ABSENT, STATS, STATS, "False")
    assert (found.has_weight, found.has_bias, found.training, found.output_mask) == (True, False, False, None)
    backward = cost(
        "aten::_fused_rms_norm_backward", X, X, "[32, 32]", (F32, [8, 16, 1, 1]), None, "[True, False]"
    )
    assert backward.output_mask == (True, False)
    assert backward.training is None


def test_arithmetic_intensity_is_operations_over_bytes() -> None:
    found = cost("aiter::rmsnorm", (BF16, [10, 10]), (BF16, [10, 10]), (BF16, [10]), "1e-06")
    assert (found.flops, found.bytes_moved) == (420, 420)  # 4 * 100 + 2 * 10; 2 * 200 + 20
    assert found.flops_per_byte == 1


def test_an_empty_batch_moves_its_parameters_only_and_divides_by_nothing() -> None:
    assert moved("aten::native_layer_norm", (F32, [0, 8]), "[8]", (F32, [8]), None, "1e-05") == 32


def test_the_innermost_norm_op_with_tensors_describes_a_call() -> None:
    x, shape = (F32, [4, 8]), "[8]"
    chain = [
        (
            "aten::layer_norm",
            recorded((BF16, [4, 8]), shape, (F32, [8])),
        ),  # autocast: the outer one sees bf16
        ("aten::to", recorded((BF16, [4, 8]))),
        ("aten::layer_norm", recorded(x, shape, (F32, [8]))),
        ("aten::native_layer_norm", recorded(x, shape, (F32, [8]), None, "1e-05")),
    ]
    assert describing_op(CATALOG, chain) == 3
    assert describing_op(CATALOG, chain[:3]) == 2
    assert describing_op(CATALOG, chain[:2]) == 0
    without_inputs = [*chain, ("aten::native_layer_norm", OpArgs())]
    assert describing_op(CATALOG, without_inputs) == 3
    assert describing_op(CATALOG, [("aten::add", recorded(x))]) is None
    assert describing_op(CATALOG, []) is None


def test_an_outermost_instance_norm_describes_its_call() -> None:
    chain = [
        ("aten::instance_norm", recorded(X, None, None, None, None, "True")),
        ("aten::batch_norm", recorded((F32, [1, 128, 32, 32]), None, None, None, None, "True")),
    ]
    assert describing_op(CATALOG, chain) == 0


def test_all_reference_rows_have_a_cost_with_their_shape_and_compute_spec(shared: Path) -> None:
    rows = 0
    for path in sorted((shared / "traces" / "expected").glob("*.json")):
        for row in json.loads(path.read_text())["norm_rows"]:
            found = cost_of(row["name"], row_args(row))
            assert found.missing_reason is None
            assert found.compute_spec == row["compute_spec"]
            rows += 1
    assert rows > 60


@pytest.mark.parametrize("name", ["aiter::rmsnorm", "aiter::add_rmsnorm"])
def test_library_rms_norms_equal_the_reference(name: str, shared: Path) -> None:
    rows = json.loads((shared / "traces" / "expected" / "sglang_prefill_mi300x.json").read_text())[
        "norm_rows"
    ]
    chosen = [row for row in rows if row["name"] == name]
    assert chosen
    for row in chosen:
        found = cost_of(name, row_args(row))
        assert found.bytes_moved == pytest.approx(row["data_moved_mib"] * 2**20, rel=1e-12)
        assert found.flops == pytest.approx(row["gflops"] * 1e9, rel=1e-12)
        assert found.flops_per_byte == pytest.approx(row["flops_per_byte"], rel=1e-12)


def test_every_norm_op_of_a_real_trace_has_a_cost(shared: Path) -> None:
    found = [
        cost_of(event["name"], real_args(event))
        for event in cpu_ops(shared / "traces" / "norm_layers_mi300x.json.gz")
        if CATALOG.is_norm_op(event["name"])
    ]
    assert len(found) > 100
    assert all(one.missing_reason is None and one.flops for one in found)


sizes = st.integers(1, 64)


def layer(name: str, dtype: str, rows: int, width: int) -> float:
    weight = (F32, [width])
    if name == "aten::native_layer_norm":
        return moved(name, (dtype, [rows, width]), f"[{width}]", weight, None, "1e-05")
    return moved(name, (dtype, [rows, width]), f"[{width}]", weight, None)


@given(rows=sizes, width=sizes)
def test_rms_norm_moves_no_more_than_layer_norm(rows: int, width: int) -> None:
    assert layer("aten::_fused_rms_norm", BF16, rows, width) <= layer(
        "aten::native_layer_norm", BF16, rows, width
    )


@given(rows=sizes, width=sizes, more=sizes)
def test_more_rows_and_wider_rows_move_more(rows: int, width: int, more: int) -> None:
    for name in ("aten::native_layer_norm", "aten::_fused_rms_norm"):
        assert layer(name, BF16, rows + more, width) > layer(name, BF16, rows, width)
        assert layer(name, BF16, rows, width + more) > layer(name, BF16, rows, width)


@given(rows=sizes, width=sizes)
def test_wider_elements_move_as_much_more_as_the_activations_grow(rows: int, width: int) -> None:
    for name in ("aten::native_layer_norm", "aten::_fused_rms_norm"):
        grown = layer(name, F32, rows, width) - layer(name, HALF, rows, width)
        assert grown == 2 * 2 * rows * width  # x and y, two bytes more each; statistics and weight stay


@given(rows=sizes, width=sizes, mask=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_gradient_that_is_not_asked_for_moves_and_computes_nothing(
    rows: int, width: int, mask: tuple[bool, bool, bool]
) -> None:
    x, row, weight = (BF16, [rows, width]), (F32, [rows, 1]), (BF16, [width])
    arguments = (x, x, f"[{width}]", row, row, weight, weight)
    name = "aten::native_layer_norm_backward"
    nothing = moved(name, *arguments, "[False, False, False]")
    written = 2 * width * (mask[0] * rows + mask[1] + mask[2])
    assert moved(name, *arguments, str(list(mask))) == nothing + written
    assert operations(name, *arguments, str(list(mask))) == rows * width * (
        10 * mask[0] + 2 * mask[1] + mask[2]
    )


@given(batch=sizes, channels=sizes, space=sizes)
def test_batch_norm_forward_in_training_moves_no_less_than_in_evaluation(
    batch: int, channels: int, space: int
) -> None:
    x, stats = (BF16, [batch, channels, space]), (F32, [channels])
    arguments = (x, stats, stats, stats, stats)
    training = moved("aten::native_batch_norm", *arguments, "True")
    assert training - moved("aten::native_batch_norm", *arguments, "False") == 4 * 4 * channels


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "True", "Scalar", "s0", F32]),
    lambda children: st.lists(children, max_size=12),
    max_leaves=30,
)


@given(name=st.sampled_from(NORM_OPS), dims=JUNK, types=JUNK, concrete=JUNK)
def test_junk_never_raises_and_is_unknown_or_not_negative(
    name: str, dims: object, types: object, concrete: object
) -> None:
    found = cost_of(name, OpArgs(dims=dims, types=types, concrete=concrete))
    assert (found.bytes_moved is None) == (found.missing_reason is not None)
    assert found.bytes_moved is None or found.bytes_moved >= 0


@given(name=st.sampled_from(NORM_OPS), data=st.data())
def test_any_one_damaged_argument_of_a_good_call_never_raises(name: str, data: st.DataObject) -> None:
    row = CATALOG.of_op(name)[-1]
    length = max(row.roles.values(), default=0) + 1
    good = recorded(*[(F32, [4, 8])] * length)
    damaged = {field: list(getattr(good, field)) for field in ("dims", "types", "concrete")}
    field = data.draw(st.sampled_from(sorted(damaged)))
    damaged[field][data.draw(st.integers(0, length - 1))] = data.draw(JUNK)
    cost_of(name, OpArgs(**damaged))


def test_an_op_without_a_row_has_no_layout() -> None:
    assert CATALOG.layout("aten::no_such_norm", None) is None
