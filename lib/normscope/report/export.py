"""The executed notebook and the findings as HTML pages that stand alone.

A page makes no request and runs nothing: it has no script, images are part of it, and its content security
policy forbids everything else. The page is made by nbconvert with the template in ``template/``.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbconvert.exporters.templateexporter import TemplateExporter
from nbformat import NotebookNode

from normscope.errors import ExportError
from normscope.escape import file_stem, html_text, printable
from normscope.report.findings_text import findings_markup
from normscope.report.results import decode_results
from normscope.resources import template_dir

REPORT_HTML = "report.html"
FINDINGS_HTML = "findings.html"
_STYLES = ("style.css", "components.css")
_SHOWN_TYPES = ("text/html", "text/markdown", "image/png", "text/plain")
_ERROR_CELL = "papermill-error-cell-tag"
_PLAIN_HEADING = re.compile(r"<h([1-6])>(.*?)</h\1>", re.DOTALL)
_LISTED_HEADING = re.compile(r'<h([23]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def export_report(notebook: Path, folder: Path) -> None:
    """Write ``report.html`` from the executed notebook and ``findings.html`` from ``findings.md``.

    Parameters
    ----------
    notebook
        The executed notebook.
    folder
        The folder of the report; it holds ``metrics.json`` and ``findings.md`` already.

    Raises
    ------
    ExportError
        A file can't be read or written, or nbconvert fails.
    """
    with _export_errors():
        label = decode_results((folder / "metrics.json").read_bytes()).label
        report = _read(notebook)
        report.metadata["title"] = f"Normalization report: {label}"
        exporter = _new_exporter()
        _write(folder / REPORT_HTML, _render(exporter, report))
        findings = (folder / "findings.md").read_text(encoding="utf-8")
        _write(folder / FINDINGS_HTML, _render(exporter, _findings_page(findings, label)))


def export_failed(notebook: Path, folder: Path) -> Path:
    """Write the page of a run that failed, named like the notebook, and return its path.

    It shows what was done until then and the error.

    Raises
    ------
    ExportError
        A file can't be read or written, or nbconvert fails.
    """
    page = folder / f"{notebook.stem}.html"
    with _export_errors():
        failed = _read(notebook)
        failed.metadata["title"] = "Failed normalization report"
        _write(page, _render(_new_exporter(), failed, _failure(failed)))
    return page


@contextmanager
def _export_errors() -> Iterator[None]:
    """Turn whatever goes wrong inside into one sentence."""
    try:
        yield
    except Exception as error:  # nbconvert and its template raise whatever they like
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split()))
        message = (
            f"The report could not be written as HTML ({reason}); see that the disk has space, and try again."
        )
        raise ExportError(message) from error


def _read(notebook: Path) -> NotebookNode:
    read: NotebookNode = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    return read


def _write(file: Path, page: str) -> None:
    file.write_text(page, encoding="utf-8", errors="backslashreplace", newline="\n")


def _findings_page(text: str, label: str) -> NotebookNode:
    page: NotebookNode = nbformat.from_dict(  # type: ignore[no-untyped-call]
        {
            "cells": [{"cell_type": "markdown", "metadata": {}, "source": text}],
            "metadata": {"title": f"Normalization findings: {label}"},
        }
    )
    return page


def _failure(notebook: NotebookNode) -> str:
    """Return what stopped a run: the last error, or that it ended without one."""
    errors = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]
    if not errors:
        return "It ended before its last cell, without an error of its own."
    return f"{errors[-1].ename}: {errors[-1].evalue}"


def _new_exporter() -> "_Exporter":
    template = template_dir()
    return _Exporter(  # type: ignore[no-untyped-call]
        extra_template_basedirs=[str(template.parent)], template_name=template.name
    )


def _render(exporter: "_Exporter", notebook: NotebookNode, failure: str = "") -> str:
    notebook.cells = [cell for cell in notebook.cells if _ERROR_CELL not in cell.metadata.get("tags", ())]
    style = "\n".join((template_dir() / name).read_text(encoding="utf-8") for name in _STYLES)
    page, _ = exporter.from_notebook_node(notebook, resources={"style": style, "failure": failure})
    return str(page)


class _Exporter(TemplateExporter):
    """nbconvert with the kit's template and filters.

    ``HTMLExporter`` would parse the whole page once more and bring Markdown filters that let raw HTML pass.
    """

    output_mimetype = "text/html"
    default_preprocessors: list[str] = []  # noqa: RUF012 - replaces a trait
    file_extension = ".html"

    def default_filters(self) -> Iterator[tuple[str, Callable[..., object]]]:
        yield from super().default_filters()  # type: ignore[no-untyped-call]
        yield from _FILTERS.items()


def heading_ids(page: str) -> str:
    """Give every heading that has none an id: ``s-`` and its text, with a number where that is taken."""
    taken: set[str] = set()

    def with_id(heading: re.Match[str]) -> str:
        level, inner = heading.groups()
        stem = "s-" + file_stem(_TAG.sub("", inner).lower())
        anchor = next(name for name in _numbered(stem) if name not in taken)
        taken.add(anchor)
        return f'<h{level} id="{anchor}">{inner}</h{level}>'

    return _PLAIN_HEADING.sub(with_id, page)


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    for number in itertools.count(2):
        yield f"{stem}-{number}"


def table_of_contents(page: str) -> str:
    """Return links to the headings of the second and third level, as a list."""
    items = "\n".join(
        f'<li class="level-{level}"><a href="#{anchor}">{_TAG.sub("", inner)}</a></li>'
        for level, anchor, inner in _LISTED_HEADING.findall(page)
    )
    return f"<ul>\n{items}\n</ul>"


def markdown_html(text: str) -> str:
    """Render Markdown as HTML without raw HTML, its tables in containers that scroll."""
    return f'<div class="normscope ns-findings">\n{findings_markup(text)}</div>'


def shown_type(bundle: Mapping[str, object]) -> list[str]:
    """Return the richest type of an output that the page shows, as a list of one or none."""
    return [kind for kind in _SHOWN_TYPES if kind in bundle][:1]


def page_text(text: str) -> str:
    """Escape text of several lines."""
    return "\n".join(map(html_text, text.split("\n")))


_FILTERS: dict[str, Callable[..., object]] = {
    "filter_data_type": shown_type,
    "heading_ids": heading_ids,
    "table_of_contents": table_of_contents,
    "markdown_html": markdown_html,
    "page_text": page_text,
}
