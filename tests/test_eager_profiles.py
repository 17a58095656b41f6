"""Which ops the profiler records for norms written by hand, and for what only looks like one.

Expected are the ops of each module's own lines, in their order. ``aten::to`` is left out: where the type
stays, it does nothing.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from torch_profiles import Op, op_tree

if TYPE_CHECKING:
    from eager_norms import EagerProfile

RMS = ("mean", "add", "rsqrt", "mul")
FORWARD: dict[str, tuple[str, ...]] = {
    "plain_rms_norm": ("pow", *RMS, "mul"),
    "square_rms_norm": ("mul", "mean", "add", "sqrt", "div", "mul"),
    "llama_rms_norm": ("pow", *RMS, "mul"),
    "t5_layer_norm": ("pow", *RMS, "mul"),
    "gemma_rms_norm": ("pow", *RMS, "add", "mul"),
    "mean_layer_norm": ("mean", "sub", "pow", "mean", "add", "sqrt", "div", "mul", "add"),
    "var_layer_norm": ("mean", "var", "sub", "add", "rsqrt", "mul", "mul", "add"),
    "std_layer_norm": ("mean", "sub", "mul", "std", "add", "div", "add"),
    "l2_norm": ("linalg_vector_norm", "clamp_min", "expand_as", "div", "mul", "mul"),
}
"""The ops of one call."""
RMS_NODES = ("MulBackward0", "RsqrtBackward0", "AddBackward0", "MeanBackward1", "PowBackward0")
NODES: dict[str, tuple[str, ...]] = {
    "plain_rms_norm": ("MulBackward0", *RMS_NODES),
    "square_rms_norm": (
        *("MulBackward0", "DivBackward0", "SqrtBackward0"),
        *("AddBackward0", "MeanBackward1", "MulBackward0"),
    ),
    "llama_rms_norm": ("MulBackward0", *RMS_NODES),
    "t5_layer_norm": ("MulBackward0", *RMS_NODES),
    "gemma_rms_norm": ("MulBackward0", "AddBackward0", *RMS_NODES),
    "mean_layer_norm": (
        *("AddBackward0", "MulBackward0", "DivBackward0", "SqrtBackward0", "AddBackward0"),
        *("MeanBackward1", "PowBackward0", "SubBackward0", "MeanBackward1"),
    ),
    "var_layer_norm": (
        *("AddBackward0", "MulBackward0", "MulBackward0", "RsqrtBackward0"),
        *("AddBackward0", "SubBackward0", "VarBackward0", "MeanBackward1"),
    ),
    "std_layer_norm": (
        *("AddBackward0", "DivBackward0", "AddBackward0", "StdBackward0"),
        *("MulBackward0", "SubBackward0", "MeanBackward1"),
    ),
    "l2_norm": (
        *("MulBackward0", "MulBackward0", "DivBackward0", "ExpandBackward0"),
        *("ClampMinBackward0", "LinalgVectorNormBackward0"),
    ),
}
"""The autograd nodes of one call, in the order in which the engine runs them, without casts and leaves."""
CAST_NODE = "ToCopyBackward0"
CASTS = {"llama_rms_norm", "t5_layer_norm", "gemma_rms_norm"}
DECOY_CALLS = {
    "softmax": ("softmax",),
    "logged_variance": ("var", "mean"),
    "stops_at_rsqrt": ("pow", "mean", "add", "rsqrt"),
    "whole_tensor_standardized": ("mean", "sub", "std", "div"),
    "squared_error": ("ones_like", "sub", "pow", "mean"),
}
AUTOGRAD = "autograd::engine::evaluate_function: "
MODES = ("training-modules", "training-bare", "inference-modules", "inference-bare")


def called(ops: Iterable[Op]) -> list[str]:
    """Return the names of the outermost ATen ops, casts left out."""
    names = [op.name.removeprefix("aten::") for op in ops if op.name.startswith("aten::")]
    return [name for name in names if name not in ("to", "type_as")]


def block(norm: str) -> list[str]:
    """Return the ops of one residual block around a norm."""
    return [*FORWARD[norm], "linear", "add"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("norm", FORWARD)
def test_every_call_of_a_norm_is_the_same_ops(
    eager_profiles: dict[str, "EagerProfile"], norm: str, dtype: str, mode: str
) -> None:
    profile = eager_profiles[f"{norm}-{dtype}-{mode}"]
    found = called(op_tree(profile.events))
    per_step = [name for name in found if name != "ones_like"]
    assert per_step == block(norm) * profile.calls
    assert found.count("ones_like") == (3 if profile.backward else 0)


@pytest.mark.parametrize("norm", FORWARD)
def test_the_engine_runs_the_nodes_of_a_norm(norm: str, torch_installed: None) -> None:
    import torch

    from eager_norms import EAGER_NORMS, one_call

    for dtype in (torch.float32, torch.bfloat16):
        names = [op.name for op in op_tree(one_call(EAGER_NORMS[norm](), dtype))]
        nodes = [name.removeprefix(AUTOGRAD) for name in names if name.startswith(AUTOGRAD)]
        kept = [node for node in nodes if node not in (CAST_NODE, "torch::autograd::AccumulateGrad")]
        assert tuple(kept) == NODES[norm]
        assert (CAST_NODE in nodes) == (dtype == torch.bfloat16 and norm in CASTS)


@pytest.mark.parametrize("name", DECOY_CALLS)
def test_a_decoy_is_its_own_ops(eager_profiles: dict[str, "EagerProfile"], name: str) -> None:
    profile = eager_profiles[f"{name}-fp32-inference-bare"]
    assert called(op_tree(profile.events)) == list(DECOY_CALLS[name]) * 3
    assert profile.calls == 0


def test_modules_are_recorded_where_asked_for(eager_profiles: dict[str, "EagerProfile"]) -> None:
    for name, profile in eager_profiles.items():
        frames = [event["name"] for event in profile.events if event.get("cat") == "python_function"]
        norms = [frame for frame in frames if re.match(r"nn\.Module: \w*Norm_\d", frame)]
        assert len(norms) == (profile.calls if profile.modules else 0), name


def test_reductions_take_the_last_axis_of_the_recorded_shape(
    eager_profiles: dict[str, "EagerProfile"],
) -> None:
    profile = eager_profiles["plain_rms_norm-bf16-inference-bare"]
    means = [op.event["args"] for op in op_tree(profile.events) if op.name == "aten::mean"]
    assert len(means) == profile.calls
    for args in means:
        assert args["Input Dims"] == [list(profile.shape), [], [], []]
        assert args["Input type"] == ["c10::BFloat16", "ScalarList", "Scalar", ""]
        assert args["Concrete Inputs"] == ["", "[-1]", "True", ""]
