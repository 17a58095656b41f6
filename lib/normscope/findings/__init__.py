"""From the metrics of a category to its findings file; and back: checking and mending such a file."""

from normscope.findings.render import render_findings

__all__ = ["render_findings"]
