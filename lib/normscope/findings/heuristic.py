"""The sentences of a heuristic finding: its operations have no efficiency, or one that can't be true."""

from msgspec import UNSET

from normscope.findings.conditions import has_main_kernel, is_cache_resident, is_under_filled, is_unverified
from normscope.findings.limits import beyond_peak, idle, main_kernel
from normscope.findings.phrases import (
    Prose,
    Sentence,
    always,
    backend,
    calls_of,
    first,
    grouped,
    lead_shape,
    op_words,
    saving,
    source,
    unverified,
    where,
)
from normscope.findings.subject import Subject
from normscope.findings.wording import (
    counted,
    data_size,
    duration,
    number_word,
    plural,
    sentence_case,
    significant,
    verb,
)

WARNING = (
    "> ⚠ This estimate comes from the operation's share of end-to-end time, "
    "because there is no performance model for it."
)
WARNING_CACHED = (
    "> ⚠ This estimate comes from the operation's share of end-to-end time, "
    "because its data fit the last-level cache, so the memory roofline is no performance model for it."
)
WARNING_NO_OP = (
    "> ⚠ This estimate comes from the operation's share of end-to-end time, because only the kernel's name "
    "is known, so there is no performance model for it."
)
WARNING_ANOMALY = (
    "> ⚠ This estimate comes from the operation's share of end-to-end time, "
    "because its measured efficiency can't be true, so there is no performance model to trust."
)
WARNING_PEAK = (
    "> ⚠ This estimate comes from the operation's share of end-to-end time, because the GPU's peak is not "
    "known, so there is no performance model to hold its bandwidth against."
)


def _warning(s: Subject) -> str:
    return first(WARNINGS, s)


def _title(s: Subject) -> str:
    return first(TITLES, s)


def _insight(s: Subject) -> str:
    return first(INSIGHTS, s)


def _action(s: Subject) -> str:
    return first(ACTIONS, s)


def _is_anomaly(s: Subject) -> bool:
    return any(op.efficiency.is_anomaly for op in s.operations)


def _lacks_only_peak(s: Subject) -> bool:
    """Tell whether only the peak of the GPU is missing, while bytes and time of every call are known."""
    return s.metrics.hardware.peak_hbm_bw_tbs is None and all(
        op.efficiency.efficiency_percent is None and op.bytes_moved_per_call and op.time_ms > 0
        for op in s.operations
    )


def _runs_from_cache(s: Subject) -> bool:
    """Tell whether it beats the memory peak because its data fit the last-level cache."""
    return _is_anomaly(s) and is_cache_resident(s)


def _has_no_op(s: Subject) -> bool:
    """Tell whether only the names of kernels are known."""
    return all(op.found_by == "kernel" and op.args is UNSET for op in s.operations)


def _is_replayed(s: Subject) -> bool:
    """Tell whether captured graphs launched the kernels."""
    return any(op.is_replayed for op in s.operations)


def _more_at_a_time(s: Subject) -> str:
    """Say what can be done without knowing the bytes, where a launch leaves the device partly idle."""
    if not is_under_filled(s):
        return ""
    return "; its launch leaves compute units idle, so larger batches should help whatever it moves"


def _lacks_shapes(s: Subject) -> bool:
    return all(op.args is UNSET for op in s.operations)


def _spends(s: Subject) -> str:
    share = f", {significant(s.share_percent)}% of end-to-end GPU time" if s.share_percent else ""
    return (
        f"{sentence_case(plural(len(s.operations), 'signature'))} of {op_words(s.lead)} "
        f"{verb(len(s.operations), 'spend')} {duration(s.time_us)}{share}"
    )


WARNINGS = (
    Sentence(_runs_from_cache, lambda _: WARNING_CACHED),
    Sentence(_is_anomaly, lambda _: WARNING_ANOMALY),
    Sentence(_lacks_only_peak, lambda _: WARNING_PEAK),
    Sentence(_has_no_op, lambda _: WARNING_NO_OP),
    Sentence(always, lambda _: WARNING),
)

TITLES = (
    Sentence(_runs_from_cache, lambda s: f"{op_words(s.lead)} runs from the last-level cache"),
    Sentence(_is_anomaly, lambda s: f"{op_words(s.lead)} measured faster than its roofline"),
    Sentence(_lacks_only_peak, lambda s: f"{op_words(s.lead)} on a GPU whose peak is not known"),
    Sentence(_has_no_op, lambda s: f"{op_words(s.lead)} known by its kernel name alone"),
    Sentence(always, lambda s: f"{op_words(s.lead)} without a performance model"),
)

INSIGHTS = (
    Sentence(
        _runs_from_cache,
        lambda s: (
            f"{_spends(s)}, at {significant(max(s.efficiencies))}% of the memory roofline: "
            "its data fit the last-level cache."
        ),
    ),
    Sentence(
        _is_anomaly,
        lambda s: (
            f"{_spends(s)}, at a measured {significant(max(s.efficiencies))}% of roofline, "
            "which no device can reach."
        ),
    ),
    Sentence(
        _lacks_only_peak,
        lambda s: (
            f"{_spends(s)}, and without the GPU's peak bandwidth nothing tells how much of that is needed."
        ),
    ),
    Sentence(always, lambda s: f"{_spends(s)}, and nothing tells how much of that is needed."),
)

