"""Reading traces, whole and broken ones."""

import copy
import gc
import gzip
import io
import itertools
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.errors import InputError
from normscope.trace.collect import LOST_RECORD, Collector
from normscope.trace.decode import CUT, TRAILING
from normscope.trace.link import link
from normscope.trace.problems import ProblemLog
from normscope.trace.raw import NEGATIVE, NO_TIME, TEXT_TIME, TOO_LONG, decode_events
from normscope.trace.read import read_trace
from normscope.trace.repair import BACKSLASHES, LONGEST_EVENT, NOT_JSON, NOT_UTF8, UNREADABLE
from normscope.trace.source import BROKEN_GZIP, CUT_GZIP, TRAILING_BYTES
from normscope.trace.times import OVERRUN, REPEATED, ZERO
from trace_inputs import (
    CORRELATION,
    EPOCH_US,
    KERNEL,
    KERNEL_US,
    annotation,
    as_json,
    base_document,
    base_events,
    frame,
    gzipped,
    kernel,
    launch,
    op,
    problems,
    read,
    read_events,
    with_raw_name,
)


def test_the_tiny_trace_is_read_with_all_that_is_used_of_it() -> None:
    trace = read(as_json(hip_runtime_version=7, distributedInfo={"rank": 3}))
    (gpu_event,) = trace.gpu_events
    assert (gpu_event.name, gpu_event.kind, gpu_event.ts_us, gpu_event.dur_us) == (
        KERNEL,
        "kernel",
        130.0,
        KERNEL_US,
    )
    assert (gpu_event.pid, gpu_event.stream, gpu_event.device, gpu_event.correlation) == (
        0,
        7,
        0,
        CORRELATION,
    )
    assert (gpu_event.grid, gpu_event.block, gpu_event.clipped_dur_us) == ((1024, 1, 1), (32, 4, 1), None)
    assert [call.correlation for call in trace.launches] == [CORRELATION]
    assert [op.name for op in trace.cpu_ops] == ["aten::layer_norm", "aten::native_layer_norm"]
    assert trace.cpu_ops[1].external_id == 12
    inputs = trace.cpu_ops[1].args()
    assert inputs.dims == [[8, 128, 1024], [], [1024], [1024], []]
    assert inputs.concrete == ["", "[1024]", "", "", "1.0000000000000001e-05"]
    assert inputs.types[1] == "ScalarList"
    assert inputs.strides[0] == [131072, 1024, 1]
    (device,) = trace.info.devices
    assert (device.name, device.memory_bytes, device.multiprocessors) == ("Simulated GPU", 64, 8)
    assert trace.info.rank == 3
    assert trace.info.says("record_shapes")
    assert not trace.info.says("with_stack")
    assert trace.info.metadata["traceName"] == "tiny.json"
    assert trace.problems == []
    assert (trace.event_count, trace.truncated) == (4, False)
    assert trace.bytes_read == len(as_json(hip_runtime_version=7, distributedInfo={"rank": 3}))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (as_json(), "plain.json"),
        (as_json(), "plain.json.gz"),
        (gzipped(as_json()), "compressed.json.gz"),
        (gzipped(as_json()), "compressed.json"),
        (b"\xef\xbb\xbf" + as_json(), "bom.json"),
        (b"\n \n" + as_json() + b"\n\n", "space.json"),
        (as_json() + b"\0" * 512, "padded.json"),
        (gzipped(as_json()) + b"\0" * 512, "padded.json.gz"),
        (gzipped(as_json()[:700]) + gzipped(as_json()[700:]), "members.json.gz"),
        (json.dumps(base_events()).encode(), "array.json"),
        (json.dumps(base_document(), separators=(",", ":")).encode(), "compact.json"),
        (json.dumps({"traceEvents": base_events(), "z": [{"name": 1}, {"name": 2}]}).encode(), "tail.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_content_not_the_file_name_tells_how_a_trace_is_stored(
    content: bytes, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    trace = read_trace(path)
    assert (len(trace.gpu_events), len(trace.launches), len(trace.cpu_ops)) == (1, 1, 2)
    assert trace.problems == []
    assert not trace.truncated


def test_a_trace_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzipped(as_json()))))
    assert len(read_trace("-").gpu_events) == 1


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzipped(as_json()))
    seen: list[tuple[int, int | None]] = []
    read_trace(path, lambda done, size: seen.append((done, size)))
    size = path.stat().st_size
    assert seen[-1] == (size, size)


