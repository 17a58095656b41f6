"""What bounds a norm, from launches of simulated traces; every figure by hand."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from normscope.hardware.registry import Peaks
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from normscope.tracerun.limits import FEWEST_KERNELS, Limits, TracedDevice, limits, traced_device
from normscope.tracerun.peaks import TracedGpu
from normscope.tracerun.signatures import signatures
from trace_inputs import Event, kernel, launch, link_events, op
from written_run import written

MIB = 2**20
BATCH_NORM = "aten::native_batch_norm"
PEAKS = Peaks("Test GPU", 1000.0, "file", {})
# x (4,64,100,100) fp32: E = 2,560,000 elements, 10.24 MB
BN_INPUTS = {
    "Input Dims": [[4, 64, 100, 100], [64], [64], [64], [64], [], [], []],
    "Input type": ["float", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar"],
    "Concrete Inputs": ["", "", "", "", "", "True", "0.1", "1e-05"],
}
# E(sx+sy) + C(sw+sb) + 2C·4 + 4C·sr = 20,480,000 + 512 + 512 + 1,024
BN_BYTES = 20_482_048


def others(duration_us: float) -> list[tuple[float, int]]:
    """Return the norm's own kernel and fifty of other work, with indices that the traces here don't reach."""
    return [*((duration_us, 1000 + number) for number in range(FEWEST_KERNELS)), (300.0, 0)]


def device(**changes: object) -> TracedDevice:
    """Return a GPU of 100 compute units, a 50 MiB cache and 1 TB/s, whose shortest kernels take 2 µs."""
    figures: dict[str, object] = {
        "multiprocessors": {None: 100},
        "kernels": others(2.0),
        "last_level_cache_bytes": 50 * MIB,
        "bandwidth_gbps": 1000.0,
    }
    return TracedDevice(**(figures | changes))  # type: ignore[arg-type]


def call_of(name: str, kernels: Sequence[Event], inputs: dict[str, object]) -> list[Event]:
    launches = [launch(number, 110.0 + number) for number in range(1, len(kernels) + 1)]
    return [op(name, 100.0, 90.0, **inputs), *launches, *kernels]


def bounded(events: list[Event], gpu: TracedDevice) -> Limits:
    """Return the limits of the only signature of a trace."""
    linked = link_events(*events)
    (row,) = signatures(linked, find_norms(linked, load_catalog()))
    return limits(linked.trace.gpu_events, row, gpu)


def batch_norm(
    grid: int = 64, training: str = "True", name: str = "batch_norm_transform_input_kernel"
) -> list[Event]:
    inputs = dict(BN_INPUTS)
    inputs["Concrete Inputs"] = ["", "", "", "", "", training, "0.1", "1e-05"]
    return call_of(BATCH_NORM, [kernel(1, 200.0, 300.0, name, grid=[grid, 1, 1], block=[256, 2, 1])], inputs)


def test_fewer_workgroups_than_compute_units_leave_the_device_under_filled() -> None:
    found = bounded(batch_norm(64), device())
    assert "under-filled" in found.bounds
    assert (found.workgroups, found.workgroup_threads, found.multiprocessors) == (64, 512, 100)
    assert "under-filled" not in bounded(batch_norm(100), device()).bounds
    assert "under-filled" not in bounded(batch_norm(64), device(multiprocessors={})).bounds


def test_the_device_of_the_kernel_decides_how_many_units_there_are() -> None:
    assert bounded(batch_norm(64), device(multiprocessors={0: 32, 1: 200})).multiprocessors == 32
    assert bounded(batch_norm(64), device(multiprocessors={1: 200})).multiprocessors is None
    # ROCm numbers devices in kernels otherwise than in the list; where all are alike that doesn't matter
    assert bounded(batch_norm(64), device(multiprocessors={1: 200, None: 200})).multiprocessors == 200


def test_a_launch_without_a_grid_says_nothing() -> None:
    events = batch_norm()
    del events[-1]["args"]["grid"], events[-1]["args"]["block"]
    found = bounded(events, device())
    assert (found.workgroups, found.workgroup_threads) == (None, None)
    assert "under-filled" not in found.bounds


def test_bytes_that_need_less_than_the_shortest_kernels_are_launch_bound() -> None:
    found = bounded(batch_norm(), device(kernels=others(21.0)))
    # 20,482,048 bytes at 1 TB/s
    assert found.at_peak_us == pytest.approx(20.482048)
    assert "launch-bound" in found.bounds
    assert "launch-bound" not in bounded(batch_norm(), device(kernels=others(20.0))).bounds
    assert "launch-bound" not in bounded(batch_norm(), device(bandwidth_gbps=None)).bounds


def test_bytes_that_fit_the_cache_are_cache_resident() -> None:
    assert "cache-resident" in bounded(batch_norm(), device(last_level_cache_bytes=BN_BYTES)).bounds
    assert "cache-resident" not in bounded(batch_norm(), device(last_level_cache_bytes=BN_BYTES - 1)).bounds
    assert "cache-resident" not in bounded(batch_norm(), device(last_level_cache_bytes=None)).bounds


def test_batch_norm_in_training_reads_its_input_twice() -> None:
    found = bounded(batch_norm(), device())
    # x once more: 10,240,000 bytes
    assert found.attainable_percent == pytest.approx(100 * BN_BYTES / (BN_BYTES + 10_240_000))
    assert "two-pass" in found.bounds
    assert bounded(batch_norm(training="False"), device()).attainable_percent is None
    once = "void cudnn::bn_fw_tr_1C11_singleread_spec<float>"
    assert bounded(batch_norm(name=once), device()).attainable_percent is None


def layer_norm(rows: int, row: int) -> list[Event]:
    inputs = {
        "Input Dims": [[rows, row], [], [row], [row], []],
        "Input type": ["c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"],
        "Concrete Inputs": ["", f"[{row}]", "", "", "1e-05"],
    }
    return call_of("aten::native_layer_norm", [kernel(1, 200.0, 300.0, grid=[rows, 1, 1])], inputs)


def test_rows_that_overflow_the_cache_while_all_units_work_are_read_twice() -> None:
    # 100 units × 524,288 elements × 2 bytes = 104.9 MB, more than 50 MiB
    found = bounded(layer_norm(128, 524_288), device())
    x_bytes = 128 * 524_288 * 2
    moved = 2 * x_bytes + 2 * 524_288 * 2 + 2 * 128 * 4
    assert found.attainable_percent == pytest.approx(100 * moved / (moved + x_bytes))
    # 100 × 1,024 × 2 bytes fit
    assert bounded(layer_norm(128, 1024), device()).attainable_percent is None


def test_the_kernel_with_most_of_the_time_of_all_calls_is_the_main_one() -> None:
    names = ("batch_norm_collect_statistics_kernel", "batch_norm_transform_input_kernel")
    kernels = [
        kernel(1, 200.0, 30.0, names[0], grid=[64, 1, 1]),
        kernel(2, 300.0, 90.0, names[1], grid=[400, 1, 1]),
    ]
    found = bounded(call_of(BATCH_NORM, kernels, BN_INPUTS), device())
    assert (found.main_kernel, found.main_kernel_percent) == (names[1], 75.0)
    assert found.workgroups == 400
    alone = bounded(batch_norm(), device())
    assert (alone.main_kernel, alone.main_kernel_percent) == ("", None)


def test_the_shortest_kernels_are_the_shortest_hundredth_of_the_others() -> None:
    kernels = [(0.5, 1000), (0.75, 1001), *((3.0, 1002 + number) for number in range(198))]
    # its own 300 µs are left out; of 200 others two are shorter than the third
    assert bounded(batch_norm(), device(kernels=sorted([*kernels, (300.0, 0)]))).shortest_kernel_us == 3.0


def test_a_norm_is_not_held_against_itself() -> None:
    # index 0 is the norm's own kernel
    own = [(1.0, 0), *others(25.0)[:-1]]
    assert bounded(batch_norm(), device(kernels=own)).shortest_kernel_us == 25.0


def test_a_few_kernels_do_not_tell_how_short_kernels_get() -> None:
    assert bounded(batch_norm(), device(kernels=others(80.0))).shortest_kernel_us == 80.0
    found = bounded(batch_norm(), device(kernels=others(80.0)[1:]))
    assert found.shortest_kernel_us is None
    assert "launch-bound" not in found.bounds


def test_the_kernels_of_a_trace_are_sorted_by_their_time() -> None:
    gpu = TracedGpu(peaks=PEAKS, key=None, achievable_gbps=None, message="")
    linked = link_events(kernel(None, 1.0, 5.0), kernel(None, 10.0, 0.0), kernel(None, 20.0, 2.0))
    found = traced_device(linked.trace, gpu)
    assert found.kernels == [(2.0, 2), (5.0, 0)]
    # the trace's own count of units comes before the registry's; all its devices have as many
    assert found.multiprocessors == {0: 8, None: 8}
    assert found.bandwidth_gbps == 1000.0


def test_a_launch_tells_the_units_where_nothing_lists_them() -> None:
    events = batch_norm(64)
    events[-1]["args"]["blocks per SM"] = 64 / 132
    assert bounded(events, device(multiprocessors={})).multiprocessors == 132


def test_calls_that_launch_differently_have_no_launch_of_their_own() -> None:
    # autotuned libraries may start the same shape with another grid
    first, second = batch_norm(64), batch_norm(128)
    for event in second:
        event["ts"] += 1000.0
        if "correlation" in event["args"]:
            event["args"]["correlation"] += 100
    found = bounded([*first, *second], device())
    assert (found.workgroups, found.workgroup_threads) == (None, None)
    assert "under-filled" not in found.bounds


def test_calls_without_shapes_are_told_apart_by_their_launch() -> None:
    names = ["batch_norm_backward_kernel"] * 2
    kernels = [
        kernel(None, 100.0 * number, 10.0, name, grid=[grid, 1, 1])
        for number, (name, grid) in enumerate(zip(names, (64, 512), strict=True))
    ]
    linked = link_events(*kernels)
    rows = signatures(linked, find_norms(linked, load_catalog()))
    found = [limits(linked.trace.gpu_events, row, device()) for row in rows]
    assert sorted((each.workgroups, each.bounds) for each in found) == [(64, ("under-filled",)), (512, ())]


def test_devices_that_differ_say_nothing_about_one_that_is_not_listed() -> None:
    gpu = TracedGpu(peaks=None, key=None, achievable_gbps=None, message="", multiprocessors=132)
    devices = [{"id": 0, "numSms": 8}, {"id": 1, "numSms": 16}]
    linked = link_events(kernel(None, 1.0), deviceProperties=devices)
    assert traced_device(linked.trace, gpu).multiprocessors == {0: 8, 1: 16}


def test_the_registry_fills_in_what_the_trace_lacks() -> None:
    linked = link_events(kernel(None, 1.0), deviceProperties=[])
    gpu = TracedGpu(
        peaks=None,
        key=None,
        achievable_gbps=None,
        message="",
        multiprocessors=132,
        last_level_cache_bytes=MIB,
    )
    found = traced_device(linked.trace, gpu)
    assert (found.multiprocessors, found.last_level_cache_bytes) == ({None: 132}, MIB)
    assert found.bandwidth_gbps is None


def test_the_64_channel_batch_norms_of_resnet_fill_a_fifth_of_the_device(
    shared: Path, tmp_path: Path
) -> None:
    run = written(shared / "traces" / "resnet_checkpoint_mi300x.json.gz", tmp_path)
    rows = [
        row for row in run.rows if "64, 112, 112" in row["Input Dims"] or "64, 56, 56" in row["Input Dims"]
    ]
    assert rows
    for row in rows:
        # 64 workgroups on 304 units; the issue's own figures
        assert (row["workgroups"], row["multiprocessors"]) == ("64", "304")
        assert "under-filled" in row["limits"]
    backward = next(r for r in run.table("norm_bwd") if "(10, 64, 112, 112)" in r["Input Dims"])
    # 48.2 MB at 5.3 TB/s
    assert float(backward["At Peak (µs)"]) == pytest.approx(9.09, abs=0.01)
    small = next(r for r in run.table("norm_bwd") if "(10, 512, 7, 7)" in r["Input Dims"])
    assert "launch-bound" in small["limits"]
    assert "under-filled" not in small["limits"]


@pytest.mark.parametrize(
    ("name", "op_name", "workgroups"),
    [
        ("bert_small_mi300x", "aten::layer_norm", "141"),
        ("sd35_compiled_mi300x", "aiter::_groupnorm_run", "256"),
        ("sd35_compiled_mi300x", "eager::T5LayerNorm", "32"),
    ],
)
def test_devices_that_kernels_number_otherwise_are_known_all_the_same(
    shared: Path, tmp_path: Path, name: str, op_name: str, workgroups: str
) -> None:
    run = written(shared / "traces" / f"{name}.json.gz", tmp_path)
    rows = [row for row in run.rows if row["name"] == op_name]
    assert {row["multiprocessors"] for row in rows} == {"304"}
    assert any(row["workgroups"] == workgroups and "under-filled" in row["limits"] for row in rows)
