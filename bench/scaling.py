"""How the analysis grows with the number of operations, and how it compares to a row-by-row loop."""

import gc
import statistics
from pathlib import Path

import pandas as pd

from big_table import CATEGORY, PEAK_TFLOPS, ops_csv, write_run_dir
from measure import Outcome, call_seconds, measure_in_turn
from normscope.analysis.analyze import analyze_category
from normscope.analysis.columns import (
    COMPUTE_SPEC,
    FLOPS_PER_BYTE,
    PCT_ROOFLINE,
    ROOFLINE_BOUND,
    TB_S,
    TFLOPS,
    WANTED_COLUMNS,
    op_columns,
)
from normscope.analysis.efficiency import judge_rows
from normscope.inputs.ops_table import read_ops_table

SIZES = (10_000, 30_000, 100_000)
ROUNDS = 3
LOOP_ROWS = 10_000
LOOP_PAIRS = 5
JUDGED_COLUMNS = [TFLOPS, TB_S, ROOFLINE_BOUND, FLOPS_PER_BYTE, COMPUTE_SPEC, PCT_ROOFLINE]


def grows_linearly(folder: Path) -> Outcome:
    """Time per row of the largest table against that of the smallest, each size in turn."""
    run_dirs = {rows: write_run_dir(folder / f"rows_{rows}", rows) for rows in SIZES}
    seconds: dict[int, list[float]] = {rows: [] for rows in SIZES}
    for _ in range(ROUNDS):
        for rows, run_dir in run_dirs.items():
            seconds[rows].append(_analyze_seconds(run_dir))
    per_row_us = {rows: statistics.median(times) / rows * 1e6 for rows, times in seconds.items()}
    small, middle, large = (per_row_us[rows] for rows in SIZES)
    return Outcome(
        claim="time per row of 100,000 operations, against 10,000",
        measured=f"{large:.1f} µs ({middle:.1f} µs at 30,000)",
        floor=f"{small:.1f} µs",
        ratio=large / small,
        bound=1.3,
    )


def judging_beats_a_row_loop(folder: Path) -> Outcome:
    """How many times less it costs to judge a row than to read the same columns with ``iterrows``.

    Both start from columns in memory, and both touch the same ones. Reading the file and rendering shapes,
    kernel names and call stacks costs far more than either, so the whole analysis is shown beside it.
    """
    run_dir = write_run_dir(folder / "loop", LOOP_ROWS)
    columns = op_columns(read_ops_table(ops_csv(run_dir), WANTED_COLUMNS))
    frame = pd.read_csv(ops_csv(run_dir), usecols=JUDGED_COLUMNS)
    pairs = measure_in_turn(
        lambda: call_seconds(lambda: judge_rows(columns, "standalone", PEAK_TFLOPS, 4.0)),
        lambda: call_seconds(lambda: _read_by_row(frame)),
        LOOP_PAIRS,
    )
    whole, ours, loop = (
        statistics.median(times) / LOOP_ROWS * 1e6
        for times in ([_analyze_seconds(run_dir) for _ in range(LOOP_PAIRS)], pairs.ours, pairs.floor)
    )
    return Outcome(
        claim="iterrows over the columns of efficiency and bound, against judging each row by them",
        measured=f"{ours:.1f} µs a row ({whole:.0f} µs for the whole analysis with its file)",
        floor=f"{loop:.1f} µs a row",
        ratio=1 / pairs.ratio,
        bound=10,
        at_least=True,
    )


def _analyze_seconds(run_dir: Path) -> float:
    gc.collect()
    return call_seconds(lambda: analyze_category(run_dir, CATEGORY))


def _read_by_row(frame: pd.DataFrame) -> int:
    return sum(len([row[column] for column in JUDGED_COLUMNS]) for _, row in frame.iterrows())
