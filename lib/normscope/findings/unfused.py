"""The sentences of an unfused norm: one that runs as a chain of small kernels."""

from normscope.findings.conditions import has_main_kernel, is_unverified, saves
from normscope.findings.limits import main_kernel
from normscope.findings.phrases import (
    Prose,
    Sentence,
    always,
    backend,
    grouped,
    of_gpu_time,
    saving,
    shapes_spend,
    source,
    start_with,
    the_costliest,
    unverified,
    what,
    what_capital,
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
)

_FUSED_CALLS = {
    "RMSNorm": "`torch.nn.functional.rms_norm` (`torch.nn.RMSNorm`)",
    "LayerNorm": "`torch.nn.functional.layer_norm` (`torch.nn.LayerNorm`)",
}


def _kernels(s: Subject) -> str:
    return plural(s.kernels_per_call, "kernel") if s.kernels_per_call else "many kernels"


def _excess(s: Subject) -> float | None:
    """Bytes that the chain moves ÷ bytes that one kernel would."""
    launched, needed = s.lead.bytes_launched_per_call, s.call_bytes
    return launched / needed if launched and needed else None


def _insight(s: Subject) -> str:
    excess = _excess(s)
    moving = f" that move {significant(excess)} times the bytes of a fused one" if excess else ""
    return f"{shapes_spend(s)}{of_gpu_time(s)} in chains of {_kernels(s)}{moving}."


def _action(s: Subject) -> str:
    fused = _FUSED_CALLS.get(s.main_variant or "")
    call = f"Replace the chain by one fused call, {fused}, or compile" if fused else "Compile"
    return f"{call} the module with `torch.compile`, which makes one kernel of it.{start_with(s)}"


def _moves(s: Subject) -> str:
    launched, needed = s.lead.bytes_launched_per_call or 0, s.call_bytes or 0
    return (
        f"The chain moves {data_size(launched)} per call, {significant(launched / needed)} times the "
        f"{data_size(needed)} that one fused kernel has to read and write."
    )


UNFUSED = Prose(
    title=lambda s: f"{what_capital(s)} unfused: {_kernels(s)} where one would do",
    insight=_insight,
    action=_action,
    identification=(
        Sentence(
            always,
            lambda s: (
                f"{grouped(s)}: a norm written out in small operations, {backend(s)}, held against the bytes "
                "of one fused kernel."
            ),
        ),
        Sentence(lambda s: bool(s.modules), where),
        Sentence(is_unverified, unverified),
        Sentence(
            always,
            lambda s: source(s, "operations[].kind", "operations[].bytes_launched_per_call"),
        ),
    ),
    reasoning=(
        Sentence(
            always,
            lambda s: (
                f"{the_costliest(s)} takes {duration(s.call_us)} per call in {_kernels(s)}, which hand their "
                "results on through memory."
            ),
        ),
        Sentence(lambda s: _excess(s) is not None, _moves),
        Sentence(
            has_main_kernel,
            lambda s: (
                f"The largest share of the time, {significant(float(s.lead.main_kernel_percent or 0))}%, "
                f"is in {main_kernel(s)}."
            ),
        ),
        Sentence(
            lambda s: _excess(s) is None,
            lambda _: "How many bytes the chain moves is not known without recorded shapes.",
        ),
    ),
    resolution=(
        Sentence(
            lambda s: s.call_at_peak_us is not None,
            lambda s: (
                f"One fused kernel moves {data_size(s.call_bytes or 0)}, which takes "
                f"{duration(s.call_at_peak_us or 0)} at peak instead of {duration(s.call_us)}."
            ),
        ),
        Sentence(
            lambda s: s.kernels_per_call > 1,
            lambda s: (
                f"{sentence_case(number_word(s.kernels_per_call - 1))} of {number_word(s.kernels_per_call)} "
                f"launches go away with every call of {what(s)}, "
                f"{counted((s.kernels_per_call - 1) * s.calls, 'launch', 'launches')} in this trace."
            ),
        ),
        Sentence(
            saves,
            lambda s: (
                "Closing 75 to 100% of the gap to one fused kernel at its roofline is worth "
                f"{saving(s)} of this trace."
            ),
        ),
    ),
)
