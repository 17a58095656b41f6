"""Parts of sentences that several sections share: names, ranges, limits."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from normscope.analysis.models import Direction, Operation
from normscope.analysis.upper_bound import fused_words
from normscope.escape import markdown, markdown_code, shorten
from normscope.findings.subject import Subject
from normscope.findings.wording import (
    counted,
    duration,
    listed,
    number_word,
    plural,
    sentence_case,
    shown,
    significant,
    span,
    verb,
)

LIMIT_NAMES = {"memory": "memory bandwidth", "compute": "peak compute"}
_MOST_VARIANTS = 3
_MOST_NAMES = 3
_NAME_WIDTH = 80
_CAPTURE_WIDTH = 320  # whole: the file comes first, and then how it was matched
_LEAST_SPEED = 0.01  # the metrics round speeds to two decimals


class Sentence(msgspec.Struct, frozen=True):
    """One sentence of the findings: when it is true, and how it reads."""

    when: Callable[[Subject], bool]
    say: Callable[[Subject], str]


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """How the findings of one kind are told: short parts as functions, paragraphs as rows of sentences."""

    title: Callable[[Subject], str]
    insight: Callable[[Subject], str]
    action: Callable[[Subject], str]
    identification: tuple[Sentence, ...]
    reasoning: tuple[Sentence, ...]
    resolution: tuple[Sentence, ...]
    warning: Callable[[Subject], str] | None = None


def paragraph(sentences: tuple[Sentence, ...], subject: Subject) -> str:
    """Return the sentences that hold for ``subject``, in their order."""
    return " ".join(s.say(subject) for s in sentences if s.when(subject))


def first(sentences: tuple[Sentence, ...], subject: Subject) -> str:
    """Return the first sentence that holds for ``subject``."""
    return next(s.say(subject) for s in sentences if s.when(subject))


def always(_subject: Subject) -> bool:
    """Hold for every subject."""
    return True


def what(subject: Subject) -> str:
    """Return what the finding is about, such as ``BatchNorm backward``."""
    named = [v for v in subject.variants if v != "Other"]
    if len(named) != len(subject.variants) or len(named) > _MOST_VARIANTS:
        return "normalization" + direction_word(subject.direction)
    return listed(named) + direction_word(subject.direction)


def direction_word(direction: Direction) -> str:
    """Return the direction with a space before it, or nothing where it is not known."""
    return "" if direction == "unknown" else f" {direction}"


def what_capital(subject: Subject) -> str:
    """Return :func:`what` as the start of a sentence."""
    return sentence_case(what(subject))


def op_names(operations: tuple[Operation, ...]) -> str:
    """Return the op names of ``operations`` as code, the most frequent first, at most a few."""
    names = dict.fromkeys(op_words(op) for op in operations)
    return listed(shown(list(names), _MOST_NAMES))


def op_words(operation: Operation) -> str:
    """Return an op's name as code, and what it does beside the norm, such as ``with residual add``."""
    words = fused_words(operation)
    return f"{op_name(operation.name)} {markdown(words)}" if words else op_name(operation.name)


def op_name(name: str) -> str:
    """Return one op name as code, or a word for an empty one."""
    return markdown_code(shorten(name, _NAME_WIDTH)) if name else "an op without a name"


def shape_word(subject: Subject) -> str:
    """Return what the operations differ in: shapes where these were recorded, else just signatures.

    Compiled kernels of one shape differ in what is fused into them.
    """
    return "shape" if subject.has_shapes and subject.finding.kind != "compiled" else "signature"


def shapes_of(subject: Subject) -> str:
    """Return how many shapes, and signatures where these are more: ``Five … shapes (nine signatures)``."""
    shapes, signatures = len(subject.shapes), len(subject.operations)
    more = f" ({plural(signatures, 'signature')})" if signatures != shapes else ""
    return sentence_case(plural(shapes, f"{what(subject)} {shape_word(subject)}")) + more


def shapes_spend(subject: Subject) -> str:
    """Return who spends how much time, such as ``Five BatchNorm backward shapes spend 2.95 ms``."""
    return f"{shapes_of(subject)} {verb(len(subject.shapes), 'spend')} {duration(subject.time_us)}"


def of_gpu_time(subject: Subject) -> str:
    """Return the share of end-to-end time between commas, or nothing where it is not known."""
    if not subject.share_percent:
        return ""
    return f", {significant(subject.share_percent)}% of end-to-end GPU time,"


def efficiency_span(subject: Subject) -> str:
    """Return the efficiencies as one range, such as ``2.3–4.9%``."""
    return span(subject.efficiencies[0], subject.efficiencies[-1], "%")


def achieved(subject: Subject) -> str:
    """Return the speed reached against the limit, in the units of the limit."""
    speeds, peak, unit = {
        "memory": (subject.bandwidths_tb_s, subject.metrics.hardware.peak_hbm_bw_tbs, " TB/s"),
        "compute": (subject.tflops, subject.lead.efficiency.resolved_peak_maf, " TFLOPS"),
    }.get(subject.finding.bound_type, ((), None, ""))
    if speeds and peak and speeds[0] < _LEAST_SPEED <= speeds[-1]:
        return f"at up to {significant(speeds[-1])}{unit} of a possible {significant(float(peak), 3)}"
    if speeds and peak and speeds[-1] >= _LEAST_SPEED:
        return f"at {span(speeds[0], speeds[-1], unit)} of a possible {significant(float(peak), 3)}"
    return f"at {efficiency_span(subject)} of {limit(subject)}"


def limit(subject: Subject) -> str:
    """Return the name of the limit that the efficiency refers to."""
    return LIMIT_NAMES.get(subject.finding.bound_type, "roofline")


