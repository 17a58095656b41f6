"""The cost of one recorded norm call: bytes, FLOPs, and the facts that tell calls apart.

A formula names what it needs by its parameters; ``QUANTITIES`` says how each of them is read from a call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from normscope.norms import arguments
from normscope.norms.arguments import Tensor, UnknownArgument
from normscope.norms.catalog.catalog import Catalog
from normscope.norms.catalog.rows import NormRow, Variant
from normscope.norms.formulas import BYTES, FLOPS, Count
from normscope.trace.events import OpArgs

NO_MODEL = "the catalog has no byte formula for it"
NO_LAYOUT = "the catalog doesn't know this layout of the op's arguments"
NO_FORWARD = "its forward call, which has the tensors, is not in the trace"
_T = TypeVar("_T")
_GRADIENTS = ("dx", "dweight", "dbias")
_STATISTIC_BYTES = 4
_GATHERED = ("mean", "invstd", "sum_dy", "sum_dy_xmu", "counts")
_ROPE_PARAMETERS = ("query_weight", "key_weight", "angles", "positions")
_ROW_VARIANTS = ("LayerNorm", "RMSNorm")
_CACHES = ("key_cache", "value_cache")
_OUTPUTS = ("y", "quantized")
_INSTANCE_NORM = "aten::instance_norm"


class NormCost(msgspec.Struct, frozen=True):
    """What one norm call has to move and compute, as far as the trace tells.

    Attributes
    ----------
    bytes_moved
        Compulsory traffic in bytes; ``None`` where it can't be told.
    flops
        Floating-point operations; ``None`` where they can't be told.
    x_shape
        Shape of the normalized tensor.
    dtype
        Its element type, such as ``bf16``.
    compute_spec
        Name of the peak that its arithmetic is held against, such as ``vector_bf16``.
    has_weight, has_bias, has_residual
        Whether the call has these tensors; ``None`` where that can't be told.
    training
        Whether batch statistics are used; ``None`` where that can't be told or has no meaning.
    output_mask
        Which gradients a backward call computes, in the order of the op.
    x_size_bytes
        Size of the normalized tensor.
    row_bytes
        Size of one normalized row, for the variants that work along rows; ``None`` elsewhere.
    reread_bytes
        What is read a second time by nature; ``None`` where nothing is, or that can't be told.
    missing_reason
        Why ``bytes_moved`` is ``None``. It may hold text from the trace.
    variant
        Which normalization, where an argument tells; ``None`` where only the catalog's row does.
    """

    bytes_moved: float | None = None
    flops: float | None = None
    x_shape: tuple[int, ...] | None = None
    dtype: str | None = None
    compute_spec: str | None = None
    has_weight: bool | None = None
    has_bias: bool | None = None
    has_residual: bool | None = None
    training: bool | None = None
    output_mask: tuple[bool, ...] | None = None
    x_size_bytes: int | None = None
    row_bytes: int | None = None
    reread_bytes: int | None = None
    missing_reason: str | None = None
    variant: Variant | None = None

    @property
    def flops_per_byte(self) -> float | None:
        """Arithmetic intensity."""
        if self.flops is None or not self.bytes_moved:
            return None
        return self.flops / self.bytes_moved


class _Call(msgspec.Struct, frozen=True):
    """A recorded call beside the row that says where its arguments lie."""

    row: NormRow
    args: OpArgs
    forward: "_Call | None" = None
    """The forward call, where a backward op records nothing but gradients."""
    tensors: dict[str, Tensor | None] = {}
    """Those read so far, by role."""

    def tensor(self, role: str) -> Tensor | None:
        """Return the tensor in ``role``, ``None`` where the op or the call has none."""
        if role not in self.tensors:
            index = self.row.roles.get(role)
            if index is not None:
                self.tensors[role] = arguments.tensor(self.args, index)
            else:
                self.tensors[role] = forward.tensor(role) if (forward := self.known_forward) else None
        return self.tensors[role]

    @property
    def known_forward(self) -> "_Call | None":
        """The forward call, ``None`` where the op has all of its arguments itself."""
        if self.row.from_forward and self.forward is None:
            raise UnknownArgument(NO_FORWARD)
        return self.forward

    def integer(self, role: str) -> int:
        """Return the integer in ``role``."""
        return arguments.integer(*self.value(role))

    def boolean(self, role: str) -> bool:
        """Return the boolean in ``role``."""
        return arguments.boolean(*self.value(role))

    def value(self, role: str) -> tuple[OpArgs, int]:
        """Return where the value in ``role`` stands: the arguments, those of the forward call maybe."""
        if role in self.row.roles:
            return self.args, self.row.roles[role]
        if forward := self.known_forward:
            return forward.value(role)
        message = f"the row {self.row.id} of the catalog has no argument {role}"
        raise UnknownArgument(message)

    def optional(self, role: str) -> Tensor | None:
        """Return the tensor in ``role``, ``None`` where there is none or it is empty."""
        found = self.tensor(role)
        return found if found and found.elements else None

    @property
    def x(self) -> Tensor:
        found = self.tensor("x")
        if found is None:
            message = "no input tensor recorded"
            raise UnknownArgument(message)
        return found

    @property
    def channels(self) -> int:
        weight = self.optional("weight")
        if weight:  # it has one element a channel, wherever that axis lies
            return weight.elements
        if len(self.x.shape) < 2:
            message = "the input has no channel axis"
            raise UnknownArgument(message)
        return self.x.shape[1]

    @property
    def training(self) -> bool:
        if self.row.training is not None:
            return self.row.training
        return self.boolean("training")

    @property
    def is_rms(self) -> bool:
        """Whether no mean is subtracted, as an argument says, or else the row."""
        if "is_rms" in self.row.roles:
            return self.boolean("is_rms")
        if "is_layer_norm" in self.row.roles:
            return not self.boolean("is_layer_norm")
        return self.forward.is_rms if self.forward else self.row.variant == "RMSNorm"

    @property
    def told_variant(self) -> Variant:
        """Layer norm or RMS norm, where an argument tells."""
        calls = (self, self.forward) if self.forward else (self,)
        if not any({"is_rms", "is_layer_norm"} & set(call.row.roles) for call in calls):
            message = "no argument tells the variant"
            raise UnknownArgument(message)
        return "RMSNorm" if self.is_rms else "LayerNorm"

    @property
    def normalized_shape(self) -> tuple[int, ...]:
        shape = self._recorded_normalized_shape()
        if not shape or self.x.shape[-len(shape) :] != shape:
            message = "the normalized shape doesn't fit the input"
            raise UnknownArgument(message)
        return shape

    def _recorded_normalized_shape(self) -> tuple[int, ...]:
        weight = self.optional("weight")
        if "normalized_shape" not in self.row.roles and self.forward:
            return self.forward._recorded_normalized_shape()
        if "normalized_shape" not in self.row.roles:  # a library's norm is over the last axis
            return weight.shape if weight else self.x.shape[-1:]
        try:
            return arguments.sizes(self.args, self.row.roles["normalized_shape"])
        except UnknownArgument:
            if weight is None:
                raise
            return weight.shape

    def size(self, role: str) -> int:
        """Return the bytes of one element of the tensor in ``role``, 0 where there is none."""
        found = self.optional(role)
        return found.element_bytes if found else 0

    def saved_size(self, role: str) -> int:
        """Return the bytes of a saved statistic, be it an argument or kept by the autograd node."""
        if role not in self.row.saved.split():
            return self.size(role)
        return 0 if role == "save_mean" and self.is_rms else _STATISTIC_BYTES

    def argument_bytes(self, roles: Sequence[str]) -> int:
        """Return the bytes of the tensors in ``roles``, of each as much as is used, once."""
        return sum(map(self._used_bytes, roles))

    def _used_bytes(self, role: str) -> int:
        """Return the bytes of a tensor; of a table of angles only the rows that are looked up.

        Of a cache there are none: how much of it is written follows from the heads, not from its size.
        """
        found = self.optional(role)
        if found is None:
            self._check_left_out(role)
        if found is None or role in _CACHES:
            return 0
        whole = found.elements * found.element_bytes
        if role != "angles":
            return whole
        positions = self.optional("positions")
        rows = found.shape[0] if found.shape else 1
        return whole // rows * min(rows, positions.elements if positions else rows)

    def _check_left_out(self, role: str) -> None:
        """Raise where the row's op can't be called without the argument that is missing.

        A value in its place is none that is missing: a number, or a tensor given by its address.
        """
        index = self.row.roles.get(role)
        if index is None or role in self.row.optional_roles or arguments.recorded_type(self.args, index):
            return
        message = f"argument {index} ({role}) is not recorded"
        raise UnknownArgument(message)

    def row_bytes(self) -> int:
        """Return the bytes of one normalized row of x."""
        return _normalized(self) * self.x.element_bytes

    def reread_bytes(self) -> int | None:
        """Return the bytes of the inputs that are read twice; batch norm does so while it trains."""
        has_flag = self.row.training is not None or "training" in self.row.roles
        if has_flag and not self.training:
            return None
        return self.argument_bytes(self.row.reads_twice.split()) or None

    def returned_bytes(self) -> int:
        """Return the bytes of the tensors that the op makes."""
        return sum(RETURNED_BYTES[word](self) for word in self.row.returns.split())

    def output_mask(self) -> tuple[bool, ...]:
        """Return which of dx, dweight and dbias are computed.

        An op without a say computes them all, of a parameter that it could have only where it has it.
        """
        roles = self.row.roles
        if "mask" in roles:
            return arguments.mask(self.args, roles["mask"])
        flags = [roles[f"{gradient}_flag"] for gradient in _GRADIENTS if f"{gradient}_flag" in roles]
        if flags:
            return tuple(arguments.boolean(self.args, flag) for flag in flags)
        return (True, *(self.has_parameter(role) for role in ("weight", "bias")))

    def has_parameter(self, role: str) -> bool:
        """Tell whether the call has a parameter; an op that doesn't list it among its arguments has it."""
        is_listed = role in self.row.roles or self.known_forward is not None
        return not is_listed or self.optional(role) is not None

    def needs(self, gradient: str) -> bool:
        mask, position = self.output_mask(), _GRADIENTS.index(gradient)
        if position >= len(mask):
            message = f"the output mask has no entry for {gradient}"
            raise UnknownArgument(message)
        return mask[position]


