"""When a sentence holds: conditions on what a finding is about, each with its threshold."""

import re

from msgspec import UNSET

from normscope.analysis.models import Operation
from normscope.findings.layout import channels_last, is_channels_last
from normscope.findings.subject import Subject

SHORT_CALL_US = 10.0  # so short a kernel is mostly its start and its end, whatever it moves
FAR_BELOW_ROOFLINE_PERCENT = 20.0
HEALTHY_PERCENT = 70.0
_MOST = 0.5
_NARROW_BAND = 2.5  # the best efficiency is at most this many times the worst
_LOW_BANDS = ("0-30", "30-60")
_FUSED_NAME = re.compile(r"fused|(?<![a-z])add(?![a-z])", re.IGNORECASE)


def is_compute_bound(s: Subject) -> bool:
    """Tell whether arithmetic, not memory, limits the operations."""
    return s.finding.bound_type == "compute"


def moves_data(s: Subject) -> bool:
    """Tell whether memory limits the operations, or may limit them."""
    return not is_compute_bound(s)


def is_low(s: Subject) -> bool:
    """Tell whether the efficiency lies in one of the two lower bands."""
    return moves_data(s) and s.finding.eff_bucket in _LOW_BANDS and not is_impossibly_slow(s)


def is_impossibly_slow(s: Subject) -> bool:
    """Tell whether every efficiency is zero, though the kernels ran and did something."""
    return bool(s.efficiencies) and s.efficiencies[-1] == 0


def has_some_zeros(s: Subject) -> bool:
    """Tell whether some efficiencies are zero, and not all."""
    return not is_impossibly_slow(s) and any(op.efficiency.efficiency_percent == 0 for op in s.operations)


def is_near_roofline(s: Subject) -> bool:
    """Tell whether the efficiency lies in the upper band."""
    return moves_data(s) and s.finding.eff_bucket not in _LOW_BANDS


def is_far_below(s: Subject) -> bool:
    """Tell whether every operation lies under 20% of its roofline."""
    return is_low(s) and s.efficiencies[-1] < FAR_BELOW_ROOFLINE_PERCENT


def has_short_calls(s: Subject) -> bool:
    """Tell whether the costliest call is too short to fill the memory system.

    Where the trace tells how short its kernels get, that decides; else a length that is short on any GPU.
    """
    if knows_shortest(s):
        return is_launch_bound(s)
    return is_low(s) and s.call_us < SHORT_CALL_US


def knows_shortest(s: Subject) -> bool:
    """Tell whether the bytes of the costliest call can be held against the shortest kernels of the trace."""
    return s.limits is not None and None not in (s.limits.at_peak_us, s.limits.shortest_kernel_us)


def is_launch_bound(s: Subject) -> bool:
    """Tell whether calls that need less than the shortest kernels take at least half of the time."""
    return is_low(s) and s.bounded_percent("launch-bound") >= 100 * _MOST


def is_partly_launch_bound(s: Subject) -> bool:
    """Tell whether some calls need less than the shortest kernels, but these are not most of the time."""
    return is_low(s) and bool(s.bounded("launch-bound")) and not is_launch_bound(s)


def is_under_filled(s: Subject) -> bool:
    """Tell whether the costliest operation starts fewer workgroups than there are compute units."""
    return s.limits is not None and "under-filled" in s.limits.bounds


def is_cache_resident(s: Subject) -> bool:
    """Tell whether the bytes of a call of the costliest operation fit the last-level cache."""
    return fits_cache(s.lead)


def fits_cache(op: Operation) -> bool:
    """Tell whether the bytes of a call of ``op`` fit the last-level cache, as far as that is known."""
    return op.limits is not UNSET and "cache-resident" in op.limits.bounds


def is_two_pass(s: Subject) -> bool:
    """Tell whether the costliest operation reads its input twice."""
    return s.limits is not None and "two-pass" in s.limits.bounds


def is_upper_bound(s: Subject) -> bool:
    """Tell whether other work is fused into the kernels of some operation."""
    return any(op.is_upper_bound for op in s.operations)


def is_unverified(s: Subject) -> bool:
    """Tell whether a row of the catalog that nobody has checked found some of the operations."""
    return any(op.evidence == "unverified" for op in s.operations)


def has_main_kernel(s: Subject) -> bool:
    """Tell whether a call of the costliest operation has several kernels, and which one matters most."""
    return isinstance(s.lead.main_kernel, str) and isinstance(s.lead.main_kernel_percent, float)


def has_long_calls(s: Subject) -> bool:
    """Tell whether the costliest call is long enough to fill the memory system."""
    return is_low(s) and not has_short_calls(s)


def is_batch_norm(s: Subject) -> bool:
    """Tell whether the calls are long and most of them BatchNorm."""
    return has_long_calls(s) and s.main_variant == "BatchNorm"


def can_change_layout(s: Subject) -> bool:
    """Tell whether the calls are long, of BatchNorm, and could run channels last and don't yet."""
    return is_batch_norm(s) and channels_last(s.lead) is not None


