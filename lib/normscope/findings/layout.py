"""What shapes and kernel names tell about memory layout: whether channels last is possible, or there."""

import re

from normscope.analysis.models import Operation

CHANNELS_LAST_FORMATS = {4: "torch.channels_last", 5: "torch.channels_last_3d"}
_FIRST_SHAPE = re.compile(r"\(([\d,]*)\)")
_CHANNELS_LAST_NAME = re.compile(r"channels_?last|nd?hwc", re.IGNORECASE)


def rank(op: Operation) -> int | None:
    """Return the number of dimensions of the first argument, ``None`` where no shape was recorded."""
    match = _FIRST_SHAPE.match(op.args) if isinstance(op.args, str) else None
    return len([size for size in match.group(1).split(",") if size]) if match else None


def is_channels_last(op: Operation) -> bool:
    """Tell whether a kernel name says that the tensors are channels last already."""
    return _CHANNELS_LAST_NAME.search(op.kernel_name) is not None


def channels_last(op: Operation) -> str | None:
    """Return the call that gives a model channels-last layout, where that is possible and not done yet.

    PyTorch has the layout for tensors of rank 4, and as ``channels_last_3d`` for those of rank 5.
    """
    memory_format = CHANNELS_LAST_FORMATS.get(rank(op) or 0)
    if memory_format is None or is_channels_last(op):
        return None
    return f"`model.to(memory_format={memory_format})`"
