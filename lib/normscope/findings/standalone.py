"""The sentences of a quantified finding in the standalone scope: each a row, its condition beside it."""

from normscope.analysis.models import Operation
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
from normscope.findings.wording import data_size, duration, number_word, significant

REDUCTION_NOT_VISIBLE = "Reduction strategy not visible — profile the kernel to identify the variant."
CHANNELS_LAST = "`model.to(memory_format=torch.channels_last)`"

SHORT_CALL_US = 10.0  # so short a kernel is mostly its start and its end, whatever it moves
FAR_BELOW_ROOFLINE_PERCENT = 20.0
HEALTHY_PERCENT = 70.0
CNN_SHARE_PERCENT = (10.0, 50.0)
SEVERAL_TENSORS_MIN = 1.5
_BANDS = {"0-30": "below 30%", "30-60": "between 30 and 60%", "60-100": "above 60%"}
_LOW_BANDS = ("0-30", "30-60")


def _title(s: Subject) -> str:
    return f"{what_capital(s)} at {efficiency_span(s)} of {limit(s)}"


def _insight(s: Subject) -> str:
    return f"{shapes_spend(s)}{of_gpu_time(s)} {achieved(s)}."


def _action(s: Subject) -> str:
    return first(ACTIONS, s) + start_with(s)


def _is_compute_bound(s: Subject) -> bool:
    return s.finding.bound_type == "compute"


def _moves_data(s: Subject) -> bool:
    return not _is_compute_bound(s)


def _is_low(s: Subject) -> bool:
    return _moves_data(s) and s.finding.eff_bucket in _LOW_BANDS


def _is_near_roofline(s: Subject) -> bool:
    return _moves_data(s) and not _is_low(s)


def _is_far_below(s: Subject) -> bool:
    return _is_low(s) and s.efficiencies[-1] < FAR_BELOW_ROOFLINE_PERCENT


def _has_short_calls(s: Subject) -> bool:
    return _is_low(s) and s.call_us < SHORT_CALL_US


def _has_long_calls(s: Subject) -> bool:
    return _is_low(s) and not _has_short_calls(s)


def _is_batch_norm(s: Subject) -> bool:
    return _has_long_calls(s) and s.variant == "BatchNorm"


def _is_group_norm(s: Subject) -> bool:
    return _has_long_calls(s) and s.variant == "GroupNorm"


def _is_instance_norm(s: Subject) -> bool:
    return _has_long_calls(s) and s.variant == "InstanceNorm"


def _is_row_norm(s: Subject) -> bool:
    return _has_long_calls(s) and s.variant in ("LayerNorm", "RMSNorm")


def _is_mixed(s: Subject) -> bool:
    return len(s.variants) > 1


def _varies(s: Subject) -> bool:
    return bool(s.varying)


def _batch_norm_percent(s: Subject) -> float:
    return sum(op.percent_of_total or 0.0 for op in s.metrics.operations if op.variant == "BatchNorm")


def _is_cnn(s: Subject) -> bool:
    low, high = CNN_SHARE_PERCENT
    return "BatchNorm" in s.variants and low <= _batch_norm_percent(s) <= high


def _has_healthy_peer(s: Subject) -> bool:
    return _is_far_below(s) and _percent(s.healthy) > HEALTHY_PERCENT


def _has_no_healthy_peer(s: Subject) -> bool:
    return _is_far_below(s) and s.healthy is not None and not _has_healthy_peer(s)


def _percent(op: Operation | None) -> float:
    return (op.efficiency.efficiency_percent or 0.0) if op is not None else 0.0


def _other_implementation(s: Subject) -> str:
    if s.finding.library == "PyTorch Native":
        return "compile the module with `torch.compile`, or try a library's kernel"
    return "compare with PyTorch's native kernel and with `torch.compile` at these shapes"


