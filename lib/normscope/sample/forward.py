"""The simulated forward pass: the module tree and what each module runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby

from normscope.sample.arguments import Dtype, Shape
from normscope.sample.recorded import TENSORS, Event
from normscope.sample.recorded_ops import NORM_KINDS, OTHER_KINDS
from normscope.sample.recorder import Recorder
from normscope.sample.training import Call, Training, kernel_work, run_chain, run_small_ops
from normscope.sample.truth import Truth

_IMAGE_AXES = 4
_COUNTER_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<long>>(...)"
)
_COUNTER_NS = 2_600
_COUNTER_ARGUMENTS = {
    "Concrete Inputs": ["", "", "1"],
    "Input type": ["long int", "long int", "Scalar"],
    "Input Strides": [[], [], []],
    "Input Dims": [[], [], []],
}


class Modules:
    """The modules of one forward pass; each is numbered among those of its class."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._numbers: dict[str, int] = {}

    @contextmanager
    def call(self, *class_names: str) -> Iterator[None]:
        """Call modules, each inside the one before."""
        with ExitStack() as stack:
            for class_name in class_names:
                number = self._numbers.get(class_name, 0)
                self._numbers[class_name] = number + 1
                stack.enter_context(self._recorder.module(class_name, number))
            yield


def forward(training: Training) -> list[Call]:
    """Run all modules, one after another, and return the calls that the backward pass has to undo."""
    modules = Modules(training.recorder)
    calls: list[Call] = []
    rows = (row for row in training.rows if row.direction == "forward")
    for root, rows_of_root in groupby(rows, key=lambda row: row.module.split(" > ")[0]):
        with modules.call(root):
            for row in rows_of_root:
                _repeated_block(training, modules, row, calls)
    return calls


def _repeated_block(training: Training, modules: Modules, row: Truth, calls: list[Call]) -> None:
    """Run the blocks around one signature: the outer modules once, the innermost ones for every call."""
    *outer, leaf = row.module.split(" > ")[1:]
    with modules.call(*outer[:-1]):
        for _ in range(row.calls // training.steps):
            with modules.call(*outer[-1:]):
                _block(training, modules, row, leaf, calls)


def _block(training: Training, modules: Modules, row: Truth, leaf: str, calls: list[Call]) -> None:
    is_image = len(row.shape) == _IMAGE_AXES and leaf != "RMSNorm"
    before = ("Conv2d", "conv") if is_image else ("Linear", "linear")
    after = (("ReLU", "relu"),) if is_image else ()
    for class_name, key in (before, (leaf, row.kind), *after):
        with modules.call(class_name):
            calls.extend(_run(training, key, row.shape, row.dtype, trains=_trains(training, row)))


def _trains(training: Training, row: Truth) -> bool:
    """Tell whether the module of ``row`` is trained, not frozen."""
    backward = NORM_KINDS[row.kind].backward
    return (backward, _shape_in_backward(row.kind, row.shape)) in training.norm_ns


def _shape_in_backward(key: str, shape: Shape) -> Shape:
    return TENSORS["instance_view"].shape(shape) if key == "instance_norm_native" else shape


def _run(training: Training, key: str, shape: Shape, dtype: Dtype, *, trains: bool) -> Iterator[Call]:
    """Run one op in the Python frames around it; yield it where there is a backward of it."""
    recorder = training.recorder
    kind = NORM_KINDS.get(key) or OTHER_KINDS[key]
    sequence = recorder.next_number("sequence") if trains else 0
    links: Event = {"Sequence number": sequence, "Fwd thread id": 0} if trains else {}
    with ExitStack() as stack:
        for frame in kind.frames[:1]:
            stack.enter_context(recorder.frame(frame))
        if kind.small_ops:
            run_small_ops(training, key, shape, dtype)
            return
        if kind.chain[0][0] == "aten::batch_norm":
            _count_batch(training, links)
        for frame in kind.frames[1:]:
            stack.enter_context(recorder.frame(frame))
        event = run_chain(training, key, shape, dtype, links)
    if trains:
        yield Call(kind.backward, _shape_in_backward(key, shape), dtype, sequence, event)


def _count_batch(training: Training, links: Event) -> None:
    """Add one to ``num_batches_tracked``, as batch norm does before it runs."""
    with training.recorder.op("aten::add_", {**links, **_COUNTER_ARGUMENTS}):
        training.recorder.launch(kernel_work(_COUNTER_KERNEL, _COUNTER_NS, 1))