def test_progress_of_a_stream_has_no_end() -> None:
    seen: list[tuple[int, int | None]] = []
    read_trace(io.BytesIO(as_json()), lambda done, size: seen.append((done, size)))
    assert seen[-1] == (len(as_json()), None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n", "only white space"),
        (gzipped(b""), "is empty"),
        (b"{}", "has no traceEvents"),
        (b'{"a": [1, 2]}', "has no traceEvents"),
        (b'{"traceEvents": {"a": 1}}', "byte 16"),
        (b'{"traceEvents": null}', "byte 16"),
        (b'{"schemaVersion": 1, "devi', "breaks off"),
        (b"PK\x03\x04 a zip file", "is not JSON"),
        (b"name,dur\n", "is not JSON"),
        (b"[" * 100_000, "byte 1"),
        (b'{"traceEvents": [' + b'{"a":' * 100_000, "byte 17"),
        (b"[1, 2, 3]", "no event can be read"),
        (b"[", "byte 1"),
        (b'[{"ph": "X", "cat": "ker', "byte 1"),
        (b'{"traceEvents": [{"ph" "X"}, {"ph" "X"}]}', "byte 17"),
    ],
)
def test_what_is_no_trace_gives_one_sentence(content: bytes, says: str) -> None:
    with pytest.raises(InputError) as raised:
        read(content)
    message = str(raised.value)
    assert says in message
    assert "Traceback" not in message
    assert message.isprintable()


def test_a_missing_file_and_a_folder_give_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="can't be read"):
            read_trace(path)


def test_a_trace_without_events_is_no_error() -> None:
    trace = read(b'{"traceEvents": []}')
    assert trace.event_count == 0
    assert not trace.truncated
    assert read(b"[]").gpu_events == []


@pytest.mark.parametrize(
    ("raw_name", "kept", "expected"),
    [
        (rb"torch\cuda\x", 13, {BACKSLASHES: 1}),
        (b'{"device": "cpu"}(12): run', 12, {UNREADABLE: 1}),
        (b'source "text"\nhere', 12, {UNREADABLE: 1}),
        (b"two\nlines", 13, {}),
        (b"a\x01b", 13, {}),
        (b"\x1b[31m", 13, {}),
        (b"\xff\xfe", 13, {NOT_UTF8: 1}),
        (rb"lone \ud800 half", 13, {}),
        (rb"pair \ud83d\ude00", 13, {}),
        (b'ends", "dur": nan, "name": "here', 13, {NOT_JSON: 1}),
    ],
)
def test_one_bad_name_costs_at_most_its_own_event(
    raw_name: bytes, kept: int, expected: dict[str, int]
) -> None:
    content = with_raw_name(raw_name)
    for stored in (content, gzipped(content)):
        trace = read(stored)
        assert problems(trace) == expected
        assert trace.event_count == kept
        assert len(trace.gpu_events) == 3
        assert not trace.truncated
        for problem in trace.problems:
            assert problem.first_offset is not None
            assert 0 <= content.index(raw_name) - problem.first_offset < 100


def test_a_name_of_an_op_keeps_its_repaired_text() -> None:
    marked = as_json([op("MARK", 1, 2)])
    assert read(marked.replace(b"MARK", rb"torch\cuda")).cpu_ops[0].name == "torch\\cuda"
    assert read(marked.replace(b"MARK", b"a\xffb")).cpu_ops[0].name == "a\ufffdb"
    assert read(marked.replace(b"MARK", rb"a\ud800b")).cpu_ops[0].name == "a\ufffdb"
    assert read(marked.replace(b"MARK", "Größe".encode() + b"\n")).cpu_ops[0].name == "Größe\n"


