"""The simulated trace, read like any other: what comes out is the truth that it was made from."""

import ast
from pathlib import Path

import pytest

from normscope.sample.forms import Form
from normscope.sample.trace import write_sample_trace
from normscope.sample.truth import Truth, sample_truth
from normscope.sample.workload import PEAK_HBM_BW_TBS
from normscope.tracerun.summary import TOO_SHORT
from written_run import CATEGORIES, Row, WrittenRun, known, written

FUSED = [row for row in sample_truth() if row.found_as == "compiled"]
UNFUSED = [row for row in sample_truth() if row.found_as == "unfused"]
MODELED = [row for row in sample_truth() if row not in FUSED]
NAMED_AFTER = {"aten::rms_norm": ("aten::_fused_rms_norm",)}
# Where no module is recorded, an unfused norm is named after what it computes.
WITHOUT_MODULES = {"norm": (), "compiled": (), "unfused": ("eager::rms_norm",)}
PEAK_BYTES_PER_US = PEAK_HBM_BW_TBS * 1e6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> WrittenRun:
    return simulated(tmp_path_factory.mktemp("usual"))


@pytest.fixture(scope="module")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> WrittenRun:
    return simulated(tmp_path_factory.mktemp("legacy"), Form(legacy=True))


def simulated(folder: Path, form: Form | None = None, *, steps: int = 2) -> WrittenRun:
    trace = write_sample_trace(folder / "trace.json", form=form or Form(), steps=steps)
    return written(trace, folder / "run")


def row_of(truth: Truth, run: WrittenRun) -> Row:
    """Return the row of a signature: that of its op and shape; one has no recorded inputs at all."""
    shape = "" if truth.kind == "layer_norm_unrecorded" else repr(tuple(truth.shape))
    names = NAMED_AFTER.get(truth.op, (truth.op, *WITHOUT_MODULES[truth.found_as]))
    (row,) = [
        row
        for row in run.rows
        if row["name"] in names
        and (first_shape(row) == shape)
        and (truth.kind != "instance_norm_backward_native" or ast.literal_eval(row["Input Dims"])[2] == ())
    ]
    return row


def first_shape(row: Row) -> str:
    return repr(ast.literal_eval(row["Input Dims"])[0]) if row["Input Dims"] else ""


def test_every_signature_is_one_row_and_every_row_one_signature(run: WrittenRun) -> None:
    found = [run.rows.index(row_of(truth, run)) for truth in (*MODELED, *FUSED)]
    assert sorted(found) == list(range(len(run.rows)))


@pytest.mark.parametrize("truth", sample_truth(), ids=lambda truth: f"{truth.kind}-{truth.shape}")
def test_a_row_is_what_was_declared(truth: Truth, run: WrittenRun) -> None:
    row = row_of(truth, run)
    assert row["op category"] == {"forward": "NORM_fwd", "backward": "NORM_bwd"}[truth.direction]
    assert int(row["operation_count"]) == truth.calls
    # times in the file are floats of µs since its start: each keeps a ns
    assert known(row, "Norm Kernel Time (µs)_mean") == pytest.approx(truth.duration_us, abs=1e-6)
    assert known(row, "Helper Kernel Time (µs)_sum") == pytest.approx(truth.calls * truth.helper_us, rel=1e-6)
    assert known(row, "Kernel Time (µs)_sum") == pytest.approx(truth.total_us, rel=1e-6)
    if truth.bytes_per_call is None:
        assert row["Data Moved (MB)"] == row["Pct Roofline_mean"] == row["TB/s_mean"] == ""
        assert row["bytes_not_known_because"] != ""
        return
    assert known(row, "Data Moved (MB)") * 2**20 == truth.bytes_per_call
    launched = row["Data Launched (MB)"]
    assert (float(launched) * 2**20 if launched else None) == truth.launched_bytes_per_call
    bytes_per_us = truth.bytes_per_call / known(row, "Norm Kernel Time (µs)_mean")
    assert truth.efficiency_percent is not None
    assert 100 * bytes_per_us / PEAK_BYTES_PER_US == pytest.approx(truth.efficiency_percent, rel=1e-6)
    assert known(row, "Roofline Time (µs)_first") == pytest.approx(truth.bytes_per_call / PEAK_BYTES_PER_US)
    kernels = ast.literal_eval(row["kernel_details_summary"])
    assert len(kernels) == truth.kernels_per_call + truth.helper_kernels_per_call


