"""From the metrics of a category to its findings file, by tables of sentences."""

from normscope.findings.render import render_findings

__all__ = ["render_findings"]
