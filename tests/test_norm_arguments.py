"""Reading recorded arguments: what is a tensor, what is a value, and what isn't known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from norm_events import BF16, F32, recorded
from normscope.norms import arguments
from normscope.norms.arguments import UnknownArgument
from normscope.trace.events import OpArgs

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("c10::BFloat16"),
    lambda children: st.lists(children, max_size=4),
    max_leaves=12,
)


def test_a_tensor_has_its_own_shape_type_and_element_size() -> None:
    found = arguments.tensor(recorded((BF16, [8, 128, 1024])), 0)
    assert found is not None
    assert (found.shape, found.dtype, found.element_bytes) == ((8, 128, 1024), "bf16", 2)
    assert found.elements == 8 * 128 * 1024


def test_an_argument_is_absent_when_its_type_is_empty_and_not_when_its_shape_is() -> None:
    absent, zero_dimensional = recorded(None), recorded(("long int", []))
    assert absent.dims == zero_dimensional.dims == [[]]
    assert arguments.tensor(absent, 0) is None
    found = arguments.tensor(zero_dimensional, 0)
    assert found is not None
    assert (found.shape, found.elements, found.element_bytes) == ((), 1, 8)


def test_a_value_and_an_argument_beyond_the_list_are_no_tensors() -> None:
    args = recorded("1e-05", "[1024]")
    assert [arguments.tensor(args, index) for index in range(3)] == [None, None, None]


@pytest.mark.parametrize(
    ("type_name", "dtype", "element_bytes"),
    [
        ("float", "fp32", 4),
        ("double", "fp64", 8),
        ("c10::Half", "fp16", 2),
        ("struct c10::BFloat16", "bf16", 2),
        ("c10::Float8_e4m3fnuz", "fp8", 1),
        ("c10::Float4_e2m1fn_x2", "fp4", 1),
        ("unsigned char", "uint8", 1),
    ],
)
def test_the_element_size_follows_the_recorded_type(type_name: str, dtype: str, element_bytes: int) -> None:
    found = arguments.tensor(recorded((type_name, [3])), 0)
    assert found is not None
    assert (found.dtype, found.element_bytes) == (dtype, element_bytes)


def test_the_text_false_is_false() -> None:
    args = recorded("True", "False")
    assert arguments.boolean(args, 0) is True
    assert arguments.boolean(args, 1) is False


@pytest.mark.parametrize("text", ["", "true", "1", "None", "[True]"])
def test_any_other_text_is_no_boolean(text: str) -> None:
    with pytest.raises(UnknownArgument, match="should be True or False"):
        arguments.boolean(OpArgs(concrete=[text]), 0)


def test_lists_are_read_from_their_text() -> None:
    args = recorded("[True, False]", "[32, 32]", "4", "[]")
    assert arguments.mask(args, 0) == (True, False)
    assert arguments.sizes(args, 1) == (32, 32)
    assert arguments.integer(args, 2) == 4
    assert arguments.sizes(args, 3) == ()


@pytest.mark.parametrize("text", ["[s0, 32]", "[-1]", "[1.5]", "[[1]]", "32", "[" + "9" * 5000 + "]", "[1,]"])
def test_a_list_with_anything_but_sizes_is_unknown(text: str) -> None:
    with pytest.raises(UnknownArgument):
        arguments.sizes(OpArgs(concrete=[text]), 0)


@pytest.mark.parametrize(
    ("dims", "reason"),
    [
        ([["s0", 128]], "s0"),
        ([[None, 128]], "None"),
        ([[[2, 3], [4]]], "[2, 3]"),
        ([[True]], "True"),
        ([[-1]], "-1"),
        ([[8.0]], "8.0"),
        (["[8]"], "not known"),
        ([[2**40, 2**40]], "too large"),
        ([[1] * 65], "65 axes"),
        ([], "no shapes recorded"),
        (None, "no shapes recorded"),
    ],
)
def test_a_shape_that_is_no_list_of_sizes_is_unknown_and_the_reason_shows_it(
    dims: object, reason: str
) -> None:
    with pytest.raises(UnknownArgument) as raised:
        arguments.tensor(OpArgs(dims=dims, types=[F32]), 0)
    assert reason in str(raised.value)


def test_an_unknown_element_type_is_named_in_at_most_forty_characters() -> None:
    with pytest.raises(UnknownArgument) as raised:
        arguments.tensor(OpArgs(dims=[[1]], types=["at::" + "X" * 4000]), 0)
    assert "at::XXXX" in str(raised.value)
    assert len(str(raised.value)) < 100


@pytest.mark.parametrize("types", [None, [], "float", 7])
def test_without_types_nothing_is_known(types: object) -> None:
    with pytest.raises(UnknownArgument, match="no shapes recorded"):
        arguments.tensor(OpArgs(dims=[[1]], types=types), 0)


@given(dims=JUNK, types=JUNK, concrete=JUNK, index=st.integers(0, 3))
def test_junk_raises_nothing_but_unknown(dims: object, types: object, concrete: object, index: int) -> None:
    args = OpArgs(dims=dims, types=types, concrete=concrete)
    for read in (arguments.tensor, arguments.boolean, arguments.integer, arguments.sizes, arguments.mask):
        try:
            read(args, index)
        except UnknownArgument as unknown:
            assert str(unknown)
