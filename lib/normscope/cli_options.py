"""Options that several subcommands share, and groups of them as the help shows them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

Scope = Literal["standalone", "comparative"]
Tier = Literal["compute", "system", "fusion"]
Peaks = Literal["datasheet", "achievable"]
OutputDir = Annotated[Path, Parameter(name=["--output-dir", "--output_dir", "-o"])]
ScopeOption = Annotated[Scope | None, Parameter(name=["--comparison-scope", "--comparison_scope"])]
CategoryOption = Annotated[list[str], Parameter(name=["--category", "-c"], negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NormSourceOptions:
    """What helps to find the norms of a profiler trace.

    Parameters
    ----------
    catalog
        More rows of the catalog: see docs/catalog.md.
    capture
        Traces of the graphs' capture, all batch sizes.
    """

    catalog: Path | None = None
    capture: Path | None = None

    def given(self) -> dict[str, str]:
        """Return the options that were given, by the names of the parameters."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TraceOptions(NormSourceOptions):
    """What only a profiler trace needs.

    Parameters
    ----------
    gpu
        GPU of a trace that doesn't tell it: a key of `normscope gpus`.
    gpu_file
        The same as a TraceLens architecture file.
    peaks
        What a trace is held against: vendor's datasheet, or best published measurement.
    """

    gpu: str | None = None
    gpu_file: Path | None = None
    peaks: Peaks | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SideOptions:
    """What only one of two traces needs.

    Parameters
    ----------
    gpu1
        GPU of trace 1 where that doesn't tell it: a key of `normscope gpus`.
    gpu2
        GPU of trace 2 where that doesn't tell it.
    gpu_file1
        The GPU of trace 1 as a TraceLens architecture file.
    gpu_file2
        The GPU of trace 2 as a TraceLens architecture file.
    capture1
        Traces of the graphs' capture for trace 1, all batch sizes.
    capture2
        Traces of the graphs' capture for trace 2, all batch sizes.
    """

    gpu1: str | None = None
    gpu2: str | None = None
    gpu_file1: Path | None = None
    gpu_file2: Path | None = None
    capture1: Path | None = None
    capture2: Path | None = None

    def given(self, number: str) -> dict[str, str]:
        """Return the options that were given for trace 1 or 2, by the names of the parameters."""
        own = {
            name.removesuffix(number): value for name, value in vars(self).items() if name.endswith(number)
        }
        return {name: str(value) for name, value in own.items() if value is not None}


NO_SOURCES = NormSourceOptions()
NOTHING_GIVEN = TraceOptions()
NOTHING_OF_SIDES = SideOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Which part of which run.

    Parameters
    ----------
    output_dir
        TraceLens run directory.
    comparison_scope
        standalone or comparative (default: what the run's manifest says).
    category
        Category such as norm_fwd; give it again for more (default: all).
    """

    output_dir: OutputDir
    comparison_scope: ScopeOption = None
    category: CategoryOption = field(default_factory=list)
