"""Sides read from each kind of source: their groups by hand, their totals, and versions that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from normscope.compare.baseline import encode_baseline
from normscope.compare.differences import overview
from normscope.compare.models import Side
from normscope.compare.pairing import compare_sides
from normscope.compare.sides import SideSource, read_source, reads_as_trace
from normscope.errors import InputError, NoGpuActivityError, NoNormsError, UsageError
from normscope.report.results import Report, collect_results, encode_results
from normscope.report.trace_data import read_trace_files
from pairing_inputs import group, side, without_times
from runs import TIME_MEAN, TIME_SUM, row, write_run
from trace_inputs import INPUTS, KERNEL, annotation, as_json, frame, kernel, launch, op

SHAPE = "(8,128,1024) bf16"


def layer_norm_calls(*times_us: float, step_us: float = 1000.0) -> bytes:
    """A trace of a layer norm in each of two modules by turns; every second call starts a profiler step."""
    events = []
    for number, time_us in enumerate(times_us):
        start = 100.0 + number * step_us
        module = f"nn.Module: LayerNorm_{number % 2}"
        if number % 2 == 0:
            events.append(annotation(f"ProfilerStep#{number // 2}", start - 10, 2 * step_us - 20))
        events += [
            frame(
                "nn.Module: Net_0", start - 2, 300, **{"Python id": 3 * number + 1, "Python parent id": None}
            ),
            frame(
                module, start - 1, 200, **{"Python id": 3 * number + 2, "Python parent id": 3 * number + 1}
            ),
            op("aten::layer_norm", start, 60, **INPUTS),
            op("aten::native_layer_norm", start + 5, 50, **INPUTS),
            launch(number + 1, start + 20),
            kernel(number + 1, start + 100, time_us),
        ]
    return as_json(events)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "six_calls.json"
    path.write_bytes(layer_norm_calls(10.0, 20.0, 11.0, 21.0, 12.0, 22.0))
    return path


@pytest.fixture
def traced(trace: Path, tmp_path: Path) -> SideSource:
    return read_source(trace, folder=tmp_path / "run")


def test_the_calls_of_a_trace_are_apart_by_module(traced: SideSource) -> None:
    found = traced.side
    assert (found.label, found.kind, found.steps) == ("six_calls", "trace", 3)
    first, second = found.groups
    assert (first.module, second.module) == ("Net_0 > LayerNorm_0", "Net_0 > LayerNorm_1")
    assert (first.times_us, second.times_us) == ((10.0, 11.0, 12.0), (20.0, 21.0, 22.0))
    assert (first.count, first.total_us, first.mean_us, first.std_us) == (3, 33.0, 11.0, 1.0)
    assert (first.order, second.order) == (0, 1)
    assert first.variant == "LayerNorm"
    assert first.direction == "forward"
    assert first.kernels == ("vectorized_layer_norm_kernel",)
    assert first.arguments is not None
    assert first.arguments.startswith(SHAPE)
    # 8·128·1024 values of 2 bytes are read and written, the two weights of 1024 read once.
    assert first.bytes_moved_per_call is not None
    assert first.bytes_moved_per_call >= 2 * 8 * 128 * 1024 * 2 + 2 * 1024 * 2
    assert found.coverage_us == {"explicit": 96.0}


def test_the_run_directory_of_a_trace_is_the_same_side(traced: SideSource, tmp_path: Path) -> None:
    again = read_source(tmp_path / "run", folder=tmp_path / "unused")
    assert again.side == msgspec.structs.replace(traced.side, kind="run directory")
    assert not (tmp_path / "unused").exists()


def write_results(folder: Path, of: SideSource, *, with_calls: bool = True) -> Path:
    """Write the results of a report, as its notebook does."""
    report = Report(
        label=of.side.label, out_dir=folder, comparison_scope="standalone", top_n=20, metrics=of.metrics
    )
    (folder / "category_data").mkdir(parents=True)
    (folder / "metrics.json").write_bytes(encode_results(collect_results(report)))
    data = read_trace_files(of.run_dir, of.metrics) if of.run_dir and with_calls else None
    for name, content in (data.files if data else {}).items():
        (folder / "category_data" / name).write_bytes(content)
    return folder


def test_a_report_is_the_same_side_with_its_calls(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    by_folder, by_file = (read_source(place, folder=tmp_path) for place in (folder, folder / "metrics.json"))
    assert by_folder.side == by_file.side == msgspec.structs.replace(traced.side, kind="results")


def test_results_without_calls_have_a_group_for_each_operation(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced, with_calls=False)
    found = read_source(folder, folder=tmp_path).side
    (only,) = found.groups
    assert (only.count, only.total_us, only.times_us, only.module) == (6, 96.0, (), "")
    assert found.steps == 0
    compared = compare_sides(traced.side, found)
    assert [(pair.first, pair.second, pair.delta_us) for pair in compared.pairs] == [((0, 1), (0,), 0.0)]


def test_a_run_directory_of_other_origin_has_a_group_for_each_operation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(time_us=1000.0, count=10, cells={"Kernel Time (µs)_std": 3.0})])
    found = read_source(run, folder=tmp_path / "unused").side
    (only,) = found.groups
    assert (only.module, only.count, only.total_us, only.mean_us, only.std_us) == (
        "Net_0 > Norm_1",
        10,
        1000.0,
        100.0,
        3.0,
    )
    assert (only.efficiency_percent, only.kernels) == (20.0, ("some_norm_kernel",))
    assert (found.gpu, found.peak_bandwidth_tbs, found.end_to_end_ms, found.steps) == (
        "Test GPU",
        2.0,
        10.0,
        0,
    )


@pytest.mark.parametrize(
    "name",
    ["bert_small_h100", "norm_layers_mi300x", "sd35_compiled_mi300x", "qwen15_mi300x", "gpu_only_mi210"],
)
def test_the_groups_of_real_traces_add_up_to_their_metrics(shared: Path, tmp_path: Path, name: str) -> None:
    found = read_source(shared / "traces" / f"{name}.json.gz", folder=tmp_path)
    for metrics in found.metrics:
        own = [
            g
            for g, (category, _) in zip(found.side.groups, found.places, strict=True)
            if category == metrics.category
        ]
        assert sum(g.total_us for g in own) == pytest.approx(metrics.total_time_ms * 1e3, abs=0.51)
        assert sum(g.count for g in own) == metrics.operation_count
    for each in found.side.groups:
        assert each.count == len(each.times_us)
        assert sum(each.times_us) == pytest.approx(each.total_us)


def write_baseline(folder: Path, of: Side) -> Path:
    path = folder / "baseline.json"
    path.write_bytes(msgspec.json.encode(without_times(of)))
    return path


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = without_times(side(group(1.0, 2.0), group(3.0, module="Net_0 > LayerNorm_1")))
    found = read_source(write_baseline(tmp_path, kept), folder=tmp_path / "unused")
    assert found.side == kept
    assert (found.run_dir, found.metrics) == (None, ())


def test_what_is_ours_is_told_from_a_trace_by_its_first_key(tmp_path: Path, trace: Path) -> None:
    baseline = write_baseline(tmp_path, side(group(1.0)))
    assert not reads_as_trace(str(baseline))
    assert reads_as_trace(str(trace))
    assert reads_as_trace("sample")
    assert reads_as_trace("-")
    assert not reads_as_trace(str(tmp_path))
    for text in ("", "[", "{", '{"traceEvents": []}', '{"schemaVersion": 1, "groups": 2}', "\x00"):
        (tmp_path / "other.json").write_text(text)
        assert reads_as_trace(str(tmp_path / "other.json"))


Change = Callable[[dict[str, Any]], object]
OTHER_VERSIONS = {
    "newer": ("2.0", "newer normscope than this one"),
    "newer by little": ("1.1", "newer normscope than this one"),
    "newer in digits": ("10.0", "newer normscope than this one"),
    "older": ("0.9", "doesn't read; write it again"),
    "no version": ("soon", "doesn't read; write it again"),
    "empty": ("", "schema version none"),
}


@pytest.mark.parametrize("case", OTHER_VERSIONS)
def test_other_versions_are_refused_and_not_misread(case: str, traced: SideSource, tmp_path: Path) -> None:
    version, message = OTHER_VERSIONS[case]
    folder = write_results(tmp_path / "report", traced)
    files = {
        folder / "metrics.json": folder,
        folder / "category_data" / "trace_summary.json": folder,
        tmp_path / "run" / "category_data" / "trace_summary.json": tmp_path / "run",
        write_baseline(tmp_path, traced.side): tmp_path / "baseline.json",
    }
    for file, source in files.items():
        good = file.read_bytes()
        file.write_text(json.dumps(json.loads(good) | {"schema_version": version}))
        with pytest.raises(InputError, match=message) as caught:
            read_source(source, folder=tmp_path / "unused")
        assert file.name in str(caught.value)
        file.write_bytes(good)
        read_source(source, folder=tmp_path / "unused")


def test_metrics_of_another_version_inside_results_are_refused(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    content = json.loads((folder / "metrics.json").read_text())
    content["categories"][0]["schema_version"] = "7.0"
    (folder / "metrics.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"7\.0"):
        read_source(folder, folder=tmp_path)


@pytest.mark.parametrize("field", ["schema_version", "label", "kind", "groups"])
def test_a_baseline_without_a_field_is_refused(field: str, tmp_path: Path) -> None:
    path = write_baseline(tmp_path, side(group(1.0, 2.0)))
    content = json.loads(path.read_text())
    del content[field]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"baseline\.json doesn't read as the .* write it again"):
        read_source(path, folder=tmp_path)


@pytest.mark.parametrize("field", ["schema_version", "complete", "categories", "label"])
def test_results_without_a_field_are_refused(field: str, traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    content = json.loads((folder / "metrics.json").read_text())
    del content[field]
    (folder / "metrics.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"metrics\.json doesn't read as the results of a report"):
        read_source(folder, folder=tmp_path)


def test_fields_that_came_later_and_have_a_default_may_be_missing(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    content = json.loads((folder / "metrics.json").read_text())
    for operation in content["categories"][0]["operations"]:
        del operation["kind"], operation["limits"], operation["is_replayed"]
    (folder / "metrics.json").write_text(json.dumps(content))
    assert read_source(folder, folder=tmp_path).side.groups == traced.side.groups


def test_an_unfinished_report_is_refused(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    content = json.loads((folder / "metrics.json").read_text()) | {"complete": False}
    (folder / "metrics.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="not finished"):
        read_source(folder, folder=tmp_path)


@pytest.mark.parametrize(
    "text", ['{"schema_version": "1.0"', '{"groups": NaN}', '{"label": "\\ud800"}', '{"kind":' * 9000]
)
def test_broken_files_of_ours_are_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(InputError, match=r"broken\.json"):
        read_source(tmp_path / "broken.json", folder=tmp_path)


def test_a_table_that_makes_no_sense_is_told_with_its_category(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(cells={"Kernel Time (µs)_sum": "soon"})])
    with pytest.raises(InputError, match=r"run, norm_fwd: .*'soon' is not a number"):
        read_source(run, folder=tmp_path)


def test_a_side_without_norms_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    plain.write_bytes(as_json([op("aten::mm", 100, 50), launch(1, 110), kernel(1, 200, 5.0, name="gemm")]))
    with pytest.raises(NoNormsError, match="plain holds no normalization"):
        read_source(plain, folder=tmp_path / "run")
    with pytest.raises(NoNormsError):
        read_source(write_baseline(tmp_path, side()), folder=tmp_path)


def test_a_trace_without_a_gpu_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_bytes(as_json([op("aten::layer_norm", 100, 50, **INPUTS)]))
    with pytest.raises(NoGpuActivityError):
        read_source(path, folder=tmp_path / "run")


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="doesn't exist"):
        read_source(tmp_path / "nothing", folder=tmp_path)


def test_the_gpu_of_a_trace_can_be_given_and_that_of_a_run_not(trace: Path, tmp_path: Path) -> None:
    found = read_source(trace, folder=tmp_path / "run", choice={"gpu": "h100_sxm"})
    assert found.side.gpu == "NVIDIA H100 SXM5 80GB"
    assert found.side.peak_bandwidth_tbs == pytest.approx(3.35)
    with pytest.raises(UsageError, match="gpu is for profiler traces"):
        read_source(tmp_path / "run", folder=tmp_path, choice={"gpu": "h100_sxm"})


def test_kernels_are_told_by_their_bare_names(tmp_path: Path) -> None:
    stack = ["aten::layer_norm", [KERNEL], ["void miopen::other_kernel<int>(int)"]]
    run = write_run(tmp_path / "run", [row(cells={"call_stack_full": repr(stack)})])
    (only,) = read_source(run, folder=tmp_path).side.groups
    assert only.kernels == ("vectorized_layer_norm_kernel", "other_kernel")


@pytest.mark.parametrize("cell", ["", "nan"])
def test_a_time_that_a_run_directory_lacks_is_not_known(tmp_path: Path, cell: str) -> None:
    no_time = {TIME_SUM: cell, TIME_MEAN: cell}
    rows = [row("aten::layer_norm", 9000.0, cells=no_time), row("aten::rms_norm", 100.0)]
    found = read_source(write_run(tmp_path / "run", rows), folder=tmp_path / "unused").side
    assert {each.name: (each.has_time, each.total_us) for each in found.groups} == {
        "aten::layer_norm": (False, 0.0),
        "aten::rms_norm": (True, 100.0),
    }
    with pytest.raises(InputError, match=r"can't be a baseline: the kernel time of 1 operation isn't known$"):
        encode_baseline(found)
    full = [row("aten::layer_norm", 9000.0), row("aten::rms_norm", 100.0)]
    other = read_source(write_run(tmp_path / "full", full), folder=tmp_path / "unused").side
    for sides in ((found, other), (other, found)):
        verdicts = {each.first[0].name: each.verdict for each in overview(compare_sides(*sides)).differences}
        assert verdicts == {"aten::layer_norm": "untested", "aten::rms_norm": "noise"}


def test_results_of_a_newer_version_are_refused_in_plain_words(traced: SideSource, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "report", traced)
    content = json.loads((folder / "metrics.json").read_text()) | {"schema_version": "9.0"}
    (folder / "metrics.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"the results of a report have schema version 9\.0, of a newer"):
        read_source(folder, folder=tmp_path)
