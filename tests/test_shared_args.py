"""Inputs of ops are decoded once for all calls that are alike, and never shared by calls that aren't."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from normscope.norms.shared_args import SharedArgs, inputs_text
from normscope.trace.events import CpuOp

KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
LISTS = st.lists(st.lists(st.integers(0, 9), max_size=3) | st.text(max_size=4), max_size=3)
NUMBERS = st.dictionaries(st.sampled_from(("Ev Idx", "Input Dims", "x")), st.integers(0, 9), max_size=3)
VALUES = LISTS | NUMBERS
ARGS = st.lists(
    st.tuples(st.sampled_from((*KEYS, "External id", "Ev Idx", 'a"Input b')), VALUES | st.integers(0, 99)),
    unique_by=lambda pair: pair[0],
)


def op(args: dict[str, Any]) -> CpuOp:
    return CpuOp("aten::x", 0.0, 1.0, 1, 1, raw_args=json.dumps(args).encode())


@given(first=ARGS, second=ARGS)
def test_shared_inputs_are_equal_inputs(first: list[tuple[str, Any]], second: list[tuple[str, Any]]) -> None:
    shared = SharedArgs()
    for args in (first, second, first):
        each = op(dict(args))
        assert shared.of(each) == each.args()


def test_calls_that_differ_in_their_ids_share_their_inputs_wherever_the_ids_stand() -> None:
    inputs = {"Input Dims": [[2, 3]], "Input type": ["float"]}
    before = [op({"External id": number, **inputs}) for number in (1, 2)]
    behind = [op({**inputs, "Ev Idx": number}) for number in (1, 2)]
    shared = SharedArgs()
    assert len({id(shared.of(each)) for each in (*before, *behind)}) == 1
    assert inputs_text(behind[0].raw_args) == inputs_text(behind[1].raw_args)


def test_a_number_inside_the_inputs_does_not_end_them() -> None:
    first, second = ({"Input Dims": {"Ev Idx": 1, "x": x}} for x in (1, 2))
    assert inputs_text(op(first).raw_args) != inputs_text(op(second).raw_args)


def test_a_key_that_is_spelt_with_an_escape_is_not_overlooked() -> None:
    text = rb'{"Concrete\u0020Inputs": ["1"], "Input Dims": [[2]]}'
    assert inputs_text(text) == text
    assert inputs_text(b"{}") == b""
