"""The calls of one signature, each with its time: how they are spread, and which of them stand out."""

from functools import cached_property
from statistics import fmean, median

import msgspec

LEAST_CALLS = 3  # fewer have no usual time that one of them could differ from
SLOW_FIRST_FACTOR = 1.5
_OUTLIER_DEVIATIONS = 5.0
_OUTLIER_FACTOR = 1.1  # where all calls take the same time to the µs, the deviation is zero


class CallTimes(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The calls of one operation in the order of the trace; the tuples have one entry a call, in µs.

    Attributes
    ----------
    category, operation_index
        The place of the operation: ``operations[operation_index]`` of that category's metrics.
    kernel_us, norm_us, helper_us
        All kernels under the call, those of the norm itself, and the copies and casts around it.
    is_recomputed
        Whether the call is a forward norm that ran again in the backward pass.
    steps
        The profiler step each call lies in, empty where there is none.
    modules
        The path of the module each call comes from, empty where it isn't known.
    starts_us
        When the op of each call began, by the trace's clock; empty where that wasn't read.
    """

    category: str
    operation_index: int
    kernel_us: tuple[float, ...]
    norm_us: tuple[float, ...]
    helper_us: tuple[float, ...]
    is_recomputed: tuple[bool, ...]
    steps: tuple[str, ...]
    modules: tuple[str, ...]
    starts_us: tuple[float, ...] = ()

    @cached_property
    def median_us(self) -> float:
        """Median kernel time of a call."""
        return median(self.kernel_us)

    @property
    def first_factor(self) -> float | None:
        """The first call's time as a multiple of the median, where there are calls enough to tell."""
        if len(self.kernel_us) < LEAST_CALLS or not self.median_us:
            return None
        return self.kernel_us[0] / self.median_us

    @property
    def has_slow_first_call(self) -> bool:
        """Whether the first call takes at least one and a half times the median."""
        return (self.first_factor or 0.0) >= SLOW_FIRST_FACTOR

    @cached_property
    def outlier_limit_us(self) -> float | None:
        """Above this a call is an outlier: median + 5 × its absolute deviation, but 1.1 × it at least."""
        if len(self.kernel_us) < LEAST_CALLS:
            return None
        deviation = median(abs(time - self.median_us) for time in self.kernel_us)
        return max(self.median_us + _OUTLIER_DEVIATIONS * deviation, _OUTLIER_FACTOR * self.median_us)

    @cached_property
    def outliers(self) -> tuple[int, ...]:
        """The places of the calls above the limit; the first call is judged by itself, so not among them."""
        limit = self.outlier_limit_us
        return () if limit is None else tuple(i for i, t in enumerate(self.kernel_us) if i and t > limit)


def norm_bandwidth_tbs(calls: CallTimes, bytes_per_call: float | None) -> float | None:
    """Return the mean over the calls of bytes ÷ time of the norm's own kernels, in TB/s."""
    rates = [bytes_per_call / (time * 1e6) for time in calls.norm_us if bytes_per_call and time > 0]
    return fmean(rates) if rates else None
