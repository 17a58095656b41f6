"""JSON Schemas of the files that normscope writes, exported from the typed models.

``python -m normscope.schemas`` writes them anew beside this file; a test proves that they are up to date.
"""

from typing import Any

import msgspec

from normscope.analysis.models import SCHEMA_VERSION, Metrics
from normscope.compare.models import Comparison, Side
from normscope.compare.verdict import Verdict
from normscope.report.provenance import Provenance
from normscope.report.results import ReportResults
from normscope.tracerun.coverage import Coverage
from normscope.tracerun.summary import TraceSummary

# File name → the model, and what the file is.
MODELS: dict[str, tuple[Any, str]] = {
    "metrics": (Metrics, "Metrics of one normalization category: <category>_metrics.json"),
    "results": (ReportResults, "All metrics of a report: metrics.json"),
    "trace_summary": (TraceSummary, "What only a trace tells: category_data/trace_summary.json"),
    "coverage": (Coverage, "What all kernel time of a trace belongs to: category_data/coverage.json"),
    "comparison": (Comparison, "Two sides and their pairs: category_data/comparison.json"),
    "baseline": (Side, "What later results are compared with: the file of `normscope baseline`"),
    "verdict": (Verdict, "What `normscope check` found: the file of --json"),
    "provenance": (Provenance, "Where a report comes from: provenance.json"),
}


def schema_text(name: str) -> str:
    """Return the JSON Schema (draft 2020-12) of one file, as it is shipped.

    Parameters
    ----------
    name
        A key of :data:`MODELS`.
    """
    model, title = MODELS[name]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:normscope:{name}:{SCHEMA_VERSION}",
        "title": title,
        **msgspec.json.schema(model),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
