"""What a profiler trace holds, as far as it is used. Times are µs on the trace's own clock."""

from typing import Any, Literal

import msgspec

from normscope.trace.args import decode_args

EXTERNAL_ID = "External id"
EXTERNAL_ID_2021 = "external id"

GpuKind = Literal["kernel", "memcpy", "memset"]
ThreadId = int | str


class _ExternalIds(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"external_id": EXTERNAL_ID, "external_id_2021": EXTERNAL_ID_2021},
):
    external_id: int | None = None
    external_id_2021: int | None = None


_external_ids = msgspec.json.Decoder(_ExternalIds)


class OpArgs(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "dims": "Input Dims",
        "types": "Input type",
        "strides": "Input Strides",
        "concrete": "Concrete Inputs",
    },
):
    """The inputs of an op as the profiler recorded them, by schema position.

    Each field is None where the trace does not have it. The lists may differ in length, and an entry may be
    anything (a symbolic size, null, a nested list), so look at each one before use.
    """

    dims: Any = None
    """Sizes: ``[[8, 128, 1024], []]``; ``[]`` for no tensor or a 0-d one, ``[[2, 3], [4]]`` for a list."""
    types: Any = None
    """``c10::BFloat16``, ``Scalar``, ``ScalarList``; ``''`` for an argument that is absent."""
    strides: Any = None
    """Strides in elements, laid out as ``dims``."""
    concrete: Any = None
    """Values of plain arguments, as text: ``True``, ``[True, False]``, ``1e-05``, ``''``."""


class GpuEvent(msgspec.Struct, frozen=True, gc=False):
    """One kernel, copy or memset on the GPU."""

    kind: GpuKind
    name: str
    ts_us: float
    dur_us: float
    pid: ThreadId
    """The process of the trace's GPU track: the device, and in merged traces the rank too."""
    stream: ThreadId
    device: int | None = None
    correlation: int | None = None
    external_id: int | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    blocks_per_sm: float | None = None
    clipped_dur_us: float | None = None
    """Time to the start of the next event of the stream, if this one claims to outlast it, else None."""

    @property
    def end_us(self) -> float:
        """End as recorded, µs."""
        return self.ts_us + self.dur_us


class Launch(msgspec.Struct, frozen=True, gc=False):
    """A call on the host that carries a correlation id: a kernel or graph launch, a copy, a wait."""

    name: str
    ts_us: float
    dur_us: float
    pid: ThreadId
    tid: ThreadId
    correlation: int
    external_id: int | None = None
    kernel: str | None = None
    """Name of the kernel that it starts, where the profiler records it, as ROCm's does."""


class CpuOp(msgspec.Struct, frozen=True, gc=False):
    """An op on the host, be it ATen, a library's or an autograd node."""

    name: str
    ts_us: float
    dur_us: float
    pid: ThreadId
    tid: ThreadId
    sequence: int | None = None
    """Sequence number: shared by a forward op and the autograd node made for it."""
    forward_thread: int | None = None
    """Profiler's id of the thread that ran the forward op; 0 or None in the forward op itself."""
    raw_args: bytes = b""
    """The ``args`` object as JSON text, or ``b""``; decoded when asked for, so most of them never are."""

    def __lt__(self, other: "CpuOp") -> bool:
        """Tell whether this op was recorded first: of two with the same times that one is the outer one."""
        return (self.external_id or 0, self.name) < (other.external_id or 0, other.name)

    @property
    def end_us(self) -> float:
        """End as recorded, µs."""
        return self.ts_us + self.dur_us

    @property
    def external_id(self) -> int | None:
        """Number of the op in the trace, if it has one."""
        ids = decode_args(_external_ids, self.raw_args, _ExternalIds) if self.raw_args else _ExternalIds()
        return ids.external_id if ids.external_id is not None else ids.external_id_2021

    def args(self) -> OpArgs:
        """Return the recorded inputs; every field is None if there are none, or none that can be read."""
        try:
            return msgspec.json.decode(self.raw_args, type=OpArgs) if self.raw_args else OpArgs()
        except (ValueError, RecursionError, msgspec.DecodeError):
            return OpArgs()


class Span(msgspec.Struct, frozen=True, gc=False):
    """A named stretch of time on a host thread: an annotation, a profiler step or the call of a module."""

    name: str
    ts_us: float
    dur_us: float
    pid: ThreadId
    tid: ThreadId

    @property
    def end_us(self) -> float:
        """End as recorded, µs."""
        return self.ts_us + self.dur_us


class DeviceProperties(msgspec.Struct, frozen=True, gc=False):
    """One entry of the trace's ``deviceProperties``; a field is None where it is missing or senseless."""

    id: int | None = None
    name: str | None = None
    memory_bytes: int | None = None
    compute_major: int | None = None
    compute_minor: int | None = None
    multiprocessors: int | None = None


class TraceInfo(msgspec.Struct, frozen=True):
    """What the trace says about itself and the machine."""

    devices: tuple[DeviceProperties, ...] = ()
    metadata: dict[str, Any] = {}
    """Every entry beside ``traceEvents``, such as ``distributedInfo``, ``record_shapes``, ``with_stack``."""

    @property
    def rank(self) -> int | None:
        """Rank of the process in a distributed run, if the trace says so."""
        distributed = self.metadata.get("distributedInfo")
        rank = distributed.get("rank") if isinstance(distributed, dict) else None
        return rank if isinstance(rank, int) else None

    def says(self, option: str) -> bool:
        """Tell whether a profiler option such as ``record_shapes`` or ``with_stack`` was on."""
        return bool(self.metadata.get(option))


class Problem(msgspec.Struct, frozen=True):
    """One kind of trouble in the file: what was repaired, left out or is doubtful."""

    what: str
    """A clause that follows the count: ``events could not be read and were left out``."""
    count: int
    first_offset: int | None = None
    """Where the first one is, in bytes from the start of the JSON text; None where that is not known."""


class Trace(msgspec.Struct, frozen=True):
    """A trace as read: what is used of it, and what was found wrong."""

    gpu_events: list[GpuEvent]
    launches: list[Launch]
    cpu_ops: list[CpuOp]
    annotations: list[Span]
    """User annotations on the host, profiler steps not among them."""
    steps: list[Span]
    """``ProfilerStep#`` spans, by time."""
    modules: list[Span]
    """Calls of modules (``nn.Module: X_0``); other Python frames are not kept."""
    info: TraceInfo
    problems: list[Problem]
    event_count: int
    """Events in the file, used or not, unreadable ones not among them."""
    window_us: tuple[float, float] | None
    """Start and end of the profiled window, where the trace marks them."""
    bytes_read: int
    """Size of the JSON after decompression."""
    truncated: bool
    """The file ends before the trace does."""
    resolution_us: float
    """1.0 where every time on the GPU is a whole number of µs, as before PyTorch 2.4; else 0.001."""
