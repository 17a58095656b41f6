"""The metrics equal the reference's, key by key and number by number, on every golden case."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from normscope import analyze_category
from normscope.analysis.models import Scope, encode_metrics

COPIED_CASES = Path(__file__).parent / "data" / "metrics"
OWN_KEYS = {
    *("schema_version", "direction", "hardware", "data_quality", "reason", "variant", "operation_index"),
    *("kernel_time_us", "time2_us", "delta_us", "trace2_scaled_to"),
    *("kind", "fused_with", "is_upper_bound", "is_replayed", "bytes_launched_per_call"),
    *("kernel_time_mean_us", "kernel_time_std_us", "bytes_moved_per_call"),
}


class Case(NamedTuple):
    """A run directory and the metrics the reference wrote for one category of it."""

    run_dir: Path
    expected: dict[str, Any]


def golden_cases(folder: Path) -> list[Case]:
    files = sorted(folder.glob("*/expected/*_metrics.json"))
    return [Case(file.parent.parent, json.loads(file.read_text(encoding="utf-8"))) for file in files]


def differences(expected: object, actual: object, place: str = "") -> Iterator[str]:
    """Yield each difference; a ``NaN`` of the reference, which JSON lacks, is our ``null``."""
    if isinstance(expected, float) and math.isnan(expected):
        expected = None
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected.keys() | (actual.keys() - OWN_KEYS):
            if key in expected and key in actual:
                yield from differences(expected[key], actual[key], f"{place}.{key}")
            else:
                yield f"{place}.{key} only {'expected' if key in expected else 'written'}"
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, f"{place}[{i}]")
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield f"{place}: expected {expected!r}, got {actual!r}"


def analyzed(case: Case) -> dict[str, Any]:
    metrics = analyze_category(case.run_dir, case.expected["category"], case.expected["comparison_scope"])
    written: dict[str, Any] = json.loads(encode_metrics(metrics))
    return written


@pytest.mark.parametrize("case", golden_cases(COPIED_CASES), ids=lambda case: case.run_dir.name)
def test_copied_golden_case_matches_key_by_key(case: Case) -> None:
    assert list(differences(case.expected, analyzed(case))) == []


def test_every_golden_case_of_the_reference_matches(shared: Path) -> None:
    cases = golden_cases(shared / "conformance" / "metrics")
    assert len(cases) == 109
    wrong = {case.run_dir.name: list(differences(case.expected, analyzed(case))) for case in cases}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_every_real_run_matches_the_reference(shared: Path) -> None:
    cases = golden_cases(shared / "tracelens_runs")
    assert len(cases) == 9
    wrong = {case.run_dir.name: list(differences(case.expected, analyzed(case))) for case in cases}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("change", ["number", "key", "order", "flag"])
def test_the_comparison_sees_a_change(change: str) -> None:
    case = next(c for c in golden_cases(COPIED_CASES) if len(c.expected.get("operations", [])) > 1)
    actual = analyzed(case)
    operation = actual["operations"][0]
    if change == "number":
        operation["time_ms"] += 0.001
    elif change == "key":
        del operation["library"]
    elif change == "order":
        actual["operations"].reverse()
    else:
        operation["efficiency"]["is_anomaly"] = int(operation["efficiency"]["is_anomaly"])
    assert list(differences(case.expected, actual)) != []


def crashed_cases(folder: Path) -> list[tuple[Path, str, str]]:
    cases = [(file.parent, json.loads(file.read_text())) for file in sorted(folder.glob("*/case.json"))]
    return [(d, c["category"], c["comparison_scope"]) for d, c in cases if c["reference_crashed"]]


@pytest.mark.parametrize(("run_dir", "category", "scope"), crashed_cases(COPIED_CASES))
def test_a_table_without_rows_means_no_operations_where_the_reference_crashes(
    run_dir: Path, category: str, scope: Scope
) -> None:
    metrics = json.loads(encode_metrics(analyze_category(run_dir, category, scope)))
    assert metrics["status"] == "OK"
    assert metrics["operations"] == metrics["category_findings"] == []
    assert metrics["total_time_ms"] == 0
    assert any("no normalization operations" in note for note in metrics["data_quality"]["notes"])
