"""Labels of pairs: short, no two alike."""

from collections import Counter
from collections.abc import Sequence

from normscope.compare.differences import Difference, first_argument
from normscope.compare.models import CallGroup
from normscope.figures.labels import name_label, number_duplicates

_DETAIL_WIDTH = 30
_HALF_NAME = 18
_MODULE_WIDTH = 16
_NAME_BESIDE_MODULE = 20


def pair_labels(differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return two lines for each pair: the op, or both where they differ; the first argument and direction.

    Pairs that would read alike are told apart by their innermost module, and then by a running number.
    """
    details = [_detail(each.lead) for each in differences]
    plain = [f"{detail}\n{_name(each)}" for each, detail in zip(differences, details, strict=True)]
    times = Counter(plain)
    told = [
        f"{detail}\n{_name_and_module(each.lead)}" if times[text] > 1 and each.lead.module else text
        for each, detail, text in zip(differences, details, plain, strict=True)
    ]
    # The detail goes first so that the running number lands at the end of the name.
    return tuple(_turned(text) for text in number_duplicates(told))


def _turned(text: str) -> str:
    detail, _, label = text.partition("\n")
    return f"{label}\n{detail}"


def _name(difference: Difference) -> str:
    old, new = difference.lead.name, difference.partner.name
    if old == new:
        return name_label(old)
    return f"{name_label(old, _HALF_NAME)} | {name_label(new, _HALF_NAME)}"


def _name_and_module(group: CallGroup) -> str:
    module = group.module.rpartition(" > ")[2]
    return f"{name_label(group.name, _NAME_BESIDE_MODULE)} in {name_label(module, _MODULE_WIDTH)}"


def _detail(group: CallGroup) -> str:
    direction = "direction unknown" if group.direction == "unknown" else group.direction
    argument = first_argument(group)
    return f"{name_label(argument, _DETAIL_WIDTH)} · {direction}" if argument else direction


def pair_cells(label: str, difference: Difference) -> tuple[str | None, ...]:
    """Return the cells that tell a pair in the data of a figure, in full: those of ``PAIR_HEADER``."""
    old, new = difference.lead, difference.partner
    return (
        label.replace("\n", " · "),
        old.name,
        new.name,
        old.arguments,
        old.module or None,
        old.variant,
        old.direction,
    )


PAIR_HEADER = (
    "label",
    "operation in trace 1",
    "operation in trace 2",
    "arguments in trace 1",
    "module in trace 1",
    "variant",
    "direction",
)