@pytest.mark.parametrize(
    "number",
    [
        "inf",
        "-inf",
        "nan",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "18446744073709551616",
        "9" * 5000,
        "null",
        "[]",
    ],
)
def test_a_strange_number_beside_the_times_does_no_harm(number: str) -> None:
    events = base_events()
    events[3]["args"]["memory bandwidth (GB/s)"] = "NUMBER"
    trace = read(as_json(events).replace(b'"NUMBER"', number.encode()))
    assert len(trace.gpu_events) == 1
    assert trace.event_count == 4
    assert UNREADABLE not in problems(trace)


@pytest.mark.parametrize("key", ["correlation", "stream", "device", "External id"])
@pytest.mark.parametrize(
    "value", ["18446744073709551615", "1e400", "9" * 5000, "inf", '"x"', "[[]]", "{}", "true"]
)
def test_a_strange_id_leaves_the_event_readable(key: str, value: str) -> None:
    events = base_events()
    events[3]["args"][key] = "VALUE"
    linked = link(read(as_json(events).replace(b'"VALUE"', value.encode())))
    assert [event.dur_us for event in linked.trace.gpu_events] == [KERNEL_US]


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "null", '"abc"', "[]", "true"])
@pytest.mark.parametrize("key", ["ts", "dur"])
def test_an_event_without_a_usable_time_is_left_out_and_counted(key: str, value: str) -> None:
    events = base_events()
    events[3][key] = "VALUE"
    trace = read(as_json(events).replace(b'"VALUE"', value.encode()))
    assert trace.gpu_events == []
    assert problems(trace)[NO_TIME] == 1
    assert len(trace.launches) == 1


def test_times_written_as_text_are_read_and_counted() -> None:
    trace = read_events(*base_events()[:3], kernel(CORRELATION, "130.5"))  # type: ignore[arg-type]
    assert trace.gpu_events[0].ts_us == 130.5
    assert problems(trace) == {TEXT_TIME: 1}


def test_a_comma_before_the_closing_bracket_is_accepted() -> None:
    content = json.dumps({"traceEvents": base_events()}).encode().replace(b"}]}", b"},]}")
    trace = read(content)
    assert trace.event_count == 4
    assert not trace.truncated


@pytest.mark.parametrize("bare", [True, False])
def test_a_trace_cut_anywhere_gives_what_is_there_and_says_so(bare: bool) -> None:
    document = [op("é", 1, 2), *base_events()]
    content = json.dumps(document if bare else {"traceEvents": document}, ensure_ascii=False).encode()
    ends = list(itertools.accumulate(len(json.dumps(e, ensure_ascii=False).encode()) + 2 for e in document))
    first = content.index(b"[") + 1
    for length in range(first + ends[0], len(content)):
        trace = read(content[:length])
        whole = sum(first + end - 2 <= length for end in ends)
        assert trace.event_count == whole, length
        assert trace.truncated == (length < len(content)), length
        assert CUT in problems(trace)


