"""What a call stack tells: the kernels at its end, the modules on the way, the frames worth showing."""

from functools import lru_cache

import msgspec

from normscope.inputs.literals import parse_call_stack

MODULE_PREFIX = "nn.Module: "
_TRUNCATED_NAME = 75

_DISPATCH_INTERNALS = (
    "torch/nn/modules/module.py",
    "torch/utils/_device.py",
    "torch/overrides.py",
    "torch/_ops.py",
    "multiprocessing/spawn.py",
    "torch/_dynamo/eval_frame.py",
    "torch/_functorch/",
    "torch/autograd/function.py",
    "torch/_inductor/",
    "torch/cuda/graphs.py",
    "torch/utils/_contextlib.py",
)


class CallStack(msgspec.Struct, frozen=True, gc=False):
    """The frames of one call stack that the metrics keep."""

    kernel_name: str = ""
    kernel_name_trunc: str = ""
    module_chain: tuple[str, ...] = ()


_EMPTY = CallStack()


@lru_cache(maxsize=1024)
def read_call_stack(text: str | None) -> CallStack:
    """Return what the ``call_stack_full`` cell ``text`` holds; nothing where it is no list of frames."""
    frames = _frames(text)
    if not frames:
        return _EMPTY
    kernels = _kernels(frames)
    modules = [f[len(MODULE_PREFIX) :] for f in frames if f.__class__ is str and f.startswith(MODULE_PREFIX)]
    return CallStack(_joined(kernels), _joined(list(map(truncated, kernels))), tuple(modules))


def call_chain(text: str | None) -> tuple[str, ...]:
    """Return the frames that name a module, a Python file or an op, without the dispatch internals."""
    return tuple([f for f in _frames(text) if isinstance(f, str) and _is_worth_showing(f)])


def _frames(text: str | None) -> list[object]:
    frames = parse_call_stack(text) if text else None
    return frames if isinstance(frames, list) else []


def truncated(name: str) -> str:
    """Return ``name``, or its first 75 characters and three dots, as the contract shortens kernel names."""
    return name if len(name) <= _TRUNCATED_NAME else name[:_TRUNCATED_NAME] + "..."


def _kernels(frames: list[object]) -> list[str]:
    nested = [f for f in frames if isinstance(f, list)]
    if nested:
        return [str(group[-1]) for group in nested if group]
    return [str(frames[-1])]


def _joined(kernels: list[str]) -> str:
    if len(kernels) == 1:
        return kernels[0]
    return "<br>".join([f"Kernel {i}: {name}" for i, name in enumerate(kernels, start=1)])


def _is_worth_showing(frame: str) -> bool:
    if not (frame.startswith(MODULE_PREFIX) or ".py" in frame or "::" in frame):
        return False
    return not any(internal in frame for internal in _DISPATCH_INTERNALS)
