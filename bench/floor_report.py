"""The least a notebook report costs: papermill runs three cells, nbconvert makes a page of them."""

import json
import sys
from pathlib import Path

from nbconvert.exporters import HTMLExporter
from papermill.execute import execute_notebook

CELLS = (
    "import pandas\nimport matplotlib.pyplot as plt",
    "frame = pandas.DataFrame({'x': range(100), 'y': range(100)})",
    "plt.plot(frame['x'], frame['y'])\nplt.show()",
)
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "cells": [
        {
            "id": f"cell-{number}",
            "cell_type": "code",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(CELLS)
    ],
}


def main(folder: Path) -> None:
    """Write ``floor.ipynb``, its executed copy and its page into ``folder``."""
    source, executed = folder / "floor.ipynb", folder / "floor_executed.ipynb"
    source.write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    execute_notebook(source, executed, progress_bar=False)  # type: ignore[no-untyped-call]
    page, _ = HTMLExporter().from_filename(str(executed))  # type: ignore[no-untyped-call]
    (folder / "floor.html").write_text(page, encoding="utf-8")


main(Path(sys.argv[1]))
