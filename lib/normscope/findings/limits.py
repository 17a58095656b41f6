"""What only the launches show: why a norm is bound, said with the figures that decide it."""

import re

from normscope.analysis.models import Limits
from normscope.analysis.upper_bound import upper_bound_words
from normscope.escape import markdown, markdown_code, shorten
from normscope.findings.conditions import (
    has_main_kernel,
    is_cache_resident,
    is_launch_bound,
    is_low,
    is_partly_launch_bound,
    is_two_pass,
    is_under_filled,
    is_upper_bound,
)
from normscope.findings.phrases import Sentence, shape_word
from normscope.findings.subject import Subject
from normscope.findings.wording import (
    counted,
    data_size,
    duration,
    number_word,
    plural,
    sentence_case,
    significant,
)

_NAME_WIDTH = 60
_SECOND_AXIS = re.compile(r"\(\d+,(\d+)[,)]")
_PER_CHANNEL = ("BatchNorm",)
_MIB = 1024.0 * 1024.0


def also_bounded(s: Subject) -> str:
    """Return the clause that an insight ends with where the costliest shape leaves the GPU partly idle."""
    busy = s.limits.busy_percent if s.limits else None
    if busy is None or not is_under_filled(s) or not is_low(s):
        return ""
    which = f"the costliest {shape_word(s)} keeps" if len(s.shapes) > 1 else "it keeps"
    return f", and {which} at most {significant(busy)}% of the GPU's compute units busy"


def upper_bound_clause(s: Subject) -> str:
    """Return the clause that marks the time of an insight as an upper bound, where it is one."""
    words = upper_bound_words(*s.operations)
    return f" ({markdown(words)})" if words else ""


def _limits(s: Subject) -> Limits:
    """Return the limits of the costliest operation, which the conditions have found there."""
    assert s.limits is not None  # noqa: S101 - see above
    return s.limits


def main_kernel(s: Subject) -> str:
    """Return the kernel with most of the time, as code."""
    return markdown_code(shorten(str(s.lead.main_kernel), _NAME_WIDTH))


def _workgroups(s: Subject) -> str:
    """Return how many workgroups start, and by what rule, where their number gives it away."""
    limits = _limits(s)
    channels = _SECOND_AXIS.match(s.tensor.shape) if s.tensor else None
    per_channel = (
        channels is not None
        and s.lead.variant in _PER_CHANNEL
        and int(channels.group(1)) == limits.workgroups
    )
    rule = "one workgroup per channel: " if per_channel else ""
    threads = f" of {limits.workgroup_threads:,} threads" if limits.workgroup_threads else ""
    return f"{rule}{counted(limits.workgroups or 0, 'workgroup')}{threads}"


def idle(s: Subject) -> str:
    """Say how much of the device the costliest operation leaves without work."""
    limits = _limits(s)
    share = significant(100 - (limits.busy_percent or 0))
    count, total = len(s.bounded("under-filled")), len(s.operations)
    others = f"; so it is with {number_word(count)} of {plural(total, 'signature')}" if count > 1 else ""
    return (
        f"{'That' if _names_main_kernel(s) else 'Its'} kernel starts {_workgroups(s)} for "
        f"{limits.multiprocessors or 0:,} compute units, so at least {share}% of the device has nothing to "
        f"do for {duration(s.call_us)}{others}."
    )


def _launch_bound(s: Subject) -> str:
    """Say which calls are too small for bandwidth to matter, with the figures of the costliest of them."""
    bound = s.bounded("launch-bound")
    costliest = bound[0]
    limits = costliest.limits
    assert isinstance(limits, Limits)  # noqa: S101 - that is how they were found
    share = significant(s.bounded_percent("launch-bound"))
    what = f"the calls of {plural(len(bound), 'signature')}" if len(bound) > 1 else "the calls"
    whose = "" if costliest is s.lead and len(bound) == 1 else f" of {_size_of(s, costliest)}"
    return (
        f"A call{whose} moves {data_size(costliest.bytes_moved_per_call or 0)}, which at peak takes "
        f"{duration(limits.at_peak_us or 0)}, less than the shortest kernels of this trace "
        f"({duration(limits.shortest_kernel_us or 0)}): {what}, {share}% of the time, "
        f"{'are' if len(bound) > 1 or what == 'the calls' else 'is'} launch-bound."
    )


def _size_of(s: Subject, op: object) -> str:
    first = getattr(op, "args", None)
    return markdown(first.split("<br>")[0]) if isinstance(first, str) else f"the costliest {shape_word(s)}"


def _cache(s: Subject) -> str:
    return f"{(_limits(s).last_level_cache_bytes or 0) / _MIB:,.0f} MiB"


def _two_pass(s: Subject) -> str:
    share = significant(_limits(s).attainable_percent or 0)
    cached = f"; {_call_size(s)} fit the last-level cache ({_cache(s)}), where the second pass may find them"
    return (
        "A norm like this reads its input twice, once for the statistics and once for the values: where both "
        f"passes go to memory, {share}% of the roofline is the most it can reach"
        f"{cached if is_cache_resident(s) else ''}."
    )


def _call_size(s: Subject) -> str:
    whose = f" of the costliest {shape_word(s)}" if len(s.shapes) > 1 else " of a call"
    return f"the {data_size(s.call_bytes or 0)}{whose}"


def _names_main_kernel(s: Subject) -> bool:
    return is_low(s) and has_main_kernel(s) and s.kernels_per_call > 1


LIMIT_REASONS = (
    Sentence(
        is_upper_bound,
        lambda _: (
            "Other work is fused into these kernels: their time is an upper bound of the norm's, and their "
            "bytes are those of every tensor that they are given."
        ),
    ),
    Sentence(
        _names_main_kernel,
        lambda s: (
            f"Among them {main_kernel(s)} holds {significant(float(s.lead.main_kernel_percent or 0))}% "
            "of the time."
        ),
    ),
    Sentence(is_under_filled, idle),
    Sentence(is_two_pass, _two_pass),
    Sentence(lambda s: is_launch_bound(s) or is_partly_launch_bound(s), _launch_bound),
    Sentence(
        lambda s: is_cache_resident(s) and not is_two_pass(s) and is_low(s),
        lambda s: (
            f"{sentence_case(_call_size(s))} fit the last-level cache ({_cache(s)}), so a kernel before may "
            "have left them there."
        ),
    ),
)


def beyond_peak(s: Subject) -> str:
    """Say why more than the peak is no error, for an operation whose bytes fit the last-level cache."""
    return (
        f"{sentence_case(_call_size(s))} fit the last-level cache ({_cache(s)}), so going over the memory "
        "peak is no error: the data need not come from memory."
    )


def fills_up(s: Subject) -> str:
    """Return what full use of the device would be worth, for a resolution."""
    limits = _limits(s)
    times = (limits.multiprocessors or 0) / (limits.workgroups or 1)
    return (
        f"With a workgroup for every compute unit up to {significant(times)} times as much of the device "
        "works at a time."
    )


def launches_saved(s: Subject) -> str:
    """Return what fusing launch-bound calls saves at the least, for a resolution."""
    bound = s.bounded("launch-bound")
    calls = sum(op.count for op in bound)
    return (
        f"Each launch-bound call that is fused into its neighbour saves a whole launch; this trace holds "
        f"{counted(calls, 'such call')}."
    )
