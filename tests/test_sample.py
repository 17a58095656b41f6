"""The bundled sample, all the way from its trace to its metrics, says what its declared truth says."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import CategoryMetrics, Operation
from normscope.inputs.rundir import find_categories
from normscope.params import make_params
from normscope.report.source import SAMPLE_LABEL, trace_to_run
from normscope.sample.trace import sample_trace
from normscope.sample.truth import Truth, sample_truth
from normscope.sample.workload import PEAK_HBM_BW_TBS, PLATFORM
from simulated_trace import end, of

CATEGORY = {"forward": "norm_fwd", "backward": "norm_bwd"}
# A row is named after the op that has a performance model, which here is not the outermost one.
ROW_NAMES = {"aten::rms_norm": "aten::_fused_rms_norm"}
ROWS = sample_truth()
Signature = tuple[str, tuple[int, ...] | None]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "run"
    summary, (record, *_) = trace_to_run(make_params({}), folder)
    assert (summary.label, summary.is_simulated, summary.has_norms) == (SAMPLE_LABEL, True, True)
    assert record.path == "simulated_step.json"
    return folder


@pytest.fixture(scope="module")
def metrics(run_dir: Path) -> Mapping[str, CategoryMetrics]:
    found = {name: analyze_category(run_dir, name) for name in find_categories(run_dir)}
    assert list(found) == ["norm_fwd", "norm_bwd"]
    return {name: each for name, each in found.items() if isinstance(each, CategoryMetrics)}


def signature(operation: Operation) -> Signature:
    dims = ast.literal_eval(operation.input_dims) if isinstance(operation.input_dims, str) else None
    return operation.name, tuple(dims[0]) if dims else None


def operation_of(truth: Truth, metrics: Mapping[str, CategoryMetrics]) -> Operation:
    """Return the operation with the name of the op and the shape that it was called with, where recorded."""
    name = ROW_NAMES.get(truth.op, truth.op)
    shape = None if truth.kind == "layer_norm_unrecorded" else truth.shape
    found = [o for o in metrics[CATEGORY[truth.direction]].operations if signature(o) == (name, shape)]
    assert len(found) == 1, (name, shape)
    return found[0]


@pytest.mark.parametrize("truth", ROWS, ids=lambda row: f"{row.kind}-{row.shape}")
def test_each_signature_has_its_declared_calls_time_variant_and_efficiency(
    truth: Truth, metrics: Mapping[str, CategoryMetrics]
) -> None:
    operation = operation_of(truth, metrics)
    assert (operation.count, operation.variant, operation.direction) == (
        truth.calls,
        truth.variant,
        truth.direction,
    )
    assert (operation.is_upper_bound, operation.fused_with if truth.fused_with else ()) == (
        bool(truth.fused_with),
        truth.fused_with,
    )
    assert operation.time_ms == pytest.approx(truth.total_us / 1000, abs=0.001)
    assert operation.efficiency.resolved_peak_hbm_bw == PEAK_HBM_BW_TBS
    assert (operation.kind, operation.bytes_launched_per_call) == (
        truth.found_as,
        truth.launched_bytes_per_call,
    )
    if truth.bytes_per_call is None:
        assert operation.efficiency.efficiency_percent is None
    elif not truth.helper_kernels_per_call:
        # The mean of the calls' bandwidths lies above the bandwidth of the mean call, the more they vary.
        assert operation.efficiency.efficiency_percent is not None
        assert operation.efficiency.efficiency_percent >= (truth.efficiency_percent or 0) - 0.01
        if truth.variation <= 0.15 and truth.first_call_factor == 1:
            assert operation.efficiency.efficiency_percent == pytest.approx(
                truth.efficiency_percent, rel=0.05
            )


def test_there_is_no_other_operation(metrics: Mapping[str, CategoryMetrics]) -> None:
    assert sum(len(each.operations) for each in metrics.values()) == len(ROWS)


def test_everything_says_that_the_device_is_simulated(metrics: Mapping[str, CategoryMetrics]) -> None:
    assert {each.hardware.platform for each in metrics.values()} == {PLATFORM}
    assert "no real device" in PLATFORM


def test_one_anomaly_one_high_variance_and_no_note(metrics: Mapping[str, CategoryMetrics]) -> None:
    forward, backward = metrics["norm_fwd"], metrics["norm_bwd"]
    (anomaly,), (varying,) = (
        [forward.operations[place] for place in places]
        for places in (forward.data_quality.anomalies, forward.data_quality.high_variance)
    )
    assert anomaly.name == "aten::_fused_rms_norm"
    assert signature(varying) == ("aten::batch_norm", (64, 256, 56, 56))
    assert not backward.data_quality.anomalies
    assert not backward.data_quality.high_variance
    assert not forward.data_quality.notes
    assert not backward.data_quality.notes


def test_every_band_of_efficiency_has_a_finding(metrics: Mapping[str, CategoryMetrics]) -> None:
    bands = {f.eff_bucket for each in metrics.values() for f in each.category_findings}
    assert {"0-30", "30-60", "60-100"} <= bands


def test_the_unfused_norm_is_a_finding_but_not_the_first(metrics: Mapping[str, CategoryMetrics]) -> None:
    findings = metrics["norm_fwd"].category_findings
    (place,) = (place for place, finding in enumerate(findings) if finding.kind == "unfused")
    (truth,) = (row for row in ROWS if row.found_as == "unfused")
    (member,) = findings[place].members
    assert (place > 0, member.operation) == (True, truth.op)
    # The middle of the range is 87.5% of what one kernel at peak would save.
    saved_us = truth.total_us - truth.calls * (truth.bytes_per_call or 0) / (PEAK_HBM_BW_TBS * 1e6)
    work = of(sample_trace(), "kernel", "gpu_memcpy")
    end_to_end_us = max(map(end, work)) - min(event["ts"] for event in work)
    expected = 100 * 0.875 * saved_us / end_to_end_us
    assert findings[place].impact_score == pytest.approx(expected, abs=0.01)
    assert findings[place].impact_score >= 0.5
