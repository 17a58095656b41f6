"""What holds for every trace: order, scale, sums and steps, and that no missing key is an error."""

import copy
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normscope.errors import NormscopeError
from normscope.sample.trace import sample_trace
from normscope.tracerun.peaks import GpuChoice
from trace_inputs import Event, annotation, base_events, kernel, launch, op, whole_document
from written_run import Row, WrittenRun, known, written_bytes, written_events

PEAKS = GpuChoice(key="mi300x")
STEP_US = 10_000.0
SIZES = {"float": 4, "c10::BFloat16": 2}


@st.composite
def layer_norms(draw: st.DrawFn) -> list[tuple[int, int, str, bool, list[int]]]:
    """Draw calls: rows, elements a row, type, whether it has parameters, kernel times in ns."""
    return draw(
        st.lists(
            st.tuples(
                st.integers(1, 64),
                st.sampled_from([1, 7, 64, 4096]),
                st.sampled_from(list(SIZES)),
                st.booleans(),
                st.lists(st.integers(1_000, 5_000_000), min_size=1, max_size=3),
            ),
            min_size=1,
            max_size=8,
        )
    )


Calls = list[tuple[int, int, str, bool, list[int]]]


def trace_events(calls: Calls, scale: int = 1, start: float = 0.5) -> list[Event]:
    """Return the events of LayerNorm calls, one after another, each with its launches and kernels."""
    events: list[Event] = [annotation("ProfilerStep#0", start, 1e9)]
    correlation = 0
    clock = start + 1e6
    for number, (rows, normalized, dtype, affine, times_ns) in enumerate(calls):
        at = start + 1000 * number
        weight, shape = (dtype, [normalized]) if affine else ("", [])
        inputs = {
            "Input Dims": [[rows, normalized], [], shape, shape, []],
            "Input type": [dtype, "ScalarList", weight, weight, "Scalar"],
            "Concrete Inputs": ["", f"[{normalized}]", "", "", "1e-05"],
        }
        events.append(op("aten::layer_norm", at, 500, **inputs))
        events.append(op("aten::native_layer_norm", at + 1, 498, **inputs))
        for turn, time_ns in enumerate(times_ns):
            correlation += 1
            events.append(launch(correlation, at + 10 + 10 * turn))
            events.append(kernel(correlation, clock, scale * time_ns / 1024))
            clock += scale * time_ns / 1024 + 1
    return events


def moved_bytes(rows: int, normalized: int, dtype: str, *, affine: bool) -> int:
    size = SIZES[dtype]
    return 2 * rows * normalized * size + 2 * affine * normalized * size + 2 * rows * 4


def run_of(events: list[Event]) -> WrittenRun:
    with tempfile.TemporaryDirectory() as folder:
        run = written_events(Path(folder), *events, gpu=PEAKS)
        return _Kept(run.folder, run.summary, run.rows, run.calls)


class _Kept(WrittenRun, frozen=True):
    """A run whose folder is gone."""

    kept_rows: list[Row]
    kept_calls: list[Row]

    @property
    def rows(self) -> list[Row]:
        return self.kept_rows

    @property
    def calls(self) -> list[Row]:
        return self.kept_calls


def keyed(rows: list[Row]) -> dict[tuple[str, ...], Row]:
    columns = ("name", "Input Dims", "Input type", "thread_name")
    found = {tuple(row[column] for column in columns): row for row in rows}
    assert len(found) == len(rows)
    return found


@settings(max_examples=25)
@given(layer_norms(), st.randoms(use_true_random=False))
def test_the_order_of_events_changes_nothing(calls: Calls, rng: Random) -> None:
    events = trace_events(calls)
    shuffled = list(events)
    rng.shuffle(shuffled)
    usual, other = run_of(events), run_of(shuffled)
    assert usual.calls == other.calls
    without_place = [
        [{key: cell for key, cell in row.items() if key != "ex_UID"} for row in run.rows]
        for run in (usual, other)
    ]
    assert without_place[0] == without_place[1]
    assert usual.groups == other.groups


@settings(max_examples=25)
@given(layer_norms(), st.sampled_from([2, 4, 64]))
def test_slower_kernels_scale_bandwidth_and_keep_the_order(calls: Calls, factor: int) -> None:
    usual, slower = run_of(trace_events(calls)), run_of(trace_events(calls, factor))
    for one, two in zip(usual.rows, slower.rows, strict=True):
        assert (one["Input Dims"], one["Input type"]) == (two["Input Dims"], two["Input type"])
        assert known(two, "TB/s_mean") == pytest.approx(known(one, "TB/s_mean") / factor)
        assert known(two, "Pct Roofline_mean") == pytest.approx(known(one, "Pct Roofline_mean") / factor)
        assert two["Data Moved (MB)"] == one["Data Moved (MB)"]
        assert two["Roofline Time (µs)_first"] == one["Roofline Time (µs)_first"]


