"""The ``operations[]`` list: one entry per row of the ops table, longest first."""

from typing import Any

from msgspec import UNSET, UnsetType

from normscope.analysis import columns as c
from normscope.analysis.arguments import render_arguments
from normscope.analysis.call_stack import CallStack, read_call_stack
from normscope.analysis.columns import OpColumns
from normscope.analysis.efficiency import Measured, judge_efficiency, rounded
from normscope.analysis.models import Direction, Operation, Scope
from normscope.analysis.names import kernel_names, norm_direction, norm_library, norm_variant
from normscope.inputs.metadata import Metadata

HIGH_VARIANCE_ABOVE = 1.0
VARIANCE_MIN_CALLS = 10
VARIANCE_MIN_PERCENT = 5.0
CALL_CHAIN_MAX_OPERATIONS = 100
_BYTES_PER_MIB = 1024.0 * 1024.0
_NO_ENTRY_POINT = "Not found"
_MODULES_IN_PATH = 3


def build_operations(
    columns: OpColumns, metadata: Metadata, fusion_map: dict[str, str], category: str, scope: Scope
) -> tuple[Operation, ...]:
    """Return the operations of a category by kernel time, longest first, ties in file order."""
    order = sorted(range(len(columns.name)), key=lambda i: -(columns.time_sum_us[i] or 0.0))
    total_us = sum(time or 0.0 for time in columns.time_sum_us)
    context = _Context(columns, metadata, fusion_map, scope, total_us, norm_direction(category))
    return tuple(context.operation(i) for i in order)


class _Context:
    """What all rows of a table share, so that a row is one call."""

    def __init__(  # noqa: PLR0913, PLR0917 - one argument per thing that rows share
        self,
        columns: OpColumns,
        metadata: Metadata,
        fusion_map: dict[str, str],
        scope: Scope,
        total_us: float,
        direction: Direction,
    ) -> None:
        self.columns = columns
        self.scope = scope
        self.total_us = total_us
        self.direction = direction
        self.fusion_map = fusion_map
        self.end_to_end_us = (metadata.end_to_end_ms or 0.0) * 1e3
        self.peak_tflops = metadata.peak_tflops
        self.peak_tb_s = metadata.peak_hbm_bw_tbs
        self.keeps_call_chain = len(columns.name) <= CALL_CHAIN_MAX_OPERATIONS

    def operation(self, i: int) -> Operation:
        """Return the operation of row ``i``."""
        columns = self.columns
        name = columns.name[i] or ""
        time_us = columns.time_sum_us[i] or 0.0
        kernels = kernel_names(columns.kernel_details[i])
        stack = read_call_stack(columns.call_stack[i])
        library = norm_library(name, kernels)
        efficiency = self._efficiency(i)
        share = time_us / self.end_to_end_us * 100.0 if self.end_to_end_us else None
        count = self._count(i)
        return Operation(
            name=name,
            count=count,
            time_ms=round(time_us / 1e3, 3),
            percent_of_category=round(time_us / self.total_us * 100.0, 2) if self.total_us else 0.0,
            percent_of_total=rounded(share),
            efficiency=efficiency,
            efficiency_warning=efficiency.warning or UNSET,
            input_dims=_set(columns.input_dims[i]),
            input_type=_set(columns.input_type[i]),
            args=_set(render_arguments(columns.input_dims[i], columns.input_type[i])),
            library=library,
            launcher_path=self._launcher_path(i, stack, library),
            kernel_name=stack.kernel_name,
            kernel_name_trunc=stack.kernel_name_trunc,
            module_chain=stack.module_chain,
            call_chain=stack.call_chain if self.keeps_call_chain else UNSET,
            variant=norm_variant(name),
            direction=_known(norm_direction(name), self.direction),
            kernel_time_mean_us=columns.time_mean_us[i],
            kernel_time_std_us=columns.time_std_us[i],
            bytes_moved_per_call=self._bytes_moved(i),
            **self._variance(i, count, share),
            **self._fusion(kernels),
            **self._trace2(i),
        )

    def _count(self, i: int) -> int:
        return next((n for n in (self.columns.count[i], self.columns.operation_count[i]) if n is not None), 1)

    def _efficiency(self, i: int) -> Any:
        columns = self.columns
        row = Measured(
            columns.time_sum_us[i],
            columns.pct_roofline[i],
            columns.tb_s[i],
            columns.tflops[i],
            columns.flops_per_byte[i],
            columns.compute_spec[i],
            columns.roofline_bound[i],
            columns.speedup[i],
            columns.delta_us[i],
        )
        return judge_efficiency(row, self.scope, self.peak_tflops, self.peak_tb_s)

    def _launcher_path(self, i: int, stack: CallStack, library: str | None) -> str | None:
        entry_point = self.columns.entry_point[i]
        if self.columns.has_entry_point and entry_point is None:
            return None
        if entry_point is not None and entry_point != _NO_ENTRY_POINT:
            return entry_point
        if stack.module_chain:
            return " > ".join(stack.module_chain[:_MODULES_IN_PATH])
        return f"{library} (vendor)" if library else _NO_ENTRY_POINT

    def _bytes_moved(self, i: int) -> float | None:
        """Return bytes per call: as the table says, else achieved bandwidth × mean time."""
        mib = self.columns.data_moved_mib[i]
        if mib is not None:
            return mib * _BYTES_PER_MIB
        tb_s, mean_us = self.columns.tb_s[i], self.columns.time_mean_us[i]
        return None if tb_s is None or mean_us is None else tb_s * 1e6 * mean_us

    def _variance(self, i: int, count: int, share: float | None) -> dict[str, Any]:
        std, mean = self.columns.time_std_us[i], self.columns.time_mean_us[i]
        if std is None or not mean or count <= VARIANCE_MIN_CALLS:
            return {}
        if share is not None and share < VARIANCE_MIN_PERCENT:
            return {}
        cov = std / mean
        return {"cov": round(cov, 3), "high_variance": cov > HIGH_VARIANCE_ABOVE}

    def _fusion(self, kernels: tuple[str, ...]) -> dict[str, Any]:
        for kernel in kernels:
            for known, candidate in self.fusion_map.items():
                if kernel.startswith(known) or known.startswith(kernel):
                    return {"fusion_flagged": True, "fusion_candidate_name": candidate}
        return {}

    def _trace2(self, i: int) -> dict[str, Any]:
        if self.scope != "comparative":
            return {}
        columns = self.columns
        time_us, count, delta_us = columns.time_trace2_us[i], columns.count_trace2[i], columns.delta_us[i]
        return {
            "t2_time_ms": UNSET if time_us is None else round(time_us / 1e3, 3),
            "count_trace2": UNSET if count is None else count,
            "difference_ms": UNSET if delta_us is None else round(delta_us / 1e3, 3),
        }


def _set(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text


def _known(direction: Direction, fallback: Direction) -> Direction:
    return fallback if direction == "unknown" else direction


COMPARED_COLUMNS = c.COMPARATIVE_COLUMNS