def backend(subject: Subject) -> str:
    """Return the backend of a finding in words, or that the trace doesn't tell it."""
    library = subject.finding.library
    if library != "Unknown":
        return "PyTorch's native backend" if library == "PyTorch Native" else f"{library} backend"
    known = [op.norm_library for op in subject.operations if op.found_by != "eager"]
    named = list(dict.fromkeys(markdown(shorten(name, _NAME_WIDTH)) for name in known if name is not UNSET))
    if not named or UNSET in known:
        return "backend not told by the trace"
    return f"{listed(shown(named, _MOST_NAMES))} backend"


def lead_shape(subject: Subject) -> str:
    """Return the costliest shape, such as ``(10,64,112,112) bf16``, or its op where no shape was recorded."""
    if subject.tensor is None:
        return op_words(subject.lead)
    return markdown(f"{subject.tensor.shape} {subject.tensor.dtype}")


def the_costliest(subject: Subject) -> str:
    """Return the costliest shape as the start of a sentence, with the comma that ends an apposition."""
    which = "costliest" if len(subject.shapes) > 1 else "only"
    word = "shape" if subject.tensor is not None else "signature"
    return f"The {which} {word}, {lead_shape(subject)},"


def start_with(subject: Subject) -> str:
    """Return where to start, for a finding of several shapes, else nothing."""
    if len(subject.shapes) == 1:
        return ""
    if len(subject.shapes) == 2:
        percent = subject.shapes[0].time_us * 100 / subject.time_us
        whose = f"{subject.lead.variant} at " if len(subject.variants) > 1 else ""
        return f" Start with {whose}{lead_shape(subject)}: it holds {significant(percent)}% of the time."
    return (
        f" Start with the {number_word(subject.lead_count)} costliest {shape_word(subject)}s: "
        f"they hold {significant(subject.lead_percent)}% of the time."
    )


def grouped(subject: Subject) -> str:
    """Return which operations were grouped, by name and variant, and which captures their shapes are from."""
    count = len(subject.operations)
    verb = "was" if count == 1 else "were"
    variants = [v if v != "Other" else "variant not named" for v in subject.variants]
    return (
        f"{sentence_case(plural(count, 'signature'))} of {op_names(subject.operations)} "
        f"({listed(variants)}) {verb} grouped{_captured(subject)}"
    )


def _captured(subject: Subject) -> str:
    captures = dict.fromkeys(op.shapes_from for op in subject.operations if op.shapes_from is not UNSET)
    if not captures:
        return ""
    names = [markdown_code(shorten(name, _CAPTURE_WIDTH)) for name in captures]
    word = "capture" if len(names) == 1 else "captures"
    return f", with shapes from the {word} {listed(shown(names, _MOST_NAMES))}"


def mixed_variants(subject: Subject) -> str:
    """Return each variant's number of shapes, share of time and efficiencies."""
    parts = []
    for variant in subject.variants:
        own = [op for op in subject.operations if op.variant == variant]
        shapes = [shape for shape in subject.shapes if shape.lead.variant == variant]
        percents = sorted(op.efficiency.efficiency_percent or 0.0 for op in own)
        share = sum(op.time_ms for op in own) * 1e5 / subject.time_us
        name = "no variant named" if variant == "Other" else variant
        parts.append(
            f"{name} ({plural(len(shapes), shape_word(subject))}, {significant(share)}% of the time, "
            f"{span(percents[0], percents[-1], '%')})"
        )
    return f"The variants are {listed(parts)}"


def where(subject: Subject) -> str:
    """Return the modules that the call stacks name."""
    modules = [markdown_code(shorten(m, _NAME_WIDTH)) for m in subject.modules]
    return f"The call stacks name {listed(shown(modules, _MOST_NAMES))}."


def source(subject: Subject, *keys: str) -> str:
    """Return the closing note of an identification: the file and the keys behind it."""
    place = f"`category_findings[{subject.finding.rank - 1}].members[]`"
    listed_keys = ", ".join([place, *(f"`{key}`" for key in keys)])
    return f"(source: `{subject.metrics.category}_metrics.json` → {listed_keys})"


def call_time(subject: Subject) -> str:
    """Return how long a call of the costliest shape takes, marked where that holds other work, too."""
    return duration(subject.call_us) + (" (upper bound)" if subject.lead.is_upper_bound else "")


def unverified(subject: Subject) -> str:
    """Return that rows of the catalog which nobody has checked found some of the operations."""
    count = sum(op.evidence == "unverified" for op in subject.operations)
    many = f"{sentence_case(number_word(count))} of them {'was' if count == 1 else 'were'}"
    which = "It was" if len(subject.operations) == 1 else many
    return f"{which} found by names that were never checked against a trace or source."


def calls_of(subject: Subject) -> str:
    """Return how often and how long the costliest shape runs."""
    return f"{counted(subject.shapes[0].calls, 'call')} of {duration(subject.call_us)}"


def fusion_analysis(subject: Subject) -> str:
    """Return what names fusible chains; *the* analysis only where this run has one."""
    is_known = any(op.fusion_flagged is not UNSET for op in subject.metrics.operations)
    return f"{'the' if is_known else 'a'} kernel fusion analysis"


def saving(subject: Subject) -> str:
    """Return what the estimate is worth in time."""
    if subject.saving_us is None:
        return ""
    low, high = map(duration, subject.saving_us)
    if low == high:
        return high
    (low_value, low_unit), (_, high_unit) = low.split(" "), high.split(" ")
    return f"{low_value if low_unit == high_unit else low} to {high}"
