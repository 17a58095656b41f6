"""The forms in which the same simulated run can be written, as other profiler settings would have."""

import random
from collections.abc import Collection

import msgspec

from normscope.sample.recorded import Event

GPU_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_user_annotation"})
_SHAPE_KEYS = frozenset({"Concrete Inputs", "Input type", "Input Strides", "Input Dims"})
_GPU_ONLY_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "cuda_runtime", "ac2g"})
_LEGACY_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
}


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated trace differs from the usual one.

    Parameters
    ----------
    record_shapes
        Whether ops have their arguments.
    gpu_only
        Record only GPU work and its launches: no ops, no modules, no link from work to an op.
    gpu_kernels
        Whether GPU work is recorded, with its launches.
    legacy
        As profilers of 2021 wrote: capitalized categories, whole µs, text in ``tid``, ``external id``.
    scale_durations
        Factor on the duration of everything that runs on the GPU.
    shuffle
        Seed of a shuffled order of events; None keeps the order of recording.
    """

    record_shapes: bool = True
    gpu_only: bool = False
    gpu_kernels: bool = True
    legacy: bool = False
    scale_durations: float = 1.0
    shuffle: int | None = None


def in_form(events: list[Event], form: Form) -> list[Event]:
    """Return ``events``, with times in µs, as ``form`` wants them; scaling is not done here."""
    if form.gpu_only:
        events = [_without(event, {"External id"}) for event in events if _is_in(event, _GPU_ONLY_CATEGORIES)]
    if not form.gpu_kernels:
        dropped = GPU_CATEGORIES | {"cuda_runtime", "ac2g"}
        events = [event for event in events if not _is_in(event, dropped)]
    if not form.record_shapes:
        events = [_without(event, _SHAPE_KEYS) for event in events]
    if form.legacy:
        events = [_legacy(event) for event in events if _is_in(event, _LEGACY_CATEGORIES)]
    if form.shuffle is not None:
        events = list(events)
        random.Random(form.shuffle).shuffle(events)  # noqa: S311 - only an order
    return events


def _is_in(event: Event, categories: Collection[str]) -> bool:
    return event.get("cat") in categories


def _without(event: Event, keys: Collection[str]) -> Event:
    if "args" not in event:
        return event
    return {**event, "args": {key: value for key, value in event["args"].items() if key not in keys}}


def _legacy(event: Event) -> Event:
    is_gpu = _is_in(event, GPU_CATEGORIES)
    args = dict(event["args"])
    if event["cat"] not in ("cpu_op", "user_annotation") and "External id" in args:
        args["external id"] = args.pop("External id")
    return {
        **event,
        "cat": _LEGACY_CATEGORIES[event["cat"]],
        "tid": f"stream {event['tid']}" if is_gpu else str(event["tid"]),
        "ts": int(event["ts"]),
        "dur": int(event["dur"]),
        "args": args,
    }
