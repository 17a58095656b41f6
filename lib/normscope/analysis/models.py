"""The metrics file: what the analysis says, as flat frozen structs.

One :class:`CategoryMetrics` is one ``<category>_metrics.json``. The keys of the TraceLens contract are named
exactly as the contract names them (so ``Input Dims`` and ``tb_s_achieved``); the keys normscope adds carry
their unit in the name. ``UNSET`` keys are left out of the file; ``None`` is written as ``null`` and means
"not known".
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

SCHEMA_VERSION = "1.0"

Scope = Literal["standalone", "comparative"]
Direction = Literal["forward", "backward", "unknown"]
Variant = Literal["BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "Other"]
FoundBy = Literal["op", "compiled", "eager", "kernel"]
Kind = Literal["norm", "unfused", "compiled"]
Evidence = Literal["trace", "source", "unverified"]
Bound = Literal["under-filled", "launch-bound", "cache-resident", "two-pass"]
EstimateMethod = Literal["quantified", "heuristic"]
Number = int | float


class Efficiency(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How close one operation comes to the hardware, as the contract's ``efficiency`` object."""

    tflops_achieved: float | None
    tb_s_achieved: float | None
    efficiency_percent: float | None
    bound_type: str | None
    flops_per_byte: float | None
    compute_spec: str | None
    resolved_peak_maf: Number | None
    resolved_peak_hbm_bw: Number | None
    warning: str | None
    is_anomaly: bool


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What bounds an operation besides memory and arithmetic, by the trace and the registry of GPUs.

    ``workgroups`` are those that the launch of the main kernel starts, ``busy_percent`` is the share of the
    GPU's ``multiprocessors`` that they can keep busy. ``at_peak_us`` is the time of a call's bytes at peak
    bandwidth. ``attainable_percent`` is what is left of the roofline where inputs are read twice from memory.
    """

    bounds: tuple[Bound, ...]
    workgroups: int | None
    workgroup_threads: int | None
    multiprocessors: int | None
    busy_percent: float | None
    at_peak_us: float | None
    shortest_kernel_us: float | None
    last_level_cache_bytes: float | None
    attainable_percent: float | None


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation signature: an op with its shapes and types, and all its calls.

    The keys from ``variant`` on are normscope's own. ``kind`` is ``unfused`` for a norm that runs as a chain
    of small kernels (``bytes_launched_per_call`` is what these move, ``bytes_moved_per_call`` what one fused
    kernel would), and ``compiled`` for one inside a compiler's kernel. Where ``is_upper_bound``, the time is
    that of the norm and of what it is fused with; where ``is_replayed``, a captured graph launched it.
    ``norm_library`` is who wrote the op or kernel, by the catalog of norms, also where ``library`` doesn't
    tell it. ``shapes_from`` names the capture of a graph that tells the inputs of its replays, and what alone
    it was matched by where nothing confirms it. ``main_kernel`` holds most of the time of a call that has
    several kernels. In the comparative scope ``kernel_time_us``, ``time2_us`` and ``delta_us`` are the times
    of both traces and their difference, not rounded as ``time_ms``, ``t2_time_ms`` and ``difference_ms`` are.
    """

    name: str
    count: int
    time_ms: float
    percent_of_category: float
    percent_of_total: float | None
    efficiency: Efficiency
    efficiency_warning: str | UnsetType = UNSET
    input_dims: str | UnsetType = msgspec.field(default=UNSET, name="Input Dims")
    input_type: str | UnsetType = msgspec.field(default=UNSET, name="Input type")
    args: str | UnsetType = UNSET
    t2_time_ms: float | UnsetType = UNSET
    count_trace2: int | UnsetType = UNSET
    difference_ms: float | UnsetType = UNSET
    cov: float | UnsetType = UNSET
    high_variance: bool | UnsetType = UNSET
    library: str | None
    fusion_flagged: bool | UnsetType = UNSET
    fusion_candidate_name: str | UnsetType = UNSET
    launcher_path: str | None
    kernel_name: str
    kernel_name_trunc: str
    module_chain: tuple[str, ...]
    call_chain: tuple[str, ...] | UnsetType = UNSET
    variant: Variant
    direction: Direction
    kernel_time_mean_us: float | None
    kernel_time_std_us: float | None
    bytes_moved_per_call: float | None
    kind: Kind = "norm"
    norm_library: str | UnsetType = UNSET
    found_by: FoundBy | UnsetType = UNSET
    evidence: Evidence | UnsetType = UNSET
    fused_with: tuple[str, ...] = ()
    is_upper_bound: bool = False
    is_replayed: bool = False
    bytes_launched_per_call: float | None = None
    shapes_from: str | UnsetType = UNSET
    main_kernel: str | UnsetType = UNSET
    main_kernel_percent: float | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET
    kernel_time_us: float | UnsetType = UNSET
    time2_us: float | UnsetType = UNSET
    delta_us: float | UnsetType = UNSET

    @property
    def own_us(self) -> float:
        """Its kernel time, as exactly as it is known."""
        return self.time_ms * 1e3 if self.kernel_time_us is UNSET else self.kernel_time_us

    @property
    def trace2_us(self) -> float | None:
        """Trace 2's kernel time, as exactly as it is known; None where the table doesn't tell it."""
        if self.time2_us is not UNSET:
            return self.time2_us
        return None if self.t2_time_ms is UNSET else self.t2_time_ms * 1e3

    @property
    def trace2_minus_own_us(self) -> float | None:
        """Trace 2's time minus its own, likewise."""
        if self.delta_us is not UNSET:
            return self.delta_us
        return None if self.difference_ms is UNSET else self.difference_ms * 1e3


class ImpactEstimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one operation could save, as a share of end-to-end time in percent.

    ``variant``, ``kind`` and ``operation_index`` (the place in ``operations[]``) are normscope's own.
    """

    operation: str
    category: str
    type: Literal["kernel_tuning", "unmodeled_significant"]
    estimate_method: EstimateMethod
    impact_score: float
    impact_score_low: float
    impact_score_high: float
    efficiency_pct: float | None
    bound_type: str | None
    library: str | None
    time_ms: float
    percent_of_total: float | UnsetType = UNSET
    variant: Variant
    kind: Kind = "norm"
    operation_index: int


class CategoryFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A group of estimates that share a cause; this list alone decides which findings exist.

    ``kind`` is normscope's own.
    """

    bound_type: str
    library: str
    eff_bucket: str
    estimate_method: EstimateMethod
    impact_score: float
    impact_score_low: float
    impact_score_high: float
    percent_of_total: float | UnsetType = UNSET
    member_count: int
    members: tuple[ImpactEstimate, ...]
    rank: int
    kind: Kind = "norm"


class CategorySpecific(msgspec.Struct, frozen=True, kw_only=True):
    """The contract's ``category_specific`` object."""

    peak_hbm_bw_tbs: Number | None


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The device and the peaks the percentages refer to, as the metadata file gives them."""

    platform: str | None
    peak_hbm_bw_tbs: Number | None
    peak_tflops: dict[str, Number]
    memory_gb: Number | None
    end_to_end_ms: float | None
    idle_time_percent: float | None


class DataQuality(msgspec.Struct, frozen=True, kw_only=True):
    """What the input lacked, so that a reader knows what the figures can't say.

    Indexes are places in ``operations[]``.
    """

    missing_columns: tuple[str, ...]
    operations_without_time: tuple[int, ...]
    operations_without_efficiency: tuple[int, ...]
    anomalies: tuple[int, ...]
    high_variance: tuple[int, ...]
    notes: tuple[str, ...]


class CategoryMetrics(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="OK"):
    """One ``<category>_metrics.json`` of a successful analysis.

    ``trace2_scaled_to`` says what of trace 1 the times and calls of trace 2 are scaled to, where they are.
    """

    category: str
    comparison_scope: Scope
    total_time_ms: float
    percent_of_compute: Number
    operation_count: int
    operations: tuple[Operation, ...]
    category_specific: CategorySpecific
    impact_estimates: tuple[ImpactEstimate, ...]
    category_findings: tuple[CategoryFinding, ...]
    schema_version: str = SCHEMA_VERSION
    direction: Direction
    trace2_scaled_to: str | UnsetType = UNSET
    hardware: Hardware
    data_quality: DataQuality


class ErrorMetrics(msgspec.Struct, frozen=True, kw_only=True, tag_field="status", tag="ERROR"):
    """One ``<category>_metrics.json`` of an analysis that could not be made.

    ``reason`` is ``missing`` when the category has no ops table (the trace holds none of these operations)
    and ``failed`` when there is one that can't be analyzed.
    """

    category: str
    error: str
    comparison_scope: Scope
    schema_version: str = SCHEMA_VERSION
    reason: Literal["missing", "failed"]


Metrics = CategoryMetrics | ErrorMetrics


def exceeds_end_to_end(kernel_ms: float, end_to_end_ms: float | None) -> bool:
    """Tell whether kernels take longer than the whole: then no share of it, and no impact score, holds.

    Parameters
    ----------
    kernel_ms
        Kernel time in ms, of one category or of all.
    end_to_end_ms
        End-to-end GPU time in ms, or None where it isn't known.
    """
    return end_to_end_ms is not None and kernel_ms > round(end_to_end_ms, 3)


def encode_metrics(metrics: Metrics) -> bytes:
    """Return the bytes of a metrics file: UTF-8 JSON, two spaces of indent, a final newline.

    Parameters
    ----------
    metrics
        What an analysis returned.

    Returns
    -------
    bytes
        The same for equal metrics; never holds ``NaN`` or ``Infinity``, which JSON lacks.
    """
    return msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n"


def decode_metrics(data: bytes) -> Metrics:
    """Read back what :func:`encode_metrics` wrote.

    Raises
    ------
    msgspec.ValidationError
        The data is not a normscope metrics file.
    """
    return msgspec.json.decode(data, type=Metrics)