def test_a_cut_gzip_file_gives_what_is_there_and_says_so() -> None:
    content = json.dumps(
        {"traceEvents": [event for turn in range(200) for event in base_events(turn * 97.125)]}
    ).encode()
    whole = gzipped(content)
    trace = read(whole[: len(whole) // 2])
    assert trace.truncated
    assert problems(trace)[CUT_GZIP] == 1
    assert 0 < trace.event_count < 800
    assert not read(whole).truncated


def test_a_wrong_checksum_is_told_and_costs_nothing() -> None:
    trace = read(gzipped(as_json())[:-8] + b"12345678")
    assert trace.event_count == 4
    assert problems(trace) == {BROKEN_GZIP: 1}
    assert trace.truncated


def test_bytes_after_the_gzip_data_are_ignored_and_told() -> None:
    trace = read(gzipped(as_json()) + b"junk")
    assert trace.event_count == 4
    assert problems(trace) == {TRAILING_BYTES: 4}
    assert not trace.truncated


def test_of_two_traces_in_one_file_the_first_is_read_and_the_rest_is_told() -> None:
    trace = read(as_json() + as_json())
    assert trace.event_count == 4
    assert problems(trace) == {TRAILING: len(as_json())}
    assert trace.problems[0].first_offset == len(as_json())


def test_an_event_spliced_into_another_costs_only_that_one() -> None:
    content = json.dumps({"traceEvents": base_events()}).encode()
    middle = content.index(b'"aten::native_layer_norm"')
    spliced = content[:middle] + json.dumps(frame("other", 1, 2)).encode() + content[middle:]
    trace = read(spliced)
    assert problems(trace)[UNREADABLE] >= 1
    assert len(trace.gpu_events) == 1
    assert len(trace.launches) == 1


def test_lists_of_objects_inside_an_event_do_not_end_it() -> None:
    groups = [{"name": "a"}, {"name": "b"}]
    events = [op(f"op {turn}", turn, 0.5, groups=groups) for turn in range(3000)]
    trace = read(as_json(events))
    assert [op.name for op in trace.cpu_ops] == [f"op {turn}" for turn in range(3000)]
    assert trace.problems == []


STACK = [{"name": "a", "line": 1}, {"name": "b"}, {"name": "c"}]


@pytest.mark.parametrize(("name", "expected"), [("op", {}), (r"C:\proj\q", {BACKSLASHES: 6000})])
def test_an_event_is_whole_though_a_piece_ends_in_a_list_inside_it(
    name: str, expected: dict[str, int]
) -> None:
    events = [op("MARK", turn + 0.5, 0.25, stack=STACK) for turn in range(6000)]
    content = json.dumps(events).encode()
    for shift in range(0, 200, 40):
        trace = read(b" " * shift + content.replace(b"MARK", name.encode()))
        assert problems(trace) == expected
        assert trace.event_count == 6000
        assert {op.name for op in trace.cpu_ops} == {name}


def test_a_list_that_is_never_closed_costs_only_its_own_event() -> None:
    events = [op("MARK", 0.5, 1), *(op(f"op {turn}", turn, 0.5) for turn in range(40_000)), *base_events()]
    content = (
        json.dumps({"traceEvents": events}).encode().replace(b'"MARK"', b'"MARK", "z": [{"name": "y"}', 1)
    )
    assert len(content) > LONGEST_EVENT
    trace = read(content)
    assert problems(trace) == {UNREADABLE: 1}
    assert len(trace.cpu_ops) == 40_002
    assert len(trace.gpu_events) == 1


def test_backslashes_are_counted_by_event_and_placed_in_the_file_as_it_is() -> None:
    good = [frame(f"größe {turn}", turn, 1) for turn in range(3000)]
    bad = [frame("MARK", turn, 1, again="MARK", stack=STACK) for turn in range(3000)]
    content = json.dumps([*good, *bad, *base_events()], ensure_ascii=False).encode()
    content = content.replace(b"MARK", rb"C:\proj\new\\x")
    (problem,) = read(content).problems
    first = content.rindex(b"{", 0, content.index(rb"C:\proj"))
    assert (problem.what, problem.count, problem.first_offset) == (BACKSLASHES, 3000, first)


def test_other_faults_beside_lone_backslashes_are_placed_in_the_file_as_it_is() -> None:
    names = [rb"C:\proj", b'a "quoted" name', rb"D:\q", b"\xff"]
    content = json.dumps([*(frame(f"MARK{turn}", turn, 1) for turn in range(4)), *base_events()]).encode()
    for turn, name in enumerate(names):
        content = content.replace(b"MARK%d" % turn, name)
    found = {problem.what: (problem.count, problem.first_offset) for problem in read(content).problems}
    starts = [content.rindex(b"{", 0, content.index(name)) for name in names]
    assert found == {BACKSLASHES: (2, starts[0]), UNREADABLE: (1, starts[1]), NOT_UTF8: (1, starts[3])}


def test_windows_paths_are_read_in_a_time_like_that_of_other_paths() -> None:
    content = json.dumps([frame("C:/proj/q.py(12): f", turn, 1) for turn in range(20_000)]).encode()
    windows = content.replace(b"C:/proj/q", rb"C:\proj\q")

    def seconds(stored: bytes) -> float:
        start = time.process_time()
        assert read(stored).event_count == 20_000
        return time.process_time() - start

    clean = min(seconds(content) for _ in range(3))
    assert seconds(windows) < 40 * clean


def test_bad_events_in_a_large_trace_cost_only_themselves() -> None:
    events = [frame(f"MARK{turn:04}", turn, 1) for turn in range(2000)] + base_events()
    content = as_json(events)
    for turn in (0, 700, 1400, 1999):
        content = content.replace(f"MARK{turn:04}".encode(), b'a "quoted" name')
    trace = read(content)
    assert problems(trace) == {UNREADABLE: 4}
    assert trace.event_count == 2000
    assert len(trace.gpu_events) == 1


def test_events_that_begin_with_an_unknown_key_are_read() -> None:
    events = [{"zzz": 1, **event} for event in base_events()]
    trace = read(as_json(events))
    assert trace.event_count == 4
    assert trace.problems == []


def test_entries_that_are_no_objects_are_left_out_and_counted() -> None:
    content = json.dumps({"traceEvents": [None, 5, "x", [], *base_events()]}).encode()
    trace = read(content)
    assert problems(trace) == {UNREADABLE: 4}
    assert trace.event_count == 4


def test_traces_of_2021_are_read() -> None:
    events: list[dict[str, Any]] = [
        {**op("aten::add", 1, 9), "cat": "Operator", "args": {"external id": 5}},
        {**launch(3, 2), "cat": "Runtime", "args": {"external id": 5, "correlation": 3}},
        {**kernel(3, 4), "cat": "Kernel", "tid": "stream 7", "args": {"external id": 5, "correlation": 3}},
        {**kernel(4, 44), "cat": "Memcpy", "tid": "stream 7"},
        {**kernel(5, 64), "cat": "Memset", "tid": "stream 7"},
    ]
    trace = read_events(*events)
    assert [event.kind for event in trace.gpu_events] == ["kernel", "memcpy", "memset"]
    assert {event.stream for event in trace.gpu_events} == {7}
    assert trace.gpu_events[0].external_id == trace.cpu_ops[0].external_id == 5
    assert link(trace).op_of[0] == 0


@pytest.mark.parametrize(
    "category", ["cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_driver", "one_of_tomorrow"]
)
def test_any_host_event_with_a_correlation_is_a_launch(category: str) -> None:
    trace = read_events(launch(1, 1, cat=category), launch(2, 2), frame("x", 1, 1, correlation=1))
    assert [call.correlation for call in trace.launches] == [1, 2]


MANY_KINDS = [
    *base_events(),
    op("aten::add", 400.0, 5.0, **{"Sequence number": 3, "Fwd thread id": 1}),
    frame("nn.Module: LayerNorm_3", 90.0, 100.0),
    frame("a.py(1): f", 91.0, 1.0),
    annotation("ProfilerStep#7", 80.0, 400.0),
    annotation("mine", 85.0, 40.0),
    kernel(5, 300.0, 2.0, cat="gpu_memcpy"),
    launch(5, 290.0, 1.0, cat="cuda_driver"),
    {"ph": "s", "cat": "ac2g", "id": 5, "ts": 290.0},
    {"ph": "i", "name": "Record Window End", "ts": 900.0},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "ts": 70.0},
]


@given(
    events=st.lists(st.sampled_from(MANY_KINDS), min_size=1, max_size=12),
    changes=st.dictionaries(
        st.sampled_from(("ts", "dur", "pid", "name", "args", "cat")),
        st.sampled_from((None, -1, 0, 1e300, "7", {}, "kernel", "cpu_op", [])),
        max_size=2,
    ),
)
def test_an_event_of_a_category_that_nobody_knows_changes_nothing_about_the_others(
    events: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    # It makes the reader take the slow way for all events around it.
    unknown = {"ph": "X", "cat": "nobody knows this", "name": "x", "args": {"correlation": None}}
    changed = [*events[:-1], {**events[-1], **changes}]
    assert collected(changed) == collected([*changed, unknown])


def collected(events: list[dict[str, Any]]) -> tuple[object, ...]:
    """Return what is kept of some events that are read in one go, and what was wrong with them."""
    log = ProblemLog()
    kept = Collector(log)
    kept.take(decode_events(json.dumps(events).encode(), log))
    spans = (kept.annotations, kept.steps, kept.modules)
    window = (kept.window_start_us, kept.window_end_us)
    return kept.gpu_events, kept.launches, kept.cpu_ops, *spans, *window, log.found()


def test_a_module_is_kept_wherever_it_stands_among_other_frames() -> None:
    frames = [frame(f"file.py({turn}): function", turn, 1) for turn in range(5000)]
    modules = [frame(f"nn.Module: Norm_{turn}", turn, 1) for turn in range(3)]
    trace = read_events(modules[0], *frames, modules[1], *frames, *base_events(), modules[2])
    assert [span.name for span in trace.modules] == [f"nn.Module: Norm_{turn}" for turn in range(3)]
    assert trace.event_count == 10_003 + len(base_events())


def test_what_was_read_is_freed_without_the_collector() -> None:
    content = as_json()
    gc.collect()
    gc.disable()
    try:
        read(content)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_of_python_frames_only_modules_are_kept() -> None:
    trace = read_events(frame("a.py(1): f", 1, 9), frame("nn.Module: LayerNorm_3", 2, 5), frame("b", 3, 1))
    assert [span.name for span in trace.modules] == ["nn.Module: LayerNorm_3"]
    assert trace.event_count == 3


def test_the_same_gpu_event_twice_is_counted_once() -> None:
    events = base_events()
    trace = read_events(*events, copy.deepcopy(events[3]))
    assert len(trace.gpu_events) == 1
    assert problems(trace) == {REPEATED: 1}


@pytest.mark.parametrize("unit", ["ns", "ms", "us", None])
def test_times_are_microseconds_whatever_the_display_unit_says(unit: str | None) -> None:
    metadata: dict[str, Any] = {} if unit is None else {"displayTimeUnit": unit}
    assert read(as_json(**metadata)).gpu_events[0].dur_us == KERNEL_US


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({"dur": -5.0}, NEGATIVE),
        ({"dur": -1}, NEGATIVE),
        ({"dur": 9.2e15}, TOO_LONG),
        ({"ts": 0, "dur": 0}, LOST_RECORD),
    ],
)
def test_impossible_kernels_are_left_out_and_counted(times: dict[str, float], problem: str) -> None:
    events = base_events()
    trace = read_events(*events[:3], {**events[3], **times}, kernel(78, 500.0))
    assert [event.ts_us for event in trace.gpu_events] == [500.0]
    assert problems(trace) == {problem: 1}


