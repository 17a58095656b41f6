"""The tables of a comparison: pairs, what one side has alone, what else differs, and both sides as wholes."""

from collections.abc import Callable, Iterable, Sequence
from typing import get_args

from normscope.compare.answer import EFFECT_NAMES, p_words, verdict_words
from normscope.compare.differences import Difference, Lone, Overview, first_argument, overview, times_by
from normscope.compare.models import CallGroup, Comparison, Side
from normscope.compare.words import change_words
from normscope.escape import MISSING, html_text
from normscope.report.tables import (
    Cell,
    Column,
    Html,
    Row,
    count_of,
    folded,
    name,
    number,
    paragraph,
    table,
)
from normscope.tracerun.coverage import TITLES, GroupName

MAX_ROWS = 500
_MOST_KERNELS = 20
_MOST_NARROW = 6
HEADING = Html("<h2>Operation by operation</h2>")
ROOFLINES = Html(
    "<h2>Both rooflines</h2>\n<p>What each side reaches of its own peak memory bandwidth, over the bytes "
    "that a call moves. Norms do little arithmetic per byte, so memory is their roof.</p>"
)
NOISE = Html(
    "<h2>The noise</h2>\n<p>A difference is called real only where it exceeds what the spread of the calls "
    "explains: by the Mann-Whitney U test on the times of the calls, or, where only means and deviations are "
    "known, by Welch’s t-test; with p &lt; 0.05 after Holm’s correction for the number of pairs, and an "
    "effect that is at least medium (|Cliff’s delta| ≥ 0.33, |Hedges’ g| ≥ 0.5). Where one side calls an "
    "operation more often, the difference is real whatever a call takes. One trace is one run: what differs "
    "from run to run, such as clocks, no test on its calls can tell.</p>"
)
_PAIRS_NOTE = (
    "Difference: trace 1 less trace 2, so a positive one is what trace 1 could gain; percent of trace 2’s "
    "time. Effect: Cliff’s delta or Hedges’ g, positive where trace 1 is slower; p after Holm’s correction."
)
_PAIR_COLUMNS = (
    Column("Operation"),
    Column("First argument"),
    Column("Trace 1 (ms)", numeric=True),
    Column("Trace 2 (ms)", numeric=True),
    Column("Difference (ms)", numeric=True),
    Column("Trace 1 is"),
    Column("Real?"),
    Column("Calls 1", numeric=True),
    Column("Calls 2", numeric=True),
    Column("Test, p, effect"),
)


def pairs_html(compared: Comparison, top_n: int) -> Html:
    """Return the table of all pairs, largest difference first, folded beyond ``top_n``."""
    found = overview(compared)
    if not found.differences:
        return paragraph("No operation of one side has a partner on the other.")
    rows = [Row(_pair_cells(each)) for each in found.differences[:MAX_ROWS]]
    return _parts(
        paragraph(_PAIRS_NOTE), _folding("Paired operations", _PAIR_COLUMNS, rows, top_n), _cut(found)
    )


def _cut(found: Overview) -> Html:
    hidden = len(found.differences) - MAX_ROWS
    if hidden <= 0:
        return Html("")
    return paragraph(f"{count_of(hidden, 'more pair')} in figures/comparison_operations.csv.")


def _pair_cells(each: Difference) -> tuple[Cell, ...]:
    pair, real = each.pair, verdict_words(each)
    return (
        _both_names(each),
        Html(f"{name(first_argument(each.lead))}{_below(f'paired by {pair.paired_by}')}"),
        number(pair.time1_us / 1e3, 3),
        number(pair.time2_us / 1e3, 3),
        _signed(each.extra_us / 1e3),
        change_words(pair.time1_us, pair.time2_us),
        Html(f"<strong>{html_text(real)}</strong>") if each.is_real else real,
        f"{sum(group.count for group in each.first):,}",
        f"{sum(group.count for group in each.second):,}",
        _test(each),
    )


def _signed(value: float) -> str:
    return f"{value:+z,.3f}".replace("+0.000", "0.000")


def _test(each: Difference) -> Cell:
    test = each.pair.significance
    if test is None:
        return MISSING
    effect = f"{EFFECT_NAMES[test.test]} {-test.effect_size:+z.2f}"
    return Html(
        f'{html_text(test.test)}<span class="ns-sub">{html_text(f"{p_words(test.p_value)}, {effect}")}</span>'
    )


