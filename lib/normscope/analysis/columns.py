"""The columns of the ops table that the analysis reads, checked and turned into numbers."""

from collections.abc import Callable

import msgspec

from normscope.errors import InputError
from normscope.inputs.ops_table import Cells, OpsTable

NAME = "name"
COUNT = "count"
OPERATION_COUNT = "operation_count"
TIME_SUM = "Kernel Time (µs)_sum"
TIME_MEAN = "Kernel Time (µs)_mean"
TIME_STD = "Kernel Time (µs)_std"
FLOPS_PER_BYTE = "FLOPS/Byte"
TFLOPS = "TFLOPS/s_mean"
TB_S = "TB/s_mean"
COMPUTE_SPEC = "Compute Spec"
ROOFLINE_BOUND = "Roofline Bound"
PCT_ROOFLINE = "Pct Roofline_mean"
INPUT_DIMS = "Input Dims"
INPUT_TYPE = "Input type"
KERNEL_DETAILS = "kernel_details_summary"
CALL_STACK = "call_stack_full"
ENTRY_POINT = "entry_point"
DATA_MOVED = "Data Moved (MB)"
SPEEDUP = "speedup (trace2/trace1)"
DELTA = "delta_us (trace2 - trace1)"
COUNT_TRACE2 = "lca_count_trace2"
TIME_TRACE2 = "lca_total_kernel_time_trace2_us"
# Of run directories that normscope made from a trace.
VARIANT = "norm_variant"
LIBRARY = "norm_library"
FOUND_BY = "found_by"
EVIDENCE = "evidence"
FUSED_WITH = "fused_with"
UPPER_BOUND = "is_upper_bound"
REPLAYED = "is_replayed"
DATA_LAUNCHED = "Data Launched (MB)"
SHAPES_FROM = "shapes_from"
LIMITS = "limits"
MAIN_KERNEL = "main_kernel"
MAIN_KERNEL_PERCENT = "main_kernel_percent"
WORKGROUPS = "workgroups"
WORKGROUP_THREADS = "workgroup_threads"
MULTIPROCESSORS = "multiprocessors"
AT_PEAK = "At Peak (µs)"
SHORTEST_KERNELS = "Shortest Kernels (µs)"
LAST_LEVEL_CACHE = "last_level_cache_bytes"
ATTAINABLE = "attainable_percent"

STANDALONE_COLUMNS = (
    *(NAME, OPERATION_COUNT, TIME_SUM, TIME_MEAN, TIME_STD, FLOPS_PER_BYTE, TFLOPS, TB_S, COMPUTE_SPEC),
    *(ROOFLINE_BOUND, PCT_ROOFLINE, INPUT_DIMS, INPUT_TYPE, KERNEL_DETAILS, CALL_STACK, ENTRY_POINT),
)
COMPARATIVE_COLUMNS = (SPEEDUP, DELTA, COUNT_TRACE2, TIME_TRACE2)
TRACE_COLUMNS = (
    *(VARIANT, LIBRARY, FOUND_BY, EVIDENCE, FUSED_WITH, UPPER_BOUND, REPLAYED, DATA_LAUNCHED),
    *(SHAPES_FROM, LIMITS, MAIN_KERNEL, MAIN_KERNEL_PERCENT, WORKGROUPS, WORKGROUP_THREADS),
    *(MULTIPROCESSORS, AT_PEAK, SHORTEST_KERNELS, LAST_LEVEL_CACHE, ATTAINABLE),
)
WANTED_COLUMNS = frozenset((*STANDALONE_COLUMNS, *COMPARATIVE_COLUMNS, *TRACE_COLUMNS, COUNT, DATA_MOVED))

Numbers = list[float | None]


