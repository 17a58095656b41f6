"""Method of a trace's report: how its GPU was told, which peaks are used, how bytes and FLOPs are counted."""

from normscope.escape import html_text
from normscope.hardware.registry import Figure, all_gpus, registry
from normscope.report.tables import Cell, Column, Html, Row, facts, number, paragraph, percent, table
from normscope.report.trace_notes import unknown_gpu_box
from normscope.tracerun.summary import FormulaNote, TraceSummary

_ROOFLINE_USES = {
    "datasheet": (
        "The vendor's datasheet peak, as in TraceLens. No kernel reaches it: the achievable bandwidth is the "
        "best that a published benchmark measured, and what a perfect kernel would come to."
    ),
    "achievable": "The best published measurement instead of the datasheet peak, as asked.",
    "file": "The figures as given, not those of the registry.",
}
_COUNTING = (
    "Bytes are the compulsory traffic: every input read once, every output written once, from the shapes "
    "and types that the trace recorded. A kernel that reads twice gets no credit for it. Symbols: E "
    "elements of x, R rows, N elements of a row, B batch, C channels, G groups; s the bytes of an element"
    " of x, y, dy, w weight, b bias and r running statistics, a of the saved statistics, 0 where a call "
    "has no such tensor; m0, m1, m2 whether the gradients of x, weight and bias are wanted, 1 or 0. FLOPs"
    " are additions, subtractions and multiplications."
)


def gpu_html(summary: TraceSummary) -> Html:
    """Return how the GPU was told and its bandwidths, each named for what it is."""
    rows: list[tuple[str, Cell]] = [("How the GPU was told", summary.gpu_message)]
    gpu = next((gpu for gpu in all_gpus() if gpu.key == summary.gpu_key), None)
    if gpu is not None:
        rows += [
            ("Datasheet peak bandwidth", _figure(gpu.peak_bandwidth_gbps)),
            (
                "Published achievable bandwidth",
                _achievable(gpu.achievable_bandwidth_gbps, gpu.peak_bandwidth_gbps),
            ),
        ]
    elif summary.peak_bandwidth_gbps is not None:
        rows.append(("Peak bandwidth, as given", f"{number(summary.peak_bandwidth_gbps, 0)} GB/s"))
    uses = _ROOFLINE_USES.get(
        summary.bandwidth_kind or "", "Nothing: no peak is known, so there are no percentages."
    )
    rows.append(("What the roofline uses", uses))
    return Html("\n".join([unknown_gpu_box(summary), "<h3>The GPU and its peaks</h3>", facts(rows)]))


def _achievable(best: Figure | None, peak: Figure | None) -> Cell:
    if best is None or peak is None:
        return _figure(best)
    share = percent(100 * best.value / peak.value, 0)
    return f"{_figure(best)}. It is {share} of the datasheet peak."


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "not published"
    known = registry()
    how = known.kinds.get(figure.kind, figure.kind)
    if figure.benchmark:
        how = f"{how}, {figure.benchmark}"
    titles = "; ".join(known.sources[key].title if key in known.sources else key for key in figure.sources)
    return f"{number(figure.value, 0)} GB/s ({how}; source: {titles})"


def counting_html(notes: tuple[FormulaNote, ...]) -> Html:
    """Return the formula of every kind of call that occurs; empty where none does."""
    if not notes:
        return Html("")
    columns = (
        Column("Kind of call"),
        Column("Bytes"),
        Column("FLOPs"),
        Column("Assumption"),
        Column("Source"),
    )
    rows = [
        Row(tuple(map(_wrapping, (n.title, n.bytes_moved, n.flops or "not counted", n.assumption, n.source))))
        for n in notes
    ]
    heading = Html("<h3>Bytes and FLOPs of a call</h3>")
    body = table("How bytes and FLOPs of the calls in this trace are counted", columns, rows)
    return Html("\n".join([heading, paragraph(_COUNTING), body]))


def _wrapping(text: str) -> Html:
    """Return a text that may break anywhere, so that five columns fit on paper."""
    return Html(f'<span class="ns-formula">{html_text(text)}</span>')