def _group_statistic_bytes(call: _Call) -> int:
    """Return the size of a statistic: as x, but fp32 where the weight is fp32 and x 16 bits wide."""
    weight = call.optional("weight")
    mixed = weight is not None and weight.dtype == "fp32" and call.x.element_bytes == 2
    return 4 if mixed else call.x.element_bytes


def _rows(call: _Call) -> int:
    axes = len(call.normalized_shape)
    rows = 1
    for size in call.x.shape[:-axes]:
        rows *= size
    return rows


def _normalized(call: _Call) -> int:
    elements = 1
    for size in call.normalized_shape:
        elements *= size
    return elements


def _row_bytes(call: _Call, elements: int, element_bytes: int) -> int:
    """Return the bytes of a tensor with a row of ``elements`` for each row of x."""
    return _rows(call) * elements * element_bytes


def _blocks(call: _Call, role: str) -> int:
    """Return how many blocks of the size in ``role`` a row of x takes, the last one maybe in part."""
    size = call.integer(role)
    if not size:
        message = f"the {role.replace('_', ' ')} is 0"
        raise UnknownArgument(message)
    return -(-_normalized(call) // size)


def _padded(call: _Call) -> int:
    """Return the elements of a row that is filled up; a multiple of 0 stands for none."""
    multiple = call.integer("pad_multiple")
    return _blocks(call, "pad_multiple") * multiple if multiple else _normalized(call)


RETURNED_BYTES: Mapping[str, Callable[[_Call], int]] = {
    "y": lambda call: call.x.elements * call.x.element_bytes,
    "padded_y": lambda call: _row_bytes(call, _padded(call), call.x.element_bytes),
    "residual": lambda call: call.x.elements * call.x.element_bytes,
    "quantized": lambda call: call.x.elements,
    "statistic": lambda call: _row_bytes(call, 1, _STATISTIC_BYTES),
    "group_scale": lambda call: _row_bytes(call, _blocks(call, "group_size"), _STATISTIC_BYTES),
}
"""Bytes of each tensor that a row can name as returned."""

QUANTITIES: Mapping[str, Callable[[_Call], int]] = {
    "elements": lambda call: call.x.elements,
    "batch": lambda call: call.x.shape[0] if call.x.shape else 1,
    "channels": lambda call: call.channels,
    "groups": lambda call: call.integer("groups"),
    "rows": _rows,
    "normalized": _normalized,
    "x_bytes": lambda call: call.x.element_bytes,
    "y_bytes": lambda call: call.size("y") or call.x.element_bytes,
    "dy_bytes": lambda call: call.size("dy"),
    "weight_bytes": lambda call: call.size("weight"),
    "bias_bytes": lambda call: call.size("bias"),
    "running_mean_bytes": lambda call: call.size("running_mean"),
    "running_var_bytes": lambda call: call.size("running_var"),
    "save_mean_bytes": lambda call: call.saved_size("save_mean"),
    "save_invstd_bytes": lambda call: call.saved_size("save_invstd"),
    "statistic_bytes": lambda call: 8 if call.x.dtype == "fp64" else 4,
    "group_statistic_bytes": _group_statistic_bytes,
    "gathered_tensor_bytes": lambda call: call.argument_bytes(_GATHERED),
    "argument_bytes_read": lambda call: call.argument_bytes(call.row.read_roles),
    "argument_bytes_written": lambda call: call.argument_bytes(call.row.written_roles),
    "returned_bytes": _Call.returned_bytes,
    "normalized_bytes": lambda call: call.argument_bytes(("x", "key")),
    "modulation_bytes": lambda call: call.argument_bytes(("scale",)),
    "residual_bytes": lambda call: call.size("residual"),
    "cache_bytes": lambda call: call.size("key_cache"),
    "query_heads": lambda call: call.integer("query_heads"),
    "key_heads": lambda call: call.integer("key_heads"),
    "value_heads": lambda call: call.integer("value_heads"),
    "head_size": lambda call: call.integer("head_size"),
    "parameter_bytes": lambda call: call.argument_bytes(_ROPE_PARAMETERS),
    "is_rms": lambda call: call.is_rms,
    "dresidual_bytes": lambda call: call.size("dresidual"),
    "gate_bytes": lambda call: call.size("gate"),
    "has_output": lambda call: any(call.optional(role) for role in _OUTPUTS),
    "training": lambda call: call.training,
    "has_weight": lambda call: call.optional("weight") is not None,
    "has_bias": lambda call: call.optional("bias") is not None,
    "has_residual": lambda call: call.optional("residual") is not None,
    "needs_dx": lambda call: call.needs("dx"),
    "needs_dweight": lambda call: call.needs("dweight"),
    "needs_dbias": lambda call: call.needs("dbias"),
}
"""How each parameter of a formula is read from a call."""


def norm_cost(row: NormRow | None, args: OpArgs, forward: tuple[NormRow, OpArgs] | None = None) -> NormCost:
    """Return what a recorded norm call has to move and compute.

    Parameters
    ----------
    row
        The row of the catalog that says where the arguments lie and what is counted; None where no layout
        of the op fits the call.
    args
        The op's inputs as recorded.
    forward
        Row and inputs of the forward op, for a backward op that records nothing but gradients.

    Returns
    -------
    NormCost
        Whatever the trace doesn't say is ``None``, and ``missing_reason`` tells why. Nothing is ever raised.
    """
    if row is None:
        return NormCost(missing_reason=NO_LAYOUT)
    call = _Call(row, args, _Call(*forward) if forward and row.from_forward else None)
    bytes_moved, reason = _evaluate(BYTES[row.bytes], call) if row.bytes else (None, NO_MODEL)
    x = _known(lambda: call.x)
    has_flag = row.training is not None or "training" in row.roles
    return NormCost(
        bytes_moved=bytes_moved,
        # without a tensor that the op needs, they would be those of another call
        flops=None if not row.flops or (row.bytes and reason) else _evaluate(FLOPS[row.flops], call)[0],
        x_shape=x.shape if x else None,
        dtype=x.dtype if x else None,
        compute_spec=f"vector_{x.dtype}" if x else None,
        has_weight=_known(lambda: call.optional("weight") is not None),
        has_bias=_known(lambda: call.optional("bias") is not None),
        has_residual=_known(lambda: call.optional("residual") is not None),
        training=_known(lambda: call.training) if has_flag else None,
        output_mask=_known(call.output_mask) if row.direction == "backward" else None,
        x_size_bytes=x.elements * x.element_bytes if x else None,
        row_bytes=_known(call.row_bytes) if row.variant in _ROW_VARIANTS else None,
        reread_bytes=_known(call.reread_bytes),
        missing_reason=reason,
        variant=_known(lambda: call.told_variant),
    )


def describing_op(catalog: Catalog, chain: Sequence[tuple[str, OpArgs]]) -> int | None:
    """Return which op of a nested chain describes the call, by its place in ``chain``.

    It is the innermost norm op with an input tensor: under autocast that is the one behind the cast. An
    outermost ``aten::instance_norm`` comes first, because the ops below it see a reshaped input.

    Parameters
    ----------
    catalog
        The norm ops; others in the chain are passed over.
    chain
        Name and arguments of the nested ops, outermost first.

    Returns
    -------
    int or None
        ``None`` where no norm op of the chain has an input tensor.
    """
    described = [place for place, (name, args) in enumerate(chain) if _has_input(catalog, name, args)]
    if not described:
        return None
    outermost = described[0]
    return outermost if chain[outermost][0] == _INSTANCE_NORM else described[-1]


def _has_input(catalog: Catalog, name: str, args: OpArgs) -> bool:
    row = catalog.layout(name, args.types)
    return row is not None and _known(lambda: _Call(row, args).x) is not None


def _evaluate(count: Count, call: _Call) -> tuple[float | None, str | None]:
    """Call a formula with the quantities that its parameters name; the reason where one isn't known."""
    names = (name for name in count.__annotations__ if name != "return")
    try:
        return float(count(**{name: QUANTITIES[name](call) for name in names})), None
    except UnknownArgument as unknown:
        return None, str(unknown)


def _known(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except UnknownArgument:
        return None