class OpColumns(msgspec.Struct, frozen=True, kw_only=True):
    """One list per column, all of the same length; a missing cell is ``None``.

    Times are in microseconds, data moved in MiB per call.
    """

    name: Cells
    count: list[int | None]
    operation_count: list[int | None]
    time_sum_us: Numbers
    time_mean_us: Numbers
    time_std_us: Numbers
    flops_per_byte: Numbers
    tflops: Numbers
    tb_s: Numbers
    compute_spec: Cells
    roofline_bound: Cells
    pct_roofline: Numbers
    input_dims: Cells
    input_type: Cells
    kernel_details: Cells
    call_stack: Cells
    entry_point: Cells
    data_moved_mib: Numbers
    speedup: Numbers
    delta_us: Numbers
    count_trace2: list[int | None]
    time_trace2_us: Numbers
    variant: Cells
    library: Cells
    found_by: Cells
    evidence: Cells
    fused_with: Cells
    is_upper_bound: Cells
    is_replayed: Cells
    data_launched_mib: Numbers
    shapes_from: Cells
    limits: Cells
    main_kernel: Cells
    main_kernel_percent: Numbers
    workgroups: list[int | None]
    workgroup_threads: list[int | None]
    multiprocessors: list[int | None]
    at_peak_us: Numbers
    shortest_kernel_us: Numbers
    last_level_cache_bytes: Numbers
    attainable_percent: Numbers
    has_operation_count: bool
    has_entry_point: bool


def op_columns(table: OpsTable) -> OpColumns:
    """Return the columns of ``table``, checked.

    Raises
    ------
    InputError
        A cell is no number where one is needed, is negative where only a speedup or a difference may be, or
        a count is no whole number.
    """
    return OpColumns(
        name=table.text(NAME),
        count=_counts(table, COUNT),
        operation_count=_counts(table, OPERATION_COUNT),
        time_sum_us=_not_negative(table, TIME_SUM),
        time_mean_us=_not_negative(table, TIME_MEAN),
        time_std_us=_not_negative(table, TIME_STD),
        flops_per_byte=_not_negative(table, FLOPS_PER_BYTE),
        tflops=_not_negative(table, TFLOPS),
        tb_s=_not_negative(table, TB_S),
        compute_spec=table.text(COMPUTE_SPEC),
        roofline_bound=table.text(ROOFLINE_BOUND),
        pct_roofline=_not_negative(table, PCT_ROOFLINE),
        input_dims=table.text(INPUT_DIMS),
        input_type=table.text(INPUT_TYPE),
        kernel_details=table.text(KERNEL_DETAILS),
        call_stack=table.text(CALL_STACK),
        entry_point=table.text(ENTRY_POINT),
        data_moved_mib=_not_negative(table, DATA_MOVED),
        speedup=table.numbers(SPEEDUP),
        delta_us=table.numbers(DELTA),
        count_trace2=_counts(table, COUNT_TRACE2),
        time_trace2_us=_not_negative(table, TIME_TRACE2),
        variant=table.text(VARIANT),
        library=table.text(LIBRARY),
        found_by=table.text(FOUND_BY),
        evidence=table.text(EVIDENCE),
        fused_with=table.text(FUSED_WITH),
        is_upper_bound=table.text(UPPER_BOUND),
        is_replayed=table.text(REPLAYED),
        data_launched_mib=_not_negative(table, DATA_LAUNCHED),
        shapes_from=table.text(SHAPES_FROM),
        limits=table.text(LIMITS),
        main_kernel=table.text(MAIN_KERNEL),
        main_kernel_percent=_not_negative(table, MAIN_KERNEL_PERCENT),
        workgroups=_counts(table, WORKGROUPS),
        workgroup_threads=_counts(table, WORKGROUP_THREADS),
        multiprocessors=_counts(table, MULTIPROCESSORS),
        at_peak_us=_not_negative(table, AT_PEAK),
        shortest_kernel_us=_not_negative(table, SHORTEST_KERNELS),
        last_level_cache_bytes=_not_negative(table, LAST_LEVEL_CACHE),
        attainable_percent=_not_negative(table, ATTAINABLE),
        has_operation_count=OPERATION_COUNT in table.columns,
        has_entry_point=ENTRY_POINT in table.columns,
    )


def _not_negative(table: OpsTable, column: str) -> Numbers:
    values = table.numbers(column)
    if min(_known(values), default=0.0) < 0:
        raise _complaint(table, column, values, lambda value: value < 0, "is negative")
    return values


def _counts(table: OpsTable, column: str) -> list[int | None]:
    values = _not_negative(table, column)
    if not all(map(float.is_integer, _known(values))):
        raise _complaint(table, column, values, lambda value: not value.is_integer(), "is no whole number")
    return [None if value is None else int(value) for value in values]


def _known(values: Numbers) -> list[float]:
    return [value for value in values if value is not None]


def _complaint(
    table: OpsTable, column: str, values: Numbers, is_wrong: Callable[[float], bool], problem: str
) -> InputError:
    row = next(i for i, value in enumerate(values) if value is not None and is_wrong(value))
    return table.complaint(row, column, problem)
