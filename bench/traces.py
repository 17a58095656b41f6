"""Reading profiler traces: time against a decoder that keeps nothing, memory against the size of the file."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from commands import NORMSCOPE
from measure import Outcome, Pairs, call_seconds, measure_in_turn, process_seconds, show_seconds
from normscope.sample.large_trace import generate_large_trace
from normscope.trace.link import link
from normscope.trace.read import read_trace

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
MEASURED = ("owlv2_mi300x", "sd35_compiled_mi300x", "resnet_checkpoint_mi300x")
_HERE = Path(__file__).resolve().parent
FLOOR, CORE, PEAK_MEMORY = (_HERE / name for name in ("floor_trace.py", "core_trace.py", "peak_memory.py"))
CORE_PAIRS, PROCESS_PAIRS, LARGE_PAIRS, GROWTH_PAIRS = 9, 7, 2, 5
LARGE_BYTES = 1_000_000_000

Event = dict[str, object]


def measured_traces(sample: Path) -> list[Path]:
    """Return the real traces, or the sample where the reference data is not beside the checkout."""
    found = [path for name in MEASURED if (path := TRACES / f"{name}.json.gz").is_file()]
    return found or [sample]


def core_against_decoding(trace: Path, folder: Path) -> Outcome:
    """From the file to metrics and findings, in one process."""
    command: list[str | Path] = [sys.executable, CORE, trace, folder / "core", str(CORE_PAIRS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = Pairs(**json.loads(done.stdout))
    return Outcome(
        claim=f"{trace.name} to metrics and findings in process, against skipping through it",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=3.0,
    )


def analyze_against_decoding_and_pandas(trace: Path, folder: Path) -> Outcome:
    """``normscope analyze`` of a trace, against a process that skips through it and one importing pandas."""
    ours: list[str | Path] = [NORMSCOPE, "analyze", trace, "--output-dir", folder / "whole"]
    skipping: list[str | Path] = [sys.executable, FLOOR, trace]
    pandas: list[str | Path] = [sys.executable, "-c", "import pandas"]
    pairs = measure_in_turn(
        lambda: process_seconds(ours, folder),
        lambda: process_seconds(skipping, folder) + process_seconds(pandas, folder),
        PROCESS_PAIRS,
    )
    return Outcome(
        claim=f"normscope analyze {trace.name}, against skipping through it and importing pandas",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=1.5,
    )


def large_trace(folder: Path) -> Iterator[Outcome]:
    """Time and peak memory of a trace of 1 GB, most of it Python frames."""
    trace = folder / "large.json"
    generate_large_trace(trace, LARGE_BYTES)
    size_mib = trace.stat().st_size / 2**20
    ours: list[str | Path] = [NORMSCOPE, "analyze", trace, "--output-dir", folder / "large_run"]
    pairs = measure_in_turn(
        lambda: process_seconds(ours, folder),
        lambda: process_seconds([sys.executable, FLOOR, trace], folder),
        LARGE_PAIRS,
    )
    yield Outcome(
        claim=f"normscope analyze of a trace of {size_mib:.0f} MiB, against skipping through it",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=5.0,
    )
    peak_mib = _peak_memory_mib(ours, folder)
    trace.unlink()
    yield Outcome(
        claim="peak memory of the same, against the size of the trace",
        measured=f"{peak_mib:.0f} MiB",
        floor=f"{size_mib:.0f} MiB",
        ratio=peak_mib / size_mib,
        bound=0.6,
    )


def _peak_memory_mib(command: list[str | Path], folder: Path) -> float:
    """Return the peak resident memory of a process."""
    watched = [sys.executable, PEAK_MEMORY, *command]
    done = subprocess.run(watched, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout)


def graph_grows_linearly(folder: Path) -> Outcome:
    """Time per kernel of 50,000 kernels under one graph launch, against 10,000."""
    return _growth(folder, "kernels under one graph launch", _graph, (10_000, 50_000))


def nesting_grows_linearly(folder: Path) -> Outcome:
    """Time per op of ops nested 1,000 deep, against 100 deep, with as many ops in both."""
    return _growth(folder, "ops nested as deep", _nested, (100, 1_000), per_item=False)


def _growth(
    folder: Path,
    what: str,
    make: Callable[[int], list[Event]],
    sizes: tuple[int, int],
    *,
    per_item: bool = True,
) -> Outcome:
    traces = []
    for size in sizes:
        path = folder / f"growth_{size}.json"
        path.write_text(json.dumps({"traceEvents": make(size)}), encoding="utf-8")
        traces.append(path)
    small, large = traces
    pairs = measure_in_turn(
        lambda: call_seconds(lambda: link(read_trace(large))),
        lambda: call_seconds(lambda: link(read_trace(small))),
        GROWTH_PAIRS,
    )
    scale = sizes[1] / sizes[0] if per_item else 1.0
    return Outcome(
        claim=f"time for {sizes[1]:,} {what}, against {sizes[0]:,}" + (", each" if per_item else ""),
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio / scale,
        bound=1.5,
    )


def _event(cat: str, name: str, ts: float, dur: float, **more: object) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def _graph(kernels: int) -> list[Event]:
    launch = _event("cuda_runtime", "cudaGraphLaunch", 0, 5, args={"correlation": 1})
    return [
        launch,
        *(
            _event("kernel", f"kernel_{i % 40}", 10 + i, 0.9, args={"correlation": 1, "stream": 7})
            for i in range(kernels)
        ),
    ]


def _nested(depth: int) -> list[Event]:
    total = 50_000
    ops = []
    for number in range(total // depth):
        start = number * 10_000.0
        ops += [_event("cpu_op", f"op_{i}", start + i, 5_000.0 - 2 * i) for i in range(depth)]
        ops.append(
            _event("cuda_runtime", "cudaLaunchKernel", start + depth, 1, args={"correlation": number + 1})
        )
        ops.append(_event("kernel", "k", start + depth + 5, 3, args={"correlation": number + 1, "stream": 7}))
    return ops
