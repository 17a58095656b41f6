"""The layout of a TraceLens run directory: which file lies where, and which categories there are."""

import difflib
import os
import re
from collections.abc import Collection
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
    if os.path.isdir(run_dir):  # noqa: PTH112 - pathlib raises where a folder above can't be read
        return
    what = "is a file, not a folder" if os.path.exists(run_dir) else "doesn't exist"  # noqa: PTH110 - as above
    message = f"{run_dir} {what}; give a profiler trace or a TraceLens run directory"
    raise InputError(message)


def find_categories(run_dir: Path) -> tuple[str, ...]:
    """Return the normalization categories of a run, forward before backward.

    A category counts when the manifest gives it to the normalization analyzer, or when there is an ops table
    with ``norm`` in its name.

    Raises
    ------
    InputError
        ``run_dir`` is no folder, can't be read, or has neither ``category_data/`` nor ``metadata/``.
    """
    check_run_dir(run_dir)
    data = run_dir / "category_data"
    if not {"category_data", "metadata"}.intersection(_names_in(run_dir)):
        message = (
            f"{run_dir} has neither category_data/ nor metadata/; "
            "give a profiler trace, a TraceLens run directory, or `sample` for the bundled trace"
        )
        raise InputError(message)
    tables = {
        name.removesuffix(_OPS_SUFFIX)
        for name in _names_in(data)
        if name.endswith(_OPS_SUFFIX) and "norm" in name
    }
    names = tables | _names_in_manifest(data / "category_manifest.json")
    return tuple(sorted(filter(_FILE_SAFE.fullmatch, names), key=_order))


def _names_in(folder: Path) -> list[str]:
    """Return the names of what lies in ``folder``; none where there is no such folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        message = f"{folder} can't be read ({error.strerror}); see that you may read the run"
        raise InputError(message) from None


def unknown_categories(run_dir: Path, asked: Collection[str]) -> tuple[str, ...]:
    """Return a sentence for each category that was asked for and is neither in the run nor a usual one.

    Raises
    ------
    UsageError
        A name can't be part of a file name.
    """
    for name in asked:
        category_paths(run_dir, name)
    unknown = sorted(set(asked).difference(_USUAL_ORDER))
    try:
        known = find_categories(run_dir) if unknown else ()
    except InputError:  # the analysis itself says what is wrong with the run
        return ()
    return tuple(_not_there(name, known) for name in unknown if name not in known)


def _not_there(category: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(category, [*known, *_USUAL_ORDER], n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    has = f"it has {', '.join(known)}" if known else "it has none"
    return f"the run has no category {category}{hint} ({has})"


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
    except OSError as error:
        message = f"{path}: the manifest can't be read ({error.strerror}); see that you may read the run"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{path}: the manifest makes no sense ({error}); mend it or delete it"
    raise InputError(message)


def default_scope(run_dir: Path) -> Literal["standalone", "comparative"]:
    """Return the comparison scope that the manifest of a run states, else ``standalone``."""
    manifest = _read_manifest(run_dir / "category_data" / "category_manifest.json")
    return "comparative" if manifest.comparison_scope == "comparative" else "standalone"
