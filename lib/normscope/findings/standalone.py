"""The sentences of a quantified finding in the standalone scope: each a row, its condition beside it."""

from normscope.findings.conditions import (
    arithmetic_is_small,
    can_fuse,
    has_healthy_peer,
    has_no_healthy_peer,
    has_short_calls,
    is_batch_norm,
    is_compute_bound,
    is_far_below,
    is_group_norm,
    is_instance_norm,
    is_low,
    is_mixed,
    is_near_roofline,
    is_row_norm,
    percent,
    saves,
    sits_in_a_narrow_band,
    size_does_not_help,
    small_shapes_are_slow,
    time_against_peak,
    varies,
)
from normscope.findings.phrases import (
    Prose,
    Sentence,
    achieved,
    always,
    backend,
    calls_of,
    efficiency_span,
    first,
    grouped,
    lead_shape,
    limit,
    mixed_variants,
    of_gpu_time,
    op_name,
    saving,
    shapes_spend,
    source,
    start_with,
    what,
    what_capital,
    where,
)
from normscope.findings.subject import Subject
from normscope.findings.wording import data_size, duration, number_word, sentence_case, significant

REDUCTION_NOT_VISIBLE = "Reduction strategy not visible — profile the kernel to identify the variant."
CHANNELS_LAST = "`model.to(memory_format=torch.channels_last)`"

_BANDS = {"0-30": "below 30%", "30-60": "between 30 and 60%", "60-100": "above 60%"}


def _title(s: Subject) -> str:
    return f"{what_capital(s)} at {efficiency_span(s)} of {limit(s)}"


def _insight(s: Subject) -> str:
    return f"{shapes_spend(s)}{of_gpu_time(s)} {achieved(s)}."


def _action(s: Subject) -> str:
    return sentence_case(first(ACTIONS, s)) + start_with(s)


def _for_main_variant(s: Subject) -> str:
    """Say for whom the advice is, where a finding mixes variants and one of them decides it."""
    if not is_mixed(s) or s.main_variant in (None, "Other"):
        return ""
    return f"For {s.main_variant}, which holds most of the time: "


def _by_size(s: Subject) -> str:
    smaller, larger = s.efficiency_by_size or (0.0, 0.0)
    return f"{significant(larger)}% against {significant(smaller)}%"


def _other_implementation(s: Subject) -> str:
    if s.finding.library == "PyTorch Native":
        return "compile the module with `torch.compile`, or try a library's kernel"
    return "compare with PyTorch's native kernel and with `torch.compile` at these shapes"


