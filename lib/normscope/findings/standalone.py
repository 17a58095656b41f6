"""The sentences of a quantified finding in the standalone scope: each a row, its condition beside it."""

from normscope.findings.advice import ACTIONS
from normscope.findings.conditions import (
    arithmetic_is_large,
    arithmetic_is_small,
    bound_disagrees,
    can_change_layout,
    can_fuse,
    can_save_launches,
    has_channels_last,
    has_healthy_peer,
    has_no_healthy_peer,
    has_short_calls,
    has_some_zeros,
    is_compute_bound,
    is_far_below,
    is_fused,
    is_impossibly_slow,
    is_launch_bound,
    is_low,
    is_mixed,
    is_partly_launch_bound,
    is_under_filled,
    is_unverified,
    knows_shortest,
    percent,
    saves,
    sits_in_a_narrow_band,
    size_does_not_help,
    small_shapes_are_slow,
    time_against_peak,
    tuning_comes_first,
)
from normscope.findings.limits import (
    LIMIT_REASONS,
    also_bounded,
    fills_up,
    launches_saved,
    upper_bound_clause,
)
from normscope.findings.phrases import (
    Prose,
    Sentence,
    achieved,
    always,
    backend,
    call_time,
    efficiency_span,
    first,
    fusion_analysis,
    grouped,
    lead_shape,
    limit,
    mixed_variants,
    of_gpu_time,
    op_words,
    saving,
    shapes_spend,
    source,
    start_with,
    the_costliest,
    unverified,
    what_capital,
    where,
)
from normscope.findings.subject import Subject
from normscope.findings.wording import (
    counted,
    data_size,
    duration,
    number_word,
    sentence_case,
    significant,
    span,
)

REDUCTION_NOT_VISIBLE = "Reduction strategy not visible — profile the kernel to identify the variant."

_BANDS = {"0-30": "below 30%", "30-60": "between 30 and 60%", "60-100": "above 60%"}


def _title(s: Subject) -> str:
    if is_impossibly_slow(s):
        return f"{what_capital(s)} measured at 0% of {limit(s)}"
    return f"{what_capital(s)} at {efficiency_span(s)} of {limit(s)}"


def _insight(s: Subject) -> str:
    if is_impossibly_slow(s):
        return f"{shapes_spend(s)}{of_gpu_time(s)} at a measured 0% of {limit(s)}, which can't be."
    return f"{shapes_spend(s)}{upper_bound_clause(s)}{of_gpu_time(s)} {achieved(s)}{also_bounded(s)}."


def _action(s: Subject) -> str:
    return sentence_case(first(ACTIONS, s)) + start_with(s)


def _by_size(s: Subject) -> str:
    effect = s.size_effect
    if effect is None:
        return ""
    return (
        f"Calls that move less than {data_size(effect.border_bytes)} reach "
        f"{significant(effect.small_percent or 0)}% of roofline, larger ones "
        f"{significant(effect.large_percent)}%"
    )


