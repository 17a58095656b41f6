"""What a norm does beside the norm is shown wherever an operation is, and tells two apart."""

from pathlib import Path

import pytest

from figure_inputs import Op, compiled, operation, report
from normscope import render_findings
from normscope.analysis.upper_bound import fused_words
from normscope.figures.entries import entries_of
from normscope.findings.phrases import op_names, op_words
from normscope.report.answer import answer_html
from normscope.report.calls import calls_html
from normscope.report.data_quality import data_quality_html
from normscope.report.operations import operation_name, operations_html
from report_inputs import HOSTILE_NAMES
from runs import analyzed, traced
from test_trace_report import text_of
from trace_report_inputs import calls_table, row_of, traced_report

NAME = "add_rmsnorm_quant_kernel"
ADDING = f"{NAME} with residual add"


@pytest.mark.parametrize(
    ("fused_with", "words"),
    [
        ((), ""),
        (("residual add",), "with residual add"),
        (("residual add", "quantization"), "with residual add and quantization"),
        (("a", "b", "c"), "with a, b and c"),
        (("a", "b", "c", "d"), "with a, b and 2 more"),
    ],
)
def test_what_a_norm_does_beside_the_norm(fused_with: tuple[str, ...], words: str) -> None:
    assert fused_words(operation(Op(fused_with=fused_with))) == words


def test_what_makes_a_time_an_upper_bound_is_told_by_that_alone() -> None:
    assert fused_words(operation(compiled(2.0, "add"))) == ""


def rows() -> list[dict[str, object]]:
    """Two operations that differ in nothing but the residual add."""
    unknown = dict.fromkeys(("Pct Roofline_mean", "Roofline Bound", "TB/s_mean", "TFLOPS/s_mean"), "")
    own = row_of([5000.0], NAME) | unknown | traced(found_by="kernel", norm_variant="RMSNorm")
    return [own | {"fused_with": "residual add"}, own]


def test_two_operations_are_told_apart_on_every_page(tmp_path: Path) -> None:
    found = traced_report(tmp_path, rows(), calls_table([[5000.0], [5000.0]]))
    for page in (operations_html(found), calls_html(found), answer_html(found)):
        words = text_of(page)
        assert f"{NAME} RMSNorm, forward, with residual add" in words
        assert words.count("forward, with residual add") < words.count(f"{NAME} RMSNorm, forward")
    assert f"{ADDING} , {NAME} ." in text_of(data_quality_html(found))


def test_two_operations_are_told_apart_in_findings(tmp_path: Path) -> None:
    text = render_findings(analyzed(tmp_path, rows()))
    assert f"of `{NAME}` with residual add and `{NAME}` (RMSNorm) were grouped" in text


def test_two_operations_are_told_apart_in_figures_and_their_data() -> None:
    plain, adding = Op(name=NAME), Op(name=NAME, fused_with=("residual add",))
    lines = {entry.one_line for entry in entries_of([report(plain, adding)])}
    assert len(lines) == 2
    assert not any("#" in line for line in lines)
    assert sum(line.endswith(" · with residual add") for line in lines) == 1


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_what_is_fused_can_not_break_out_of_a_page(name: str) -> None:
    found = operation(Op(fused_with=(name,)))
    assert "<script" not in operation_name(found)
    assert "<script" not in op_words(found).replace("&#60;", "")


def test_an_op_with_and_without_a_residual_add_is_named_twice() -> None:
    adding, plain = operation(Op(name=NAME, fused_with=("residual add",))), operation(Op(name=NAME))
    assert op_names((adding, plain, adding)) == f"`{NAME}` with residual add and `{NAME}`"
