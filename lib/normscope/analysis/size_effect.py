"""Whether large operations do better than small ones: one definition for figures and findings."""

from collections.abc import Sequence

import msgspec

from normscope.analysis.models import Operation

NOTABLE_FACTOR = 1.5  # from here on the efficiencies of small and large operations count as different


class SizeEffect(msgspec.Struct, frozen=True):
    """Efficiency in percent of the operations below ``border_bytes`` per call, and of the others.

    ``small_percent`` is ``None`` where all operations move as much. ``spread`` is the largest size ÷ the
    smallest.
    """

    border_bytes: float
    small_percent: float | None
    large_percent: float
    spread: float

    @property
    def is_notable(self) -> bool:
        """Whether small and large operations differ by at least half of the lower efficiency."""
        if self.small_percent is None:
            return False
        low, high = sorted((self.small_percent, self.large_percent))
        return high >= NOTABLE_FACTOR * low


def size_effect(operations: Sequence[Operation]) -> SizeEffect | None:
    """Compare the smaller half of the operations with the larger half, by bytes moved per call.

    Parameters
    ----------
    operations
        Those without bytes or efficiency, and anomalies, have no say.

    Returns
    -------
    SizeEffect or None
        Mean efficiencies weighed by time (alike where no time is known); the border is the size of the
        median operation, which belongs to the larger half; where it is the smallest, the next larger one.
        ``None`` where no operation can be compared.
    """
    sized = sorted(
        (op.bytes_moved_per_call, op.efficiency.efficiency_percent, op.time_ms)
        for op in operations
        if op.bytes_moved_per_call and op.efficiency.efficiency_percent is not None
        if not op.efficiency.is_anomaly
    )
    if not sized:
        return None
    smallest, largest = sized[0][0], sized[-1][0]
    border = sized[len(sized) // 2][0]
    if border == smallest:
        border = next((size for size, _, _ in sized if size > smallest), smallest)
    small = [(percent, time_ms) for size, percent, time_ms in sized if size < border]
    large = [(percent, time_ms) for size, percent, time_ms in sized if size >= border]
    return SizeEffect(border, _mean(small), _mean(large) or 0.0, largest / smallest)


def _mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Mean of the first figures weighed by the second, by number where these are all zero."""
    if not pairs:
        return None
    total = sum(weight for _, weight in pairs)
    if not total:
        return sum(value for value, _ in pairs) / len(pairs)
    return sum(value * weight for value, weight in pairs) / total