@pytest.mark.parametrize("truth", MODELED, ids=lambda truth: f"{truth.kind}-{truth.shape}")
def test_a_row_names_the_modules_of_its_calls(truth: Truth, run: WrittenRun) -> None:
    paths = row_of(truth, run)["module_paths"].split(" | ")
    classes = {" > ".join(name.rsplit("_", 1)[0] for name in path.split(" > ")) for path in paths}
    assert classes == {truth.module}


def test_the_first_call_of_a_group_norm_stands_out_in_the_list_of_calls(run: WrittenRun) -> None:
    (truth,) = [row for row in MODELED if row.kind == "group_norm_native" and row.shape[1] == 320]
    place = run.table("norm_fwd").index(row_of(truth, run))
    times = [
        known(call, "norm_kernel_time_us")
        for call in run.calls
        if (call["category"], call["row"]) == ("norm_fwd", str(place))
    ]
    assert times[0] > 3 * max(times[1:])


def test_all_kernel_time_is_accounted_for(run: WrittenRun) -> None:
    direct = sum(truth.calls * truth.duration_us for truth in MODELED if truth not in UNFUSED)
    helper = sum(truth.calls * truth.helper_us for truth in MODELED)
    fused = sum(truth.total_us for truth in FUSED)
    assert run.groups["explicit"][1] == pytest.approx(direct)
    assert run.groups["helper_copies"][1] == pytest.approx(helper)
    count, time_us = run.groups["eager_decomposed"]
    assert count == sum(truth.calls * truth.kernels_per_call for truth in UNFUSED)
    assert time_us == pytest.approx(sum(truth.total_us for truth in UNFUSED))
    count, time_us = run.groups["compiled_fused"]
    assert count == sum(truth.calls for truth in FUSED)
    assert time_us == pytest.approx(fused)
    (row,) = (row for row in run.rows if row["found_by"] == "compiled")
    assert known(row, "Kernel Time (µs)_sum") == pytest.approx(fused)


@pytest.mark.parametrize("truth", sample_truth(), ids=lambda truth: f"{truth.kind}-{truth.shape}")
def test_what_bounds_a_row_and_what_it_is_fused_with_are_as_declared(truth: Truth, run: WrittenRun) -> None:
    row = row_of(truth, run)
    assert int(row["workgroups"]) == truth.workgroups
    assert {"under-filled", "cache-resident"} & set(row["limits"].split(" | ")) == truth.bounds
    assert row["is_upper_bound"] == str(bool(truth.fused_with))
    if truth.fused_with:
        assert row["fused_with"] == " | ".join(truth.fused_with)


def test_the_sample_shows_bounds_of_each_kind() -> None:
    assert frozenset[str]().union(*(truth.bounds for truth in sample_truth())) == {
        "under-filled",
        "cache-resident",
    }
    assert [truth.kind for truth in sample_truth() if truth.fused_with] == ["layer_norm_triton"]


def test_the_summary_says_that_it_is_simulated_and_what_the_peaks_are(run: WrittenRun) -> None:
    summary = run.summary
    assert summary.is_simulated
    assert "simulated" in summary.gpu_message
    assert summary.peak_bandwidth_gbps == 4000
    assert [step.call_count for step in summary.steps] == [len(run.calls) / 2] * 2
    assert run.problems == {}
    assert {note.title for note in summary.formulas} >= {"Layer norm forward", "Batch norm backward"}
    assert all(note.bytes_moved and note.source for note in summary.formulas)


def test_steps_add_up(run: WrittenRun, tmp_path: Path) -> None:
    """Whatever the number of steps, each has the same calls, and they hold all of them."""
    other = simulated(tmp_path, steps=3)
    assert [step.call_count for step in other.summary.steps] == [len(run.calls) / 2] * 3
    assert other.summary.call_count == 3 * len(run.calls) / 2


