"""The small ops of a chain as the trace records them: what each reads and what it makes.

Nothing in a trace says which tensor an op reads, only of which shape and type it is. An expanded tensor is
recorded with strides of 0 and is taken here as it lies in memory.
"""

import re
from collections.abc import Iterable

import msgspec

from normscope.norms import arguments
from normscope.norms.arguments import TYPES, Tensor, UnknownArgument
from normscope.trace.events import CpuOp, OpArgs
from normscope.trace.link import LinkedTrace

_ATEN = "aten::"
COPY = "copy"
# Reductions by the place of their axes and of keepdim among their arguments, and how many tensors they make.
REDUCTIONS = {
    "mean": (1, 2, 1),
    "sum": (1, 2, 1),
    "var": (1, 3, 1),
    "std": (1, 3, 1),
    "var_mean": (1, 3, 2),
    "linalg_vector_norm": (2, 3, 1),
    "norm": (2, 3, 1),
}
_UNARY = frozenset(("square", "rsqrt", "sqrt", "reciprocal", "clamp", "clamp_min", "pow", "neg"))
_BINARY = frozenset(("mul", "div", "add", "sub", "maximum"))
SMALL = frozenset((COPY, *REDUCTIONS, *_UNARY, *_BINARY))
_TYPE_CODES = {"5": "c10::Half", "6": "float", "7": "double", "15": "c10::BFloat16"}
_AXIS = re.compile(r"\[(-?\d{1,2})\]")
# What a type gives way to: bool, integers, floats, complex numbers.
_CATEGORIES = (("bool",), ("int", "uint"), ("fp", "bf"), ("complex",))


class SmallOp(msgspec.Struct, frozen=True, gc=False):
    """An op of the kind that chains are made of.

    Attributes
    ----------
    name
        Without ``aten::`` and without the ``_`` of ops that work in place; ``copy`` for every cast.
    inputs
        The tensors that it reads, in the order of its arguments; None for a number.
    output
        The tensor that it makes.
    bytes_moved
        All that its kernel reads and writes.
    number
        The number among the arguments, where there is one that is recorded.
    axis
        The axis that a reduction goes over, counted from the front, and keeps with size 1.
    """

    name: str
    inputs: tuple[Tensor | None, ...]
    output: Tensor
    bytes_moved: int
    number: float | None = None
    axis: int | None = None

    @property
    def is_plain_copy(self) -> bool:
        """Whether it only writes a tensor anew, and casts nothing."""
        source = self.inputs[0]
        return self.name == COPY and source is not None and source.dtype == self.output.dtype


def bare_name(name: str) -> str:
    """Return the name of an ATen op without its namespace and without the mark of working in place.

    Examples
    --------
    >>> bare_name("aten::add_"), bare_name("aten::mean")
    ('add', 'mean')
    """
    return name.removeprefix(_ATEN).removesuffix("_")


class SmallOps:
    """Reads small ops. What was worked out for one serves the next with the same inputs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[bytes, ...]], SmallOp | None] = {}

    def read(self, op: CpuOp) -> SmallOp | None:
        """Return what ``op`` reads and makes, None for another kind or where its shapes aren't recorded."""
        if bare_name(op.name) not in SMALL:
            return None
        key = (op.name, _inputs_as_text(op.raw_args))
        if key not in self._known:
            self._known[key] = _small_op(op)
        return self._known[key]


class _RecordedInputs(msgspec.Struct, frozen=True):
    """The inputs of an op, not decoded; around them each op has a number of its own."""

    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())


_DECODER = msgspec.json.Decoder(_RecordedInputs)


def _inputs_as_text(args: bytes) -> tuple[bytes, ...]:
    try:
        found = _DECODER.decode(args) if args else _RecordedInputs()
    except (ValueError, RecursionError, msgspec.DecodeError):
        return (args,)
    return bytes(found.dims), bytes(found.types), bytes(found.strides), bytes(found.concrete)


def _small_op(op: CpuOp) -> SmallOp | None:
    name = bare_name(op.name)
    try:
        if name == COPY:
            return _copy(op.args())
        if name in REDUCTIONS:
            return _reduction(name, op.args())
        return _elementwise(name, op.args(), in_place=op.name.endswith("_"))
    except UnknownArgument:
        return None


def chain_bytes(linked: LinkedTrace, ops: Iterable[int]) -> float | None:
    """Return what the kernels of a chain of small ops read and write, None where that isn't known.

    Parameters
    ----------
    linked
        The trace.
    ops
        The ops that launch the kernels themselves, such as the ``aten::copy_`` in an ``aten::to``.
    """
    small = SmallOps()
    found = [small.read(linked.trace.cpu_ops[op]) for op in ops]
    known = [op.bytes_moved for op in found if op is not None]
    return float(sum(known)) if known and len(known) == len(found) else None


