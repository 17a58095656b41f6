"""The parameters of a report: one typed model for the notebook, the parameter files and the command line.

Everything is checked here, before a kernel starts; papermill itself only logs a name it doesn't know.
"""

import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from normscope.analysis.models import Scope
from normscope.errors import UsageError
from normscope.escape import printable, shorten
from normscope.inputs.rundir import category_paths

SAMPLE = "sample"
STDIN = "-"

_Path = Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\x00]*$")]


class ReportParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a report is made of; the notebook takes exactly these names.

    Attributes
    ----------
    run_dir
        A profiler trace (``-`` for standard input) or a TraceLens run directory. The word ``sample`` always
        means the bundled simulated trace; a file or folder of that name is given as ``./sample``.
    out_dir
        The folder that becomes the report.
    categories
        The categories to analyze; empty for every normalization category of the run.
    comparison_scope
        ``comparative`` reads trace 2 as the target that trace 1 is measured against.
    command_prefix
        ``cache`` runs the analysis through the command in the run's ``cache/cmd_prefix.txt``.
    top_n
        How many operations the figures and short tables show.
    gpu, gpu_file
        The GPU of a trace that doesn't tell it: a key of the registry, or an architecture file.
    peaks
        What a trace is held against: the vendor's peaks, or the best published measurements.
    catalog
        A file with more rows of the catalog, to find the norms of a trace.
    capture
        A folder of traces taken while a trace's graphs were captured.
    """

    run_dir: _Path = SAMPLE
    out_dir: _Path = "outputs/sample"
    categories: list[str] = []
    comparison_scope: Scope = "standalone"
    command_prefix: Literal["", "cache"] = ""
    top_n: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    gpu: str = ""
    gpu_file: str = ""
    peaks: Literal["datasheet", "achievable"] = "datasheet"
    catalog: str = ""
    capture: str = ""


_ALLOWED = {
    "run_dir": "the path of a profiler trace or of a TraceLens run directory, - or the word sample",
    "out_dir": "the path of a folder",
    "categories": "a list of category names such as [norm_fwd, norm_bwd], or [] for all",
    "comparison_scope": "standalone or comparative",
    "command_prefix": 'empty ("") or cache',
    "top_n": "a whole number from 1 to 1000",
    "gpu": 'a key that `normscope gpus` lists, or empty ("") where the trace tells',
    "gpu_file": 'the path of a file in TraceLens\' architecture format, or empty ("")',
    "peaks": "datasheet or achievable",
    "catalog": 'the path of a TOML file with rows of the catalog, or empty ("")',
    "capture": 'the path of a folder of traces taken while graphs were captured, or empty ("")',
}


def make_params(values: Mapping[str, Any], source: str = "parameters") -> ReportParams:
    """Check ``values`` and return them as parameters; names that aren't given keep their default.

    Parameters
    ----------
    values
        Plain values, as a parameter file or the command line gives them.
    source
        Where they come from: the start of every message.

    Raises
    ------
    UsageError
        A name is unknown, or a value has the wrong type or lies outside its range.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(ReportParams)}
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise UsageError(_unknown_name(str(name), source))
        try:
            checked[name] = msgspec.convert(value, fields[name])
        except msgspec.ValidationError:
            raise UsageError(_wrong_value(name, value, source)) from None
    params = ReportParams(**checked)
    for category in params.categories:
        category_paths(Path(), category)
    return params


def _unknown_name(name: str, source: str) -> str:
    known = list(_ALLOWED)
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return f"{source}: there is no parameter {_shown(name)}; {hint}The parameters are {', '.join(known)}."


def _wrong_value(name: str, value: object, source: str) -> str:
    given = "empty" if value is None else _shown(value)
    return f"{source}: {name} is {given}, but must be {_ALLOWED[name]}.{_yaml_trap(value)}"


def _shown(value: object) -> str:
    return printable(shorten(repr(value), 80))


def _yaml_trap(value: object) -> str:
    """Explain a value that YAML reads otherwise than it looks."""
    if isinstance(value, bool):
        return " YAML reads yes, no, on, off, true and false as truth values; put a word in quotes."
    if isinstance(value, str) and _is_number(value):
        return " Text is not a number: write it without quotes and exponent, as 20."
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_given(path: Path) -> dict[str, Any]:
    """Read a parameter file, YAML, or JSON or TOML by its extension, and return what it gives, checked.

    An empty file, or one of comments alone, gives nothing.

    Raises
    ------
    UsageError
        The file can't be read, isn't valid, or holds a wrong name or value.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = (
            f"{path}: the parameter file can't be read ({error.strerror}); give the path of a YAML file."
        )
        raise UsageError(message) from None
    except UnicodeDecodeError:
        message = f"{path}: the parameter file isn't UTF-8 text; save it as UTF-8."
        raise UsageError(message) from None
    parse = _PARSERS.get(path.suffix.lower(), _parse_yaml)
    try:
        values = parse(text) if text.strip() else None
    except (ValueError, RecursionError) as error:
        message = f"{path}: {printable(str(error))}; mend the file, parameters/sample.yaml shows the form."
        raise UsageError(message) from None
    if not isinstance(values, dict | None):
        message = f"{path}: expected lines such as `top_n: 20`, found {_shown(values)}."
        raise UsageError(message)
    checked = msgspec.structs.asdict(make_params(values or {}, str(path)))
    return {name: checked[name] for name in values or {}}


def _parse_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415 - only a parameter file needs it

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        message = f"{place}not valid YAML ({error.problem})"
        raise ValueError(message) from None
    except yaml.YAMLError as error:
        message = f"not valid YAML ({' '.join(str(error).split())})"
        raise ValueError(message) from None


def _parse_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        message = f"not valid JSON ({error})"
        raise ValueError(message) from None


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"not valid TOML ({error})"
        raise ValueError(message) from None


_PARSERS: Mapping[str, Callable[[str], object]] = {".json": _parse_json, ".toml": _parse_toml}