def test_an_unfinished_op_is_left_out_and_counted() -> None:
    trace = read_events(*base_events(), op("aten::mul", 1, -1))
    assert len(trace.cpu_ops) == 2
    assert problems(trace) == {NEGATIVE: 1}


def test_a_kernel_of_no_duration_is_kept_and_flagged() -> None:
    trace = read_events(kernel(1, 10, 0), kernel(2, 20, 1))
    assert [event.dur_us for event in trace.gpu_events] == [0.0, 1.0]
    assert problems(trace) == {ZERO: 1}
    assert trace.resolution_us == 1.0


def test_fractions_of_microseconds_show_a_fine_clock() -> None:
    assert read(as_json()).resolution_us == 0.001


def test_a_kernel_that_outlasts_the_next_on_its_stream_keeps_both_durations() -> None:
    trace = read_events(kernel(1, 5, 1e6), kernel(2, 15, 5), kernel(3, 16, 2, stream=8))
    assert [(event.dur_us, event.clipped_dur_us) for event in trace.gpu_events] == [
        (1e6, 10.0),
        (5.0, None),
        (2.0, None),
    ]
    assert problems(trace) == {OVERRUN: 1}


def test_kernels_that_overlap_as_programmatic_launches_do_are_no_overrun() -> None:
    trace = read_events(kernel(1, 3, 3.8), kernel(2, 5, 2))
    assert [event.clipped_dur_us for event in trace.gpu_events] == [None, None]
    assert trace.problems == []


