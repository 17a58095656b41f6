"""What bounds an operation, as short phrases that each hold the figure and the threshold it is told by."""

from collections.abc import Callable, Mapping

from msgspec import UNSET

from normscope.analysis.models import Bound, Limits, Operation
from normscope.escape import MISSING

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (0.0, "B"))
_KERNEL_BREAK = "<br>Kernel "

Phrase = Callable[[Operation, Limits], str]


def limit_phrases(operation: Operation) -> tuple[str, ...]:
    """Return what bounds an operation and how it was found, a phrase each; empty where neither is known.

    Parameters
    ----------
    operation
        Any operation; only those of a trace have limits.
    """
    found = [] if operation.limits is UNSET else _bounds(operation, operation.limits)
    return tuple(phrase for phrase in (_unfused(operation), *found, _by_name_only(operation)) if phrase)


def _bounds(operation: Operation, limits: Limits) -> list[str]:
    return [_PHRASES[bound](operation, limits) for bound in limits.bounds]


def _under_filled(_operation: Operation, limits: Limits) -> str:
    share = "" if limits.busy_percent is None else f" ({limits.busy_percent:.0f}%)"
    return f"{limits.workgroups or 0:,} of {limits.multiprocessors or 0:,} compute units can be busy{share}"


def _launch_bound(_operation: Operation, limits: Limits) -> str:
    at_peak, shortest = duration_us(limits.at_peak_us or 0.0), duration_us(limits.shortest_kernel_us or 0.0)
    return f"{at_peak} at peak, shorter than the shortest kernels ({shortest})"


def _cache_resident(operation: Operation, limits: Limits) -> str:
    moved = binary_size(operation.bytes_moved_per_call or 0.0)
    cache = binary_size(limits.last_level_cache_bytes or 0.0)
    return f"{moved} fits the last-level cache ({cache})"


def _two_pass(_operation: Operation, limits: Limits) -> str:
    reread = " where the second reads from memory" if "cache-resident" in limits.bounds else ""
    return f"two passes: at most {attainable(limits.attainable_percent)} of peak{reread}"


_PHRASES: Mapping[Bound, Phrase] = {
    "under-filled": _under_filled,
    "launch-bound": _launch_bound,
    "cache-resident": _cache_resident,
    "two-pass": _two_pass,
}


def attainable(percent: float | None) -> str:
    """Return the share of peak that is left where inputs are read twice, in whole percent."""
    return MISSING if percent is None else f"{percent:.0f}%"


def attainable_percent(operation: Operation) -> float | None:
    """Return the share of the roofline that the operation can reach at most, None where that is all of it."""
    return None if operation.limits is UNSET else operation.limits.attainable_percent


def is_cache_resident(operation: Operation) -> bool:
    """Tell whether the bytes of a call fit the last-level cache, so that the peak of memory is no limit."""
    return operation.limits is not UNSET and "cache-resident" in operation.limits.bounds


def kernel_count(operation: Operation) -> int:
    """Return how many kernels a call of the operation launches, 0 where none is known."""
    return operation.kernel_name.count(_KERNEL_BREAK) + 1 if operation.kernel_name else 0


def _unfused(operation: Operation) -> str:
    launched = operation.bytes_launched_per_call
    if operation.kind != "unfused" or launched is None:
        return ""
    count = kernel_count(operation)
    who = "its kernels move" if not count else f"{count} kernel{'s move' if count > 1 else ' moves'}"
    moved = operation.bytes_moved_per_call
    less = "" if moved is None else f" where a fused one would move {byte_size(moved)}"
    return f"unfused: {who} {byte_size(launched)}{less}"


def _by_name_only(operation: Operation) -> str:
    if operation.found_by != "kernel":
        return ""
    lack = "; no op, so no bytes" if operation.bytes_moved_per_call is None else ""
    return f"found by kernel name{lack}"


def byte_size(size_bytes: float) -> str:
    """Return a number of bytes in the decimal unit that reads best.

    Examples
    --------
    >>> byte_size(1e6), byte_size(77_100_000)
    ('1 MB', '77.1 MB')
    """
    least, unit = next((n, u) for n, u in _BYTE_UNITS if size_bytes >= n)
    return f"{size_bytes / (least or 1):.3g} {unit}"


def binary_size(size_bytes: float) -> str:
    """Return a size in the units that caches are given in, so that two of them compare.

    Examples
    --------
    >>> binary_size(1_512_448), binary_size(256 * 2**20)
    ('1.44 MiB', '256 MiB')
    """
    least, unit = (2**20, "MiB") if size_bytes >= 2**20 else (2**10, "KiB")
    return f"{_digits(size_bytes / least)} {unit}"


def duration_us(time_us: float) -> str:
    """Return a short time with its unit.

    Examples
    --------
    >>> duration_us(0.2854), duration_us(77.07)
    ('0.29 µs', '77.1 µs')
    """
    return f"{_digits(time_us)} µs"


def _digits(value: float) -> str:
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"
