"""The GPU registry, which GPU a trace ran on, and figures of one's own."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normscope.errors import InputError, UsageError
from normscope.hardware.arch_file import read_arch_file
from normscope.hardware.match import match_gpu
from normscope.hardware.registry import Figure, Gpu, all_gpus, gpu, peaks_of, registry, run_metadata

GIB = 2**30
MI300X = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "totalGlobalMem": 206141652992,
    "computeMajor": 9,
    "computeMinor": 4,
    "numSms": 304,
}
H100 = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 85018279936,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}
COMPUTE_SPECS = {
    f"{unit}_{dtype}"
    for unit in ("matrix", "vector")
    for dtype in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
}


def figures(one: Gpu) -> list[Figure]:
    single = (
        one.memory_gb,
        one.units,
        one.last_level_cache_mib,
        one.peak_bandwidth_gbps,
        one.achievable_bandwidth_gbps,
    )
    return [
        *filter(None, single),
        *one.peak_tflops.values(),
        *one.achievable_tflops.values(),
    ]


def test_keys_are_unique_and_fit_for_a_command_line() -> None:
    keys = [one.key for one in all_gpus()]
    assert len(keys) == len(set(keys)) == 39
    assert all(key.replace("_", "").isalnum() and key == key.lower() and key.isascii() for key in keys)


@pytest.mark.parametrize("one", all_gpus(), ids=lambda one: one.key)
def test_every_figure_is_positive_and_has_a_kind_and_a_source(one: Gpu) -> None:
    assert figures(one)
    for figure in figures(one):
        assert figure.value > 0
        assert figure.kind in registry().kinds
        assert figure.sources
        assert set(figure.sources) <= set(registry().sources)
    assert set(one.peak_tflops) | set(one.achievable_tflops) <= COMPUTE_SPECS


def test_every_source_is_used_and_titled() -> None:
    used = {source for one in all_gpus() for figure in figures(one) for source in figure.sources}
    assert used == set(registry().sources)
    assert all(source.title for source in registry().sources.values())


@pytest.mark.parametrize("one", all_gpus(), ids=lambda one: one.key)
def test_what_a_benchmark_reached_is_measured_and_below_the_datasheet(one: Gpu) -> None:
    achievable = one.achievable_bandwidth_gbps
    if achievable is None:
        return
    assert achievable.kind == "measured"
    assert achievable.benchmark
    assert achievable.confidence
    assert one.peak_bandwidth_gbps is not None
    assert achievable.value < one.peak_bandwidth_gbps.value


def test_derived_peaks_are_what_their_formula_gives() -> None:
    derived = [
        figure
        for one in all_gpus()
        for figure in one.peak_tflops.values()
        if figure.kind == "derived" and figure.formula
    ]
    assert len(derived) > 20
    for figure in derived:
        product = 1.0
        top, *rest = (figure.formula or "").split("/")
        for factor in top.split("*"):
            product *= float(factor)
        for divisor in rest:
            product /= float(divisor)
        assert figure.value == pytest.approx(product, rel=0.005)


def test_the_figures_are_those_of_the_reference_data(shared: Path) -> None:
    reference = json.loads((shared / "reference" / "gpus.json").read_text())["gpus"]
    assert {entry["key"].lower() for entry in reference} | {"mi250_gcd"} == {one.key for one in all_gpus()}
    for entry in reference:
        ours = gpu(entry["key"])
        for field, theirs in (
            (ours.peak_bandwidth_gbps, entry["mem_bw_gbps"]),
            (ours.achievable_bandwidth_gbps, entry["achievable_bw_gbps"]),
        ):
            assert (field.value if field else None) == (theirs["value"] if theirs else None)
            assert (field.kind if field else None) == (theirs["kind"] if theirs else None)
        assert {spec: figure.value for spec, figure in ours.peak_tflops.items()} == {
            spec: both["peak"]["value"] for spec, both in entry["tflops"].items() if both["peak"]
        }


@pytest.mark.parametrize(
    ("key", "bandwidth", "vector_fp32", "matrix_bf16"),
    [
        ("mi300x", 5300, 163.4, 1307.4),
        ("h100_sxm", 3350, 66.9, 989.4),
        ("mi210", 1638.4, 45.3, 181.0),
        ("b200", 7700, 74.45, 2250),
        ("a100_sxm4_80gb", 2039, 19.5, 312),
    ],
)
def test_well_known_peaks(key: str, bandwidth: float, vector_fp32: float, matrix_bf16: float) -> None:
    peaks = peaks_of(gpu(key))
    assert peaks is not None
    assert (peaks.bandwidth_gbps, peaks.bandwidth_kind) == (bandwidth, "datasheet")
    assert (peaks.tflops["vector_fp32"], peaks.tflops["matrix_bf16"]) == (vector_fp32, matrix_bf16)


def test_the_last_level_cache_is_the_one_in_front_of_memory() -> None:
    assert gpu("mi300x").last_level_cache_bytes == 256 * 2**20
    assert gpu("h100_sxm").last_level_cache_bytes == 50 * 2**20
    assert gpu("gb300").last_level_cache_bytes is None


@pytest.mark.parametrize("key", ["MI300X", " mi300x ", "h100-sxm"])
def test_a_key_may_be_written_loosely(key: str) -> None:
    assert gpu(key).key in ("mi300x", "h100_sxm")


@pytest.mark.parametrize(
    ("key", "near"),
    [("h100", "h100_sxm"), ("a100", "a100_sxm4_40gb"), ("mi30x", "mi300x"), ("4090", "rtx4090")],
)
def test_an_unknown_key_is_a_usage_error_with_the_nearest_keys(key: str, near: str) -> None:
    with pytest.raises(UsageError, match=near) as raised:
        gpu(key)
    assert "normscope gpus" in str(raised.value)


@pytest.mark.parametrize("key", ["", "qqqq"])
def test_a_key_like_no_other_still_gets_a_sentence(key: str) -> None:
    with pytest.raises(UsageError, match="normscope gpus"):
        gpu(key)


def test_a_half_precision_vector_rate_without_a_figure_is_the_fp32_rate() -> None:
    amd, nvidia = peaks_of(gpu("mi300x")), peaks_of(gpu("h100_sxm"))
    assert amd is not None
    assert nvidia is not None
    assert amd.tflops["vector_bf16"] == amd.tflops["vector_fp32"] == 163.4
    assert nvidia.tflops["vector_bf16"] == 133.8


def test_achievable_peaks_are_the_benchmarks_and_never_stand_in() -> None:
    peaks = peaks_of(gpu("mi300x"), "achievable")
    assert peaks is not None
    assert (peaks.bandwidth_gbps, peaks.bandwidth_kind) == (4269.1, "achievable")
    assert (peaks.tflops["matrix_bf16"], peaks.tflops["vector_fp32"]) == (708, 163.4)
    assert peaks_of(gpu("mi325x"), "achievable") is None
    assert peaks_of(gpu("mi308x")) is None


def test_the_metadata_of_a_run_has_the_units_of_the_reference(shared: Path) -> None:
    path = shared / "tracelens_runs" / "norm_layers_mi300x" / "metadata" / "norm_fwd_metadata.json"
    theirs = json.loads(path.read_text())
    peaks = peaks_of(gpu("mi300x"))
    assert peaks is not None
    ours = run_metadata(peaks)
    assert (ours["peak_hbm_bw_tbs"], ours["memory_gb"]) == (theirs["peak_hbm_bw_tbs"], theirs["memory_gb"])
    tflops = ours["max_achievable_tflops"]
    assert isinstance(tflops, dict)
    assert set(theirs["max_achievable_tflops"]) <= set(tflops)
    assert ours["platform"] == "AMD Instinct MI300X"


def test_the_reference_divides_by_the_datasheet_bandwidth(shared: Path) -> None:
    compared = 0
    for path in (shared / "traces" / "expected").glob("*.json"):
        key = "h100_sxm" if path.stem.endswith("_h100") and "_vs_" not in path.stem else "mi300x"
        peaks = peaks_of(gpu(key))
        assert peaks is not None
        for row in json.loads(path.read_text())["norm_rows"]:
            assert row["roofline_bound"] == "MEMORY_BOUND"
            percent = 100 * row["tb_s_mean"] / (peaks.bandwidth_gbps / 1000)
            assert percent == pytest.approx(row["pct_roofline_mean"], rel=1e-9)
            ridge = peaks.tflops[row["compute_spec"]] * 1000 / peaks.bandwidth_gbps
            assert row["flops_per_byte"] < ridge
            compared += 1
    assert compared > 60


def device(one: Gpu, name: str) -> dict[str, Any]:
    """Return the properties of one of the registry's GPUs under this name."""
    found: dict[str, Any] = {"id": 0, "name": name, "totalGlobalMem": int(one.memory_gb.value * 0.97 * GIB)}
    if one.compute_capability:
        major, minor = one.compute_capability.split(".")
        found |= {"computeMajor": int(major), "computeMinor": int(minor)}
    return found | ({"numSms": int(one.units.value)} if one.units else {})


