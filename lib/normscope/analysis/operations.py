"""The ``operations[]`` list: one entry per row of the ops table, longest first.

Works by column: each key that has to be worked out is a function from columns to a column, and the last step
reads the columns across. That keeps a table of a hundred thousand rows a matter of seconds.
"""

from typing import NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from normscope.analysis.arguments import render_arguments
from normscope.analysis.call_stack import CallStack, call_chain, read_call_stack
from normscope.analysis.columns import Numbers, OpColumns
from normscope.analysis.efficiency import judge_rows
from normscope.analysis.models import Direction, Efficiency, Operation, Scope, Variant
from normscope.analysis.names import kernel_names, norm_direction, norm_library, norm_variant
from normscope.analysis.traced import TracedKeys, traced_keys
from normscope.inputs.metadata import Metadata

_Number = TypeVar("_Number", int, float)

HIGH_VARIANCE_ABOVE = 1.0
VARIANCE_MIN_CALLS = 10
VARIANCE_MIN_PERCENT = 5.0
CALL_CHAIN_MAX_OPERATIONS = 100
_BYTES_PER_MIB = 1024.0 * 1024.0
_NO_ENTRY_POINT = "Not found"
_MODULES_IN_PATH = 3


class _Derived(NamedTuple):
    """The columns that are worked out from others, in file order."""

    names: list[str]
    counts: list[int]
    times_us: list[float]
    category_shares: list[float]
    total_shares: Numbers
    efficiencies: list[Efficiency]
    variances: list[float | UnsetType]
    libraries: list[str | None]
    fusion_candidates: list[str | UnsetType]
    launcher_paths: list[str | None]
    stacks: list[CallStack]
    call_chains: list[tuple[str, ...] | UnsetType]
    bytes_moved: Numbers
    variants: list[Variant]
    traced: list[TracedKeys]
    direction: Direction
    is_comparative: bool


def build_operations(
    columns: OpColumns, metadata: Metadata, fusion_map: dict[str, str], category: str, scope: Scope
) -> tuple[Operation, ...]:
    """Return the operations of a category by kernel time, longest first, ties in file order."""
    derived = _derive(columns, metadata, fusion_map, category, scope)
    return tuple([_operation(i, columns, derived) for i in order_by_time(columns.time_sum_us)])


def order_by_time(times_us: Numbers) -> list[int]:
    """Return the rows of an ops table in the order of the operations; a time that is missing counts as 0."""
    return sorted(range(len(times_us)), key=lambda row: -(times_us[row] or 0.0))


def _derive(
    columns: OpColumns, metadata: Metadata, fusion_map: dict[str, str], category: str, scope: Scope
) -> _Derived:
    names = [name or "" for name in columns.name]
    times_us = [time or 0.0 for time in columns.time_sum_us]
    total_shares = _shares_of_total(times_us, metadata.end_to_end_ms)
    counts = _counts(columns)
    kernels = [kernel_names(cell) for cell in columns.kernel_details]
    libraries = list(map(norm_library, names, kernels))
    stacks = [read_call_stack(cell) for cell in columns.call_stack]
    return _Derived(
        names=names,
        counts=counts,
        times_us=times_us,
        category_shares=_shares_of_category(times_us),
        total_shares=total_shares,
        efficiencies=judge_rows(columns, scope, metadata.peak_tflops, metadata.peak_hbm_bw_tbs),
        variances=_variances(columns, counts, total_shares),
        libraries=libraries,
        fusion_candidates=_fusion_candidates(kernels, fusion_map),
        launcher_paths=_launcher_paths(columns, stacks, libraries),
        stacks=stacks,
        call_chains=_call_chains(columns),
        bytes_moved=_bytes_moved(columns),
        variants=list(map(_variant, names, columns.variant)),
        traced=traced_keys(columns),
        direction=norm_direction(category),
        is_comparative=scope == "comparative",
    )


