"""Small ops as they are recorded: what each reads and makes, in bytes."""

import json

import pytest

from normscope.norms.chain_ops import SmallOp, SmallOps, chain_bytes
from normscope.trace.events import CpuOp
from small_ops import BF16, EPSILON, F32, F64, HALF, KEPT_LAST, ONE, Argument, Thread, recorded
from trace_inputs import link_events

X = (F32, [4, 8])
X16 = (BF16, [4, 8])


def read(name: str, *arguments: Argument) -> SmallOp | None:
    args = json.dumps(recorded(*arguments)).encode()
    return SmallOps().read(CpuOp(name=name, ts_us=0, dur_us=1, pid=1, tid=1, raw_args=args))


def known(name: str, *arguments: Argument) -> SmallOp:
    found = read(name, *arguments)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (F32, F32, "fp32"),
        (BF16, F32, "fp32"),
        (F32, HALF, "fp32"),
        (BF16, HALF, "fp32"),
        (BF16, BF16, "bf16"),
        (F64, F32, "fp64"),
        ("long int", BF16, "bf16"),
        ("bool", "int", "int32"),
        ("c10::complex<float>", F64, "complex64"),
    ],
)
def test_types_are_promoted_as_in_pytorch(left: str, right: str, result: str) -> None:
    assert known("aten::mul", (left, [4, 8]), (right, [4, 1])).output.dtype == result
    assert known("aten::mul", (right, [4, 1]), (left, [4, 8])).output.dtype == result


def test_types_agree_with_pytorch(torch_installed: None) -> None:
    import torch

    types = {
        F32: torch.float32,
        F64: torch.float64,
        BF16: torch.bfloat16,
        HALF: torch.float16,
        "long int": torch.int64,
        "int": torch.int32,
        "bool": torch.bool,
        "unsigned char": torch.uint8,
    }
    names = {
        **{torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"},
        **{torch.int64: "int64", torch.int32: "int32", torch.bool: "bool", torch.uint8: "uint8"},
    }
    for left, left_type in types.items():
        for right, right_type in types.items():
            made = known("aten::mul", (left, [4, 8]), (right, [4, 1])).output.dtype
            assert made == names[torch.promote_types(left_type, right_type)], (left, right)


def test_a_number_promotes_nothing_and_moves_nothing() -> None:
    found = known("aten::add", X16, EPSILON, ONE)
    assert (found.output.dtype, found.inputs[1]) == ("bf16", None)
    assert found.bytes_moved == 2 * 32 * 2


def test_an_op_in_place_keeps_its_type() -> None:
    assert known("aten::mul_", X16, X).output.dtype == "bf16"
    assert known("aten::mul_", X16, X).bytes_moved == 32 * 2 + 32 * 4 + 32 * 2


def test_a_broadcast_input_is_read_in_its_own_size() -> None:
    found = known("aten::mul", X, (F32, [8]))
    assert found.output.shape == (4, 8)
    assert found.bytes_moved == (32 + 8 + 32) * 4


def test_an_expanded_input_is_read_as_it_lies_in_memory() -> None:
    found = known("aten::div", X, (F32, [4, 8], [1, 0]))
    assert found.inputs[1] is not None
    assert found.inputs[1].shape == (4, 1)
    assert found.output.shape == (4, 8)
    assert found.bytes_moved == (32 + 4 + 32) * 4


def test_a_square_as_a_product_reads_its_tensor_once() -> None:
    assert known("aten::mul", X, X).bytes_moved == 2 * 32 * 4


def test_a_cast_reads_one_type_and_writes_the_other() -> None:
    found = known("aten::copy_", X, X16, "False")
    assert (found.output.dtype, found.bytes_moved) == ("fp32", 32 * 4 + 32 * 2)
    assert not found.is_plain_copy
    assert known("aten::copy_", X, X, "False").is_plain_copy


@pytest.mark.parametrize(
    ("axes", "axis"), [("[-1]", 1), ("[1]", 1), ("[0]", 0), ("[-2]", 0), ("[2]", None), ("[0, 1]", None)]
)
def test_one_axis_is_reduced_and_kept(axes: str, axis: int | None) -> None:
    found = read("aten::mean", X, axes, "True", None)
    assert (found.axis if found else None) == axis


def test_a_reduction_that_drops_its_axis_is_of_another_kind() -> None:
    assert read("aten::mean", X, "[-1]", "False", None) is None
    assert read("aten::mean", X, None) is None


def test_a_reduction_may_ask_for_another_type() -> None:
    assert known("aten::mean", X16, "[-1]", "True", "6").output.dtype == "fp32"
    assert known("aten::mean", X16, "[-1]", "True", "6").bytes_moved == 32 * 2 + 4 * 4
    assert known("aten::mean", X16, *KEPT_LAST).bytes_moved == 32 * 2 + 4 * 2


def test_variance_and_mean_are_two_results() -> None:
    assert known("aten::var_mean", X, "[-1]", "0", "True").bytes_moved == (32 + 2 * 4) * 4


def test_without_values_a_reduction_goes_over_the_last_axis() -> None:
    args = recorded(X, *KEPT_LAST)
    del args["Concrete Inputs"]
    op = CpuOp(name="aten::mean", ts_us=0, dur_us=1, pid=1, tid=1, raw_args=json.dumps(args).encode())
    found = SmallOps().read(op)
    assert found is not None
    assert found.axis == 1


def test_what_a_chain_moves_is_known_only_if_all_its_ops_are() -> None:
    thread = Thread()
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    linked = link_events(*thread.events)
    assert chain_bytes(linked, linked.op_of) == (32 + 32 + 32 + 4) * 4
    assert chain_bytes(linked, []) is None
    thread.run("aten::mm", X, X)
    linked = link_events(*thread.events)
    assert chain_bytes(linked, linked.op_of) is None
