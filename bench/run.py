"""Measure normscope's speed against its bounds: print a table, exit with 1 when a bound is broken."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from commands import analyze_against_pandas, report_against_papermill
from compare import comparing_against_reading
from measure import Outcome, environment_note
from normscope.params import make_params
from normscope.report.source import trace_to_run
from normscope.sample import write_sample
from scaling import grows_linearly, judging_beats_a_row_loop
from traces import (
    analyze_against_decoding_and_pandas,
    core_against_decoding,
    graph_grows_linearly,
    large_trace,
    measured_traces,
    nesting_grows_linearly,
)

REAL_RUN = Path(__file__).resolve().parents[2] / "shared" / "tracelens_runs" / "resnet_checkpoint_mi300x"


def main() -> int:
    """Run every case and return the exit status."""
    print(f"Speed on this machine: {environment_note()}. Ratios are medians of runs in turn.", flush=True)
    with tempfile.TemporaryDirectory(prefix="normscope-bench-") as name:
        broken = [outcome.claim for outcome in _outcomes(Path(name)) if not _show(outcome)]
    print(f"{len(broken)} broken: {'; '.join(broken)}" if broken else "All bounds hold.")
    return 1 if broken else 0


def _outcomes(folder: Path) -> Iterator[Outcome]:
    yield analyze_against_pandas(_run_dir(folder), "norm_fwd")
    yield grows_linearly(folder)
    yield judging_beats_a_row_loop(folder)
    yield report_against_papermill(folder)
    sample = write_sample(folder / "simulated_step.json.gz")
    for trace in measured_traces(sample):
        yield core_against_decoding(trace, folder)
        yield analyze_against_decoding_and_pandas(trace, folder)
    yield comparing_against_reading(folder, sample)
    yield graph_grows_linearly(folder)
    yield nesting_grows_linearly(folder)
    yield from large_trace(folder)


def _run_dir(folder: Path) -> Path:
    """Return a copy of the real run, so that the reference data stays as it is; else the sample."""
    copy = folder / REAL_RUN.name
    if REAL_RUN.is_dir():
        return shutil.copytree(REAL_RUN, copy, copy_function=shutil.copyfile)
    print("The reference data is not beside the checkout: the analysis is measured on the sample instead.")
    trace_to_run(make_params({}), folder / "sample")
    return folder / "sample"


def _show(outcome: Outcome) -> bool:
    relation = "at least" if outcome.at_least else "at most"
    verdict = "ok" if outcome.holds else "BROKEN"
    print(f"\n{outcome.claim}")
    print(
        f"  {outcome.measured} against {outcome.floor}: "
        f"{outcome.ratio:.2f}x, {relation} {outcome.bound:g}x: {verdict}",
        flush=True,
    )
    return outcome.holds


if __name__ == "__main__":
    sys.exit(main())
