"""Times the core (a trace to metrics and findings) and its floor in turn, in a process of its own.

Prints one JSON object with the seconds of each, for `traces.py`.
"""

import json
import shutil
import sys
from pathlib import Path

from floor_trace import skip_through
from measure import call_seconds, measure_in_turn
from normscope.analysis.analyze import analyze_category
from normscope.findings.render import render_findings
from normscope.inputs.rundir import find_categories
from normscope.tracerun.write import write_trace_run


def core(trace: Path, run_dir: Path) -> None:
    """Go from the file to metrics and findings."""
    shutil.rmtree(run_dir, ignore_errors=True)
    write_trace_run(trace, run_dir, label=trace.name)
    for category in find_categories(run_dir):
        render_findings(analyze_category(run_dir, category))


if __name__ == "__main__":
    _trace, _run_dir, _pairs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    _found = measure_in_turn(
        lambda: call_seconds(lambda: core(_trace, _run_dir)),
        lambda: call_seconds(lambda: skip_through(_trace)),
        _pairs,
    )
    print(json.dumps({"ours": _found.ours, "floor": _found.floor}))
