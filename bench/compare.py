"""Comparing two traces against reading both."""

from pathlib import Path

from measure import Outcome, call_seconds, measure_in_turn, show_seconds
from normscope.analysis.analyze import analyze_category
from normscope.compare.answer import spoken
from normscope.compare.pairing import compare_sides
from normscope.compare.sides import read_source
from normscope.compare.write import write_comparison
from normscope.findings.render import render_findings
from normscope.tracerun.write import write_trace_run
from traces import TRACES

PAIRS = 9
COMPARED = ("owlv2_mi300x", "owlv2_h100")


def comparing_against_reading(folder: Path, sample: Path) -> Outcome:
    """From two files to the comparison and its findings, against writing the run directory of each."""
    found = [path for name in COMPARED if (path := TRACES / f"{name}.json.gz").is_file()]
    first, second = found if len(found) == len(COMPARED) else (sample, sample)

    def compare() -> None:
        own = read_source(first, folder=folder / "own")
        other = read_source(second, folder=folder / "other")
        comparison = compare_sides(own.side, other.side)
        for category in write_comparison(own, comparison, folder / "compared"):
            render_findings(analyze_category(folder / "compared", category, "comparative"))
        list(spoken(comparison))

    def read() -> None:
        write_trace_run(first, folder / "own", label=first.name)
        write_trace_run(second, folder / "other", label=second.name)

    pairs = measure_in_turn(lambda: call_seconds(compare), lambda: call_seconds(read), PAIRS)
    return Outcome(
        claim=f"comparing {first.name} and {second.name}, against reading both",
        measured=show_seconds(pairs.ours),
        floor=show_seconds(pairs.floor),
        ratio=pairs.ratio,
        bound=1.2,
    )
