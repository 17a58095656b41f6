"""What PyTorch's profiler writes for its own norm layers, against the table of norm ops and the formulas.

Each layer runs on the CPU, and its profile goes through the pipeline with pretended kernels. What a GPU would
record differently:

* SyncBatchNorm is left out: it runs on a GPU only.
* ``aten::_fused_rms_norm`` is no kernel on the CPU but calls ``pow``, ``mean``, ``rsqrt`` and ``mul``, and
  its backward pass is theirs; on a GPU it has a backward op, which the test of the schemas covers.
* Autocast on the CPU leaves ``layer_norm`` and ``group_norm`` in bf16; on a GPU they are cast to fp32 and
  recorded twice, one in the other.
* Layer and batch norm save their statistics in the type of x where no fp32 tensor goes with it; a GPU saves
  them in fp32.
* The backward pass runs on the thread of the forward pass; for a GPU it has a thread of its own.
* ``aten::mean`` and arithmetic with a number call further ops, which a GPU does in the same kernel.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from conftest import skip_or_fail
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.op_calls import op_calls
from torch_layers import (
    BATCHED,
    ROWS,
    Argument,
    Case,
    Roles,
    cases,
    expected_backward,
    expected_forward,
    layer_profile,
)
from torch_profiles import KERNEL_US, Event, Op, op_tree, profiled, with_pretend_kernels
from trace_inputs import link_events
from written_run import written_events

pytestmark = [
    pytest.mark.usefixtures("torch_installed"),
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]

CASES = tuple(cases())
NORM_NAME = re.compile(r"aten::\w*(batch|layer|group|instance|rms)_?norm")
PLAIN = (
    Case(layer="BatchNorm2d", shape=BATCHED[2], tracks=True),
    Case(layer="InstanceNorm2d", shape=BATCHED[2]),
    Case(layer="LayerNorm", shape=ROWS, normalized=ROWS[2:]),
    Case(layer="GroupNorm", shape=BATCHED[2]),
)
SCHEMA_NAMES: Mapping[str, tuple[str, ...]] = {
    "x": ("input",),
    "dy": ("grad_out", "grad_output"),
    "running_mean": ("running_mean", "mean"),
    "running_var": ("running_var", "var"),
    "training": ("training", "train", "use_input_stats", "update"),
    "save_mean": ("save_mean", "mean"),
    "save_invstd": ("save_invstd", "save_var", "save_var_transform", "invstd", "rstd"),
    "mask": ("output_mask",),
    "groups": ("num_groups", "group"),
    "counts": ("counts", "count"),
    "dx_flag": ("input_g",),
    "dweight_flag": ("weight_g",),
    "dbias_flag": ("bias_g",),
}
"""What a schema calls the argument of a role, where it isn't the name of the role."""
UNRECORDED = {"aten::_batch_norm_with_update_functional"}
"""Only a compiler writes this op, into graphs that it then compiles."""
CATALOG = load_catalog()


def table_layouts() -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield the name of each op of the table with the position of each role; the only place that reads it."""
    for row in CATALOG.rows:
        if row.how == "op" and row.purpose == "norm":
            for name in row.ops:
                yield name, row.roles


def role_positions(name: str, types: list[str]) -> Mapping[str, int]:
    """Return where the table has the arguments of a recorded op."""
    layout = CATALOG.layout(name, types)
    assert layout is not None, f"{name} is not in the table"
    return layout.roles


def recorded_roles(op: Op) -> Roles:
    """Return the arguments of a recorded op by the table's roles."""
    args = op.event["args"]
    columns = (args["Input type"], args["Input Dims"], args["Concrete Inputs"])
    found: list[Argument] = list(zip(*columns, strict=True))
    return {role: found[position] for role, position in role_positions(op.name, columns[0]).items()}


def norm_ops(ops: list[Op], around: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Op]]:
    """Yield each norm op with the names of all ops around it."""
    for op in ops:
        if NORM_NAME.match(op.name):
            yield around, op
        yield from norm_ops(op.children, (*around, op.name))


def calls_of(events: list[Event]) -> list[NormCall]:
    """Return the logical calls of a profile."""
    return op_calls(link_events(*with_pretend_kernels(events)), CATALOG)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_arguments_lie_where_the_table_has_them(case: Case) -> None:
    backward = expected_backward(case)
    expected = expected_forward(case).chain | (backward.chain if backward else {})
    found = [op for _, op in norm_ops(op_tree(layer_profile(case)))]
    assert [op.name for op in found] == list(expected)
    for op in found:
        assert recorded_roles(op) == expected[op.name]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_norm_ops_nest_in_one_chain_and_the_backward_op_in_its_autograd_node(case: Case) -> None:
    forward = list(expected_forward(case).chain)
    found = list(norm_ops(op_tree(layer_profile(case))))
    for position, (around, _) in enumerate(found[: len(forward)]):
        assert list(around) == forward[:position]
    for around, op in found[len(forward) :]:
        node = f"{op.name.removeprefix('aten::').title().replace('_', '')}0"
        assert around == (f"autograd::engine::evaluate_function: {node}", node)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_call_of_a_layer_is_one_logical_call(case: Case) -> None:
    calls = calls_of(layer_profile(case))
    forward = [call for call in calls if call.direction == "forward"]
    backward = [call for call in calls if call.direction == "backward"]
    expected = [expected_forward(case)]
    found = forward
    if expected_backward_pass := expected_backward(case):
        expected += [expected_backward_pass]
        found = forward + backward
    assert len(found) == len(expected)
    for call, wanted in zip(found, expected, strict=True):
        assert call.variant == wanted.variant
        assert call.op_chain == tuple(wanted.chain)
        assert call.cost.training is wanted.training
        assert call.cost.bytes_moved == wanted.bytes_moved, call.cost.missing_reason
        assert call.cost.has_weight is case.weight
        assert call.cost.dtype == ("bf16" if case.half else "fp32")
        assert not call.is_recomputed