def _copy(args: OpArgs) -> SmallOp | None:
    target, source = _stored(args, 0), _stored(args, 1)
    if target is None or source is None:
        return None
    return SmallOp(COPY, (source,), target, _size(target) + _size(source))


def _reduction(name: str, args: OpArgs) -> SmallOp | None:
    axes_at, keep_at, results = REDUCTIONS[name]
    x = _stored(args, 0)
    axis = None if x is None else _kept_axis(args, axes_at, keep_at, len(x.shape))
    if x is None or axis is None:
        return None
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    output = _of_type(shape, _asked_type(args, keep_at + 1) or x)
    return SmallOp(name, (x,), output, _size(x) + results * _size(output), axis=axis)


def _kept_axis(args: OpArgs, axes_at: int, keep_at: int, axes: int) -> int | None:
    """Return the one axis that is reduced and kept; the last one where a trace records no values."""
    if arguments.recorded_type(args, axes_at) != "ScalarList" or not axes:
        return None
    if not _has(args.concrete, keep_at):
        return axes - 1
    text, keeps = args.concrete[axes_at], args.concrete[keep_at]
    match = _AXIS.fullmatch(text) if isinstance(text, str) else None
    if match is None or keeps != "True" or not -axes <= int(match[1]) < axes:
        return None
    return int(match[1]) % axes


def _asked_type(args: OpArgs, index: int) -> Tensor | None:
    """Return a tensor of the type that the argument at ``index`` asks for, None where it asks for none."""
    code = args.concrete[index] if _has(args.concrete, index) else None
    if not isinstance(code, str) or code not in _TYPE_CODES:
        return None
    return Tensor((), *TYPES[_TYPE_CODES[code]])


def _elementwise(name: str, args: OpArgs, *, in_place: bool) -> SmallOp | None:
    count = 1 if name in _UNARY else 2
    nominal = [_tensor(args, i) for i in range(count)]
    stored = tuple(_stored(args, i) for i in range(count))
    tensors = [tensor for tensor in nominal if tensor is not None]
    if not tensors:
        return None
    shape = _broadcast([tensor.shape for tensor in tensors])
    output = _of_type(shape, tensors[0] if in_place else _promoted(tensors))
    # A product of two tensors of one shape is a square where a norm is computed: one tensor, read once.
    read = stored[:1] if name == "mul" and stored[0] == stored[-1] else stored
    moved = sum(_size(tensor) for tensor in read if tensor is not None) + _size(output)
    return SmallOp(name, stored, output, moved, number=_number(args))


def _tensor(args: OpArgs, index: int) -> Tensor | None:
    """Return the tensor at ``index``; a number that PyTorch records as a tensor of no axes is none."""
    found = arguments.tensor(args, index)
    return found if found is not None and found.shape else None


def _stored(args: OpArgs, index: int) -> Tensor | None:
    """Return the tensor at ``index`` as it lies in memory: size 1 where it is only expanded."""
    found = _tensor(args, index)
    strides = args.strides[index] if _has(args.strides, index) else None
    if found is None or not isinstance(strides, list) or len(strides) != len(found.shape):
        return found
    shape = tuple(1 if stride == 0 else size for size, stride in zip(found.shape, strides, strict=True))
    return msgspec.structs.replace(found, shape=shape)


def _number(args: OpArgs) -> float | None:
    """Return the second argument as a number."""
    text = args.concrete[1] if _has(args.concrete, 1) else None
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _has(recorded: object, index: int) -> bool:
    return isinstance(recorded, list | tuple) and index < len(recorded)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    axes = max(len(shape) for shape in shapes)
    padded = [(1,) * (axes - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def _promoted(tensors: list[Tensor]) -> Tensor:
    """Return one of ``tensors`` that has the type of the result; two 16-bit floats make a 32-bit one."""
    widest = max(tensors, key=lambda tensor: (_category(tensor.dtype), tensor.element_bytes))
    if {"fp16", "bf16"} <= {tensor.dtype for tensor in tensors} and widest.element_bytes == 2:
        return Tensor((), *TYPES["float"])
    return widest


def _category(dtype: str) -> int:
    return next((i for i, starts in enumerate(_CATEGORIES) if dtype.startswith(starts)), 0)


def _of_type(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return msgspec.structs.replace(like, shape=shape)


def _size(tensor: Tensor) -> int:
    return tensor.elements * tensor.element_bytes