# Action: the first row that holds. What to do differs by cause, and the cause is tried in this order.
ACTIONS = (
    Sentence(
        _is_compute_bound,
        lambda s: (
            f"Profile {op_name(s.lead.name)} for tile size and wave occupancy: compute seldom limits a norm."
        ),
    ),
    Sentence(
        _varies,
        lambda s: (
            "First find what the slow calls wait for: the same kernel at the same shape varies by "
            f"{significant((s.varying[0].cov or 0.0) * 100)}% of its mean, so tuning it comes second."
        ),
    ),
    Sentence(
        _has_short_calls,
        lambda s: (
            f"Make fewer and larger calls, by fusing the norm with its neighbours or batching: "
            f"{calls_of(s)} are too short to fill the memory system."
        ),
    ),
    Sentence(
        _is_batch_norm,
        lambda _: (
            f"Try channels-last layout ({CHANNELS_LAST}), "
            "which lets these kernels read whole cache lines across channels."
        ),
    ),
    Sentence(
        _is_group_norm,
        lambda s: (
            f"Optimize the memory access of the dominant kernels: try channels-last layout ({CHANNELS_LAST}) "
            f"and a kernel that fuses the norm with its activation, or {_other_implementation(s)}."
        ),
    ),
    Sentence(
        _is_instance_norm,
        lambda _: (
            "Try `torch.nn.GroupNorm` with one group per channel: without running statistics it computes "
            "the same values, with kernels of its own."
        ),
    ),
    Sentence(
        _is_row_norm,
        lambda s: f"Swap the implementation of the dominant kernels: {_other_implementation(s)}.",
    ),
    Sentence(
        _is_near_roofline,
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
            f"{_each(s)} {_BANDS.get(s.finding.eff_bucket, 'in one band')} of roofline."
        ),
    ),
    Sentence(_is_mixed, lambda s: f"{mixed_variants(s)}; their kernels differ, so judge them apart."),
    Sentence(lambda s: bool(s.modules), where),
    Sentence(always, lambda s: source(s, "operations[].library", "operations[].efficiency")),
)


def _bound_words(s: Subject) -> str:
    known = s.finding.bound_type in ("memory", "compute")
    return f"{s.finding.bound_type}-bound" if known else "bound type not known"


def _each(s: Subject) -> str:
    return "" if len(s.operations) == 1 else "both" if len(s.operations) == 2 else "all"


def _time_against_peak(s: Subject) -> bool:
    return bool(_moves_data(s) and s.call_bytes and s.call_at_peak_us and s.call_us > s.call_at_peak_us)


def _arithmetic_is_small(s: Subject) -> bool:
    return bool(
        _moves_data(s)
        and s.intensities
        and s.ridge_flops_per_byte
        and s.intensities[-1] < s.ridge_flops_per_byte
    )


def _size_says_nothing(s: Subject) -> bool:
    return _is_low(s) and s.efficiency_by_size is not None and not s.size_matters


def _small_shapes_are_slow(s: Subject) -> bool:
    return _is_low(s) and s.size_matters


