"""Writing the metrics of a category where the contract wants them."""

from pathlib import Path

from normscope.analysis.models import Metrics, encode_metrics
from normscope.files import write_atomically
from normscope.inputs.rundir import category_paths


def write_metrics(run_dir: Path, metrics: Metrics) -> Path:
    """Write ``category_data/<category>_metrics.json`` of ``run_dir`` and return its path.

    Raises
    ------
    ExportError
        The file can't be written.
    """
    path = category_paths(run_dir, metrics.category).metrics_json
    write_atomically(path, encode_metrics(metrics))
    return path