def _operation(i: int, columns: OpColumns, derived: _Derived) -> Operation:
    name, efficiency, share = derived.names[i], derived.efficiencies[i], derived.total_shares[i]
    dims, types = columns.input_dims[i], columns.input_type[i]
    variance, candidate, stack = derived.variances[i], derived.fusion_candidates[i], derived.stacks[i]
    own_direction = norm_direction(name)
    return Operation(
        name=name,
        count=derived.counts[i],
        time_ms=round(derived.times_us[i] / 1e3, 3),
        percent_of_category=derived.category_shares[i],
        percent_of_total=None if share is None else round(share, 2),
        efficiency=efficiency,
        efficiency_warning=efficiency.warning or UNSET,
        input_dims=dims or UNSET,
        input_type=types or UNSET,
        args=render_arguments(dims, types) or UNSET,
        t2_time_ms=_milliseconds(columns.time_trace2_us[i]) if derived.is_comparative else UNSET,
        count_trace2=_known(columns.count_trace2[i]) if derived.is_comparative else UNSET,
        difference_ms=_milliseconds(columns.delta_us[i]) if derived.is_comparative else UNSET,
        cov=variance if variance is UNSET else round(variance, 3),
        high_variance=variance if variance is UNSET else variance > HIGH_VARIANCE_ABOVE,
        library=derived.libraries[i],
        fusion_flagged=UNSET if candidate is UNSET else True,
        fusion_candidate_name=candidate,
        launcher_path=derived.launcher_paths[i],
        kernel_name=stack.kernel_name,
        kernel_name_trunc=stack.kernel_name_trunc,
        module_chain=stack.module_chain,
        call_chain=derived.call_chains[i],
        variant=derived.variants[i],
        direction=derived.direction if own_direction == "unknown" else own_direction,
        kernel_time_mean_us=columns.time_mean_us[i],
        kernel_time_std_us=columns.time_std_us[i],
        bytes_moved_per_call=derived.bytes_moved[i],
        kernel_time_us=derived.times_us[i] if derived.is_comparative else UNSET,
        time2_us=_known(columns.time_trace2_us[i]) if derived.is_comparative else UNSET,
        delta_us=_known(columns.delta_us[i]) if derived.is_comparative else UNSET,
        **derived.traced[i],
    )


def _variant(name: str, recorded: str | None) -> Variant:
    """Return the variant: as the table says, else as the name does."""
    return norm_variant(recorded or name)


def _counts(columns: OpColumns) -> list[int]:
    both = zip(columns.count, columns.operation_count, strict=True)
    return [n if n is not None else m if m is not None else 1 for n, m in both]


def _shares_of_category(times_us: list[float]) -> list[float]:
    total_us = sum(times_us)
    return [round(time / total_us * 100.0, 2) if total_us else 0.0 for time in times_us]


def _shares_of_total(times_us: list[float], end_to_end_ms: float | None) -> Numbers:
    if end_to_end_ms is None:
        return [None] * len(times_us)
    return [time / 1e3 / end_to_end_ms * 100.0 for time in times_us]


def _variances(columns: OpColumns, counts: list[int], shares: Numbers) -> list[float | UnsetType]:
    """Return std ÷ mean where it means something: many calls, and a share of time that matters."""
    rows = zip(columns.time_std_us, columns.time_mean_us, counts, shares, strict=True)
    return [
        std / mean
        if count > VARIANCE_MIN_CALLS
        and (share is None or share >= VARIANCE_MIN_PERCENT)
        and mean
        and std is not None
        else UNSET
        for std, mean, count, share in rows
    ]


def _fusion_candidates(kernels: list[tuple[str, ...]], fusion_map: dict[str, str]) -> list[str | UnsetType]:
    if not fusion_map:
        return [UNSET] * len(kernels)
    return [_fusion_candidate(names, fusion_map) for names in kernels]


def _fusion_candidate(names: tuple[str, ...], fusion_map: dict[str, str]) -> str | UnsetType:
    for name in names:
        for known, candidate in fusion_map.items():
            if name.startswith(known) or known.startswith(name):
                return candidate
    return UNSET


def _launcher_paths(
    columns: OpColumns, stacks: list[CallStack], libraries: list[str | None]
) -> list[str | None]:
    """Return where each op was started from; ``None`` where the table leaves the cell of its column empty."""
    if not columns.has_entry_point:
        return list(map(_path_from_stack, stacks, libraries))
    rows = zip(columns.entry_point, stacks, libraries, strict=True)
    return [
        _path_from_stack(stack, library) if entry == _NO_ENTRY_POINT else entry
        for entry, stack, library in rows
    ]


def _path_from_stack(stack: CallStack, library: str | None) -> str:
    if stack.module_chain:
        return " > ".join(stack.module_chain[:_MODULES_IN_PATH])
    return f"{library} (vendor)" if library else _NO_ENTRY_POINT


def _call_chains(columns: OpColumns) -> list[tuple[str, ...] | UnsetType]:
    if len(columns.call_stack) > CALL_CHAIN_MAX_OPERATIONS:
        return [UNSET] * len(columns.call_stack)
    return [call_chain(cell) for cell in columns.call_stack]


def _bytes_moved(columns: OpColumns) -> Numbers:
    """Return bytes per call: as the table says, else achieved bandwidth × mean kernel time."""
    rows = zip(columns.data_moved_mib, columns.tb_s, columns.time_mean_us, strict=True)
    return [
        mib * _BYTES_PER_MIB
        if mib is not None
        else None
        if tb_s is None or mean_us is None
        else tb_s * 1e6 * mean_us
        for mib, tb_s, mean_us in rows
    ]


def _milliseconds(time_us: float | None) -> float | UnsetType:
    return UNSET if time_us is None else round(time_us / 1e3, 3)


def _known(value: _Number | None) -> _Number | UnsetType:
    return UNSET if value is None else value