NAMED = [(one, name) for one in all_gpus() for name in one.device_names]


@pytest.mark.parametrize(("one", "name"), NAMED, ids=lambda value: getattr(value, "key", value))
def test_every_known_device_name_leads_to_its_gpu(one: Gpu, name: str) -> None:
    assert match_gpu([device(one, name)]).gpu == one


def test_every_device_name_of_the_reference_data_leads_to_its_gpu(shared: Path) -> None:
    reference = json.loads((shared / "reference" / "gpus.json").read_text())
    for name, key in reference["name_to_key"].items():
        one = gpu(key)
        assert match_gpu([device(one, name)]).gpu == one, name


@pytest.mark.parametrize(
    "name", ["radeon rx 7900 xtx", "A100-SXM4-40GB", "GeForce RTX 3090", "NVIDIA Tesla T4"]
)
def test_the_vendor_in_front_of_a_name_comes_and_goes(name: str) -> None:
    found = match_gpu([{"name": name}])
    assert found.gpu is not None
    assert found.how == "name"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NVIDIA H100", "bare name of several parts"),
        ("NVIDIA GeForce RTX 4090 D", "another part"),
        ("NVIDIA RTX A4000", "another part"),
        ("NVIDIA H20", "another part"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "another part"),
        ("Quadro RTX 6000", "another part"),
        ("T400", "another part"),
        ("<script>alert(1)</script>", "junk"),
    ],
)
def test_a_name_that_only_resembles_a_known_one_is_unknown(name: str, reason: str) -> None:
    found = match_gpu([H100 | {"name": name}])
    assert (found.gpu, found.how, found.candidates) == (None, "not known", ()), reason
    assert "--gpu-file" in found.message
    assert "without percentages" in found.message


