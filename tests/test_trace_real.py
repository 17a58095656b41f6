"""Reading and linking real traces: counts, links, and the timeline that TraceLens gives for each."""

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from normscope.trace.events import Trace
from normscope.trace.link import LinkedTrace, link
from normscope.trace.nesting import NONE
from normscope.trace.read import read_trace
from normscope.trace.timeline import gpu_timeline
from real_traces import TIMELINE_FIELDS, TRACES

GRAPHS = {"sglang_decode_graph_mi300x", "vllm_piecewise_graph"}


@pytest.fixture(scope="module", params=TRACES)
def linked(request: pytest.FixtureRequest, shared: Path) -> tuple[str, LinkedTrace]:
    name: str = request.param
    return name, link(read_trace(shared / "traces" / f"{name}.json.gz"))


def test_a_real_trace_is_read_whole_and_without_complaint(
    linked: tuple[str, LinkedTrace], shared: Path
) -> None:
    name, found = linked
    trace = found.trace
    content = gzip.decompress((shared / "traces" / f"{name}.json.gz").read_bytes())
    document = json.loads(content)
    events: list[dict[str, Any]] = document["traceEvents"]
    categories = Counter(event.get("cat") for event in events)
    assert trace.problems == []
    assert not trace.truncated
    assert trace.bytes_read == len(content)
    assert trace.event_count == len(events)
    assert len(trace.cpu_ops) == categories["cpu_op"]
    frames = (event["name"] for event in events if event.get("cat") == "python_function")
    assert len(trace.modules) == sum(name.startswith("nn.Module") for name in frames)
    assert Counter(event.kind for event in trace.gpu_events) == Counter(
        {kind: count for kind in ("kernel", "memcpy", "memset") if (count := _gpu_count(categories, kind))}
    )
    assert len(trace.launches) == categories["cuda_runtime"] + categories["cuda_driver"]
    assert sum(event.dur_us for event in trace.gpu_events) == pytest.approx(
        sum(e["dur"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    )
    assert [device.name for device in trace.info.devices] == [
        entry["name"] for entry in document["deviceProperties"]
    ]
    with_inputs = [op.args().dims for op in trace.cpu_ops]
    assert with_inputs == [e["args"].get("Input Dims") for e in events if e.get("cat") == "cpu_op"]


def _gpu_count(categories: Counter[str | None], kind: str) -> int:
    return categories[kind] + categories[f"gpu_{kind}"]


def test_the_timeline_equals_the_references(linked: tuple[str, LinkedTrace], shared: Path) -> None:
    name, found = linked
    path = shared / "traces" / "expected" / f"{name}.json"
    if name == "gpu_only_mi210":
        assert not path.exists()
        return
    expected = json.loads(path.read_text())["gpu_timeline"]
    timeline = gpu_timeline(found)
    for entry, field in TIMELINE_FIELDS.items():
        assert getattr(timeline, field) == pytest.approx(expected[entry]["time_ms"], abs=1e-6), entry


def test_kernels_are_linked_as_far_as_their_launches_were_recorded(linked: tuple[str, LinkedTrace]) -> None:
    name, found = linked
    unlinked = {"qwen15_mi300x": 463, "resnet_checkpoint_mi300x": 968}.get(name, 0)
    assert found.how.count("none") == unlinked
    assert ("graph" in found.how) == (name in GRAPHS)
    assert "external id" not in found.how
    assert "outside window" not in found.how
    if name not in GRAPHS | {"gpu_only_mi210"}:
        without_op = sum(op == NONE for op in found.op_of) - unlinked
        assert without_op <= 2


def test_one_graph_launch_holds_nearly_all_kernels_of_a_decode_step(shared: Path) -> None:
    found = link(read_trace(shared / "traces" / "sglang_decode_graph_mi300x.json.gz"))
    assert found.how.count("graph") == 544


def test_every_module_of_a_layer_norm_is_a_layer_norm(shared: Path) -> None:
    found = link(read_trace(shared / "traces" / "vit_mi300x.json.gz"))
    norms = [index for index, op in enumerate(found.trace.cpu_ops) if op.name == "aten::layer_norm"]
    assert len(norms) == 25
    assert all(found.module_path(index)[-1].startswith("nn.Module: LayerNorm_") for index in norms)


def test_backward_norms_lead_to_the_module_of_their_forward_op(shared: Path) -> None:
    found = link(read_trace(shared / "traces" / "resnet_checkpoint_mi300x.json.gz"))
    ops = found.trace.cpu_ops
    backward = [index for index, op in enumerate(ops) if op.name == "aten::native_batch_norm_backward"]
    assert len(backward) == 60
    paths = [found.module_path(index) for index in backward]
    known = [path for path in paths if path]
    assert len(known) >= 57
    assert all(path[-1].startswith("nn.Module: BatchNorm2d_") for path in known)


def test_bits_cut_off_a_real_trace_leave_the_rest(shared: Path) -> None:
    content = gzip.decompress((shared / "traces" / "vit_mi300x.json.gz").read_bytes())
    whole = _read(content)
    for share in (0.3, 0.6, 0.9):
        part = _read(content[: int(share * len(content))])
        assert part.truncated
        assert 0 < part.event_count < whole.event_count
        assert part.cpu_ops == whole.cpu_ops[: len(part.cpu_ops)]


def _read(content: bytes) -> Trace:
    return read_trace(io.BytesIO(content))