@pytest.mark.parametrize("checkpoint", ["reentrant", "hooked"])
@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_a_checkpointed_layer_runs_again_in_the_backward_pass(case: Case, checkpoint: str) -> None:
    calls = calls_of(layer_profile(case, checkpoint))
    assert [(call.direction, call.is_recomputed) for call in calls] == [
        ("forward", False),
        ("forward", True),
        ("backward", False),
    ]
    forward, again, _ = calls
    assert again.cost == forward.cost
    assert forward.cost.bytes_moved == expected_forward(case).bytes_moved


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_the_run_directory_has_a_row_for_each_direction(case: Case, tmp_path: Path) -> None:
    run = written_events(tmp_path, *with_pretend_kernels(layer_profile(case)))
    rows = [(row["name"], row["operation_count"]) for row in run.rows]
    backward = expected_backward(case)
    assert backward is not None
    assert rows == [(next(iter(each.chain)), "1") for each in (expected_forward(case), backward)]
    assert run.calls[0]["module"] == f"{case.layer}_0"


def test_pretended_kernels_stand_where_a_gpu_has_its_own(torch_installed: None) -> None:
    """Eight kernels, as the reference counts them in a real trace of this norm."""
    import torch

    from eager_norms import LlamaRMSNorm, one_call

    events = with_pretend_kernels(one_call(LlamaRMSNorm(), torch.bfloat16))
    kernels = [event for event in events if event.get("cat") == "kernel"]
    names = [re.findall(r"<aten::(\w+)>", event["name"])[0] for event in kernels]
    assert names[:8] == ["copy_", "pow", "mean", "add", "rsqrt", "mul", "copy_", "mul"]
    linked = link_events(*events)
    launched_from = [linked.trace.cpu_ops[op].name for op in linked.op_of]
    assert launched_from == [f"aten::{name}" for name in names]
    assert {event.dur_us for event in linked.trace.gpu_events} == {KERNEL_US}


@pytest.mark.parametrize(("name", "roles"), [row for row in table_layouts() if row[0].startswith("aten::")])
def test_the_table_agrees_with_the_schema(name: str, roles: Mapping[str, int]) -> None:
    import torch

    overloads = getattr(torch.ops.aten, name.removeprefix("aten::"))
    signatures = [
        [argument.name for argument in getattr(overloads, overload)._schema.arguments]
        for overload in overloads.overloads()
    ]

    def fits(names: list[str]) -> bool:
        return all(
            position < len(names) and names[position] in SCHEMA_NAMES.get(role, (role,))
            for role, position in roles.items()
        )

    assert any(map(fits, signatures)), f"{roles} fit none of {signatures}"


def test_the_table_has_every_norm_op_of_pytorch() -> None:
    import torch

    schemas = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert {name for name in schemas if NORM_NAME.match(name)} - UNRECORDED == {
        name for name, _ in table_layouts() if name.startswith("aten::")
    }


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Event]]]:
    """Profiles of compiled modules: forward and backward, with the kernels of Inductor's C++ backend."""
    if shutil.which("g++") is None:
        skip_or_fail("no C++ compiler is installed")
    import torch
    from torch import nn
    from torch._inductor import config

    from eager_norms import PlainRMSNorm

    def profile_of(layer: nn.Module) -> list[Event]:
        module = torch.compile(layer)
        x = torch.randn(ROWS, requires_grad=True)

        def step() -> None:
            torch.autograd.backward(module(x).sum())

        step()
        return profiled(step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        patch.setattr(config, "compile_threads", 1)
        patch.setattr(config.cpp, "enable_kernel_profile", True)
        yield {"LayerNorm": profile_of(nn.LayerNorm(ROWS[-1])), "RMSNorm": profile_of(PlainRMSNorm())}


@pytest.mark.parametrize(
    ("layer", "forward", "backward"),
    [
        ("LayerNorm", "native_layer_norm", "native_layer_norm_backward"),
        ("RMSNorm", "mean_mul_pow_rsqrt", "div_expand_mul_pow_sum"),
    ],
)
def test_a_compiled_layer_is_one_op_in_its_region(
    compiled: dict[str, list[Event]], layer: str, forward: str, backward: str
) -> None:
    def fused(ops: list[Op], around: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
        for op in ops:
            if "cpp_fused_" in op.name:
                yield around[0], op.name
            yield from fused(op.children, (*around, op.name))

    (region, forward_name), (node, backward_name) = fused(op_tree(compiled[layer]))
    assert region.startswith("Torch-Compiled Region: ")
    assert forward in forward_name
    assert node == "autograd::engine::evaluate_function: CompiledFunctionBackward"
    assert backward in backward_name