ACTIONS = (
    Sentence(
        _runs_from_cache,
        lambda _: (
            "Leave its bandwidth alone: what is left to gain is in fewer launches, "
            "by fusing the norm with its neighbours."
        ),
    ),
    Sentence(
        _is_anomaly,
        lambda _: (
            "Check the measurement before tuning: the kernel time, the bytes counted for these shapes, "
            "and the peak bandwidth in the metadata."
        ),
    ),
    Sentence(
        _lacks_only_peak,
        lambda _: (
            "Give the GPU with `--gpu KEY` (`normscope gpus` lists the keys) or its peaks with "
            "`--gpu-file FILE` where the trace is read, so that bandwidth can be held against them."
        ),
    ),
    Sentence(
        lambda s: _has_no_op(s) and not _is_replayed(s),
        lambda s: (
            "Record the trace with the ops of the host and their shapes (`ProfilerActivity.CPU`, "
            f"`record_shapes=True`), so that bytes and efficiency can be worked out{_more_at_a_time(s)}."
        ),
    ),
    Sentence(
        _has_no_op,
        lambda s: (
            "Record the warm-up or the graph's capture with shapes (`record_shapes=True`), and give its "
            "folder with `--capture`, so that bytes and efficiency can be worked out"
            f"{_more_at_a_time(s)}."
        ),
    ),
    Sentence(
        _lacks_shapes,
        lambda _: (
            "Record the trace again with shapes (`record_shapes=True`), so that bytes and efficiency can be "
            "worked out."
        ),
    ),
    Sentence(
        always,
        lambda s: (
            f"Profile {op_words(s.lead)} for the bytes it moves, and compare its time with a norm of "
            f"known efficiency at the same shape; {calls_of(s)} are the ones to look at."
        ),
    ),
)

IDENTIFICATION = (
    Sentence(always, lambda s: f"{grouped(s)} by op name: {backend(s)}, {_why(s)}."),
    Sentence(lambda s: bool(s.modules), where),
    Sentence(is_unverified, unverified),
    Sentence(
        always,
        lambda s: source(s, "operations[].efficiency.efficiency_percent", "operations[].percent_of_total"),
    ),
)


def _why(s: Subject) -> str:
    if _is_anomaly(s):
        return "measured above 110% of roofline"
    if _has_no_op(s):
        return "found by the kernel's name, with no op that tells its shapes"
    if _lacks_only_peak(s):
        return "no efficiency in the table, because the GPU's peak is not known"
    return "no efficiency in the table"


def _bandwidth(s: Subject) -> float | None:
    return s.call_bytes / (s.call_us * 1e6) if s.call_bytes and s.call_us else None


def _of_peak(s: Subject) -> str:
    """Return the share of the peak bandwidth, nothing where the peak is not known."""
    bandwidth, peak_tb_s = _bandwidth(s), s.metrics.hardware.peak_hbm_bw_tbs
    if not bandwidth or not peak_tb_s:
        return ""
    return f", {significant(bandwidth / peak_tb_s * 100)}% of the peak bandwidth of {peak_tb_s} TB/s"


REASONS = (
    Sentence(
        always,
        lambda s: f"The costliest signature, {lead_shape(s)}, runs as {calls_of(s)}.",
    ),
    Sentence(
        lambda s: _bandwidth(s) is not None,
        lambda s: (
            f"It moves {data_size(s.call_bytes or 0)} per call, which is "
            f"{significant(_bandwidth(s) or 0)} TB/s{_of_peak(s)}."
        ),
    ),
    Sentence(
        lambda s: has_main_kernel(s) and s.kernels_per_call > 1,
        lambda s: (
            f"Of its {number_word(s.kernels_per_call)} kernels {main_kernel(s)} holds "
            f"{significant(float(s.lead.main_kernel_percent or 0))}% of the time."
        ),
    ),
    Sentence(is_under_filled, idle),
    Sentence(_runs_from_cache, beyond_peak),
    Sentence(
        lambda s: _is_anomaly(s) and not _runs_from_cache(s),
        lambda _: (
            "More than the roofline means that the time is too short, the bytes are counted too high, "
            "the data stayed in a cache, or the peak is not this device's."
        ),
    ),
    Sentence(
        _lacks_only_peak,
        lambda _: "How far that is from the roofline can't be said without the peak.",
    ),
    Sentence(
        lambda s: not _is_anomaly(s) and _bandwidth(s) is None,
        lambda _: "Without bytes or FLOPs over time the trace can't say how far it is from its roofline.",
    ),
)

RESOLUTIONS = (
    Sentence(
        _runs_from_cache,
        lambda s: (
            f"Each call that is fused away saves a launch; this trace holds {counted(s.calls, 'such call')}."
        ),
    ),
    Sentence(
        lambda s: _is_anomaly(s) and not _runs_from_cache(s),
        lambda _: "Once time, bytes and peak agree, the finding turns into a measured one, or goes away.",
    ),
    Sentence(
        _lacks_only_peak,
        lambda _: "With the peak, the guess turns into a measured gap.",
    ),
    Sentence(
        lambda s: not _is_anomaly(s) and not _lacks_only_peak(s),
        lambda _: "A performance model for this op would replace the guess by a measured gap.",
    ),
    Sentence(
        lambda s: bool(s.saving_us),
        lambda s: f"The range assumes that 15 to 45% of its time can go, {saving(s)} of this trace.",
    ),
)

HEURISTIC = Prose(
    title=_title,
    insight=_insight,
    action=_action,
    identification=IDENTIFICATION,
    reasoning=REASONS,
    resolution=RESOLUTIONS,
    warning=_warning,
)
