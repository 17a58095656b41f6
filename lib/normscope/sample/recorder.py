"""A simulated profiler: it writes down spans on CPU threads, launches and GPU work, with its own clock.

Times are whole nanoseconds here and become µs in the file.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from normscope.sample.recorded import Event

PROCESS = 4242
MAIN_THREAD = 4242
AUTOGRAD_THREAD = 4301
COMPUTE_STREAM = 0
COMMUNICATION_STREAM = 4
START_NS = 5_000_000_000_000
_LAUNCH_DELAY_NS = 3_100
_BETWEEN_KERNELS_NS = 900
_BETWEEN_SPANS_NS = 80


class GpuWork(msgspec.Struct, frozen=True, kw_only=True):
    """Something that runs on a stream of the GPU, and the call that launches it."""

    name: str
    duration_ns: int
    details: Event
    launch_details: Event = {}
    category: str = "kernel"
    stream: int = COMPUTE_STREAM
    launch_call: str = "hipLaunchKernel"


class Recorder:
    """Events so far, and where the clocks of the threads and the streams stand.

    Everything on the GPU takes ``scale`` times as long as asked.
    """

    def __init__(self, rng: random.Random, scale: float) -> None:
        self.events: list[Event] = []
        self.now_ns = START_NS
        self.stream_free_ns = {COMPUTE_STREAM: START_NS, COMMUNICATION_STREAM: START_NS}
        self._rng = rng
        self._scale = scale
        self._thread = MAIN_THREAD
        self._frames: list[int] = []
        self._ops: list[int] = []
        self._counters = dict.fromkeys(("frame", "op", "correlation", "flow", "sequence"), 0)

    def next_number(self, counter: str) -> int:
        """Count up one of the profiler's numberings."""
        self._counters[counter] += 1
        return self._counters[counter]

    def spend(self, microseconds: float) -> None:
        """Let the current thread work for about so long."""
        self.now_ns += round(microseconds * self._rng.uniform(800, 1200))

    @contextmanager
    def frame(self, name: str, **more: int) -> Iterator[None]:
        """Run a Python function, or a module where ``more`` has its ``Python module id``."""
        number = self.next_number("frame")
        parent = self._frames[-1] if self._frames else None
        self._frames.append(number)
        keys = {key.replace("_", " "): value for key, value in more.items()}
        args = {"Python parent id": parent, "Python id": number, **keys}
        with self._span("python_function", name, args, 0.7):
            yield
        self._frames.pop()

    @contextmanager
    def module(self, class_name: str, number: int) -> Iterator[None]:
        """Call a module: its span, and the frame that PyTorch puts around every ``forward``."""
        with (
            self.frame(f"nn.Module: {class_name}_{number}", Python_module_id=number),
            self.frame("torch/nn/modules/module.py(1782): _call_impl"),
        ):
            yield

    @contextmanager
    def op(self, name: str, arguments: Event, category: str = "cpu_op") -> Iterator[Event]:
        """Run an op, or a labelled range of them."""
        number = self.next_number("op")
        self._ops.append(number)
        args = {"External id": number, "Record function id": 0, **arguments}
        with self._span(category, name, args, 2.0) as event:
            yield event
        self._ops.pop()

    @contextmanager
    def autograd_thread(self) -> Iterator[None]:
        """Do the work of the backward pass on its own thread while this one waits."""
        frames, ops = self._frames, self._ops
        self._thread, self._frames, self._ops = AUTOGRAD_THREAD, [], []
        self.spend(25)
        yield
        self._thread, self._frames, self._ops = MAIN_THREAD, frames, ops
        self.spend(15)

    def launch(self, work: GpuWork) -> Event:
        """Launch GPU work; it starts when it has arrived and its stream is free. Return its event."""
        correlation = self.next_number("correlation")
        duration_ns = round(work.duration_ns * self._scale)
        link = {"External id": self._ops[-1]} if self._ops else {}
        with self._span("", "", {}, 1.2) as call:
            self.spend(2.5)
        call.update(cat="cuda_runtime", name=work.launch_call)
        call["args"] = {**link, **work.launch_details, "cid": 107, "correlation": correlation}
        start = max(self.now_ns + _LAUNCH_DELAY_NS, self.stream_free_ns[work.stream] + _BETWEEN_KERNELS_NS)
        args = {**link, "device": 0, "stream": work.stream, "correlation": correlation, **work.details}
        event = {
            **{"ph": "X", "cat": work.category, "name": work.name, "pid": 0, "tid": work.stream},
            **{"ts": start, "dur": duration_ns, "args": args},
        }
        self.stream_free_ns[work.stream] = start + duration_ns
        self.events.append(event)
        self.flow("ac2g", correlation, call, event)
        return event

    def wait_for(self, waiting: int, stream: int) -> None:
        """Let one stream go on only when another has done what was launched so far."""
        free = self.stream_free_ns
        free[waiting] = max(free[waiting], free[stream])

    def synchronize(self, call: str) -> None:
        """Let the current thread wait until the GPU has done everything."""
        with self._span("", "", {}, 1.0) as event:
            self.now_ns = max(self.now_ns, *self.stream_free_ns.values())
        event.update(cat="cuda_runtime", name=call)
        event["args"] = {"cid": 48, "correlation": self.next_number("correlation")}

    def flow(self, category: str, number: int, source: Event, target: Event) -> None:
        """Draw an arrow between two events."""
        for phase, event in (("s", source), ("f", target)):
            place = {"pid": event["pid"], "tid": event["tid"], "ts": event["ts"]}
            end = {"bp": "e"} if phase == "f" else {}
            self.events.append({"ph": phase, "id": number, **place, "cat": category, "name": category, **end})

    @contextmanager
    def _span(self, category: str, name: str, args: Event, overhead_us: float) -> Iterator[Event]:
        # the µs of the file are rounded, so spans never touch
        self.now_ns += _BETWEEN_SPANS_NS
        start = self.now_ns
        event = {
            **{"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": self._thread},
            **{"ts": start, "dur": 0, "args": args},
        }
        self.events.append(event)
        self.spend(overhead_us)
        yield event
        self.spend(overhead_us)
        event["dur"] = self.now_ns - start
