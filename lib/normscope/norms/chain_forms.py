"""The forms in which a norm is written out as a chain of small ops, as patterns over its steps.

Seen from the tensor that is normalized, an op of a chain is one of a few steps, each with a letter. What it
reads decides which one: ``W`` is a tensor as wide as that one, ``R`` one that is reduced to size 1 along the
normalized axis, ``P`` a parameter along that axis, ``#`` a number. A form is a regular expression over the
letters; it has no repetition inside a repetition, so that matching never takes long.

A new way to write a norm is a new entry in ``FORMS``, at times with a new step in ``STEPS``.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

import msgspec

from normscope.norms.arguments import Tensor
from normscope.norms.chain_ops import SmallOp, bare_name

CAST, OF_PARAMETER, OF_NARROW, OTHER = "c", "k", "o", "."

STEPS: Mapping[str, Mapping[str, str]] = {
    "copy": {"W": CAST, "P": OF_PARAMETER, "R": OF_NARROW},
    "pow": {"W^2": "q", "R^-0.5": "r", "R^0.5": "s"},
    "square": {"W": "q"},
    "mul": {"WW": "q", "WR": "n", "RW": "n", "WP": "w", "PW": "w", "W#": "g", "R#": "z"},
    "div": {"WR": "d", "R#": "z"},
    "add": {"R#": "e", "WP": "b", "PW": "b", "W#": "a", "P#": OF_PARAMETER},
    "sub": {"WR": "u"},
    "clamp_min": {"R": "h"},
    "clamp": {"R": "h"},
    "rsqrt": {"R": "r"},
    "sqrt": {"R": "s"},
    "reciprocal": {"R": "i"},
    "mean": {"W": "m"},
    "var": {"W": "v"},
    "std": {"W": "t"},
    "var_mean": {"W": "y"},
    "linalg_vector_norm": {"W": "l"},
    "norm": {"W": "l"},
}
"""Per op and what it reads, the step that it is.

c cast, k cast of a parameter or 1 + it, o cast of the narrow tensor, q square, m mean, v variance,
t deviation, y variance and mean, l length, z narrow tensor times a number, e plus epsilon, h at least
epsilon, r reciprocal root, s root, i reciprocal, u minus the mean, n times and d divided by the narrow
tensor, g times a number, w times the weight, b plus the bias, a plus a number.
"""
ANCHORS = frozenset(f"aten::{name}" for name, steps in STEPS.items() if set(steps.values()) & set("mvtyl"))
"""Ops that every form has one of: they reduce the tensor that is normalized along the normalized axis."""

_NORMALIZE = "([eh]rn|[eh]sd|[eh]siz?n|s[eh]d)"
_AFFINE = "c?w?c?b?c?"
_TOKEN = re.compile(r"(\[[a-z]+\]|[a-z])(\??)|\(")
_AS_THEY_ARE = {letter: letter for steps in STEPS.values() for letter in steps.values()}
_NAME_LETTERS = {name: chr(ord("A") + place) for place, name in enumerate(STEPS)}
_BY_NAME = {
    letter: "".join(_NAME_LETTERS[name] for name, steps in STEPS.items() if letter in steps.values())
    for letter in _AS_THEY_ARE
}


class Form(msgspec.Struct, frozen=True, dict=True):
    """One way to write a norm.

    Attributes
    ----------
    name
        The norm: ``layer_norm``. The catalog's row is named after it.
    core
        The steps up to the normalized tensor; other ops may stand between them.
    tail
        The steps after it, all optional; nothing but casts of parameters may stand between them.
    floating
        Steps that may stand anywhere in the core, because they can be done again.
    needs
        Steps of which each has to be there.
    is_norm_as_such
        The core alone is a norm. Others are one only with a weight or in a module that is called so: what is
        divided by its length or its deviation may be any feature.
    """

    name: str
    core: str
    tail: str = _AFFINE
    floating: str = ""
    needs: str = ""
    is_norm_as_such: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The form over the letters of steps."""
        return self._compiled(_AS_THEY_ARE, OTHER)

    @cached_property
    def pattern_of_names(self) -> re.Pattern[str]:
        """The form over letters of op names, for ops without recorded shapes."""
        return self._compiled(_BY_NAME, "")

    def _compiled(self, alphabet: Mapping[str, str], others: str) -> re.Pattern[str]:
        parameters = f"[{alphabet[OF_PARAMETER]}]*"
        between = "".join(alphabet[step] for step in (OF_PARAMETER, OF_NARROW, *self.floating))
        core = _spelled(self.core, alphabet, f"[{others}{between}]*")
        return re.compile(parameters + core + _spelled(self.tail, alphabet, parameters))