def _spread(s: Subject) -> str:
    return significant(s.size_effect.spread if s.size_effect else 1)


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
    Sentence(is_unverified, unverified),
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
            f"{the_costliest(s)} takes {call_time(s)} per call for "
            f"{data_size(s.call_bytes or 0)}, {_times(s.call_us / (s.call_at_peak_us or 1))} "
            "what the memory system needs at peak."
        ),
    ),
    Sentence(
        lambda s: not time_against_peak(s),
        lambda s: f"{the_costliest(s)} takes {call_time(s)} per call.",
    ),
    Sentence(
        is_impossibly_slow,
        lambda _: (
            "A kernel that runs moves some bytes, so an efficiency of zero means that bytes or FLOPs are "
            "counted wrong, or that a peak is far too high."
        ),
    ),
    Sentence(
        has_some_zeros,
        lambda _: "An efficiency of zero is among them, which can't be: verify that measurement.",
    ),
    Sentence(
        arithmetic_is_large,
        lambda s: f"At {_intensity(s)}, above the ridge of {_ridge(s)}, arithmetic sets its limit.",
    ),
    Sentence(
        bound_disagrees,
        lambda s: (
            f"The table says {s.finding.bound_type}-bound, but {_intensity(s)} lies "
            f"{'below' if is_compute_bound(s) else 'above'} the ridge of {_ridge(s)}, "
            f"where the roofline's limit is {'memory' if is_compute_bound(s) else 'compute'}."
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
    *LIMIT_REASONS,
    Sentence(
        sits_in_a_narrow_band,
        lambda s: (
            f"The shapes sit in the same narrow band although their sizes differ by "
            f"{_spread(s)} times, so size alone does not explain it."
        ),
    ),
    Sentence(
        size_does_not_help,
        lambda s: (
            f"{_by_size(s)}, although sizes differ by {_spread(s)} times, so size alone does not explain it."
        ),
    ),
    Sentence(
        small_shapes_are_slow,
        lambda s: f"{_by_size(s)}{_but_large_ones(s)}.",
    ),
    Sentence(
        lambda s: has_short_calls(s) and not knows_shortest(s),
        lambda s: f"Calls of {duration(s.call_us)} are short against a kernel's start and end.",
    ),
    Sentence(
        has_channels_last,
        lambda _: "The kernel names say channels last, so that layout is in use already.",
    ),
    Sentence(
        lambda s: bool(s.varying),
        lambda s: (
            f"Calls of {op_words(s.varying[0])} vary widely: their standard deviation is "
            f"{significant(s.varying[0].cov or 0.0)} times their mean."
        ),
    ),
    Sentence(
        has_healthy_peer,
        lambda s: (
            f"In the same run {op_words(s.healthy) if s.healthy else ''} reaches "
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
    Sentence(lambda s: is_low(s) or is_compute_bound(s), lambda _: REDUCTION_NOT_VISIBLE),
)


def _but_large_ones(s: Subject) -> str:
    return ", but even the large ones stay far from it" if is_far_below(s) else ""


def _times(ratio: float) -> str:
    return f"{significant(ratio)} times"


def _intensity(s: Subject) -> str:
    return span(s.intensities[0], s.intensities[-1], " FLOP per byte", digits=3)


def _ridge(s: Subject) -> str:
    return significant(s.ridge_flops_per_byte or 0, 3)


def _call_at_roofline_us(s: Subject) -> float | None:
    """Time of a call × efficiency."""
    share = s.lead.efficiency.efficiency_percent
    return s.call_us * share / 100 if share and share < 100 else None


def _two_passes(s: Subject) -> float:
    """Return the bytes of one write and one read of the tensor."""
    return 2 * ((s.tensor and s.tensor.size_bytes) or 0.0)


_ALTERNATIVES = {
    "BatchNorm": "GroupNorm",
    "GroupNorm": "LayerNorm",
    "LayerNorm": "RMSNorm",
}

RESOLUTIONS = (
    Sentence(
        time_against_peak,
        lambda s: (
            f"At peak bandwidth a call of the costliest shape would take {duration(s.call_at_peak_us or 0)} "
            f"instead of {call_time(s)}."
        ),
    ),
    Sentence(
        is_impossibly_slow,
        lambda _: (
            "Until bytes, FLOPs and peaks agree, the estimate, which takes all of the time for lost, "
            "promises nothing."
        ),
    ),
    Sentence(
        can_change_layout,
        lambda _: (
            "With channels last, one pass reads neighbouring channels together, "
            "and each channel's reduction can be split over many workgroups."
        ),
    ),
    Sentence(
        lambda s: is_low(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Every kernel that is merged with its neighbour takes away "
            f"{counted(s.shapes[0].calls, 'launch', 'launches')} of this shape, "
            "and the pass over memory between them."
        ),
    ),
    Sentence(is_under_filled, fills_up),
    Sentence(
        lambda s: (is_launch_bound(s) or is_partly_launch_bound(s)) and not is_fused(s),
        launches_saved,
    ),
    Sentence(
        lambda s: can_save_launches(s) and not knows_shortest(s),
        lambda s: (
            f"Each call that is fused away saves a launch; this trace holds {counted(s.calls, 'such call')}."
        ),
    ),
    Sentence(
        can_fuse,
        lambda s: (
            "Where an activation or a residual sits beside the norm, fusing it removes one write and one "
            f"read of the {lead_shape(s)} tensor, {data_size(_two_passes(s))} per call; "
            f"{fusion_analysis(s)} names such chains."
        ),
    ),
    Sentence(
        lambda s: tuning_comes_first(s) and s.main_variant in _ALTERNATIVES,
        lambda s: (
            f"If tuning does not help, {_ALTERNATIVES[s.main_variant or '']} may have better kernels; "
            "that changes the model, so it needs retraining."
        ),
    ),
    Sentence(
        lambda s: is_compute_bound(s) and _call_at_roofline_us(s) is not None,
        lambda s: (
            "At its roofline a call of the costliest shape would take "
            f"{duration(_call_at_roofline_us(s) or 0)} instead of {duration(s.call_us)}."
        ),
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
