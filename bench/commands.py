"""Whole commands against the least that any program of their kind must do."""

import sys
from itertools import count
from pathlib import Path

from measure import Outcome, measure_in_turn, process_seconds, show_seconds

NORMSCOPE = Path(sys.executable).parent / "normscope"
FLOOR_REPORT = Path(__file__).resolve().parent / "floor_report.py"
ANALYZE_PAIRS = 15
REPORT_PAIRS = 5


def analyze_against_pandas(run_dir: Path, category: str) -> Outcome:
    """``normscope analyze`` against a Python that imports pandas and reads the same table."""
    table = run_dir / "category_data" / f"{category}_ops.csv"
    ours: list[str | Path] = [NORMSCOPE, "analyze", "--output-dir", run_dir, "--category", category]
    floor: list[str | Path] = [
        sys.executable,
        "-c",
        "import sys, pandas; pandas.read_csv(sys.argv[1])",
        table,
    ]
    pairs = measure_in_turn(
        lambda: process_seconds(ours, run_dir), lambda: process_seconds(floor, run_dir), ANALYZE_PAIRS
    )
    return Outcome(
        claim=f"normscope analyze of {run_dir.name}, against pandas reading its table",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=1.3,
    )


def report_against_papermill(folder: Path) -> Outcome:
    """``normscope report`` of the sample against papermill and nbconvert of a notebook with one plot."""
    runs = count()
    pairs = measure_in_turn(
        lambda: process_seconds(
            [NORMSCOPE, "report", "sample", "--out", folder / f"report_{next(runs)}"], folder
        ),
        lambda: process_seconds([sys.executable, FLOOR_REPORT, folder], folder),
        REPORT_PAIRS,
    )
    return Outcome(
        claim="normscope report of the sample, against papermill and nbconvert of one plot",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=2.0,
    )
