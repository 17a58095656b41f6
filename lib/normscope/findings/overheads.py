"""The work around the norms in words: what was counted, and what to do where it matters."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from normscope.analysis.impact import MIN_FINDING
from normscope.findings.wording import counted, duration, significant
from normscope.norms.overheads import Overhead, OverheadKind


class OverheadNote(msgspec.Struct, frozen=True):
    """One kind of work around the norms, said to a reader.

    Attributes
    ----------
    overhead
        What was counted.
    title
        What it is.
    explanation
        How many times and why it runs.
    advice
        What to do.
    share_percent
        Of end-to-end GPU time; None where that is not known.
    matters
        It takes as much of end-to-end time as a finding must have for its score, or more.
    """

    overhead: Overhead
    title: str
    explanation: str
    advice: str
    share_percent: float | None
    matters: bool


class _Words(msgspec.Struct, frozen=True):
    """What is said about one kind."""

    title: str
    explain: Callable[[Overhead], str]
    advice: str


def _copies(overhead: Overhead) -> str:
    return counted(overhead.event_count, "copy", "copies")


_WORDS: Mapping[OverheadKind, _Words] = {
    "recomputed": _Words(
        "Forward norms that ran twice",
        lambda o: (
            f"{counted(o.call_count, 'forward norm')} ran again in the backward pass, as activation "
            "checkpointing does."
        ),
        "Let checkpointing keep what norms produce and recompute the rest, with a selective policy "
        "(`torch.utils.checkpoint.create_selective_checkpoint_contexts`), where memory allows.",
    ),
    "counter": _Words(
        "Counters of batch norm",
        lambda o: (
            f"{counted(o.event_count, 'launch', 'launches')} that add 1 to `num_batches_tracked`, "
            "one for each call in training."
        ),
        "With a fixed momentum the counter is not used: set `num_batches_tracked = None` on these modules.",
    ),
    "repeated parameters": _Words(
        "Parameters repeated by instance norm",
        lambda o: (
            f"{_copies(o)} in {counted(o.call_count, 'call')} of instance norm, "
            "which repeats weight, bias and running statistics for every sample."
        ),
        "Use `torch.nn.GroupNorm` with one group per channel: without running statistics it computes the "
        "same values and repeats nothing.",
    ),
    "contiguous copy": _Words(
        "Copies of inputs that aren't contiguous",
        lambda o: (
            f"{_copies(o)} in {counted(o.call_count, 'norm call')}, because the kernel takes only contiguous "
            "tensors."
        ),
        "Let the operation before the norm write the layout that the norm reads, by dropping or moving the "
        "transpose between them.",
    ),
    "cast": _Words(
        "Casts of inputs",
        lambda o: (
            f"{counted(o.event_count, 'cast')} in {counted(o.call_count, 'norm call')}, as autocast makes "
            "for norms, which it runs in fp32."
        ),
        "The kernels compute in fp32 whatever the input's type: call the norm with autocast off for it "
        "(`torch.autocast(..., enabled=False)`) and parameters of the input's type, or compile the model, "
        "which fuses the casts.",
    ),
    "prepared tensor": _Words(
        "Copies that prepare a norm's input",
        lambda o: f"{_copies(o)} in operations that only reshape for a norm.",
        "Normalize in place or in a kernel that takes strided heads, so that no copy is needed.",
    ),
    "other helper": _Words(
        "Other work inside norm operations",
        lambda o: (
            f"{counted(o.event_count, 'kernel or memset', 'kernels and memsets')} in "
            f"{counted(o.call_count, 'norm call')} that fill or move tensors."
        ),
        "Look at the call's kernels in the table of operations: what they fill or move may be prepared once.",
    ),
}


def overhead_notes(found: Iterable[Overhead], end_to_end_ms: float | None) -> list[OverheadNote]:
    """Return what there is to say about the work around the norms, in the order given.

    Parameters
    ----------
    found
        What was counted, times in µs.
    end_to_end_ms
        End-to-end GPU time in ms, None or 0 where it is not known.
    """
    return [_note(overhead, end_to_end_ms) for overhead in found]


def _note(overhead: Overhead, end_to_end_ms: float | None) -> OverheadNote:
    words = _WORDS[overhead.kind]
    share = overhead.time_us / end_to_end_ms / 10 if end_to_end_ms else None
    return OverheadNote(
        overhead=overhead,
        title=words.title,
        explanation=words.explain(overhead),
        advice=words.advice,
        share_percent=share,
        matters=share is not None and share >= MIN_FINDING,
    )


def overheads_markdown(notes: Sequence[OverheadNote]) -> str:
    """Return the section of the findings on work around the norms, with advice where it matters."""
    if not notes:
        return ""
    intro = f"Advice stands where a line takes {MIN_FINDING}% of end-to-end GPU time or more."
    return "\n".join(["## Work around the norms", "", intro, "", *map(_line, notes)])


def _line(note: OverheadNote) -> str:
    share = "" if note.share_percent is None else f", {significant(note.share_percent)}% of end-to-end time"
    advice = f" **Advice**: {note.advice}" if note.matters else ""
    return f"- **{note.title}** ({duration(note.overhead.time_us)}{share}): {note.explanation}{advice}"