@settings(max_examples=40)
@given(layer_norms())
def test_rows_are_what_the_calls_add_up_to(calls: Calls) -> None:
    run = run_of(trace_events(calls))
    total_us = sum(sum(times) for *_, times in calls) / 1024
    assert run.summary.call_count == len(run.calls) == len(calls)
    assert sum(known(row, "Kernel Time (µs)_sum") for row in run.rows) == pytest.approx(total_us)
    assert run.groups["explicit"][1] == pytest.approx(total_us)
    assert run.summary.timeline.computation_ms == pytest.approx(total_us / 1000)
    expected: dict[tuple[str, str, bool], list[float]] = {}
    moved = {}
    for rows, normalized, dtype, affine, times in calls:
        key = (repr((rows, normalized)), dtype, affine)
        expected.setdefault(key, []).append(sum(times) / 1024)
        moved[key] = moved_bytes(rows, normalized, dtype, affine=affine)
    assert len(run.rows) == len(expected)
    for row in run.rows:
        types = json.loads(row["Input type"].replace("(", "[").replace(")", "]").replace("'", '"'))
        dims = row["Input Dims"].removeprefix("(").split("), ")[0] + ")"
        key = (dims, types[0], types[2] != "")
        times_us = expected.pop(key)
        assert int(row["operation_count"]) == len(times_us)
        assert known(row, "Kernel Time (µs)_mean") == pytest.approx(math.fsum(times_us) / len(times_us))
        assert known(row, "Data Moved (MB)") * 2**20 == moved[key]
        assert known(row, "TB/s_max") == pytest.approx(moved[key] / min(times_us) / 1e6)
    assert expected == {}


@settings(max_examples=25)
@given(layer_norms(), st.integers(0, 8))
def test_a_trace_cut_into_two_adds_up(calls: Calls, place: int) -> None:
    parts = [part for part in (calls[:place], calls[place:]) if part]
    whole, *halves = (run_of(trace_events(part)) for part in (calls, *parts))
    for figure in ("call_count", "norm_us", "helper_us"):
        assert getattr(whole.summary, figure) == pytest.approx(
            sum(getattr(half.summary, figure) for half in halves)
        )
    counts: dict[tuple[str, ...], int] = {}
    for half in halves:
        for key, row in keyed(half.rows).items():
            counts[key] = counts.get(key, 0) + int(row["operation_count"])
    assert counts == {key: int(row["operation_count"]) for key, row in keyed(whole.rows).items()}


@settings(max_examples=25)
@given(layer_norms(), st.integers(1, 4))
def test_steps_share_the_calls_of_the_trace(calls: Calls, steps: int) -> None:
    events: list[Event] = []
    for step in range(steps):
        part = trace_events(calls, start=0.5 + 1e7 * step)[1:]
        for event in part:
            if "correlation" in event["args"]:
                event["args"]["correlation"] += 1000 * step
        events += [annotation(f"ProfilerStep#{step}", 0.5 + 1e7 * step, 9e6), *part]
    run = run_of(events)
    assert [step.call_count for step in run.summary.steps] == [len(calls)] * steps
    one = run_of(trace_events(calls))
    assert run.summary.norm_us == pytest.approx(steps * one.summary.norm_us)
    assert len(run.rows) == len(one.rows)
    assert run.problems == {}


def without_each_key(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every key of every object, and of every entry of every list."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        yield (*path, key)
        yield from without_each_key(entry, (*path, key))


def changed(document: dict[str, Any], path: tuple[Any, ...], *junk: object) -> bytes:
    """Return the document without the entry at ``path``, or with ``junk`` in its place."""
    copied = copy.deepcopy(document)
    holder: Any = copied
    for key in path[:-1]:
        holder = holder[key]
    if junk:
        holder[path[-1]] = junk[0]
    else:
        del holder[path[-1]]
    return json.dumps(copied).encode()


def only_own_errors(content: bytes, folder: Path) -> WrittenRun | None:
    """Write a run, which has to work or to end in one sentence of ours."""
    try:
        return written_bytes(folder, content)
    except NormscopeError as error:
        assert "\n" not in str(error).strip()
        return None


def test_any_one_key_may_be_missing(tmp_path: Path) -> None:
    document = whole_document()
    paths = list(without_each_key(document))
    assert len(paths) > 250
    for path in paths:
        run = only_own_errors(changed(document, path), tmp_path)
        if len(path) > 1:  # all events but one are still there
            assert run is not None, path
            assert run.summary.coverage.all_kernels_us >= 3 + 7


JUNK: tuple[object, ...] = (None, True, -1, 1e300, "text", [], {}, [[[]]], 2**70, "\ud800", "1", -0.5)


@pytest.mark.parametrize("turn", [0, 5, 7])
def test_any_one_value_may_be_anything(turn: int, tmp_path: Path) -> None:
    document = whole_document()
    for number, path in enumerate(without_each_key(document)):
        junk = JUNK[(number + turn) % len(JUNK)]
        run = only_own_errors(changed(document, path, junk), tmp_path)
        if len(path) > 1:
            assert run is not None, (path, junk)


def test_a_key_of_the_simulated_trace_may_be_missing(tmp_path: Path) -> None:
    """Of one event of each name, as a training step has them, each key goes once."""
    document = sample_trace(steps=1)
    kinds = {(event.get("cat", ""), event["name"]): event for event in document["traceEvents"]}
    for event in list(kinds.values())[::15]:
        kept = [*base_events(), event]
        for path in without_each_key(event):
            content = changed(document | {"traceEvents": kept}, ("traceEvents", len(kept) - 1, *path))
            run = only_own_errors(content, tmp_path)
            assert run is not None
            assert run.summary.call_count == 1


def test_helpers_are_part_of_a_call_and_of_the_coverage(tmp_path: Path) -> None:
    run = written_bytes(tmp_path, json.dumps(whole_document()).encode())
    assert run.groups["helper_copies"] == (1, 3.0)
    assert run.groups["explicit"] == (2, 12.5 + 7)
    (forward,) = run.table("norm_fwd")
    assert forward["module_paths"] == "LayerNorm_0"
    (backward,) = run.table("norm_bwd")
    assert backward["module_paths"] == "LayerNorm_0"
