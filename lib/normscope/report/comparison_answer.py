"""The answer of a comparison: its headline, and what is known by topic."""

from normscope.compare.answer import headline, sentences, totals
from normscope.compare.models import Comparison
from normscope.report.tables import Html, facts, paragraph, safe


def verdict_html(compared: Comparison) -> Html:
    """Return the headline, the names of both sides, and their times."""
    sides = f"Trace 1: {compared.first.label}. Trace 2, the target: {compared.second.label}."
    return Html(
        f'<div class="ns-verdict">\n<p class="ns-headline">{safe(headline(compared))}</p>\n'
        f"{paragraph(totals(compared))}\n{paragraph(sides)}\n</div>"
    )


def topics_html(compared: Comparison) -> Html:
    """Return what is known besides, topic by topic."""
    return facts(sentences(compared))
