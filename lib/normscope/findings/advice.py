"""What to do about a quantified finding in the standalone scope: a row per cause, its condition beside it."""

from normscope.findings.conditions import (
    bound_disagrees,
    can_change_layout,
    has_short_calls,
    is_compute_bound,
    is_fused,
    is_group_norm,
    is_impossibly_slow,
    is_instance_norm,
    is_launch_bound,
    is_low,
    is_mixed,
    is_near_roofline,
    is_partly_launch_bound,
    is_row_norm,
    is_under_filled,
    varies,
)
from normscope.findings.layout import channels_last
from normscope.findings.phrases import (
    Sentence,
    always,
    calls_of,
    efficiency_span,
    fusion_analysis,
    limit,
    op_words,
    what,
)
from normscope.findings.subject import Subject
from normscope.findings.wording import plural, significant


def _for_main_variant(s: Subject) -> str:
    """Say for whom the advice is, where a finding mixes variants and one of them decides it."""
    if not is_mixed(s) or s.main_variant in (None, "Other"):
        return ""
    return f"For {s.main_variant}, which holds most of the time: "


def _layout_and(s: Subject) -> str:
    call = channels_last(s.lead)
    return f"channels-last layout ({call}) and " if call else ""


def _other_implementation(s: Subject) -> str:
    if s.finding.library == "PyTorch Native":
        return "compile the module with `torch.compile`, or try a library's kernel"
    return "compare with PyTorch's native kernel and with `torch.compile` at these shapes"


def _few_bytes(s: Subject) -> str:
    """Say what is right for the launch-bound ones among compiled kernels, else nothing."""
    count = len(s.bounded("launch-bound"))
    if not count:
        return ""
    return f"; {plural(count, 'launch-bound signature')} can only gain from being one kernel with the next"


def _fuse_the_small(s: Subject) -> str:
    """Say what is right for the launch-bound ones among larger calls, else nothing."""
    if not is_partly_launch_bound(s):
        return ""
    count = len(s.bounded("launch-bound"))
    return f"; for {plural(count, 'launch-bound signature')} fuse norm, activation and residual instead"


# Action: the first row that holds. What to do differs by cause, and the cause is tried in this order.
ACTIONS = (
    Sentence(
        is_impossibly_slow,
        lambda _: (
            "Check the measurement before tuning: the bytes and FLOPs counted for these calls, "
            "and the peaks in the metadata."
        ),
    ),
    Sentence(
        lambda s: is_compute_bound(s) and bound_disagrees(s),
        lambda s: (
            f"Profile {op_words(s.lead)} for tile size and wave occupancy, but first check its bound: "
            "its arithmetic intensity says memory."
        ),
    ),
    Sentence(
        is_compute_bound,
        lambda s: f"Profile {op_words(s.lead)} for tile size and wave occupancy.",
    ),
    Sentence(
        varies,
        lambda s: (
            "First find what the slow calls wait for: the same kernel at the same shape varies by "
            f"{significant(s.varying[0].cov or 0.0)} times its mean, so tuning it comes second."
        ),
    ),
    Sentence(
        lambda s: s.finding.kind == "compiled" and not is_near_roofline(s),
        lambda s: (
            f"Tune the compiled kernels as a whole, of which the norm is a part: let "
            '`torch.compile(mode="max-autotune")` try other configurations, and profile '
            f"{op_words(s.lead)}{_few_bytes(s)}."
        ),
    ),
    Sentence(
        lambda s: is_launch_bound(s) and is_fused(s),
        lambda s: (
            f"Batch the calls into fewer and larger ones rather than tune bandwidth: {calls_of(s)} move too "
            "little to be bound by it."
        ),
    ),
    Sentence(
        is_launch_bound,
        lambda s: (
            "Fuse the norm with its neighbours, or batch the calls, rather than tune bandwidth: "
            f"{calls_of(s)} move too little to be bound by it."
        ),
    ),
    Sentence(
        lambda s: has_short_calls(s) and is_fused(s),
        lambda s: (
            f"Make fewer and larger calls, by batching: {calls_of(s)} are too short to fill the memory "
            "system."
        ),
    ),
    Sentence(
        has_short_calls,
        lambda s: (
            f"Make fewer and larger calls, by fusing the norm with its neighbours or batching: "
            f"{calls_of(s)} are too short to fill the memory system."
        ),
    ),
    Sentence(
        lambda s: is_under_filled(s) and can_change_layout(s),
        lambda s: (
            f"{_for_main_variant(s)}try channels-last layout ({channels_last(s.lead)}), which selects "
            f"kernels that split each channel's reduction over many workgroups{_fuse_the_small(s)}."
        ),
    ),
    Sentence(
        lambda s: is_under_filled(s) and is_low(s),
        lambda s: (
            f"{_for_main_variant(s)}give the device more to do at a time, by larger batches or a kernel that "
            f"splits each reduction over several workgroups: {_other_implementation(s)}{_fuse_the_small(s)}."
        ),
    ),
    Sentence(
        can_change_layout,
        lambda s: (
            f"{_for_main_variant(s)}try channels-last layout ({channels_last(s.lead)}), "
            f"which lets these kernels read whole cache lines across channels{_fuse_the_small(s)}."
        ),
    ),
    Sentence(
        is_group_norm,
        lambda s: (
            f"{_for_main_variant(s)}optimize the memory access of the dominant kernels: "
            f"try {_layout_and(s)}a kernel that fuses the norm with its "
            f"activation, or {_other_implementation(s)}."
        ),
    ),
    Sentence(
        is_instance_norm,
        lambda s: (
            f"{_for_main_variant(s)}try `torch.nn.GroupNorm` with one group per channel: "
            "without running statistics it computes the same values, with kernels of its own."
        ),
    ),
    Sentence(
        is_row_norm,
        lambda s: (
            f"{_for_main_variant(s)}swap the implementation of the dominant kernels: "
            f"{_other_implementation(s)}."
        ),
    ),
    Sentence(
        lambda s: is_near_roofline(s) and is_fused(s),
        lambda s: (
            f"Tune it last: it reaches {efficiency_span(s)} of {limit(s)}, "
            "and its name says that it is fused already."
        ),
    ),
    Sentence(
        is_near_roofline,
        lambda s: (
            f"Move fewer bytes rather than tune: fuse {what(s)} with the activation or residual beside it; "
            f"{fusion_analysis(s)} names such chains."
        ),
    ),
    Sentence(
        lambda s: is_mixed(s) and s.main_variant is None,
        lambda s: (
            "Optimize the memory access of the dominant kernels, one variant after the other; "
            f"{_other_implementation(s)}."
        ),
    ),
    Sentence(
        always,
        lambda s: (
            f"{_for_main_variant(s)}optimize the memory access of the dominant kernels: "
            f"{_other_implementation(s)}."
        ),
    ),
)