FORMS = (
    Form("layer_norm", "c?muc?qm" + _NORMALIZE, floating="u"),
    Form("layer_norm", "c?(mv|vm|y)" + _NORMALIZE, floating="u", needs="u"),
    Form("layer_norm", "c?(mw?t|tm)w?[eh]d", floating="u", needs="u"),
    Form("rms_norm", "c?qm" + _NORMALIZE, is_norm_as_such=True),
    Form("rms_norm", "c?lz[eh]?d", is_norm_as_such=True),
    Form("l2_norm", "c?l[eh]?d", tail="g?w?g?c?b?a?c?"),
)
"""All forms; where two fit, the first one counts."""


class Frame(msgspec.Struct, frozen=True):
    """The tensor that a chain normalizes, and along which axis."""

    wide: tuple[int, ...]
    axis: int
    in_norm_module: bool
    """Whether a module with the word in its name holds the chain; there a parameter may have more axes."""

    @property
    def narrow(self) -> tuple[int, ...]:
        """Shape of a statistic."""
        return (*self.wide[: self.axis], 1, *self.wide[self.axis + 1 :])

    def letter(self, op: SmallOp | None) -> str:
        """Return which step an op is."""
        if op is None or (op.axis is not None and op.axis != self.axis):
            return OTHER
        reads = "".join(map(self._kind, op.inputs))
        if op.name == "pow" and op.number is not None:
            reads += f"^{op.number:g}"
        return OTHER if op.is_plain_copy else STEPS.get(op.name, {}).get(reads, OTHER)

    def is_parameter(self, shape: tuple[int, ...]) -> bool:
        """Tell whether a tensor of that shape varies along the normalized axis, and not along the first."""
        missing = len(self.wide) - len(shape)
        if missing < 0:
            return False
        padded = (1,) * missing + shape
        varies = [axis for axis, size in enumerate(padded) if size != 1]
        fits = all(padded[axis] == self.wide[axis] for axis in varies) and self.axis in varies
        return fits and (varies == [self.axis] or (self.in_norm_module and 0 not in varies))

    def _kind(self, tensor: Tensor | None) -> str:
        if tensor is None:
            return "#"
        if tensor.shape == self.wide:
            return "W"
        if tensor.shape == self.narrow:
            return "R"
        return "P" if self.is_parameter(tensor.shape) else "?"


Match = tuple[Form, tuple[int, ...]]
"""A form that fits, and the places of its steps."""


@lru_cache(maxsize=4096)
def matches(letters: str, anchor: int, *, in_norm_module: bool) -> tuple[Match, ...]:
    """Return the forms that fit steps around the one at ``anchor``, those to prefer first."""
    return tuple(_matches(letters, anchor, in_norm_module=in_norm_module))


def _matches(letters: str, anchor: int, *, in_norm_module: bool) -> Iterator[Match]:
    skipped = OTHER + OF_NARROW + ("" if in_norm_module else OF_PARAMETER)
    for form in FORMS:
        for start in range(anchor + 1):
            match = None if letters[start] in skipped else form.pattern.match(letters, start)
            if match and match.end() > anchor and set(form.needs) <= set(match[0]):
                yield form, tuple(i for i in range(start, match.end()) if letters[i] != OTHER)


def form_of_names(names: list[str]) -> Form | None:
    """Return the form that the names of all ops of a module fit as a whole, None where none does."""
    letters = "".join(_NAME_LETTERS.get(bare_name(name), OTHER) for name in names)
    for form in FORMS:
        has_needed = all(set(_BY_NAME[step]) & set(letters) for step in form.needs)
        if has_needed and form.pattern_of_names.fullmatch(letters):
            return form
    return None


def _spelled(steps: str, alphabet: Mapping[str, str], gap: str) -> str:
    """Return a regular expression for ``steps`` with ``gap`` before each."""

    def spell(token: re.Match[str]) -> str:
        if token[1] is None:
            return "(?:"
        letters = "".join(alphabet[step] for step in token[1].strip("[]"))
        return f"(?:{gap}[{letters}]){token[2]}"

    return _TOKEN.sub(spell, steps)
