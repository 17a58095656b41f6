import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.inputs.literals import parse_call_stack, parse_literal

SHAPES = st.recursive(
    st.integers(-(10**20), 10**20),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)
FRAMES = st.lists(st.text(max_size=20) | st.lists(st.text(max_size=20), max_size=3), max_size=6)


def as_lists(value: object) -> object:
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


@given(SHAPES)
def test_a_shape_means_what_python_says(shape: object) -> None:
    assert as_lists(parse_literal(repr(shape))) == as_lists(shape)


@given(st.text(alphabet="()[],'\" 123abc\\", max_size=20))
def test_any_text_means_what_python_says_or_nothing(text: str) -> None:
    try:
        expected = as_lists(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        expected = None
    assert as_lists(parse_literal(text)) == expected


@given(FRAMES)
def test_a_call_stack_means_what_python_says(frames: list[object]) -> None:
    assert parse_call_stack(repr(frames)) == frames


@pytest.mark.parametrize(
    "text", ["", "[", "__import__('os').system('x')", "(" * 5000, "1" * 5000, "[" * 200_000]
)
def test_what_is_no_literal_is_nothing_and_runs_nothing(text: str) -> None:
    assert parse_literal(text) is None
    assert parse_call_stack(text) is None