def test_absolute_times_keep_their_order() -> None:
    trace = read_events(kernel(1, EPOCH_US + 0.25, 40), kernel(2, EPOCH_US + 41, 0.3))
    assert [event.correlation for event in trace.gpu_events] == [1, 2]


@given(st.permutations([*base_events(), frame("nn.Module: A_0", 90, 100), kernel(78, 200, 3.5)]))
def test_the_order_of_events_does_not_matter(events: list[dict[str, Any]]) -> None:
    linked = link(read(as_json(events)))
    assert [event.correlation for event in linked.trace.gpu_events] == [77, 78]
    inner = linked.op_of[0]
    assert linked.trace.cpu_ops[inner].name == "aten::native_layer_norm"
    assert [linked.trace.cpu_ops[index].name for index in linked.chain(inner)] == [
        "aten::native_layer_norm",
        "aten::layer_norm",
    ]
    assert linked.module_path(inner) == ("nn.Module: A_0",)


def _paths() -> list[tuple[int, str, str | None]]:
    return [
        (index, key, inner)
        for index, event in enumerate(base_events())
        for key in event
        for inner in [None, *(event["args"] if key == "args" else ())]
    ]


@pytest.mark.parametrize(("index", "key", "inner"), _paths())
@pytest.mark.parametrize("junk", ["deleted", None, [], {}, "x", -1, 1.5, True, [[None]]], ids=repr)
def test_no_key_is_needed_and_none_may_be_anything(
    index: int, key: str, inner: str | None, junk: object
) -> None:
    events = base_events()
    holder = events[index]["args"] if inner else events[index]
    name = inner or key
    if junk == "deleted":
        del holder[name]
    else:
        holder[name] = junk
    linked = link(read(as_json(events)))
    for op_index, cpu_op in enumerate(linked.trace.cpu_ops):
        cpu_op.args()
        linked.module_path(op_index)
        linked.forward_op(op_index)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.integers(0, len(as_json())), st.integers(0, 60))
def test_any_damage_gives_a_trace_or_one_sentence(junk: bytes, place: int, lost: int) -> None:
    content = as_json()
    damaged = content[:place] + junk + content[place + lost :]
    for stored in (damaged, gzip.compress(content, mtime=0)[:place] + junk):
        try:
            linked = link(read(stored))
        except InputError as error:
            assert str(error).isprintable()
        else:
            assert linked.trace.event_count <= 6


def test_memory_follows_what_is_kept_and_not_the_size_of_the_file() -> None:
    assert peak_bytes(frames=40_000) < 1.2 * peak_bytes(frames=10_000)


def peak_bytes(frames: int) -> int:
    """Return the most memory that reading a LayerNorm among so many Python frames takes."""
    others = [frame(f"module.py({turn}): a_function_with_a_long_name", turn, 1) for turn in range(frames)]
    stream = io.BytesIO(as_json([*others, *base_events()]))
    tracemalloc.start()
    try:
        trace = read_trace(stream)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert trace.event_count == frames + len(base_events())
    return peak
