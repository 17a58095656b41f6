"""The simulated backward pass on the thread of autograd, with the exchange of gradients between ranks."""

from normscope.sample.recorded import Event, recorded_arguments
from normscope.sample.recorded_ops import NORM_KINDS, OTHER_KINDS
from normscope.sample.recorder import COMMUNICATION_STREAM, COMPUTE_STREAM, GpuWork
from normscope.sample.training import Call, Training, run_chain

WORLD_SIZE = 8
_BUCKETS = 4
_BUCKET_ELEMENTS = 26_214_400
_BUCKET_NS = 1_450_000
_NCCL_KERNEL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
_ACCUMULATE = "torch::autograd::AccumulateGrad"


def backward(training: Training, calls: list[Call]) -> None:
    """Undo the calls of the forward pass, the last first; exchange gradients whenever a bucket is full."""
    per_bucket = -(-len(calls) // _BUCKETS)
    for done, call in enumerate(reversed(calls), start=1):
        _undo(training, call)
        if done % per_bucket == 0 or done == len(calls):
            _exchange_gradients(training)


def _undo(training: Training, call: Call) -> None:
    recorder = training.recorder
    kind = NORM_KINDS.get(call.kind) or OTHER_KINDS[call.kind]
    links: Event = {"Sequence number": call.sequence, "Fwd thread id": 1}
    grads = recorded_arguments(kind.grads, call.shape, call.dtype)
    with (
        recorder.op(f"autograd::engine::evaluate_function: {kind.node}", links),
        recorder.op(kind.node, {**links, **grads}) as node,
    ):
        recorder.flow("fwdbwd", recorder.next_number("flow"), call.event, node)
        run_chain(training, call.kind, call.shape, call.dtype, {})
    for word in kind.parameters.split():
        gradient = recorded_arguments(word, call.shape, call.dtype)
        with (
            recorder.op(f"autograd::engine::evaluate_function: {_ACCUMULATE}", {}),
            recorder.op(_ACCUMULATE, gradient),
        ):
            recorder.spend(1)


def _exchange_gradients(training: Training) -> None:
    """Sum one bucket of gradients over all ranks, beside the computation on the other stream."""
    recorder = training.recorder
    about = {
        "Collective name": "allreduce",
        "dtype": "BFloat16",
        "In msg nelems": _BUCKET_ELEMENTS,
        "Out msg nelems": _BUCKET_ELEMENTS,
        "Group size": WORLD_SIZE,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
    }
    bucket = {
        "Concrete Inputs": [""],
        "Input type": ["c10::BFloat16"],
        "Input Strides": [[1]],
        "Input Dims": [[_BUCKET_ELEMENTS]],
    }
    work = GpuWork(
        name=_NCCL_KERNEL,
        duration_ns=_BUCKET_NS,
        details={"kind": "Dispatch Kernel", "grid": [64, 1, 1], "block": [512, 1, 1], **about},
        launch_details={"kernel": _NCCL_KERNEL, "grid": [64, 1, 1], "block": [512, 1, 1], "shared memory": 0},
        stream=COMMUNICATION_STREAM,
        launch_call="hipExtLaunchKernel",
    )
    recorder.wait_for(COMMUNICATION_STREAM, COMPUTE_STREAM)
    with (
        recorder.op("record_param_comms", about),
        recorder.op("nccl:all_reduce", bucket, "user_annotation"),
    ):
        recorder.launch(work)
