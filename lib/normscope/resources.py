"""Where the files lie that normscope ships: the notebook, the page template, the schemas.

A wheel carries the notebook inside the package; in a checkout it stays in ``notebooks/``.
"""

from pathlib import Path

from normscope.errors import NormscopeError

_PACKAGE = Path(__file__).resolve().parent
_NOTEBOOK = "notebooks/norm_report.ipynb"


def checkout() -> Path | None:
    """Return the root of the source checkout this package runs from, or ``None`` for an installed package."""
    root = _PACKAGE.parents[1]
    return root if _PACKAGE.parent.name == "lib" and (root / "pyproject.toml").is_file() else None


def notebook_path() -> Path:
    """Return the path of the report notebook.

    Raises
    ------
    NormscopeError
        The installation lacks it.
    """
    root = checkout()
    return _existing(root / _NOTEBOOK if root else _PACKAGE / _NOTEBOOK)


def template_dir() -> Path:
    """Return the folder of the HTML template."""
    return _existing(_PACKAGE / "report" / "template")


def schema_dir() -> Path:
    """Return the folder of the JSON Schemas."""
    return _existing(_PACKAGE / "schemas")


def _existing(path: Path) -> Path:
    if path.exists():
        return path
    message = f"the installation lacks {path.relative_to(path.parents[1])}; install normscope again"
    raise NormscopeError(message)
