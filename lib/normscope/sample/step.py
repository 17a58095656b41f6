"""One simulated training step: input copy, forward, backward, optimizer, and the loss back on the host."""

from normscope.sample.arguments import TRACE_DTYPE
from normscope.sample.backward import backward
from normscope.sample.forward import forward
from normscope.sample.ops import workgroups_for
from normscope.sample.recorded import Event
from normscope.sample.recorder import COMMUNICATION_STREAM, COMPUTE_STREAM, GpuWork, Recorder
from normscope.sample.training import Training, kernel_work

_INPUT_BYTES = 38_535_168
_LOSS_BYTES = 4
_HOST_BYTES_PER_NS = 48.0
_SHORTEST_COPY_NS = 1_800
_IMAGES = [64, 3, 224, 224]
_IMAGE_STRIDES = [150528, 50176, 224, 1]
_COPY_ARGUMENTS = {
    "Concrete Inputs": ["", "", "False"],
    "Input type": ["float", "float", "Scalar"],
    "Input Strides": [_IMAGE_STRIDES, _IMAGE_STRIDES, []],
    "Input Dims": [_IMAGES, _IMAGES, []],
}
_LOSS_ARGUMENTS = {
    "Concrete Inputs": [""],
    "Input type": ["float"],
    "Input Strides": [[]],
    "Input Dims": [[]],
}
_PARAMETERS = 26_214_400
_OPTIMIZER_NS = 210_000
_OPTIMIZER_LAUNCHES = 4
_ADAM_KERNEL = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<{T}>>(...)"
)


def run_step(training: Training, number: int) -> None:
    """Record step ``number`` of the training."""
    recorder = training.recorder
    first = len(recorder.events)
    with (
        recorder.op(f"ProfilerStep#{number}", {}, "user_annotation") as step,
        recorder.frame("train.py(58): train_step"),
    ):
        _load_batch(training)
        calls = forward(training)
        with recorder.frame("torch/_tensor.py(571): backward"), recorder.autograd_thread():
            backward(training, calls)
        _optimizer(training)
        _loss(training)
    _mark_gpu(recorder, step, first)


def _mark_gpu(recorder: Recorder, step: Event, first: int) -> None:
    """Show the step also on the timeline of the GPU, around the kernels that it launched."""
    work = [event for event in recorder.events[first:] if event["cat"] == "kernel"]
    start = min(event["ts"] for event in work)
    end = max(event["ts"] + event["dur"] for event in work)
    recorder.events.append(
        {
            **{
                "ph": "X",
                "cat": "gpu_user_annotation",
                "name": step["name"],
                "pid": 0,
                "tid": COMPUTE_STREAM,
            },
            **{"ts": start, "dur": end - start, "args": {"External id": step["args"]["External id"]}},
        }
    )


def _load_batch(training: Training) -> None:
    recorder = training.recorder
    with recorder.frame("train.py(41): next_batch"):
        recorder.spend(1900)
        with recorder.op("aten::copy_", _COPY_ARGUMENTS):
            _copy(training, "HtoD", _INPUT_BYTES, "Memcpy HtoD (Host -> Device)")


def _optimizer(training: Training) -> None:
    """Update the parameters when the last gradients have arrived."""
    recorder = training.recorder
    recorder.wait_for(COMPUTE_STREAM, COMMUNICATION_STREAM)
    name = _ADAM_KERNEL.replace("{T}", TRACE_DTYPE["bf16"])
    work = kernel_work(name, _OPTIMIZER_NS, workgroups_for(_PARAMETERS))
    with (
        recorder.op("Optimizer.step#AdamW.step", {}, "user_annotation"),
        recorder.op("aten::_fused_adamw_", {}),
    ):
        for _ in range(_OPTIMIZER_LAUNCHES):
            recorder.launch(work)


def _loss(training: Training) -> None:
    """Fetch the loss; the host waits for it."""
    recorder = training.recorder
    with (
        recorder.op("aten::item", _LOSS_ARGUMENTS),
        recorder.op("aten::_local_scalar_dense", _LOSS_ARGUMENTS),
    ):
        _copy(training, "DtoH", _LOSS_BYTES, "Memcpy DtoH (Device -> Host)")
        recorder.synchronize("hipStreamSynchronize")


def _copy(training: Training, kind: str, size: int, name: str) -> None:
    """Copy ``size`` bytes between host and device."""
    event = training.recorder.launch(
        GpuWork(
            name=name,
            duration_ns=round(max(size / _HOST_BYTES_PER_NS, _SHORTEST_COPY_NS)),
            details={"kind": kind, "bytes": size},
            launch_details={"src": "0x7f0e4a7e8000", "dst": "0x7f0e79800400", "bytes": str(size)},
            category="gpu_memcpy",
            launch_call="hipMemcpyWithStream",
        )
    )
    event["args"]["memory bandwidth (GB/s)"] = size / event["dur"]  # bytes per ns
