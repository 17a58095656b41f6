"""The layout of a TraceLens run directory: which file lies where, and which categories there are."""

import re
from pathlib import Path
from typing import Literal

import msgspec

from normscope.errors import InputError, UsageError

NORM_ANALYZER = "norm-analyzer"
_OPS_SUFFIX = "_ops.csv"
_FILE_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_USUAL_ORDER = ("norm_fwd", "norm_bwd", "norm", "rmsnorm")


class CategoryPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of one category lie."""

    ops_csv: Path
    metadata_json: Path
    fusion_json: Path
    metrics_json: Path
    findings_md: Path


class _ManifestCategory(msgspec.Struct):
    name: str = ""
    skill: str = ""


class _Manifest(msgspec.Struct):
    comparison_scope: str = "standalone"
    categories: list[_ManifestCategory] = []


def category_paths(run_dir: Path, category: str) -> CategoryPaths:
    """Return the paths of ``category`` in ``run_dir``.

    Raises
    ------
    UsageError
        The name can't be part of a file name.
    """
    if not _FILE_SAFE.fullmatch(category) or len(category) > 100:
        message = (
            f"category {category[:100]!r} can't be a file name; "
            "use letters, digits, '_', '-' and '.', such as norm_fwd"
        )
        raise UsageError(message)
    data = run_dir / "category_data"
    return CategoryPaths(
        ops_csv=data / f"{category}{_OPS_SUFFIX}",
        metadata_json=run_dir / "metadata" / f"{category}_metadata.json",
        fusion_json=data / "kernel_fusion_metrics.json",
        metrics_json=data / f"{category}_metrics.json",
        findings_md=run_dir / "category_findings" / f"{category}_findings.md",
    )


def check_run_dir(run_dir: Path) -> None:
    """Make sure that ``run_dir`` is a folder.

    Raises
    ------
    InputError
        It isn't there, or it is a file.
    """
    if run_dir.is_dir():
        return
    what = "is a file, not a folder" if run_dir.exists() else "doesn't exist"
    message = f"{run_dir} {what}; give a profiler trace or a TraceLens run directory"
    raise InputError(message)


def find_categories(run_dir: Path) -> tuple[str, ...]:
    """Return the normalization categories of a run, forward before backward.

    A category counts when the manifest gives it to the normalization analyzer, or when there is an ops table
    with ``norm`` in its name.

    Raises
    ------
    InputError
        ``run_dir`` is no folder, or has neither ``category_data/`` nor ``metadata/``.
    """
    check_run_dir(run_dir)
    data = run_dir / "category_data"
    if not data.is_dir() and not (run_dir / "metadata").is_dir():
        message = (
            f"{run_dir} has neither category_data/ nor metadata/; "
            "give a profiler trace, a TraceLens run directory, or `sample` for the bundled trace"
        )
        raise InputError(message)
    tables = {p.name.removesuffix(_OPS_SUFFIX) for p in data.glob(f"*norm*{_OPS_SUFFIX}")}
    names = tables | _names_in_manifest(data / "category_manifest.json")
    return tuple(sorted(filter(_FILE_SAFE.fullmatch, names), key=_order))


def _order(category: str) -> tuple[int, str]:
    usual = _USUAL_ORDER.index(category) if category in _USUAL_ORDER else len(_USUAL_ORDER)
    return usual, category


def _names_in_manifest(path: Path) -> set[str]:
    return {c.name for c in _read_manifest(path).categories if c.skill == NORM_ANALYZER}


def _read_manifest(path: Path) -> _Manifest:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except FileNotFoundError:
        return _Manifest()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path}: the manifest can't be read ({error}); mend it or delete it"
        raise InputError(message) from None


def default_scope(run_dir: Path) -> Literal["standalone", "comparative"]:
    """Return the comparison scope that the manifest of a run states, else ``standalone``."""
    manifest = _read_manifest(run_dir / "category_data" / "category_manifest.json")
    return "comparative" if manifest.comparison_scope == "comparative" else "standalone"
