"""Small notebooks, one per way a run can end, and a run directory for them."""

import json
import textwrap
from pathlib import Path
from typing import Any

Cell = dict[str, Any]

FINISH = """\
# papermill_description=Write_the_results
import json, pathlib
pathlib.Path(out_dir, "metrics.json").write_text(json.dumps({"complete": True, "status": "OK", "errors": []}))
"""
PARAMETERS = """\
run_dir = "sample"
out_dir = "outputs/sample"
categories = []
comparison_scope = "standalone"
command_prefix = ""
top_n = 20
gpu = ""
gpu_file = ""
peaks = "datasheet"
catalog = ""
capture = ""
"""


def write_notebook(
    path: Path, *cells: str, finish: str = FINISH, parameter_cells: int = 1, kernel: str = "python3"
) -> Path:
    """Write a notebook of ``cells``; one that is a line of ``# Text`` becomes a heading."""
    parameters = [code_cell(PARAMETERS, ["parameters"]) for _ in range(parameter_cells)]
    content: dict[str, Any] = {
        "cells": parameters + [_cell(textwrap.dedent(source)) for source in (*cells, finish)],
        "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    for number, cell in enumerate(content["cells"]):
        cell["id"] = f"cell-{number}"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _cell(source: str) -> Cell:
    if source.startswith("# ") and "\n" not in source:
        return {"cell_type": "markdown", "metadata": {}, "source": source}
    return code_cell(source, [])


def code_cell(source: str, tags: list[str]) -> Cell:
    """Return a code cell that hasn't run."""
    metadata = {"tags": tags}
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a notebook."""
    cells: list[Cell] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def printed(path: Path) -> str:
    """Return what the cells of a notebook printed."""
    outputs = [output for cell in read_cells(path) for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", "")) for output in outputs)


def write_run(folder: Path) -> Path:
    """Write a run directory with one small category."""
    (folder / "category_data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    (folder / "category_data" / "norm_fwd_ops.csv").write_text(
        "name,count,Kernel Time (µs)_sum\naten::layer_norm,2,10.0\n", encoding="utf-8"
    )
    (folder / "metadata" / "norm_fwd_metadata.json").write_text(
        json.dumps({"peak_hbm_bw_tbs": 5.3, "gpu_utilization": {"total_time_ms": 100.0}})
    )
    return folder