# Action: the first row that holds. What to do differs by cause, and the cause is tried in this order.
ACTIONS = (
    Sentence(
        is_compute_bound,
        lambda s: (
            f"Profile {op_name(s.lead.name)} for tile size and wave occupancy: compute seldom limits a norm."
        ),
    ),
    Sentence(
        varies,
        lambda s: (
            "First find what the slow calls wait for: the same kernel at the same shape varies by "
            f"{significant((s.varying[0].cov or 0.0) * 100)}% of its mean, so tuning it comes second."
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
        is_batch_norm,
        lambda s: (
            f"{_for_main_variant(s)}try channels-last layout ({CHANNELS_LAST}), "
            "which lets these kernels read whole cache lines across channels."
        ),
    ),
    Sentence(
        is_group_norm,
        lambda s: (
            f"{_for_main_variant(s)}optimize the memory access of the dominant kernels: "
            f"try channels-last layout ({CHANNELS_LAST}) and a kernel that fuses the norm with its "
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
        is_near_roofline,
        lambda s: (
            f"Move fewer bytes rather than tune: fuse {what(s)} with the activation or residual beside it, "
            "as the kernel fusion analysis finds them."
        ),
    ),
    Sentence(
        always,
        lambda s: (
            "Optimize the memory access of the dominant kernels, one variant after the other; "
            f"{_other_implementation(s)}."
        ),
    ),
)

IDENTIFICATION = (
    Sentence(
        always,
        lambda s: (
            f"{grouped(s)}: {_bound_words(s)}, {backend(s)}, "
            f"{_each(s)}{_BANDS.get(s.finding.eff_bucket, 'in one band')} of roofline."
        ),
    ),
    Sentence(is_mixed, lambda s: f"{mixed_variants(s)}; their kernels differ, so judge them apart."),
    Sentence(lambda s: bool(s.modules), where),
    Sentence(always, lambda s: source(s, "operations[].library", "operations[].efficiency")),
)


def _bound_words(s: Subject) -> str:
    known = s.finding.bound_type in ("memory", "compute")
    return f"{s.finding.bound_type}-bound" if known else "bound type not known"


def _each(s: Subject) -> str:
    return "" if len(s.operations) == 1 else "both " if len(s.operations) == 2 else "all "


REASONS = (
    Sentence(
        time_against_peak,
        lambda s: (
            f"The costliest shape, {lead_shape(s)}, takes {duration(s.call_us)} per call for "
            f"{data_size(s.call_bytes or 0)}, {_times(s.call_us / (s.call_at_peak_us or 1))} "
            "what the memory system needs at peak."
        ),
    ),
    Sentence(
        lambda s: not time_against_peak(s),
        lambda s: f"The costliest shape, {lead_shape(s)}, takes {duration(s.call_us)} per call.",
    ),
    Sentence(
        is_compute_bound,
        lambda s: (
            f"The roofline counts {_intensity(s)} against a ridge of "
            f"{significant(s.ridge_flops_per_byte or 0)}, so arithmetic, not memory, sets its limit."
        ),
    ),
    Sentence(
        arithmetic_is_small,
        lambda s: f"At {_intensity(s)} arithmetic is not the limit.",
    ),
    Sentence(
        lambda s: is_low(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Each call launches {number_word(s.kernels_per_call)} kernels, "
            "which hand their results on through memory."
        ),
    ),
    Sentence(
        sits_in_a_narrow_band,
        lambda s: (
            f"The shapes sit in the same narrow band although their sizes differ by "
            f"{significant(s.size_spread or 0)} times, so size alone does not explain it."
        ),
    ),
    Sentence(
        size_does_not_help,
        lambda s: (
            f"The larger half of the shapes does no better than the smaller, {_by_size(s)} of roofline, "
            f"although sizes differ by {significant(s.size_spread or 0)} times, "
            "so size alone does not explain it."
        ),
    ),
    Sentence(
        small_shapes_are_slow,
        lambda s: (
            f"The smaller half of the shapes reaches {significant((s.efficiency_by_size or (0, 0))[0])}% of "
            f"roofline and the larger half {significant((s.efficiency_by_size or (0, 0))[1])}%: "
            f"a fixed cost per call weighs on the small ones{_but_large_ones(s)}."
        ),
    ),
    Sentence(
        has_short_calls,
        lambda s: f"Calls of {duration(s.call_us)} end before a kernel's start-up is paid back.",
    ),
    Sentence(
        lambda s: bool(s.varying),
        lambda s: (
            f"Calls of {op_name(s.varying[0].name)} vary widely: their standard deviation is "
            f"{significant(s.varying[0].cov or 0.0)} times their mean."
        ),
    ),
    Sentence(
        has_healthy_peer,
        lambda s: (
            f"In the same run {op_name(s.healthy.name if s.healthy else '')} reaches "
            f"{significant(percent(s.healthy))}% of its roofline, so the device is healthy "
            "and the kernel falls short."
        ),
    ),
    Sentence(
        has_no_healthy_peer,
        lambda _: (
            "No other operation of this category comes near its roofline, so this table alone "
            "can't tell a slow kernel from a slow memory system."
        ),
    ),
    Sentence(is_low, lambda _: REDUCTION_NOT_VISIBLE),
)


def _but_large_ones(s: Subject) -> str:
    return ", but even the large ones stay far from it" if is_far_below(s) else ""


def _times(ratio: float) -> str:
    return f"{significant(ratio)} times"


def _intensity(s: Subject) -> str:
    if not s.intensities:
        return "an unknown number of FLOP per byte"
    return f"{significant(s.intensities[-1])} FLOP per byte"


def _two_passes(s: Subject) -> float:
    """Return the bytes of one write and one read of the tensor."""
    return 2 * ((s.tensor and s.tensor.size_bytes) or 0.0)


_ALTERNATIVES = {
    "BatchNorm": "GroupNorm",
    "InstanceNorm": "GroupNorm",
    "GroupNorm": "LayerNorm",
    "LayerNorm": "RMSNorm",
}

RESOLUTIONS = (
    Sentence(
        time_against_peak,
        lambda s: (
            f"At peak bandwidth a call of the costliest shape would take {duration(s.call_at_peak_us or 0)} "
            f"instead of {duration(s.call_us)}."
        ),
    ),
    Sentence(
        is_batch_norm,
        lambda _: (
            "With channels last, one pass reads neighbouring channels together, "
            "and each channel's reduction can be split over many workgroups."
        ),
    ),
    Sentence(
        lambda s: is_low(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Every kernel that is merged with its neighbour takes away {s.lead.count:,} launches of this "
            "shape, and the pass over memory between them."
        ),
    ),
    Sentence(
        has_short_calls,
        lambda s: f"Each call that is fused away saves a launch; there are {s.calls:,} of them.",
    ),
    Sentence(
        can_fuse,
        lambda s: (
            "Where an activation or a residual sits beside the norm, fusing it removes one write and one "
            f"read of the {lead_shape(s)} tensor, {data_size(_two_passes(s))} per call; "
            "the kernel fusion analysis names such chains."
        ),
    ),
    Sentence(
        lambda s: is_far_below(s) and s.variants[0] in _ALTERNATIVES,
        lambda s: (
            f"If tuning does not help, {_ALTERNATIVES[s.variants[0]]} may have better kernels; "
            "that changes the model, so it needs retraining."
        ),
    ),
    Sentence(
        is_compute_bound,
        lambda _: "Less arithmetic per element, or larger tiles per workgroup, is what would shorten it.",
    ),
    Sentence(
        saves,
        lambda s: f"Closing 75 to 100% of the gap to the roofline is worth {saving(s)} of this trace.",
    ),
)


STANDALONE = Prose(
    title=_title,
    insight=_insight,
    action=_action,
    identification=IDENTIFICATION,
    reasoning=REASONS,
    resolution=RESOLUTIONS,
)
