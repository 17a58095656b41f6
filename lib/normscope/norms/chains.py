"""The chains of small ops in a trace that are norms.

A chain's ops run on one thread, in order, with the same op around them and in the same call of a module. What
stands between them, and chains of other threads, doesn't matter: an op belongs to a chain by what it reads.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from normscope.norms.arguments import Tensor
from normscope.norms.chain_forms import ANCHORS, CAST, OF_PARAMETER, Form, Frame, form_of_names, matches
from normscope.norms.chain_ops import REDUCTIONS, SMALL, SmallOp, SmallOps, bare_name
from normscope.trace.link import LinkedTrace
from normscope.trace.nesting import NONE, Track

# Ops that launch kernels, before and after the one that a chain is recognized by.
_BEFORE, _AFTER = 8, 32
_MODULE = re.compile(r"nn\.Module: (?P<name>.*?)(_\d+)?", re.DOTALL)
# "Norm" as a word of its own in snake case or camel case ("RMSNorm", "WanRMS_norm", "norm1"), or after the
# kind of a norm ("T5Layernorm"); not a part of a longer word ("Normalize", "BatchNormalizedAttention").
_NORM_WORD = re.compile(
    r"(?i:(?:rms|layer|group|batch|instance|l2)_?norm(?:ali[sz]ation)?)s?(?![a-z])"
    r"|(?:N|(?<![A-Za-z])n)orms?(?![a-z])|(?<![A-Z])NORM(?![A-Za-z])"
)
# Norms of parameters and gradients are no layers.
_NO_LAYER = re.compile(r"(?i)(?:weight|spectral|grad)_?norm")

Place = int | Track
"""The op around, or the thread where there is none."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """One op of a chain.

    Attributes
    ----------
    op
        The op that launches the kernels.
    outer
        The op around it, or itself, that stands beside the others of the chain.
    letter
        Its step in the form, empty where no shapes are recorded.
    small
        What it reads and makes.
    """

    op: int
    outer: int
    letter: str = ""
    small: SmallOp | None = None


class Chain(msgspec.Struct, frozen=True, gc=False):
    """A norm written out in Python.

    Attributes
    ----------
    form
        The form that it fits.
    steps
        Its ops in order.
    module
        Class of the module that it is in, if that is called a norm.
    axis
        The axis that is normalized.
    x, y, weight, bias
        What the norm reads and makes; x and y are None where no shapes are recorded.
    """

    form: Form
    steps: tuple[Step, ...]
    module: str | None = None
    axis: int = NONE
    x: Tensor | None = None
    y: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None


def find_chains(linked: LinkedTrace, launching: Sequence[int]) -> list[Chain]:
    """Return the norms among the ops that launch kernels themselves."""
    ops = linked.trace.cpu_ops
    anchors = [op for op in launching if ops[op].name in ANCHORS]
    return _Search(linked, launching, anchors).chains() if anchors else []


class _Search:
    """The search through one trace."""

    def __init__(self, linked: LinkedTrace, launching: Sequence[int], anchors: Sequence[int]) -> None:
        self.linked = linked
        self.ops = linked.trace.cpu_ops
        self.anchors = sorted(anchors, key=lambda op: self.ops[op].ts_us)
        self.outer_of = _outer_ops(linked, launching, anchors)
        self.lines = self._lines()
        wanted = set(anchors)
        self.position = {op: i for line in self.lines.values() for i, op in enumerate(line) if op in wanted}
        self.modules: dict[int, int] = {}
        self.composite = self._composite()
        self.small_ops = SmallOps()
        self.read: dict[int, SmallOp | None] = {}
        self.letters: dict[tuple[Frame, SmallOp | None], str] = {}
        self.taken: set[int] = set()

    def chains(self) -> list[Chain]:
        """Return the chains; where two alternate, the second pass finds the one that the other one hid."""
        found = [*self._pass(self.anchors)]
        hidden = [op for op in self.anchors if any(near in self.taken for near in self._window(op))]
        return [*found, *self._pass(hidden)]

    def _pass(self, anchors: Sequence[int]) -> Iterator[Chain]:
        for anchor in anchors:
            chain = None if anchor in self.taken else self._chain_around(anchor)
            if chain is not None:
                self.taken.update(step.op for step in chain.steps)
                yield chain

    def _composite(self) -> Set[int]:
        """Return the ops around several launching ones, but for those that cast and then call themselves."""
        counts = Counter(self.outer_of.values())
        return {op for op, count in counts.items() if count > 1 and bare_name(self.ops[op].name) not in SMALL}

    def _lines(self) -> Mapping[Place, list[int]]:
        """Return the launching ops that stand beside an anchor, by place and in the order of time."""
        lines: dict[Place, list[int]] = defaultdict(list)
        for op, outer in self.outer_of.items():
            lines[self._place(outer)].append(op)
        for line in lines.values():
            line.sort(key=lambda op: self.ops[op].ts_us)
        return lines

    def _place(self, outer: int) -> Place:
        parent = self.linked.parent_of[outer]
        return parent if parent != NONE else (self.ops[outer].pid, self.ops[outer].tid)

    def _chain_around(self, anchor: int) -> Chain | None:
        module = self._module(anchor)
        name = _norm_class(self.linked, module)
        nearby = list(self._nearby(anchor, module))
        small = self._small(anchor)
        if small is None:
            return self._chain_of_names(anchor, nearby, name)
        x = small.inputs[0]
        if x is None or small.axis is None or len(x.shape) < 2 or x.shape[small.axis] < 2:
            return None
        frame = Frame(x.shape, small.axis, name is not None)
        steps = [self._step(op, frame) for op in nearby]
        letters = "".join(step.letter for step in steps)
        for form, places in matches(letters, nearby.index(anchor), in_norm_module=frame.in_norm_module):
            chain = _chain(form, [steps[i] for i in places], frame, name)
            if chain is not None:
                return chain
        return None

    def _chain_of_names(self, anchor: int, nearby: list[int], name: str | None) -> Chain | None:
        if name is None or self.ops[anchor].args().dims is not None:
            return None
        if any(self.outer_of[op] in self.composite for op in nearby):
            return None
        form = form_of_names([self.ops[op].name for op in nearby])
        return Chain(form, tuple(Step(op, self.outer_of[op]) for op in nearby), name) if form else None

    def _step(self, op: int, frame: Frame) -> Step:
        outer = self.outer_of[op]
        small = None if outer in self.composite else self._small(op)
        if (frame, small) not in self.letters:
            self.letters[frame, small] = frame.letter(small)
        return Step(op, outer, self.letters[frame, small], small)

    def _nearby(self, anchor: int, module: int) -> Iterator[int]:
        """Yield the launching ops around ``anchor`` that the same call of a module made."""
        for op in self._window(anchor):
            if op not in self.taken and self._module(op) == module:
                yield op

    def _window(self, anchor: int) -> list[int]:
        line, here = self.lines[self._place(self.outer_of[anchor])], self.position[anchor]
        return line[max(0, here - _BEFORE) : here + _AFTER]

    def _small(self, op: int) -> SmallOp | None:
        if op not in self.read:
            self.read[op] = self.small_ops.read(self.ops[op])
        return self.read[op]

    def _module(self, op: int) -> int:
        if op not in self.modules:
            self.modules[op] = _module_around(self.linked, self.outer_of[op])
        return self.modules[op]


def _outer_ops(linked: LinkedTrace, launching: Sequence[int], anchors: Sequence[int]) -> dict[int, int]:
    """Return, per launching op, the op around it or itself that stands beside an anchor."""
    parent_of, ops = linked.parent_of, linked.trace.cpu_ops
    around = set()
    for anchor in anchors:
        op = anchor
        while parent_of[op] != NONE and bare_name(ops[parent_of[op]].name) in REDUCTIONS:
            op = parent_of[op]
        around.add(parent_of[op])
    outer_of = {}
    for op in launching:
        outer = op
        while outer != NONE and parent_of[outer] not in around:
            outer = parent_of[outer]
        if outer != NONE:
            outer_of[op] = outer
    return outer_of


def _module_around(linked: LinkedTrace, op: int) -> int:
    """Return the innermost module call around an op, -1 where there is none."""
    here = linked.trace.cpu_ops[op]
    track = linked.module_tracks.get((here.pid, here.tid))
    if track is None:
        return NONE
    place = bisect_right(track.starts_us, here.ts_us) - 1
    module = track.spans[place] if place >= 0 else NONE
    while module != NONE and linked.trace.modules[module].end_us < here.ts_us:
        module = linked.module_parent_of[module]
    return module


def _norm_class(linked: LinkedTrace, module: int) -> str | None:
    """Return the class of a module that is called a norm, None for others."""
    match = _MODULE.fullmatch(linked.trace.modules[module].name) if module != NONE else None
    return match["name"] if match and is_norm_class(match["name"]) else None


def is_norm_class(name: str) -> bool:
    """Tell whether a class of modules is called a norm.

    Examples
    --------
    >>> is_norm_class("Qwen2RMSNorm"), is_norm_class("BatchNormalizedAttention")
    (True, False)
    """
    return _NORM_WORD.search(name) is not None and _NO_LAYER.search(name) is None


def _chain(form: Form, steps: list[Step], frame: Frame, module: str | None) -> Chain | None:
    """Return the chain of ``steps``, None where what they read doesn't fit or it is no norm."""
    x = _first_wide(steps, frame)
    if not frame.in_norm_module:
        if steps[0].letter == CAST and not _widens(steps[0]):
            return None
        if steps[-1].letter == CAST and _made(steps[-1]).dtype != x.dtype:
            steps = steps[:-1]
    weight, bias = _parameters(steps, frame)
    is_plain = form.is_norm_as_such and frame.axis == len(frame.wide) - 1
    if not (frame.in_norm_module or weight or is_plain) or not _flows(steps, frame, x):
        return None
    return Chain(form, tuple(steps), module, frame.axis, x, _made(steps[-1]), weight, bias)


