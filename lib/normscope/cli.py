"""The ``normscope`` command: every subcommand calls the public API and maps errors to exit codes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from normscope import __version__, commands
from normscope.cli_options import (
    NO_SOURCES,
    NOTHING_GIVEN,
    NOTHING_OF_SIDES,
    CategoryOption,
    NormSourceOptions,
    Peaks,
    RunOptions,
    Scope,
    ScopeOption,
    SideOptions,
    Tier,
    TraceOptions,
)
from normscope.errors import NormscopeError, UsageError
from normscope.escape import printable, shorten

_INTERRUPTED = 130
_PIPE_CLOSED = 141
_DEBUG = "NORMSCOPE_DEBUG"
_STDIN = "-"
_STDIN_DEVICE = (
    "/dev/stdin"  # stands for the hyphen while cyclopts reads the words: it takes that for an option
)


app = App(
    name="normscope",
    help="Find GPU normalization layers that waste time, say why, and what to do.",
    version=__version__,
    help_epilogue=(
        "Exit codes: 0 ok · 1 analysis · 2 usage · 3 input · 4 no norms · 5 notebook · "
        "6 timeout or dead kernel · 7 export · 8 findings · 9 no GPU activity · 10 breach"
    ),
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)


@app.command
def report(  # noqa: PLR0913 - one argument per option of the command
    input: Annotated[str | None, Parameter(name="INPUT")] = None,  # noqa: A002 - the name in the help
    /,
    *,
    out: Path | None = None,
    comparison_scope: ScopeOption = None,
    category: CategoryOption = [],  # noqa: B006 - never changed
    top_n: int | None = None,
    command_prefix: Literal["cache"] | None = None,
    params: Path | None = None,
    cell_timeout_s: int = 600,
    given: TraceOptions = NOTHING_GIVEN,
) -> None:
    """Make the HTML report of a run.

    Parameters
    ----------
    input
        Profiler trace (.json, .json.gz, or - for standard input), TraceLens run directory, or `sample`.
    out
        Report folder, replaced as a whole (default: outputs/NAME).
    comparison_scope
        standalone or comparative (default: what the run's manifest says).
    category
        Category such as norm_fwd; give it again for more (default: all).
    top_n
        Operations shown in figures and short tables (default: 20).
    command_prefix
        `cache` runs the analysis through the shell command in the run's cache/cmd_prefix.txt.
    params
        Parameter file; options given here win over it.
    cell_timeout_s
        Longest time for a step of the notebook, in seconds.
    """
    values = {
        "run_dir": _hyphen(input),
        "out_dir": None if out is None else str(out),
        "comparison_scope": comparison_scope,
        "categories": category or None,
        "top_n": top_n,
        "command_prefix": command_prefix,
    }
    values |= given.given()
    commands.report({k: v for k, v in values.items() if v is not None}, params, cell_timeout_s)


@app.command
def analyze(
    trace: Annotated[str | None, Parameter(name="TRACE")] = None,
    /,
    *,
    options: RunOptions,
    given: TraceOptions = NOTHING_GIVEN,
) -> None:
    """Compute the metrics of a run: CATEGORY_metrics.json.

    Parameters
    ----------
    trace
        Profiler trace, - or `sample`: it becomes a run directory in --output-dir first, with findings.
    """
    commands.analyze(_hyphen(trace), options, given.given())


@app.command
def compare(  # noqa: PLR0913 - one argument per option of the command
    first: Annotated[str, Parameter(name="TRACE1")],
    second: Annotated[str, Parameter(name="TRACE2")],
    /,
    *,
    out: Path,
    sides: SideOptions = NOTHING_OF_SIDES,
    peaks: Peaks | None = None,
    catalog: Path | None = None,
    report: bool = True,
) -> None:
    """Hold trace 1, the one to improve, against trace 2, the target.

    Parameters
    ----------
    first
        Profiler trace, run directory, report folder or its metrics.json, or a baseline; - or `sample`.
    second
        The same; the two may be of different kinds.
    out
        Folder of the comparison: `run` in it is the run directory, `report` the report.
    peaks
        What traces are held against: vendor's datasheet, or best published measurement.
    catalog
        More rows of the catalog, for both traces: see docs/catalog.md.
    report
        Make the HTML report as well.
    """
    sources = (_hyphen(first) or _STDIN, _hyphen(second) or _STDIN)
    choices = (sides.given("1"), sides.given("2"))
    given = {"peaks": peaks, "catalog": catalog}
    shared = {name: str(value) for name, value in given.items() if value is not None}
    options = RunOptions(output_dir=out / "run", comparison_scope="comparative")
    commands.compare(sources, options, choices, shared, with_report=report)


@app.command
def coverage(
    trace: Annotated[str, Parameter(name="TRACE")],
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
    given: NormSourceOptions = NO_SOURCES,
) -> None:
    """Print what all kernel time of a trace belongs to.

    Parameters
    ----------
    trace
        Profiler trace (.json or .json.gz), - for standard input, or `sample`.
    json
        Print JSON, as in category_data/coverage.json of a run.
    """
    commands.coverage(_hyphen(trace) or _STDIN, given.given(), as_json=json)


@app.command
def baseline(
    input: Annotated[str, Parameter(name="INPUT")],  # noqa: A002 - the name in the help
    file: Path,
    /,
    *,
    given: TraceOptions = NOTHING_GIVEN,
) -> None:
    """Write what `check` compares with: a small JSON file to commit.

    Parameters
    ----------
    input
        Profiler trace, - or `sample`, run directory, report folder, or another baseline.
    file
        File to write, such as norms.json.
    """
    commands.baseline(_hyphen(input) or _STDIN, file, given.given())


@app.command
def check(  # noqa: PLR0913 - one argument per option of the command
    result: Annotated[str, Parameter(name="RESULT")],
    /,
    *,
    baseline: str,
    limits: Path,
    json: Path | None = None,
    junit: Path | None = None,
    markdown: Path | None = None,
    allow_other_gpu: Annotated[bool, Parameter(negative="")] = False,
    given: TraceOptions = NOTHING_GIVEN,
) -> None:
    """Compare a result with a baseline; exit with 10 beyond a limit.

    Parameters
    ----------
    result
        Profiler trace, - or `sample`, run directory, report folder, or baseline.
    baseline
        What to compare with: a file of `normscope baseline`, or whatever RESULT may be.
    limits
        Limits, a TOML file: see docs/limits.md.
    json
        Write the verdict as JSON.
    junit
        Write it as JUnit XML, for a build server.
    markdown
        Write it as Markdown, for a comment on a pull request.
    allow_other_gpu
        Compare although the baseline is of another GPU.
    """
    outputs = {"json": json, "junit": junit, "markdown": markdown}
    commands.check(
        (_hyphen(result) or _STDIN, _hyphen(baseline) or _STDIN),
        limits,
        {name: path for name, path in outputs.items() if path is not None},
        given.given(),
        allow_other_gpu=allow_other_gpu,
    )


@app.command
def findings(options: RunOptions) -> None:
    """Compute the metrics and write CATEGORY_findings.md."""
    commands.findings(options)


@app.command
def gpus() -> None:
    """List the GPUs that normscope knows."""
    commands.gpus()


@app.command
def validate(
    file: Path,
    /,
    *,
    tier: Tier = "compute",
    comparison_scope: Annotated[
        Scope, Parameter(name=["--comparison-scope", "--comparison_scope"])
    ] = "standalone",
    metrics: Path | None = None,
    fix: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Check a findings file against its contract and its metrics.

    Parameters
    ----------
    file
        Findings file, NAME_findings.md.
    tier
        Tier of the findings.
    comparison_scope
        Scope of the findings.
    metrics
        Metrics file (default: category_data/NAME_metrics.json of the same run).
    fix
        Repair what is mechanical first: verbatim cells, marker numbers, lost markers. Prose stays.
    """
    commands.validate(file, tier, comparison_scope, metrics, fix=fix)


@app.command
def sample(file: Path = Path("simulated_step.json.gz"), /) -> None:
    """Write the bundled simulated trace, to see what an input is.

    Parameters
    ----------
    file
        File to write; compressed where its name ends in .gz.
    """
    commands.sample(file)


@app.command
def doctor() -> None:
    """Check what a report needs."""
    commands.doctor()


@app.command
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        Such as bash: `normscope completion bash > ~/.local/share/bash-completion/completions/normscope`.
    """
    sys.stdout.write(app.generate_completion(shell=shell))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    An unexpected error is one sentence, too; with ``NORMSCOPE_DEBUG=1`` in the environment it is a traceback.

    Parameters
    ----------
    arguments
        The words after ``normscope``; by default those of this process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    words = [_STDIN_DEVICE if word == _STDIN else word for word in given]
    options: dict[str, Any] = {"exit_on_error": False, "print_error": False, "result_action": "return_value"}
    sys.exit(_exit_code(lambda: app(words, **options)))


def _hyphen(word: str | None) -> str | None:
    return _STDIN if word == _STDIN_DEVICE else word


def _exit_code(call: Callable[[], Any]) -> int:
    try:
        call()
        sys.stdout.flush()
    except CycloptsError as error:
        _complain(str(error).replace("\n", " ").strip() + " Try `normscope --help`.")
        return UsageError.exit_code
    except NormscopeError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as error:
        if os.environ.get(_DEBUG) == "1":
            raise
        _complain(_unexpected(error))
        return NormscopeError.exit_code
    return 0


def _unexpected(error: Exception) -> str:
    text = shorten(" ".join(str(error).split()), 200)
    said = type(error).__name__ + (f": {text}" if text else "")
    return (
        f"something unexpected happened ({said}); this is a mistake in normscope, so please report it with "
        f"what the same command prints with {_DEBUG}=1 in the environment"
    )


def _complain(message: str) -> None:
    sys.stderr.write(f"normscope: {printable(message)}\n")
