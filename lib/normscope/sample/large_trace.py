"""A simulated trace of any size, for benchmarks: mostly Python functions, with layer norms among them.

The file is a block of about a thousand events, repeated. Times and numbers are written so that a block is
the one before it with other leading digits: writing is then little more than copying memory.
"""

import gzip
import json
from pathlib import Path
from typing import IO

from normscope.sample.arguments import Shape
from normscope.sample.device import MARK, device_properties
from normscope.sample.recorded import Event, recorded_arguments
from normscope.sample.recorded_ops import NORM_KINDS
from normscope.sample.recorder import MAIN_THREAD, PROCESS

FUNCTIONS_PER_NORM = 60
NORMS_PER_BLOCK = 16
KERNEL_US = 40.0
SHAPE: Shape = (8, 1024, 1024)
_BLOCK_DIGITS = "100000"
"""Stands for the number of a block: the leading digits of its times and numbers."""
_PER_BLOCK = 1000
"""Times (µs), Python ids and External ids in a block are below this many times ten."""
_MODULE = "nn.Module: LayerNorm_0"


def generate_large_trace(path: Path, json_bytes: int) -> Path:
    """Write a valid trace of about ``json_bytes`` bytes of JSON, in constant memory.

    Parameters
    ----------
    path
        The file; compressed (fast, not small) where its name ends in ``.gz``.
    json_bytes
        Size before compression. The file is at most one block (some 300 kB) larger or smaller.

    Returns
    -------
    Path
        ``path``. One event in about 70 is a kernel, each launched by a layer norm on bf16 of :data:`SHAPE`
        which takes :data:`KERNEL_US`.
    """
    block = _block()
    head = {MARK: True, "schemaVersion": 1, "deviceProperties": [device_properties()], "displayTimeUnit": "ms"}
    is_compressed = path.suffix == ".gz"
    with gzip.open(path, "wb", compresslevel=1) if is_compressed else path.open("wb") as file:
        _write(file, json.dumps(head)[:-1].encode(), block, max(1, round(json_bytes / len(block))))
    return path


def _write(file: IO[bytes], head: bytes, block: bytes, blocks: int) -> None:
    file.write(head + b', "traceEvents": [')
    first = int(_BLOCK_DIGITS)
    for number in range(first, first + blocks):
        file.write(b",\n" if number > first else b"\n")
        file.write(block.replace(_BLOCK_DIGITS.encode(), str(number).encode()))
    file.write(b"\n]}\n")
