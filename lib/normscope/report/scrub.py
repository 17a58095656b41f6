"""Makes what a run leaves deterministic and private: no times, random ids, absolute paths or user names."""

import html
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from nbformat import NotebookNode

Relabel = Callable[[str], str]

_TEXT_SUFFIXES = frozenset({".csv", ".html", ".json", ".md", ".svg", ".txt"})
_INJECTED = "injected-parameters"
_KERNEL_NUMBER = re.compile(r"ipykernel_\d+")
# A path starts where no name runs into it, or after an escape such as \n in JSON; it ends at a separator or
# where no name goes on.
_BEFORE = r"(?:(?<![\w.\-])|(?<=\\[bfnrt]))"
_AFTER = r"(?![\w\-]|\.\w)"
_ENCODINGS: tuple[Callable[[str], str], ...] = (
    quote,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    str,  # last, so that a path which needs no escape gets its label unescaped
)


def relabeler(labels: Mapping[Path, str]) -> Relabel:
    """Return a function that puts each label in place of its path, wherever a text names that path.

    Parameters
    ----------
    labels
        Absolute paths and what stands for them. A path is found as it is, resolved, and escaped as JSON, HTML
        or in a URL. The root folder is left alone.

    Examples
    --------
    >>> relabeler({Path("/data/run"): "run"})("/data/run/a.csv, /data/run2, /mnt/data/run")
    'run/a.csv, /data/run2, /mnt/data/run'
    """
    table = {
        encode(str(form)): encode(label)
        for encode in _ENCODINGS
        for path, label in labels.items()
        for form in (path.resolve(), path)
        if len(form.parts) > 1
    }
    if not table:
        return str
    longest_first = sorted(table, key=len, reverse=True)
    pattern = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, longest_first))}){_AFTER}")

    def relabel(text: str) -> str:
        if not any(path in text for path in table):  # much quicker than the pattern, and the usual case
            return text
        return pattern.sub(lambda match: table[match[1]], text)

    return relabel


def machine_relabeler() -> Relabel:
    """Return a function that hides where Python, the home and the temporary folder of this machine are.

    It is for tracebacks and warnings alone: in data, such paths are what the input says.
    """
    paths = {
        Path(tempfile.gettempdir()): "<temp>",
        Path(sys.prefix): "<python>",
        Path(sys.base_prefix): "<python>",
        Path.home(): "~",
        Path.cwd(): ".",
    }
    relabel = relabeler(paths)
    return lambda text: relabel(_KERNEL_NUMBER.sub("ipykernel", text))


def scrub_notebook(notebook: "NotebookNode", shown_params: Mapping[str, Any], relabel: Relabel) -> None:
    """Take out of an executed ``notebook``, in place, what differs between two runs or names the machine.

    Parameters
    ----------
    notebook
        The notebook as papermill left it.
    shown_params
        The parameters as the injected cell is to show them.
    relabel
        What :func:`relabeler` made of this run's paths.
    """
    notebook.metadata.pop("papermill", None)
    notebook.metadata.get("language_info", {}).pop("version", None)
    hide_machine = machine_relabeler()
    for cell in notebook.cells:
        _scrub_cell(cell, shown_params)
        if cell.cell_type == "code":
            cell.outputs = [_scrub_output(output, relabel, hide_machine) for output in cell.outputs]


def _scrub_cell(cell: "NotebookNode", shown_params: Mapping[str, Any]) -> None:
    cell.metadata.pop("papermill", None)
    tags = cell.metadata.get("tags", [])
    if not tags:
        cell.metadata.pop("tags", None)
    if _INJECTED in tags:
        cell.id = _INJECTED
        cell.source = "# Parameters\n" + "\n".join(f"{k} = {v!r}" for k, v in shown_params.items())


def _scrub_output(output: "NotebookNode", relabel: Relabel, hide_machine: Relabel) -> Any:  # noqa: ANN401 - JSON
    if output.output_type in {"error", "stream"}:
        return _map_text(output, lambda text: hide_machine(relabel(text)))
    return _map_text(output, relabel)


def _map_text(node: Any, change: Relabel) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(node, str):
        return change(node)
    if isinstance(node, list):
        return [_map_text(item, change) for item in node]
    if isinstance(node, dict):
        return type(node)({k: v if _is_base64(k) else _map_text(v, change) for k, v in node.items()})
    return node


def _is_base64(mime_type: str) -> bool:
    return mime_type.startswith("image/") and not mime_type.endswith("+xml")


def scrub_folder(folder: Path, relabel: Relabel) -> None:
    """Apply ``relabel`` to every text file below ``folder``."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _TEXT_SUFFIXES or not path.is_file():
            continue
        before = path.read_bytes().decode("utf-8", errors="surrogateescape")
        after = relabel(before)
        if after != before:
            path.write_bytes(after.encode("utf-8", errors="surrogateescape"))
