"""What is compared: the norm operations of two sides, their pairs, and what each difference is worth.

Side 1 is the one to improve, side 2 the target, as in the contract's comparative scope.
"""

from typing import Literal

import msgspec

from normscope.analysis.models import Direction, FoundBy, Kind, Variant

SCHEMA_VERSION = "1.0"
COMPARISON_FILE = "comparison.json"
"""Its name in ``category_data/`` of a comparative run directory."""

SideKind = Literal["trace", "run directory", "results", "baseline"]
PairedBy = Literal[
    "module and arguments",
    "module and shape",
    "arguments",
    "shape",
    "module",
    "kernels",
    "variant",
]
"""What both sides of a pair have in common, besides direction and variant; the first that holds for all.

The last two are for norms of which one side knows neither module nor arguments.
"""
Test = Literal["Mann-Whitney U", "Welch t"]


class CallGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one side that are alike: of one direction and variant, in one module, with equal arguments.

    Attributes
    ----------
    direction, variant, kind, found_by
        As in the metrics.
    name
        The op as the tables call it.
    module
        Path of the module, outermost first, joined by `` > ``; empty where it isn't known.
    arguments
        The metrics' ``args``; None where no arguments were recorded.
    library, kernels
        The backend, and the bare names of the kernels of a call.
    order
        Place of the first call among all groups of the side.
    count, total_us
        Number of calls, and their kernel time.
    has_time
        Whether the kernel time is known; where it isn't, ``total_us`` is 0.
    times_us
        Kernel time of each call in the order of time; empty where only mean and deviation are known.
    mean_us, std_us
        Of a call; the deviation is the sample's, None where there is a single call or it isn't known.
    efficiency_percent, bytes_moved_per_call
        As in the metrics, None where not known.
    """

    direction: Direction
    variant: Variant
    kind: Kind = "norm"
    found_by: FoundBy | None = None
    name: str
    module: str = ""
    arguments: str | None = None
    library: str | None = None
    kernels: tuple[str, ...] = ()
    order: int
    count: int
    total_us: float
    has_time: bool = True
    times_us: tuple[float, ...] = ()
    mean_us: float
    std_us: float | None = None
    efficiency_percent: float | None = None
    bytes_moved_per_call: float | None = None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a comparison; without the times of each call it is a baseline that can be committed.

    Attributes
    ----------
    label, kind
        What it is called, and what it was read from.
    gpu, peak_bandwidth_tbs
        The device and its peak memory bandwidth; None where not known.
    end_to_end_ms
        End-to-end GPU time; None where not known.
    steps
        Profiler steps that hold norm calls; 0 where the input marks none.
    groups
        All norm calls, in order. Their times add up to the normalization time of the input.
    coverage_us
        Kernel time by group of the coverage, in µs; empty where not known.
    """

    schema_version: str = SCHEMA_VERSION
    label: str
    kind: SideKind
    gpu: str | None = None
    peak_bandwidth_tbs: float | None = None
    end_to_end_ms: float | None = None
    steps: int = 0
    groups: tuple[CallGroup, ...]
    coverage_us: dict[str, float] = {}


class Significance(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a difference exceeds what the spread of the calls explains.

    Attributes
    ----------
    test
        Mann-Whitney U on the times of the calls, or Welch's t-test on means and deviations.
    p_value
        Adjusted for the number of pairs tested (Holm).
    effect_size
        Cliff's delta for the first test, Hedges' g for the second; positive where side 2 is slower.
    is_real
        The p-value is below 0.05 and the effect is at least medium.
    """

    test: Test
    p_value: float
    effect_size: float
    is_real: bool

    def confirms(self, extra_us: float) -> bool:
        """Tell whether the test is behind a difference of time 1 less time 2: real, and of the same sign.

        One outlier can turn the sum against what nearly all calls say.
        """
        return self.is_real and self.effect_size * extra_us < 0


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of both sides: the groups that do the same work, whatever their modules.

    Attributes
    ----------
    first, second
        Places in ``groups`` of side 1 and side 2. Groups of one op with equal arguments are one pair, so that
        there are calls enough to tell a difference from noise. Where both are equally long, each group stands
        beside its partner; else all of one side do the work of all of the other.
    paired_by
        What they have in common.
    time1_us, time2_us
        Kernel time; side 2's scaled to as many steps, or calls, as side 1 has.
    delta_us
        Side 2 minus side 1: negative where side 1 is slower.
    significance
        None where the spread isn't known, as with single calls, or where only the variant is the same.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    paired_by: PairedBy
    time1_us: float
    time2_us: float
    significance: Significance | None = None

    @property
    def delta_us(self) -> float:
        """Side 2 minus side 1, µs."""
        return self.time2_us - self.time1_us


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides and how they pair; what has no partner is in neither pair and listed by its place.

    Attributes
    ----------
    scale
        Factor on side 2's times: steps of side 1 ÷ steps of side 2, or the ratio of all calls, or 1.
    normalized
        ``per step`` where the sides have different numbers of steps, ``per call`` where steps aren't known
        and side 1 calls everything the same number of times as often, else ``as recorded``.
    """

    schema_version: str = SCHEMA_VERSION
    first: Side
    second: Side
    scale: float
    normalized: Literal["as recorded", "per step", "per call"]
    pairs: tuple[Pair, ...]
    only_first: tuple[int, ...]
    only_second: tuple[int, ...]