def _below(text: str) -> Html:
    return Html(f'<span class="ns-sub">{html_text(text)}</span>')


def _both_names(each: Difference) -> Html:
    """Return the op, and that of trace 2 where it has another name, with what kind of norm it is."""
    old, new = each.lead, each.partner
    other = "" if old.name == new.name else f'<span class="ns-sub">in trace 2: {name(new.name)}</span>'
    return _operation(old, other)


def _operation(group: CallGroup, more: str = "") -> Html:
    kind = _below(f"{group.variant}, {group.direction}")
    return Html(f'<div class="ns-operation">{name(group.name)}{more}{kind}</div>')


def _folding(caption: str, columns: Sequence[Column], rows: Sequence[Row], top_n: int) -> Html:
    shown = table(caption, columns, rows[:top_n], wide=len(columns) > _MOST_NARROW)
    rest = rows[top_n:]
    if not rest:
        return shown
    more = table(f"{caption}, continued", columns, rest, wide=len(columns) > _MOST_NARROW)
    return Html(f"{shown}\n{folded(count_of(len(rest), 'more row'), more)}")


def _parts(*parts: Html) -> Html:
    return Html('<div class="ns-calls">\n' + "\n".join(part for part in parts if part) + "\n</div>")


# What one side has alone, and what else differs

_ALONE_COLUMNS = (
    Column("Operation"),
    Column("First argument"),
    Column("Module"),
    Column("Calls", numeric=True),
    Column("Time (ms)", numeric=True),
    Column("Share of its side (%)", numeric=True),
)
_CHANGE_COLUMNS = (
    Column("Operation"),
    Column("First argument"),
    Column("Difference (ms)", numeric=True),
    Column("What differs"),
    Column("Libraries"),
    Column("Kernels"),
)


def changes_html(compared: Comparison, top_n: int) -> Html:
    """Return the tables of vanished, added and changed operations."""
    found = overview(compared)
    changed = [each for each in found.differences if each.changes]
    tables = [
        _alone("Vanished: in trace 1 only", found, 1, top_n),
        _alone("Added: in trace 2 only", found, 2, top_n),
        _folding(
            "Changed: more than the time differs",
            _CHANGE_COLUMNS,
            [Row(_changed_cells(c)) for c in changed][:MAX_ROWS],
            top_n,
        )
        if changed
        else Html(""),
    ]
    if not any(tables):
        tables = [paragraph("Both sides run the same operations, with the same libraries and kernels.")]
    return _parts(Html("<h2>What was added, vanished or changed</h2>"), *tables)


def _alone(caption: str, found: Overview, side: int, top_n: int) -> Html:
    members = [each for each in found.alone if each.side == side]
    if not members:
        return Html("")
    whole_us = found.time1_us if side == 1 else found.time2_us
    return _folding(
        caption, _ALONE_COLUMNS, [Row(_alone_cells(c, whole_us)) for c in members][:MAX_ROWS], top_n
    )


def _alone_cells(lone: Lone, whole_us: float) -> tuple[Cell, ...]:
    group = lone.group
    return (
        _operation(group),
        name(first_argument(group)),
        name(group.module.rpartition(" > ")[2]),
        f"{group.count:,}",
        number(lone.time_us / 1e3, 3),
        number(100 * lone.time_us / whole_us if whole_us else None),
    )


def _changed_cells(each: Difference) -> tuple[Cell, ...]:
    return (
        _both_names(each),
        name(first_argument(each.lead)),
        _signed(each.extra_us / 1e3),
        ", ".join(each.changes),
        _old_and_new(*(_libraries(groups) for groups in (each.first, each.second))),
        _old_and_new(*(_kernels(groups) for groups in (each.first, each.second))),
    )


def _libraries(groups: Sequence[CallGroup]) -> list[str]:
    return list(dict.fromkeys(group.library for group in groups if group.library))


def _kernels(groups: Sequence[CallGroup]) -> list[str]:
    return list(dict.fromkeys(kernel for group in groups for kernel in group.kernels))


