"""Reports on GPU normalization layers: what is slow, why, and what to do.

The commands of ``normscope`` call these functions:

>>> import normscope
>>> sorted(normscope.__all__)[:3]
['analyze_category', 'build_report', 'fix_findings_file']
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from normscope.analysis.analyze import analyze_category
    from normscope.findings.render import render_findings
    from normscope.report.build import build_report
    from normscope.sample import write_sample
    from normscope.validation.fix import fix_findings_file
    from normscope.validation.validate import validate_findings_file

__version__ = "0.1.0"

__all__ = [
    "analyze_category",
    "build_report",
    "fix_findings_file",
    "render_findings",
    "validate_findings_file",
    "write_sample",
]

_HOMES = {
    "analyze_category": "normscope.analysis.analyze",
    "build_report": "normscope.report.build",
    "fix_findings_file": "normscope.validation.fix",
    "render_findings": "normscope.findings.render",
    "validate_findings_file": "normscope.validation.validate",
    "write_sample": "normscope.sample",
}


def __getattr__(name: str) -> object:
    """Import a public function when it is first asked for: a report needs what an analysis doesn't."""
    if name not in _HOMES:
        message = f"module 'normscope' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)