def _first_wide(steps: list[Step], frame: Frame) -> Tensor:
    return next(t for step in steps for t in _tensors(step) if t.shape == frame.wide)


def _flows(steps: list[Step], frame: Frame, x: Tensor) -> bool:
    """Tell whether each step reads x, or what an earlier one made, in its type."""
    known = {(x.shape, x.dtype)}
    for step in steps:
        for tensor in _tensors(step):
            is_parameter = tensor.shape not in (frame.wide, frame.narrow)
            if not is_parameter and (tensor.shape, tensor.dtype) not in known:
                return False
        made = _made(step)
        known.add((made.shape, made.dtype))
    return True


def _parameters(steps: list[Step], frame: Frame) -> tuple[Tensor | None, Tensor | None]:
    """Return weight and bias as they are stored, before their casts."""
    stored: list[tuple[Tensor, Tensor]] = []  # what a step made of a parameter, and that parameter
    found: dict[str, Tensor] = {}
    for step in steps:
        for tensor in _tensors(step):
            if tensor.shape in (frame.wide, frame.narrow):
                continue
            entry = next((each for each in stored if each[0] == tensor), (tensor, tensor))
            if entry in stored:
                stored.remove(entry)
            if step.letter == OF_PARAMETER:
                stored.append((_made(step), entry[1]))
            else:
                found.setdefault(step.letter, entry[1])
    return found.get("w"), found.get("b")


def _tensors(step: Step) -> Iterator[Tensor]:
    return (tensor for tensor in step.small.inputs if tensor is not None) if step.small else iter(())


def _made(step: Step) -> Tensor:
    assert step.small is not None  # noqa: S101 - a step of a form has been read
    return step.small.output


def _widens(step: Step) -> bool:
    return all(tensor.element_bytes < _made(step).element_bytes for tensor in _tensors(step))