@pytest.mark.parametrize("name", ["", "AMD Radeon Graphics", "  "])
@pytest.mark.parametrize(
    ("key", "told"),
    [("mi300x", "mi300x"), ("mi325x", "mi325x"), ("mi300a", "mi300a"), ("mi250x_gcd", "mi250x_gcd")],
)
def test_a_device_without_a_name_is_told_by_its_properties(name: str, key: str, told: str) -> None:
    found = match_gpu([device(gpu(key), name)])
    assert found.gpu == gpu(told)
    assert found.how == "properties"


def test_parts_with_the_same_properties_and_other_figures_stay_open() -> None:
    found = match_gpu([device(gpu("mi355x"), "AMD Radeon Graphics")])
    assert (found.gpu, found.how, found.candidates) == (None, "ambiguous", ("mi350x", "mi355x"))
    assert "mi350x or mi355x" in found.message


def test_parts_with_the_same_properties_and_figures_need_not_be_told_apart() -> None:
    found = match_gpu([device(gpu("mi210"), "")])
    assert found.gpu is not None
    assert found.candidates == ("mi210", "mi250_gcd")
    assert "whose figures are the same" in found.message


def test_one_name_of_two_parts_is_told_by_the_number_of_units() -> None:
    name = "AMD Instinct MI250X / MI250"
    assert match_gpu([device(gpu("mi250x_gcd"), name)]).gpu == gpu("mi250x_gcd")
    assert match_gpu([device(gpu("mi250_gcd"), name)]).gpu == gpu("mi250_gcd")
    assert match_gpu([{"name": name}]).how == "ambiguous"