def _old_and_new(old: Sequence[str], new: Sequence[str]) -> Html:
    """Return the names of both sides, once where they are the same."""
    if set(old) == set(new):
        return _listed(old)
    return Html(f"{_below('trace 1')}{_listed(old)}{_below('trace 2')}{_listed(new)}")


def _listed(names: Sequence[str]) -> Html:
    shown = [name(text) for text in names[:_MOST_KERNELS]]
    hidden = len(names) - len(shown)
    more = [Html(f"and {hidden:,} more")] if hidden > 0 else []
    return Html("".join(f'<div class="ns-operation">{text}</div>' for text in (*shown, *more)) or MISSING)


# Both sides as wholes

_SIDE_COLUMNS = (
    Column(""),
    Column("Trace 1", numeric=True),
    Column("Trace 2", numeric=True),
    Column("Difference", numeric=True),
    Column("Trace 1 is"),
)
_SIDE_FACTS: tuple[tuple[str, Callable[[Side], str]], ...] = (
    ("Input", lambda side: side.label),
    ("Read from", lambda side: side.kind),
    ("GPU", lambda side: side.gpu or MISSING),
    ("Peak memory bandwidth (TB/s)", lambda side: number(side.peak_bandwidth_tbs)),
    ("End-to-end GPU time (ms)", lambda side: number(side.end_to_end_ms, 3)),
    ("Profiler steps", lambda side: f"{side.steps:,}" if side.steps else MISSING),
    ("Norm calls", lambda side: f"{sum(group.count for group in side.groups):,}"),
)


def sides_html(compared: Comparison) -> Html:
    """Return what both inputs are, their time by direction and variant, and by group of the coverage."""
    found = overview(compared)
    times = times_by(found, lambda group: (group.direction, group.variant))
    by_variant = [
        (f"{variant}, {direction}", one, two)
        for (direction, variant), (one, two) in sorted(times.items(), key=lambda item: -max(item[1]))
    ]
    total = ("All normalization", found.time1_us, found.time2_us)
    scaled = " (trace 2 scaled)" if compared.scale != 1 else ""
    return _parts(
        Html("<h2>Both sides</h2>"),
        _inputs(compared),
        table(f"Normalization time in ms{scaled}", _named("Norms"), map(_times, [*by_variant, total])),
        _coverage(compared),
    )


def _named(title: str) -> tuple[Column, ...]:
    return (Column(title), *_SIDE_COLUMNS[1:])


def _inputs(compared: Comparison) -> Html:
    rows = [
        Row((title, *(name(tell(side)) for side in (compared.first, compared.second))))
        for title, tell in _SIDE_FACTS
    ]
    return table("The two inputs", (Column("What"), Column("Trace 1"), Column("Trace 2")), rows)


def _times(line: tuple[str, float, float]) -> Row:
    what, one, two = line
    return Row(
        (what, number(one / 1e3, 3), number(two / 1e3, 3), _signed((one - two) / 1e3), change_words(one, two))
    )


def _coverage(compared: Comparison) -> Html:
    """Return where all kernel time of each input went, as recorded."""
    one, two = compared.first.coverage_us, compared.second.coverage_us
    if not one and not two:
        return paragraph("Neither input tells where its other kernel time went: only traces do.")
    columns = (
        Column("Kernels"),
        *(Column(f"Trace {side} ({unit})", numeric=True) for side in (1, 2) for unit in ("ms", "%")),
    )
    rows = [
        Row((_group_title(group), *_share(one, group), *_share(two, group)))
        for group in _in_order({**one, **two})
    ]
    total = Row((Html("<strong>All kernels</strong>"), *_share(one, None), *_share(two, None)))
    return table("What the kernel time belongs to, as recorded", columns, [*rows, total])


def _in_order(groups: Iterable[str]) -> list[str]:
    known = list(get_args(GroupName))
    return sorted(groups, key=lambda group: known.index(group) if group in known else len(known))


def _group_title(group: str) -> Html:
    return name(next((title for key, title in TITLES.items() if key == group), group))


def _share(times_us: dict[str, float], group: str | None) -> tuple[str, str]:
    """Return the time of a group, or of all, and its share."""
    if not times_us:
        return MISSING, MISSING
    whole_us = sum(times_us.values())
    own_us = whole_us if group is None else times_us.get(group, 0.0)
    return number(own_us / 1e3, 3), number(100 * own_us / whole_us if whole_us else None)
