"""Small metrics and findings files for the tests of the validator and the fixer."""

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from normscope import escape

STANDALONE_HEADER = (
    "| Operation | Args | Kernel Path | Kernel Name | Time (ms) | %E2E | Count "
    "| FLOPS/Byte | Efficiency | Bound |"
)
COMPARATIVE_HEADER = (
    "| Operation | Args (T1) | Kernel Path | Kernel Name | Trace 1 Time (ms) | Trace 2 Time (ms) "
    "| Count (T1/T2) | Difference (ms) | FLOPS/Byte (T1) | Bound (T1) |"
)
RULE = "|---|---|---|---|---|---|---|---|---|---|"

# What a fixer may touch; every other line is prose.
MECHANICAL_LINE = re.compile(
    r"\s*(\||<!-- (impact-|reasoning-candidate)|\*\*Impact\*\*|- (Low|High) end impact_score).*", re.DOTALL
)

NASTY_NAMES = (
    "custom::norm|weird",
    "kernel<float, {lambda(int)#1}>",
    "{name}",
    "<title>",
    "TODO",
    "nan",
    "## Recommendations",
    "### P9: Extra",
    "<!-- impact-end -->",
    "<!-- impact-begin kind=p_item low=0 mid=0 high=0 -->",
    "**Insight:** x",
    "a\nb\r\nc",
    "\\|",
    "`x`",
    "<script>alert(1)</script>",
    "&#124;",
    "—",
    "\u202eabc\u2028",
    " spaced ",
    "n" * 4000,
)
NAMES = st.one_of(st.sampled_from(NASTY_NAMES), st.text(min_size=1, max_size=40))
MAYBE = st.none() | NAMES


@st.composite
def metrics_files(draw: st.DrawFn, scope: str = "standalone") -> dict[str, Any]:
    """Metrics with one to three findings of one operation each, and hostile names."""
    size = draw(st.integers(1, 3))
    operations = [
        {
            "name": draw(NAMES),
            "args": draw(MAYBE),
            "launcher_path": draw(MAYBE),
            "kernel_name_trunc": draw(st.just("") | NAMES),
            "time_ms": 1.5 + index,
            "count": 3,
        }
        for index in range(size)
    ]
    scores = st.integers(50, 9999).map(lambda cents: cents / 100)
    findings = [
        {
            "rank": rank,
            "impact_score": draw(scores),
            "impact_score_low": draw(scores),
            "impact_score_high": draw(scores),
        }
        for rank in range(1, size + 1)
    ]
    return metrics(operations, findings, scope)


def metrics(
    operations: list[dict[str, Any]], findings: list[dict[str, Any]], scope: str = "standalone"
) -> dict[str, Any]:
    """Return a metrics file as far as the validator reads it."""
    return {
        "status": "OK",
        "comparison_scope": scope,
        "operations": operations,
        "category_findings": findings,
    }


def operation(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return an ordinary operation."""
    usual = {
        "name": "aten::batch_norm",
        "args": "(8,64,56,56) bf16<br>(64,) fp32",
        "launcher_path": "Net_0 > BatchNorm2d_1",
        "kernel_name_trunc": "bn_fw_tr_1C11_kernel_NCHW",
        "time_ms": 1.25,
        "count": 12,
    }
    return usual | changes


def finding(rank: int = 1, low: float = 1.5, mid: float = 1.75, high: float = 2.0) -> dict[str, Any]:
    """Return a finding."""
    return {"rank": rank, "impact_score_low": low, "impact_score": mid, "impact_score_high": high}


def render(source: dict[str, Any]) -> str:
    """Write a valid findings file: finding k is about operation k, or about all when there is one finding."""
    findings, operations = source["category_findings"], source["operations"]
    is_comparative = source["comparison_scope"] == "comparative"
    header = COMPARATIVE_HEADER if is_comparative else STANDALONE_HEADER
    parts = ["# Normalization", "", "## Recommendations", ""]
    for one in findings:
        low, mid, high = scores(one)
        parts += [
            f"### P{one['rank']}: Slow normalization (MIOpen)",
            f"**Insight**: {say(operations[one['rank'] - 1]['name'])} is slow.",
            "**Action**: Use another kernel.",
            f"<!-- impact-begin kind=p_item low={low} mid={mid} high={high} -->",
            f"**Impact**: impact_score: {mid}",
            "<!-- impact-end -->",
            "",
        ]
    parts += ["## Detailed Analysis", ""]
    for one in findings:
        low, _, high = scores(one)
        shown = operations if len(findings) == 1 else [operations[one["rank"] - 1]]
        parts += [
            f"<!-- reasoning-candidate tier=compute rank={one['rank']} -->",
            "#### Slow normalization",
            f"**Identification:** {say(shown[0]['name'])} in {say(shown[0]['launcher_path'])}.",
            "",
            "**Data:**",
            "",
            header,
            RULE,
            *map(row, shown),
            "",
            "**Reasoning for Slowdown:** Its impact_score: 3 is told by the time it takes.",
            "",
            "**Resolution:** Fewer bytes.",
            "",
            "**Impact estimate:**",
            f"<!-- impact-begin kind=detail_estimate low={low} high={high} -->",
            f"- Low end impact_score: {low}",
            f"- High end impact_score: {high}",
            "<!-- impact-end -->",
            "",
        ]
    return "\n".join(parts)


def row(shown: dict[str, Any]) -> str:
    """Return the table row of an operation; both scopes have ten columns."""
    names = [shown["name"], shown.get("args"), shown.get("launcher_path"), shown.get("kernel_name_trunc")]
    cells = [*map(say, names), str(shown["time_ms"]), "2.3", str(shown["count"]), "0.87", "—", "—"]
    return f"| {' | '.join(cells)} |"


def say(name: str | None) -> str:
    """Return a name for Markdown."""
    return escape.markdown(name) if name else "—"


def scores(one: dict[str, Any]) -> tuple[float, float, float]:
    """Return low, mid and high of a finding."""
    return one["impact_score_low"], one["impact_score"], one["impact_score_high"]


def write_run(folder: Path, source: dict[str, Any], text: str | bytes) -> Path:
    """Lay metrics and findings out as in a run directory; returns the findings file."""
    path = folder / "category_findings" / "norm_fwd_findings.md"
    data = folder / "category_data"
    for place in (path.parent, data):
        place.mkdir(parents=True, exist_ok=True)
    (data / "norm_fwd_metrics.json").write_text(json.dumps(source), encoding="utf-8")
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def prose(data: bytes) -> list[str]:
    """Return the lines that no repair may touch, with their newlines."""
    return [line for line in data.decode().splitlines(keepends=True) if not MECHANICAL_LINE.fullmatch(line)]