def test_time_in_steps_adds_up_to_all_time(run: WrittenRun) -> None:
    steps = {step.name: 0.0 for step in run.summary.steps}
    for call in run.calls:
        steps[call["step"]] += known(call, "kernel_time_us")
    assert sum(steps.values()) == pytest.approx(run.summary.norm_us + run.summary.helper_us)
    assert min(steps.values()) > 0.3 * max(steps.values())


def test_the_order_of_events_does_not_matter(run: WrittenRun, tmp_path: Path) -> None:
    other = simulated(tmp_path, Form(shuffle=7))
    for category in CATEGORIES:
        key = "name", "Input Dims", "Input type"
        ours, theirs = (
            sorted(each.table(category), key=lambda row: [row[k] for k in key]) for each in (run, other)
        )
        for one, two in zip(ours, theirs, strict=True):
            for column in one:
                if column != "ex_UID":
                    assert one[column] == two[column], column
    assert list(other.groups) == list(run.groups)
    for what, (count, time_us) in run.groups.items():
        assert other.groups[what][0] == count
        assert other.groups[what][1] == pytest.approx(time_us)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_slower_kernels_give_less_bandwidth_in_the_same_order(
    run: WrittenRun, tmp_path: Path, factor: float
) -> None:
    other = simulated(tmp_path, Form(scale_durations=factor))
    for category in CATEGORIES:
        pairs = list(zip(run.table(category), other.table(category), strict=True))
        for one, two in pairs:
            assert (one["name"], one["Input Dims"]) == (two["name"], two["Input Dims"])
            assert known(two, "Kernel Time (µs)_sum") == pytest.approx(
                factor * known(one, "Kernel Time (µs)_sum"), rel=1e-3
            )
            assert one["Data Moved (MB)"] == two["Data Moved (MB)"]
            if one["TB/s_mean"]:
                assert known(two, "TB/s_mean") == pytest.approx(known(one, "TB/s_mean") / factor, rel=2e-3)


def test_without_shapes_times_stay_and_bytes_are_unknown(run: WrittenRun, tmp_path: Path) -> None:
    other = simulated(tmp_path, Form(record_shapes=False))
    assert not other.summary.has_shapes
    assert run.summary.has_shapes
    assert other.summary.norm_us == pytest.approx(run.summary.norm_us)
    for row in other.rows:
        assert row["Data Moved (MB)"] == row["TB/s_mean"] == row["Pct Roofline_mean"] == ""
        assert row["bytes_not_known_because"] != ""


def test_gpu_only_finds_norms_by_the_names_of_kernels(run: WrittenRun, tmp_path: Path) -> None:
    other = simulated(tmp_path, Form(gpu_only=True))
    assert {row["found_by"] for row in other.rows} == {"kernel", "compiled"}
    found = sum(other.groups[group][1] for group in ("explicit", "compiled_fused"))
    known_us = sum(run.groups[group][1] for group in ("explicit", "compiled_fused"))
    # kernels of group norm without a norm's word in their name can't be told so
    assert 0.5 * known_us < found <= known_us + 1e-6
    assert other.summary.coverage.all_kernels_us == pytest.approx(run.summary.coverage.all_kernels_us)


def test_a_trace_of_2021_gives_the_same_calls_to_a_microsecond(run: WrittenRun, legacy: WrittenRun) -> None:
    assert legacy.summary.resolution_us == 1.0
    assert legacy.summary.call_count == run.summary.call_count
    kernels = run.summary.coverage.count("explicit", "compiled_fused", "eager_decomposed", "helper_copies")
    declared_us = run.summary.norm_us + run.summary.helper_us
    lost_us = declared_us - legacy.summary.norm_us - legacy.summary.helper_us
    assert 0 <= lost_us <= kernels


def test_a_clock_of_whole_microseconds_gives_no_bandwidth_of_short_kernels(legacy: WrittenRun) -> None:
    short = [truth for truth in MODELED if truth.duration_us + truth.helper_us < 10]
    assert [truth.kind for truth in short] == ["rms_norm_native"]
    assert legacy.problems[TOO_SHORT] == short[0].calls
    for truth in MODELED:
        row = row_of(truth, legacy)
        assert (row["TB/s_mean"] == "") == (truth in short or truth.bytes_per_call is None)
