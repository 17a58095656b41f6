import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from normscope import analyze_category, build_report
from normscope.analysis.models import encode_metrics
from normscope.resources import schema_dir
from normscope.schemas import MODELS, schema_text
from runs import row, write_run

FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema: dict[str, Any] = json.loads((schema_dir() / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def strict_json(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    return json.loads(data, parse_constant=refuse)


@pytest.mark.parametrize("name", MODELS)
def test_the_shipped_schema_is_that_of_the_model(name: str) -> None:
    """When this fails after a change of a model: raise its version where needed, then ``make schemas``."""
    assert (schema_dir() / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name)


def test_no_schema_is_left_over() -> None:
    assert {p.name for p in schema_dir().glob("*.json")} == {f"{name}.schema.json" for name in MODELS}


def test_every_output_of_a_report_fits_its_schema(tmp_path: Path) -> None:
    built = build_report("sample", tmp_path / "report")
    for path, name in (
        ("metrics.json", "results"),
        ("provenance.json", "provenance"),
        ("category_data/trace_summary.json", "trace_summary"),
        ("category_data/norm_fwd_metrics.json", "metrics"),
        ("category_data/norm_bwd_metrics.json", "metrics"),
    ):
        validator(name).validate(strict_json((built.out_dir / path).read_bytes()))


def test_metrics_of_every_status_fit_the_schema(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", [row(), row(cells={"Pct Roofline_mean": ""})])
    bad = write_run(tmp_path / "bad", [row(time_us=-1.0)])
    for run_dir, category in ((good, "norm_fwd"), (good, "norm_bwd"), (bad, "norm_fwd")):
        validator("metrics").validate(strict_json(encode_metrics(analyze_category(run_dir, category))))


def test_the_schema_refuses_a_wrong_value(tmp_path: Path) -> None:
    metrics = strict_json(encode_metrics(analyze_category(write_run(tmp_path, [row()]), "norm_fwd")))
    wrong: list[dict[str, Any]] = [{"total_time_ms": "1"}, {"direction": "sideways"}, {"operations": [{}]}]
    for change in wrong:
        with pytest.raises(jsonschema.ValidationError):
            validator("metrics").validate(metrics | change)


def test_every_golden_case_fits_the_schema() -> None:
    for case in sorted((Path(__file__).parent / "data" / "metrics").iterdir()):
        told = json.loads((case / "case.json").read_text())
        metrics = analyze_category(case, told["category"], told["comparison_scope"])
        validator("metrics").validate(strict_json(encode_metrics(metrics)))