def has_channels_last(s: Subject) -> bool:
    """Tell whether the calls are long, of BatchNorm or GroupNorm, and channels last already."""
    return (is_batch_norm(s) or is_group_norm(s)) and is_channels_last(s.lead)


def is_group_norm(s: Subject) -> bool:
    """Tell whether the calls are long and most of them GroupNorm."""
    return has_long_calls(s) and s.main_variant == "GroupNorm"


def is_instance_norm(s: Subject) -> bool:
    """Tell whether the calls are long and most of them InstanceNorm."""
    return has_long_calls(s) and s.main_variant == "InstanceNorm"


def is_row_norm(s: Subject) -> bool:
    """Tell whether the calls are long and most of one variant that works along rows."""
    return has_long_calls(s) and s.main_variant in ("LayerNorm", "RMSNorm")


def is_mixed(s: Subject) -> bool:
    """Tell whether there are several variants."""
    return len(s.variants) > 1


def varies(s: Subject) -> bool:
    """Tell whether shapes that hold most of the time vary by more than their mean."""
    return sum(op.time_ms for op in s.varying) * 1e3 > _MOST * s.time_us


def has_healthy_peer(s: Subject) -> bool:
    """Tell whether another operation shows that the device does better."""
    return is_far_below(s) and percent(s.healthy) > HEALTHY_PERCENT


def has_no_healthy_peer(s: Subject) -> bool:
    """Tell whether there are other operations, and none of them does well."""
    return is_far_below(s) and s.healthy is not None and not has_healthy_peer(s)


def percent(op: Operation | None) -> float:
    """Return the efficiency of an operation, zero where it is not known."""
    return (op.efficiency.efficiency_percent or 0.0) if op is not None else 0.0


def time_against_peak(s: Subject) -> bool:
    """Tell whether time and bytes of the costliest call can be held against peak bandwidth."""
    return bool(
        moves_data(s)
        and not is_impossibly_slow(s)
        and s.call_bytes
        and s.call_at_peak_us
        and s.call_us > s.call_at_peak_us
    )


def arithmetic_is_large(s: Subject) -> bool:
    """Tell whether the bound is compute and every arithmetic intensity lies above the ridge."""
    return _knows_intensity(s) and is_compute_bound(s) and s.intensities[0] > _ridge(s)


def bound_disagrees(s: Subject) -> bool:
    """Tell whether the bound is one thing and every arithmetic intensity says the other."""
    if not _knows_intensity(s):
        return False
    if is_compute_bound(s):
        return s.intensities[-1] < _ridge(s)
    return s.finding.bound_type == "memory" and s.intensities[0] > _ridge(s)


def _knows_intensity(s: Subject) -> bool:
    return bool(s.intensities and s.ridge_flops_per_byte)


def _ridge(s: Subject) -> float:
    return s.ridge_flops_per_byte or 0.0


def arithmetic_is_small(s: Subject) -> bool:
    """Tell whether every arithmetic intensity lies below the ridge."""
    return _knows_intensity(s) and moves_data(s) and s.intensities[-1] < _ridge(s)


def sits_in_a_narrow_band(s: Subject) -> bool:
    """Tell whether sizes differ and efficiencies hardly do."""
    return _size_says_nothing(s) and s.efficiencies[-1] <= _NARROW_BAND * s.efficiencies[0]


def size_does_not_help(s: Subject) -> bool:
    """Tell whether efficiencies differ, but the larger shapes do hardly better, or worse."""
    return _size_says_nothing(s) and not sits_in_a_narrow_band(s)


def _size_says_nothing(s: Subject) -> bool:
    return is_low(s) and s.size_effect is not None and not s.size_matters


def small_shapes_are_slow(s: Subject) -> bool:
    """Tell whether the smaller shapes reach clearly less."""
    return is_low(s) and s.size_matters


def saves(s: Subject) -> bool:
    """Tell whether the estimate can be given in time."""
    return bool(s.saving_us) and not is_impossibly_slow(s)


def is_fused(s: Subject) -> bool:
    """Tell whether the costliest op does more than the norm, as the catalog or else its name says."""
    return bool(s.lead.fused_with) or _FUSED_NAME.search(s.lead.name) is not None


def can_fuse(s: Subject) -> bool:
    """Tell whether the size of the tensor is known, and fusing is still to be done."""
    is_open = moves_data(s) and not is_fused(s) and not is_impossibly_slow(s)
    return bool(is_open and s.tensor and s.tensor.size_bytes)


def can_save_launches(s: Subject) -> bool:
    """Tell whether calls are short, and could be fused into others."""
    return has_short_calls(s) and not is_fused(s)


def tuning_comes_first(s: Subject) -> bool:
    """Tell whether the advice is to tune or swap kernels of one variant, which all do badly."""
    return is_far_below(s) and has_long_calls(s) and not varies(s) and s.main_variant is not None
