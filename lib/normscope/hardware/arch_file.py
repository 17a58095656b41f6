"""The figures of a GPU from a file in TraceLens' architecture format."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from normscope.errors import InputError
from normscope.hardware.registry import Peaks

_BANDWIDTH, _TFLOPS, _MEMORY = "mem_bw_gbps", "max_achievable_tflops", "memory_gb"


def read_arch_file(path: Path) -> Peaks:
    """Read the figures of a GPU.

    Parameters
    ----------
    path
        A JSON object with ``mem_bw_gbps`` and, if wanted, ``name``, ``memory_gb`` and
        ``max_achievable_tflops``, an object of numbers by compute spec. Other keys are ignored.

    Raises
    ------
    InputError
        The file can't be read, is no such object, or a figure is no positive number; the message names the
        key.
    """
    return peaks_of_arch(_read_object(path), path)


def peaks_of_arch(data: Mapping[str, Any], path: Path) -> Peaks:
    """Return the figures in an object of TraceLens' architecture format.

    Parameters
    ----------
    data
        The object.
    path
        Where it comes from, for messages.

    Raises
    ------
    InputError
        A figure is missing or no positive number; the message names the key.
    """
    name = data.get("name", path.stem)
    if not isinstance(name, str) or not name.strip():
        _refuse(path, "name", "should be text")
    if _BANDWIDTH not in data:
        _refuse(path, _BANDWIDTH, "is missing; it is the peak memory bandwidth in GB/s")
    tflops = data.get(_TFLOPS, {})
    if not isinstance(tflops, dict):
        _refuse(path, _TFLOPS, 'should be an object of numbers, such as {"vector_fp32": 163.4}')
    memory = data.get(_MEMORY)
    return Peaks(
        name=name.strip(),
        bandwidth_gbps=_positive(path, _BANDWIDTH, data[_BANDWIDTH]),
        bandwidth_kind="file",
        tflops={spec: _positive(path, f"{_TFLOPS}.{spec}", value) for spec, value in tflops.items()},
        memory_gb=None if memory is None else _positive(path, _MEMORY, memory),
    )


def _read_object(path: Path) -> Mapping[str, Any]:
    try:
        data = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        message = f"{path} can't be read ({error.strerror}); check the name of the GPU file."
        raise InputError(message) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = (
            f'{path} is no valid JSON ({error}); a GPU file is an object such as {{"{_BANDWIDTH}": 5300}}.'
        )
        raise InputError(message) from error
    if not isinstance(data, dict):
        message = f'{path} should hold a JSON object such as {{"{_BANDWIDTH}": 5300}}.'
        raise InputError(message)
    return data


def _positive(path: Path, key: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else 0.0  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        _refuse(path, key, "should be a positive number")
    return number


def _refuse(path: Path, key: str, complaint: str) -> NoReturn:
    message = f"{path}: {key} {complaint}. Correct the GPU file."
    raise InputError(message)