REASONS = (
    Sentence(
        _time_against_peak,
        lambda s: (
            f"The costliest shape, {lead_shape(s)}, takes {duration(s.call_us)} per call for "
            f"{data_size(s.call_bytes or 0)}, {_times(s.call_us / (s.call_at_peak_us or 1))} "
            "what the memory system needs at peak."
        ),
    ),
    Sentence(
        lambda s: not _time_against_peak(s),
        lambda s: f"The costliest shape, {lead_shape(s)}, takes {duration(s.call_us)} per call.",
    ),
    Sentence(
        _is_compute_bound,
        lambda s: (
            f"The roofline counts {_intensity(s)} against a ridge of "
            f"{significant(s.ridge_flops_per_byte or 0)}, so arithmetic, not memory, sets its limit."
        ),
    ),
    Sentence(
        _arithmetic_is_small,
        lambda s: f"At {_intensity(s)} arithmetic is not the limit.",
    ),
    Sentence(
        lambda s: _is_low(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Each call launches {number_word(s.kernels_per_call)} kernels, "
            "which hand their results on through memory."
        ),
    ),
    Sentence(
        _size_says_nothing,
        lambda s: (
            f"The shapes sit in the same narrow band although their sizes differ by "
            f"{significant(s.size_spread or 0)} times, so size alone does not explain it."
        ),
    ),
    Sentence(
        _small_shapes_are_slow,
        lambda s: (
            f"The smaller half of the shapes reaches {significant((s.efficiency_by_size or (0, 0))[0])}% of "
            f"roofline and the larger half {significant((s.efficiency_by_size or (0, 0))[1])}%: "
            f"a fixed cost per call weighs on the small ones{_but_large_ones(s)}."
        ),
    ),
    Sentence(
        _has_short_calls,
        lambda s: f"Calls of {duration(s.call_us)} end before a kernel's start-up is paid back.",
    ),
    Sentence(
        _varies,
        lambda s: (
            f"Calls of {op_name(s.varying[0].name)} vary widely: their standard deviation is "
            f"{significant(s.varying[0].cov or 0.0)} times their mean."
        ),
    ),
    Sentence(
        _is_cnn,
        lambda s: (
            f"BatchNorm takes {significant(_batch_norm_percent(s))}% of the time here, "
            "a share that convolutional networks often show."
        ),
    ),
    Sentence(
        _has_healthy_peer,
        lambda s: (
            f"In the same run {op_name(s.healthy.name if s.healthy else '')} reaches "
            f"{significant(_percent(s.healthy))}% of its roofline, so the device is healthy "
            "and the kernel falls short."
        ),
    ),
    Sentence(
        _has_no_healthy_peer,
        lambda _: (
            "No other operation of this category comes near its roofline, so this table alone "
            "can't tell a slow kernel from a slow memory system."
        ),
    ),
    Sentence(_is_low, lambda _: REDUCTION_NOT_VISIBLE),
)


def _but_large_ones(s: Subject) -> str:
    return ", but even the large ones stay far from it" if _is_far_below(s) else ""


def _times(ratio: float) -> str:
    return f"{significant(ratio)} times"


def _intensity(s: Subject) -> str:
    if not s.intensities:
        return "an unknown number of FLOP per byte"
    return f"{significant(s.intensities[-1])} FLOP per byte"


def _saves(s: Subject) -> bool:
    return bool(s.saving_us)


def _can_fuse(s: Subject) -> bool:
    return bool(_moves_data(s) and s.tensor and s.tensor.size_bytes)


_ALTERNATIVES = {
    "BatchNorm": "GroupNorm",
    "InstanceNorm": "GroupNorm",
    "GroupNorm": "LayerNorm",
    "LayerNorm": "RMSNorm",
}

RESOLUTIONS = (
    Sentence(
        _time_against_peak,
        lambda s: (
            f"At peak bandwidth a call of the costliest shape would take {duration(s.call_at_peak_us or 0)} "
            f"instead of {duration(s.call_us)}."
        ),
    ),
    Sentence(
        _is_batch_norm,
        lambda _: (
            "With channels last, one pass reads neighbouring channels together, "
            "and each channel's reduction can be split over many workgroups."
        ),
    ),
    Sentence(
        lambda s: _is_low(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Every kernel that is merged with its neighbour takes away {s.lead.count:,} launches of this "
            "shape, and the pass over memory between them."
        ),
    ),
    Sentence(
        _has_short_calls,
        lambda s: f"Each call that is fused away saves a launch; there are {s.calls:,} of them.",
    ),
    Sentence(
        _can_fuse,
        lambda s: (
            "Where an activation or a residual sits beside the norm, fusing it removes one write and one read "
            f"of the {lead_shape(s)} tensor, {data_size(2 * ((s.tensor and s.tensor.size_bytes) or 0))} per "
            "call; the kernel fusion analysis names such chains."
        ),
    ),
    Sentence(
        lambda s: _is_far_below(s) and s.variants[0] in _ALTERNATIVES,
        lambda s: (
            f"If tuning does not help, {_ALTERNATIVES[s.variants[0]]} may have better kernels; "
            "that changes the model, so it needs retraining."
        ),
    ),
    Sentence(
        _is_compute_bound,
        lambda _: "Less arithmetic per element, or larger tiles per workgroup, is what would shorten it.",
    ),
    Sentence(
        _saves,
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