def test_a_stack_and_a_card_of_one_name_are_told_by_their_memory() -> None:
    name = "Intel(R) Data Center GPU Max 1550"
    assert match_gpu([{"name": name, "totalGlobalMem": 64 * GIB}]).gpu == gpu("max1550_stack")
    assert match_gpu([{"name": name, "totalGlobalMem": 128 * GIB}]).gpu == gpu("max1550")
    assert match_gpu([{"name": name}]).candidates == ("max1550_stack", "max1550")


def test_memory_overrules_the_gigabytes_in_a_name() -> None:
    assert match_gpu([device(gpu("a100_sxm4_80gb"), "NVIDIA A100-SXM4-40GB")]).gpu == gpu("a100_sxm4_80gb")
    assert match_gpu([device(gpu("mi325x"), "AMD Instinct MI300X")]).gpu == gpu("mi325x")


def test_a_partition_does_not_get_the_figures_of_the_whole_card() -> None:
    compute_partition = match_gpu([MI300X | {"numSms": 38}])
    assert (compute_partition.gpu, compute_partition.how) == (None, "partition")
    assert "38 units where the whole GPU has 304" in compute_partition.message
    memory_partition = match_gpu([MI300X | {"totalGlobalMem": 48 * GIB}])
    assert memory_partition.gpu is None
    slice_of_a_card = match_gpu([H100 | {"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "numSms": 14}])
    assert (slice_of_a_card.gpu, slice_of_a_card.how) == (None, "partition")


def test_a_known_gpu_without_published_peaks_says_so() -> None:
    found = match_gpu([device(gpu("mi308x"), "AMD Instinct MI308X")])
    assert found.gpu == gpu("mi308x")
    assert "No peaks of it are published" in found.message


def test_eight_like_devices_are_one_gpu() -> None:
    assert match_gpu([MI300X | {"id": number} for number in range(8)]).gpu == gpu("mi300x")


def test_the_devices_that_ran_kernels_choose_among_different_ones() -> None:
    devices = [MI300X, H100 | {"id": 1}]
    assert match_gpu(devices, {1}).gpu == gpu("h100_sxm")
    assert match_gpu(devices, {0}).gpu == gpu("mi300x")
    undecided = match_gpu(devices, {0, 1})
    assert (undecided.gpu, undecided.how, undecided.candidates) == (None, "several", ("mi300x", "h100_sxm"))


def test_a_kernel_on_a_device_that_is_not_listed_does_not_matter() -> None:
    assert match_gpu([MI300X], {2, 9}).gpu == gpu("mi300x")


@pytest.mark.parametrize("properties", [None, [], [None, 7, "x"]])
def test_a_trace_without_device_properties_says_what_to_give(
    properties: list[Any] | None,
) -> None:
    found = match_gpu(properties)
    assert (found.gpu, found.how) == (None, "not recorded")
    assert "--gpu KEY" in found.message


def test_missing_and_senseless_properties_do_not_speak_against_a_name() -> None:
    for entry in (
        {"name": "NVIDIA H200"},
        {"name": "NVIDIA H200", "totalGlobalMem": None, "numSms": "many", "computeMajor": -1},
        {"name": "NVIDIA H200", "multiProcessorCount": 132},
    ):
        assert match_gpu([entry]).gpu == gpu("h200_sxm")


JUNK = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.integers())
)
FIELDS = st.sampled_from(["id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "numSms"])


@given(st.lists(st.dictionaries(FIELDS, JUNK) | JUNK, max_size=4), st.sets(st.integers(-1, 3)))
def test_junk_never_raises_and_always_has_a_sentence(properties: list[Any], device_ids: set[int]) -> None:
    found = match_gpu(properties, device_ids)
    assert found.message.endswith(".")
    assert len(found.message) < 1000


@pytest.mark.parametrize(
    ("trace", "key"),
    [
        ("vit_h100", "h100_sxm"),
        ("vit_mi300x", "mi300x"),
        ("compiled_llama_layer", "mi300x"),
        ("gpu_only_mi210", "mi210"),
        ("vllm_eager_b200", "b200"),
        ("vllm_piecewise_graph", "mi300x"),
    ],
)
def test_real_traces_lead_to_their_gpu(trace: str, key: str, shared: Path) -> None:
    content = json.loads(gzip.decompress((shared / "traces" / f"{trace}.json.gz").read_bytes()))
    kernels = [event for event in content["traceEvents"] if event.get("cat") == "kernel"]
    device_ids = {event["args"]["device"] for event in kernels}
    assert match_gpu(content["deviceProperties"], device_ids).gpu == gpu(key)


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "my_gpu.json"
    path.write_text(content)
    return path


def test_a_file_gives_the_figures_of_a_gpu(tmp_path: Path) -> None:
    content = {
        "name": "MI999",
        "mem_bw_gbps": 9000,
        "memory_gb": 512,
        "max_achievable_tflops": {"matrix_bf16": 3000, "vector_fp32": 200.5},
        "freq_mhz": 2100,
    }
    peaks = read_arch_file(write(tmp_path, json.dumps(content)))
    assert (peaks.name, peaks.bandwidth_gbps, peaks.bandwidth_kind) == ("MI999", 9000, "file")
    assert run_metadata(peaks) == {
        "platform": "MI999",
        "peak_hbm_bw_tbs": 9.0,
        "max_achievable_tflops": {"matrix_bf16": 3000, "vector_fp32": 200.5},
        "memory_gb": 512,
    }


def test_a_file_needs_no_more_than_the_bandwidth(tmp_path: Path) -> None:
    peaks = read_arch_file(write(tmp_path, '{"mem_bw_gbps": 1000}'))
    assert (peaks.name, peaks.tflops, peaks.memory_gb) == ("my_gpu", {}, None)
    assert "memory_gb" not in run_metadata(peaks)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "no valid JSON"),
        ("[1]", "should hold a JSON object"),
        ("{}", "mem_bw_gbps is missing"),
        ('{"mem_bw_gbps": "5300"}', "mem_bw_gbps should be a positive number"),
        ('{"mem_bw_gbps": 0}', "mem_bw_gbps should be a positive number"),
        ('{"mem_bw_gbps": true}', "mem_bw_gbps should be a positive number"),
        ('{"mem_bw_gbps": NaN}', "no valid JSON"),
        ('{"mem_bw_gbps": 1' + "0" * 400 + "}", "mem_bw_gbps"),
        ('{"mem_bw_gbps": 1, "name": 3}', "name should be text"),
        ('{"mem_bw_gbps": 1, "memory_gb": -1}', "memory_gb should be a positive number"),
        ('{"mem_bw_gbps": 1, "max_achievable_tflops": 3}', "max_achievable_tflops should be an object"),
        (
            '{"mem_bw_gbps": 1, "max_achievable_tflops": {"vector_fp32": null}}',
            "max_achievable_tflops.vector_fp32",
        ),
    ],
)
def test_a_wrong_file_is_an_input_error_with_file_and_key(
    content: str, complaint: str, tmp_path: Path
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as raised:
        read_arch_file(path)
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_arch_file(tmp_path / "none.json")
