"""One category of a run directory, from its files to its metrics."""

from pathlib import Path

from msgspec import UNSET, UnsetType

from normscope.analysis import columns as c
from normscope.analysis.columns import OpColumns, op_columns
from normscope.analysis.impact import estimate_impacts, group_findings
from normscope.analysis.models import (
    CategoryMetrics,
    CategorySpecific,
    DataQuality,
    ErrorMetrics,
    Hardware,
    Metrics,
    Operation,
    Scope,
    exceeds_end_to_end,
)
from normscope.analysis.names import norm_direction
from normscope.analysis.operations import build_operations
from normscope.errors import InputError
from normscope.inputs.metadata import Metadata, read_fusion_map, read_metadata
from normscope.inputs.ops_table import OpsTable, is_absent, read_ops_table
from normscope.inputs.rundir import CategoryPaths, category_paths, check_run_dir

_MAX_STEPS = 10**9  # more than any trace has


def analyze_category(run_dir: Path | str, category: str, scope: Scope = "standalone") -> Metrics:
    """Return the metrics of one category of a run directory; writes nothing.

    Parameters
    ----------
    run_dir
        A TraceLens run directory.
    category
        A file-safe category name such as ``norm_fwd``.
    scope
        ``comparative`` where the table holds trace 2's figures beside trace 1's.

    Returns
    -------
    CategoryMetrics or ErrorMetrics
        An error with reason ``missing`` where there is no ops table, ``failed`` where the files can't be
        analyzed.

    Raises
    ------
    InputError
        ``run_dir`` is no folder.
    UsageError
        ``category`` can't be part of a file name.
    """
    run_dir = Path(run_dir)
    paths = category_paths(run_dir, category)
    check_run_dir(run_dir)
    if is_absent(paths.ops_csv):
        error = f"Category CSV not found: ./category_data/{paths.ops_csv.name}"
        return ErrorMetrics(category=category, error=error, comparison_scope=scope, reason="missing")
    try:
        return _analyze(paths, category, scope)
    except InputError as failure:
        return ErrorMetrics(category=category, error=str(failure), comparison_scope=scope, reason="failed")


def _analyze(paths: CategoryPaths, category: str, scope: Scope) -> CategoryMetrics:
    table = read_ops_table(paths.ops_csv, c.WANTED_COLUMNS)
    metadata = read_metadata(paths.metadata_json)
    columns = op_columns(table)
    operations = build_operations(columns, metadata, read_fusion_map(paths.fusion_json), category, scope)
    estimates = estimate_impacts(operations, category, scope, metadata.end_to_end_ms)
    total_us = sum(time or 0.0 for time in columns.time_sum_us)
    return CategoryMetrics(
        category=category,
        comparison_scope=scope,
        total_time_ms=round(total_us / 1e3, 3),
        percent_of_compute=_percent_of_compute(total_us, metadata),
        operation_count=_operation_count(columns),
        operations=operations,
        category_specific=CategorySpecific(peak_hbm_bw_tbs=metadata.peak_hbm_bw_tbs),
        impact_estimates=estimates,
        category_findings=group_findings(estimates, scope),
        direction=norm_direction(category),
        trace2_scaled_to=_trace2_scaled_to(metadata) if scope == "comparative" else UNSET,
        hardware=_hardware(metadata),
        data_quality=_data_quality(table, operations, round(total_us / 1e3, 3), metadata, scope),
    )


def _percent_of_compute(total_us: float, metadata: Metadata) -> float:
    """Return the contract's share of end-to-end time.

    The reference takes an end-to-end time that isn't stated for one millisecond, and the contract binds this
    key to it. Nothing of ours shows the key then: ``hardware.end_to_end_ms`` says that the time isn't known.
    """
    stated_ms = metadata.gpu_utilization.total_time_ms if metadata.gpu_utilization else None
    end_to_end_ms = 1.0 if stated_ms is None else stated_ms
    return round(total_us / 1e3 / end_to_end_ms * 100.0, 2) if end_to_end_ms > 0 else 0


def _trace2_scaled_to(metadata: Metadata) -> str | UnsetType:
    """Return what of trace 1 the time and the calls of trace 2 are scaled to, unset where they aren't."""
    steps = metadata.comparison_steps or 0
    if metadata.comparison_normalized == "per step" and 0 < steps < _MAX_STEPS:
        return "the single step of trace 1" if steps == 1 else f"the {steps:,} steps of trace 1"
    return "the calls of trace 1" if metadata.comparison_normalized == "per call" else UNSET


def _operation_count(columns: OpColumns) -> int:
    if columns.has_operation_count:
        return sum(count or 0 for count in columns.operation_count)
    return len(columns.name)


def _hardware(metadata: Metadata) -> Hardware:
    utilization = metadata.gpu_utilization
    return Hardware(
        platform=metadata.platform,
        peak_hbm_bw_tbs=metadata.peak_hbm_bw_tbs,
        peak_tflops=metadata.peak_tflops,
        memory_gb=metadata.memory_gb,
        end_to_end_ms=metadata.end_to_end_ms,
        idle_time_percent=utilization.idle_time_percent if utilization else None,
    )


def _data_quality(
    table: OpsTable, operations: tuple[Operation, ...], total_ms: float, metadata: Metadata, scope: Scope
) -> DataQuality:
    expected = c.STANDALONE_COLUMNS + (c.COMPARATIVE_COLUMNS if scope == "comparative" else ())
    return DataQuality(
        missing_columns=tuple(name for name in expected if name not in table.columns),
        operations_without_time=tuple(i for i, op in enumerate(operations) if op.time_ms <= 0),
        operations_without_efficiency=tuple(
            i for i, op in enumerate(operations) if op.efficiency.efficiency_percent is None
        ),
        anomalies=tuple(i for i, op in enumerate(operations) if op.efficiency.is_anomaly),
        high_variance=tuple(i for i, op in enumerate(operations) if op.high_variance is True),
        notes=_notes(operations, total_ms, metadata),
    )


def _notes(operations: tuple[Operation, ...], total_ms: float, metadata: Metadata) -> tuple[str, ...]:
    notes = (
        (not operations, "The ops table has no rows: no normalization operations found."),
        (
            metadata.end_to_end_ms is None,
            "The end-to-end GPU time is not known, so there are no shares of it and no impact scores.",
        ),
        (
            metadata.peak_hbm_bw_tbs is None,
            "The peak memory bandwidth is not known, so bandwidth is shown without a percentage.",
        ),
        (
            exceeds_end_to_end(total_ms, metadata.end_to_end_ms),
            "The kernel time of the normalization operations exceeds the end-to-end GPU time: "
            "one of the two is wrong, and with it every share and impact score.",
        ),
    )
    return tuple(text for applies, text in notes if applies)
