"""One row of the catalog: how a normalization is told from other work, and how it is counted."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

import msgspec

How = Literal["op", "compiled", "eager", "kernel"]
Purpose = Literal["norm", "helper", "not a norm layer"]
Direction = Literal["forward", "backward"]
Variant = Literal[
    "BatchNorm", "SyncBatchNorm", "InstanceNorm", "LayerNorm", "GroupNorm", "RMSNorm", "L2Norm", "Other"
]
Evidence = Literal["trace", "source", "unverified"]

WRITTEN = ">"
IN_PLACE = "<>"
UNUSED = "_"
OPTIONAL = "?"
ARGUMENT = re.compile(r"(?:<>|>)?[a-z][a-z0-9_]*\??|_")
_MARKS = WRITTEN + IN_PLACE + OPTIONAL
SAVED = ("save_mean", "save_invstd")
RESIDUAL_ADD = "residual add"
"""What `fuses` calls the addition of the argument ``residual``."""
RETURNED = ("y", "padded_y", "residual", "quantized", "statistic", "group_scale")


class NormRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One way a normalization shows up in a trace.

    Attributes
    ----------
    id
        Name of the row, unique in the catalog.
    library
        Who wrote the op or kernel.
    variant, direction
        Which normalization, and which pass.
    how
        What is matched: ``op`` a recorded op, ``compiled`` a kernel that a compiler named after the ops it
        fused, ``eager`` a chain of small ops, ``kernel`` the name of a kernel and nothing else.
    purpose
        ``norm``; or ``helper`` for an op around a norm that only moves its tensors; or ``not a norm layer``
        for what has the name and is something else.
    ops
        Names as recorded.
    op_pattern
        A regular expression for the whole name, where names vary.
    arguments
        The op's schema as a list of roles, one for each argument: ``x weight bias _``. ``_`` is an argument
        that no formula needs, ``>y`` one that the op writes, ``<>x`` one that it reads and writes in place,
        ``bias?`` one that a call can leave out: without another one, what adds up arguments gives no bytes.
        An argument ``is_rms`` or ``is_layer_norm`` tells which of the two a call is.
    returns
        Tensors that the op makes and that are no arguments, for the formula ``tensors``: ``y`` and
        ``residual`` have the size and type of x; ``padded_y`` too, its rows filled up to a multiple of the
        argument ``pad_multiple``; ``quantized`` has one byte an element; ``statistic`` is one number of 4
        bytes a row, ``group_scale`` one for each ``group_size`` elements of a row.
    saved
        Statistics that a backward pass reads and that are no arguments: ``save_mean save_invstd``.
    from_forward
        What isn't among the arguments is taken from the forward op: autograd nodes only record gradients.
    bytes, flops
        Names of formulas; empty where they are not counted.
    wrapper
        Another norm op below it does the work.
    kernels_only
        Of the kernels below only those with a norm's name belong to the call, and without any it is none:
        for ops that also do something else, such as a matrix product.
    sums_pieces
        The norm ops below it are the pieces of one norm: their kernels are one call, and bytes and FLOPs are
        the sums of theirs. Whatever else runs in between, such as a collective, is no part of it.
    training
        Fixed by the op; None where an argument says it or where it has no meaning.
    scalar_at
        This layout holds only where that argument is a scalar.
    argument_count
        This layout holds only for that many arguments, the least and the most.
    kernels
        Regular expressions for the names of its kernels, each found anywhere in the name.
    workgroup_per_row
        Each of ``kernels`` starts exactly one workgroup for each row, so its grid tells the number of rows.
    fuses
        What else the op does in the same kernels, such as ``residual add``.
    reads_twice
        Roles of inputs that are read twice by nature, in batch norm while it trains: ``x`` or ``dy x``.
    evidence
        Where it was seen: ``trace`` in a real trace, ``source`` in source code, ``unverified`` neither.
    source
        Where names, arguments and bytes come from.
    note
        What else a reader should know.
    """

    id: str
    library: str
    variant: Variant
    direction: Direction = "forward"
    how: How = "op"
    purpose: Purpose = "norm"
    ops: tuple[str, ...] = ()
    op_pattern: str = ""
    arguments: str = ""
    returns: str = ""
    saved: str = ""
    from_forward: bool = False
    bytes: str = ""
    flops: str = ""
    wrapper: bool = False
    kernels_only: bool = False
    sums_pieces: bool = False
    training: bool | None = None
    scalar_at: int | None = None
    argument_count: tuple[int, int] | None = None
    kernels: tuple[str, ...] = ()
    workgroup_per_row: bool = False
    fuses: tuple[str, ...] = ()
    reads_twice: str = ""
    evidence: Evidence
    source: str
    note: str = ""

    @cached_property
    def roles(self) -> Mapping[str, int]:
        """Position of each argument that has a role."""
        words = enumerate(self.arguments.split())
        return {bare: index for index, word in words if (bare := word.strip(_MARKS)) != UNUSED}

    @cached_property
    def optional_roles(self) -> frozenset[str]:
        """Roles of the arguments that a call can leave out."""
        return frozenset(word.strip(_MARKS) for word in self.arguments.split() if word.endswith(OPTIONAL))

    @cached_property
    def read_roles(self) -> tuple[str, ...]:
        """Roles of the arguments that are read."""
        return tuple(
            w.strip(_MARKS) for w in self.arguments.split() if not w.startswith(WRITTEN) and w != UNUSED
        )

    @cached_property
    def written_roles(self) -> tuple[str, ...]:
        """Roles of the arguments that are written."""
        return tuple(w.strip(_MARKS) for w in self.arguments.split() if w.startswith((WRITTEN, IN_PLACE)))

    @cached_property
    def has_condition(self) -> bool:
        """Whether the layout holds for some calls only."""
        return self.scalar_at is not None or self.argument_count is not None

    def fits(self, types: object) -> bool:
        """Tell whether the layout holds for a call with the recorded ``types``."""
        known = types if isinstance(types, list | tuple) else ()
        if self.scalar_at is not None and not (
            self.scalar_at < len(known) and known[self.scalar_at] == "Scalar"
        ):
            return False
        if self.argument_count is None:
            return True
        least, most = self.argument_count
        return least <= len(known) <= most

    @cached_property
    def names_kernel(self) -> Callable[[str], bool]:
        """A test of kernel names against ``kernels``."""
        pattern = re.compile("|".join(f"(?:{each})" for each in self.kernels) or "(?!)")
        return lambda name: pattern.search(name) is not None
