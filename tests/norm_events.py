"""Recorded arguments of norm ops, written short, and those of the real traces."""

import ast
import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.cost import NormCost, norm_cost
from normscope.trace.events import OpArgs

Argument = tuple[str, list[Any]] | str | None
ABSENT = None
F32, F64, BF16, HALF = "float", "double", "c10::BFloat16", "c10::Half"
CATALOG = load_catalog()


def recorded(*arguments: Argument) -> OpArgs:
    """Return arguments as PyTorch records them: a tensor is (type, shape), a value is text."""
    dims: list[Any] = []
    types: list[str] = []
    values: list[str] = []
    for argument in arguments:
        if isinstance(argument, tuple):
            type_name, shape, value = *argument, ""
        elif argument is None:
            type_name, shape, value = "", [], ""
        else:
            type_name, shape, value = "ScalarList" if "[" in argument else "Scalar", [], argument
        types.append(type_name)
        dims.append(shape)
        values.append(value)
    return OpArgs(dims=dims, types=types, concrete=values)


def cost_of(name: str, args: OpArgs) -> NormCost:
    """Return the cost of a call of an op, with the layout that the catalog picks."""
    return norm_cost(CATALOG.layout(name, args.types), args)


def cost(name: str, *arguments: Argument) -> NormCost:
    """Return the cost of a call written short."""
    return cost_of(name, recorded(*arguments))


def moved(name: str, *arguments: Argument) -> float:
    """Return the bytes of a call written short, which has to have some."""
    found = cost(name, *arguments)
    assert found.bytes_moved is not None, found.missing_reason
    return found.bytes_moved


def operations(name: str, *arguments: Argument) -> float:
    """Return the FLOPs of a call written short, which has to have some."""
    found = cost(name, *arguments)
    assert found.flops is not None, found.missing_reason
    return found.flops


@cache
def cpu_ops(trace: Path) -> tuple[dict[str, Any], ...]:
    """Return the cpu_op events of a trace."""
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    return tuple(event for event in events if event.get("cat") == "cpu_op")


def real_args(event: dict[str, Any]) -> OpArgs:
    """Return the recorded arguments of an event."""
    args = event.get("args", {})
    return OpArgs(
        dims=args.get("Input Dims"),
        types=args.get("Input type"),
        strides=args.get("Input Strides"),
        concrete=args.get("Concrete Inputs"),
    )


def real_calls(trace: Path, name: str, first_shape: list[int]) -> Iterator[OpArgs]:
    """Yield the arguments of every call of an op on a tensor of this shape; there has to be one."""
    found = 0
    for event in cpu_ops(trace):
        if event["name"] == name and event["args"].get("Input Dims", [None])[0] == first_shape:
            found += 1
            yield real_args(event)
    assert found, f"{trace.name} has no {name} of {first_shape}"


def row_args(row: dict[str, Any]) -> OpArgs:
    """Return the arguments of a row of the reference."""
    return OpArgs(
        dims=[list(shape) for shape in ast.literal_eval(row["input_dims"])],
        types=list(ast.literal_eval(row["input_type"])),
        concrete=list(ast.literal_eval(row["concrete_inputs"])),
    )
