"""The answer of a comparison: its headline, and a table of what is known by topic."""

from normscope.compare.answer import headline, sentences
from normscope.compare.models import Comparison
from normscope.report.tables import Html, facts, safe


def comparison_html(compared: Comparison) -> Html:
    """Return the headline, the names of both sides, and what is known, topic by topic."""
    sides = f"Trace 1: {compared.first.label}. Trace 2, the target: {compared.second.label}."
    return Html(
        f'<div class="ns-verdict">\n<p class="ns-headline">{safe(headline(compared))}</p>\n'
        f"<p>{safe(sides)}</p>\n</div>\n{facts(sentences(compared))}"
    )
