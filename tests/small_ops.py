"""Small ops with their kernels, written down in the order in which a thread runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from trace_inputs import Event, frame, kernel, launch, op

F32, F64, BF16, HALF = "float", "double", "c10::BFloat16", "c10::Half"
KERNEL_US = 3.0
OP_US, STEP_US = 10.0, 20.0
_CORRELATIONS = count(1)

Argument = tuple[str, list[int]] | tuple[str, list[int], list[int]] | str | None
"""A tensor (type, sizes and, if they matter, strides), a value as text, or nothing."""
EPSILON: Argument = (F64, [])
"""A number that PyTorch makes a tensor of no axes of."""
KEPT_LAST: tuple[Argument, ...] = ("[-1]", "True", None)
ONE: Argument = "1"


def recorded(*arguments: Argument) -> dict[str, list[Any]]:
    """Return arguments as the profiler writes them."""
    found: dict[str, list[Any]] = {
        "Input type": [],
        "Input Dims": [],
        "Input Strides": [],
        "Concrete Inputs": [],
    }
    for argument in arguments:
        strides: list[int] = []
        if isinstance(argument, tuple):
            kind, sizes, value = argument[0], argument[1], ""
            strides = argument[2] if len(argument) == 3 else _contiguous(sizes)
        elif argument is None:
            kind, sizes, value = "", [], ""
        else:
            kind, sizes, value = "ScalarList" if "[" in argument else "Scalar", [], argument
        for key, entry in zip(found, (kind, sizes, strides, value), strict=True):
            found[key].append(entry)
    return found


def _contiguous(sizes: list[int]) -> list[int]:
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


class Thread:
    """What one host thread runs, one op after another, each with a kernel of its own on one stream."""

    def __init__(
        self, tid: int = 501, stream: int = 7, start_us: float = 100.0, step_us: float = 20.0
    ) -> None:
        self.events: list[Event] = []
        self.kernels: list[str] = []
        self.now_us = start_us
        self._tid, self._stream = tid, stream
        self._records_shapes = True

    def run(self, name: str, *arguments: Argument, **extra: object) -> str:
        """Run an op that launches one kernel; return that kernel's name."""
        self.view(name, *arguments, **extra)
        return self._launched(name, self.events[-1]["ts"] + 5)

    def view(self, name: str, *arguments: Argument, **extra: object) -> None:
        """Run an op that launches nothing."""
        args = recorded(*arguments) if self._records_shapes else {}
        self.events.append(op(name, self.now_us, OP_US, tid=self._tid, **args, **extra))
        self.now_us += STEP_US

    def cast(
        self, source: tuple[str, list[int]], kind: str, around: str = "aten::to", **extra: object
    ) -> str:
        """Run a cast, which does its work two ops further down."""
        target = (kind, source[1])
        start = self.now_us
        self.view(around, source, "6", "False", "False", None)
        for depth, (name, arguments) in enumerate(
            (("aten::_to_copy", (source, "6")), ("aten::copy_", (target, source, "False"))), start=1
        ):
            args = recorded(*arguments) if self._records_shapes else {}
            self.events.append(op(name, start + depth, OP_US - 2 * depth, tid=self._tid, **args))
        return self._launched("aten::copy_", start + 4)

    def _launched(self, name: str, at_us: float) -> str:
        number = next(_CORRELATIONS)
        kernel_name = f"void at::native::small_kernel<{name}, {number}>(int)"
        self.events += [
            launch(number, at_us, 1.0, tid=self._tid),
            kernel(number, at_us + 2, KERNEL_US, name=kernel_name, tid=self._stream, stream=self._stream),
        ]
        self.kernels.append(kernel_name)
        return kernel_name

    @contextmanager
    def without_shapes(self) -> Iterator[None]:
        """Record no inputs."""
        self._records_shapes = False
        yield
        self._records_shapes = True

    @contextmanager
    def inside(self, name: str, **extra: object) -> Iterator[None]:
        """Put what runs meanwhile into an op."""
        start = self.now_us
        self.now_us += 1
        yield
        self.events.append(op(name, start, self.now_us - start, tid=self._tid, **extra))
        self.now_us += 1

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        """Put what runs meanwhile into a call of a module."""
        start = self.now_us
        self.now_us += 1
        yield
        self.events.append(frame(f"nn.Module: {name}", start, self.now_us - start, tid=self._tid))
        self.now_us += 1
