"""Norms written out in Python: which kernels are one call, what it moves, and what is no norm."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from eager_chains import (
    S16,
    SHAPE,
    W16,
    WRITTEN,
    X16,
    E,
    N,
    R,
    S,
    W,
    Written,
    X,
    llama,
    mean_layer_norm,
    mean_square_root,
    t5,
)
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.chains import is_norm_class
from normscope.norms.eager import NO_SHAPES, eager_calls
from normscope.norms.find import find_norms
from normscope.trace.link import LinkedTrace, link
from normscope.trace.read import read_trace
from small_ops import BF16, EPSILON, F32, HALF, KEPT_LAST, KERNEL_US, ONE, OP_US, STEP_US, Thread
from trace_inputs import kernel, launch, link_events

CATALOG = load_catalog()


def linked_threads(*threads: Thread) -> LinkedTrace:
    return link_events(*(event for thread in threads for event in thread.events))


def calls_of(*threads: Thread) -> list[NormCall]:
    return eager_calls(linked_threads(*threads), CATALOG, frozenset())


def kernel_names(linked: LinkedTrace, call: NormCall) -> list[str]:
    return [linked.trace.gpu_events[i].name for i in call.norm_events]


@pytest.mark.parametrize("in_module", [True, False], ids=["module", "bare"])
@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.name)
def test_a_chain_is_one_call_with_all_its_kernels(written: Written, in_module: bool) -> None:
    thread = Thread()
    thread.run("aten::add", X16, X16, ONE)
    start, before = thread.now_us, len(thread.kernels)
    if in_module:
        with thread.module(f"{written.name}_3"):
            start = thread.now_us
            written.run(thread)
    else:
        written.run(thread)
    own = thread.kernels[before:]
    thread.run("aten::mm", ("float", [10, 64]), ("float", [64, 64]))
    linked = linked_threads(thread)
    (call,) = eager_calls(linked, CATALOG, frozenset())
    assert kernel_names(linked, call) == own
    assert len(own) == written.kernels
    bare = written.norm.replace("-", "_")
    assert call.name == f"eager::{written.name if in_module else bare}"
    assert call.row.id == f"eager-{written.norm}"
    assert (call.found_by, call.direction, call.variant) == ("eager", "forward", call.row.variant)
    assert call.cost.bytes_moved == written.moved, call.cost.missing_reason
    assert call.launched_bytes == written.launched
    assert call.cost.flops == written.flops
    assert (call.cost.x_shape, call.cost.dtype) == (tuple(SHAPE), written.dtype)
    assert (call.cost.has_weight, call.cost.has_bias) == (True, written.has_bias)
    assert call.norm_us == written.kernels * KERNEL_US
    assert call.ts_us == start
    first = linked.trace.cpu_ops[call.op]
    assert first.ts_us == start
    assert not call.helper_events
    assert not call.is_recomputed


def test_the_inputs_shown_are_x_weight_and_bias() -> None:
    thread = Thread()
    mean_layer_norm(thread)
    (call,) = calls_of(thread)
    assert call.args.dims == [SHAPE, [64], [64]]
    assert call.args.types == [F32, F32, F32]
    rms = Thread()
    llama(rms)
    (call,) = calls_of(rms)
    assert call.args.dims == [SHAPE, [64], []]
    assert call.args.types == [BF16, BF16, ""]


def test_host_time_runs_from_the_first_op_to_the_end_of_the_last_one() -> None:
    thread = Thread()
    llama(thread)
    (call,) = calls_of(thread)
    assert call.host_us == 7 * STEP_US + OP_US


def test_a_plain_rms_norm_needs_no_weight() -> None:
    thread = Thread()
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    (call,) = calls_of(thread)
    assert call.cost.has_weight is False
    assert call.cost.bytes_moved == 8 * E
    assert call.launched_bytes == 20 * E + 24 * R
    assert call.cost.flops == 3 * E + 2 * R


def test_a_norm_over_the_channels_of_an_image_counts_by_its_shapes() -> None:
    """As in ConvNeXt: x [2, 64, 4, 4], weight and bias [64, 1, 1]."""
    x, narrow, weight = (F32, [2, 64, 4, 4]), (F32, [2, 1, 4, 4]), (F32, [64, 1, 1])
    over_channels = ("[1]", "True", None)
    thread = Thread()
    thread.run("aten::mean", x, *over_channels)
    thread.run("aten::sub", x, narrow, ONE)
    thread.run("aten::pow", x, "2")
    thread.run("aten::mean", x, *over_channels)
    thread.run("aten::add", narrow, EPSILON, ONE)
    thread.run("aten::sqrt", narrow)
    thread.run("aten::div", x, narrow)
    thread.view("aten::unsqueeze", (F32, [64, 1]), "2")
    thread.run("aten::mul", weight, x)
    thread.run("aten::add", x, weight, ONE)
    (call,) = calls_of(thread)
    elements, rows = 2 * 64 * 4 * 4, 2 * 4 * 4
    assert call.cost.bytes_moved == 8 * elements + 2 * 64 * 4
    assert call.cost.flops == 8 * elements + 3 * rows
    assert call.cost.x_shape == (2, 64, 4, 4)
    assert call.args.dims == [[2, 64, 4, 4], [64, 1, 1], [64, 1, 1]]


def test_half_and_fp32_weights_make_an_fp32_result() -> None:
    x16, w32 = (HALF, SHAPE), (F32, [64])
    thread = Thread()
    thread.cast(x16, F32)
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    thread.cast(X, HALF)
    thread.run("aten::mul", w32, x16)
    (call,) = calls_of(thread)
    assert call.cost.bytes_moved == 2 * E + 4 * E + 4 * N
    # 6E cast, 8E, 4E, 8E, 6E cast, then 2E + 4N read and 4E written
    assert call.launched_bytes == 38 * E + 24 * R + 4 * N


def test_autocast_puts_a_cast_into_the_square() -> None:
    """Under autocast a square runs in fp32: the outer op casts, then calls itself."""
    thread = Thread()
    with thread.inside("aten::pow"):
        thread.cast(X16, F32)
        thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X16, S)
    thread.run("aten::mul", X, W)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 7
    assert call.cost.bytes_moved == 2 * E + 4 * E + 4 * N


def test_a_copy_inside_a_chain_is_a_helper_only_if_it_is_no_kernel() -> None:
    thread = Thread()
    llama(thread)
    rsqrt = next(event for event in thread.events if event["name"] == "aten::rsqrt")
    extra = [
        launch(900_001, rsqrt["ts"] + 7, 1, name="cudaMemsetAsync"),
        kernel(900_001, rsqrt["ts"] + 8, 1.5, name="Memset (Device)", cat="gpu_memset"),
    ]
    (call,) = eager_calls(link_events(*thread.events, *extra), CATALOG, frozenset())
    assert (len(call.norm_events), len(call.helper_events)) == (8, 1)
    assert (call.norm_us, call.helper_us) == (8 * KERNEL_US, 1.5)


# Without shapes.


def test_without_shapes_a_norm_module_is_told_by_all_its_ops() -> None:
    for written in WRITTEN:
        thread = Thread()
        with thread.without_shapes(), thread.module(f"{written.name}_0"):
            written.run(thread)
        (call,) = calls_of(thread)
        assert (call.name, len(call.norm_events)) == (f"eager::{written.name}", written.kernels)
        assert call.row.id == f"eager-{written.norm}"
        assert (call.cost.bytes_moved, call.launched_bytes) == (None, None)
        assert call.cost.missing_reason == NO_SHAPES


@pytest.mark.parametrize("module", [None, "LlamaMLP_0"])
def test_without_shapes_nothing_else_is_a_norm(module: str | None) -> None:
    thread = Thread()
    with thread.without_shapes():
        if module is None:
            llama(thread)
        else:
            with thread.module(module):
                llama(thread)
    assert calls_of(thread) == []


def test_without_shapes_a_module_that_does_more_is_left_alone() -> None:
    thread = Thread()
    with thread.without_shapes(), thread.module("AdaNorm_0"):
        llama(thread)
        thread.run("aten::mm", X, X)
    assert calls_of(thread) == []


# What may stand between, and what may not mix.


def test_chains_of_two_threads_and_streams_dont_mix() -> None:
    """Their ops alternate in time; each call has the kernels of its own thread."""
    threads = [Thread(tid=501, stream=7), Thread(tid=502, stream=8, start_us=107.0)]
    llama(threads[0])
    t5(threads[1])
    linked = linked_threads(*threads)
    calls = eager_calls(linked, CATALOG, frozenset())
    assert [kernel_names(linked, call) for call in calls] == [thread.kernels for thread in threads]
    assert [call.tid for call in calls] == [501, 502]
    assert [call.launched_bytes for call in calls] == [36 * E + 24 * R + 2 * N, 34 * E + 24 * R + 2 * N]


@pytest.mark.parametrize("key_shape", [SHAPE, [2, 3, 64]], ids=["same", "other"])
def test_norms_of_queries_and_keys_may_alternate_on_one_thread(key_shape: list[int]) -> None:
    thread = Thread()
    key, narrow = (F32, key_shape), (F32, [*key_shape[:-1], 1])
    for wide in (X, key):
        thread.run("aten::pow", wide, "2")
        thread.run("aten::mean", wide, *KEPT_LAST)
    for wide, statistic in ((X, S), (key, narrow)):
        thread.run("aten::add", statistic, EPSILON, ONE)
        thread.run("aten::rsqrt", statistic)
        thread.run("aten::mul", wide, statistic)
        thread.run("aten::mul", wide, W)
    calls = calls_of(thread)
    assert [len(call.norm_events) for call in calls] == [6, 6]
    assert not set(calls[0].norm_events) & set(calls[1].norm_events)
    assert {call.cost.x_shape for call in calls} == {tuple(SHAPE), tuple(key_shape)}


def test_other_work_of_the_thread_may_stand_between() -> None:
    thread = Thread()
    thread.run("aten::pow", X, "2")
    thread.view("aten::empty", "[2, 5]")
    thread.run("aten::mean", X, *KEPT_LAST)
    other = thread.run("aten::index_select", ("float", [7, 3]), "0")
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)
    linked = linked_threads(thread)
    (call,) = eager_calls(linked, CATALOG, frozenset())
    assert kernel_names(linked, call) == [name for name in thread.kernels if name != other]


def test_one_after_another_each_norm_is_a_call() -> None:
    thread = Thread()
    for number in range(3):
        with thread.module(f"LlamaRMSNorm_{number}"):
            llama(thread)
        thread.run("aten::mm", ("float", [10, 64]), ("float", [64, 64]))
    linked = linked_threads(thread)
    calls = eager_calls(linked, CATALOG, frozenset())
    assert [len(call.norm_events) for call in calls] == [8, 8, 8]
    assert len({event for call in calls for event in call.norm_events}) == 24


def test_of_a_module_only_the_chain_belongs_to_the_norm() -> None:
    thread = Thread()
    with thread.module("QKNorm_0"):
        thread.run("aten::mm", ("float", [10, 64]), ("float", [64, 64]))
        with thread.module("RMSNorm_0"):
            llama(thread)
        thread.run("aten::mul", X16, X16)
    calls = calls_of(thread)
    assert [(call.name, len(call.norm_events)) for call in calls] == [("eager::RMSNorm", 8)]


def test_a_chain_doesnt_reach_into_another_call_of_a_module() -> None:
    """A product with a parameter after the module is another module's."""
    thread = Thread()
    with thread.module("RMSNorm_0"):
        mean_square_root(thread)
        thread.run("aten::mul", X, S)
    thread.run("aten::mul", X, W)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5
    assert call.cost.has_weight is False


def test_ops_inside_another_op_are_no_part_of_a_chain_beside_it() -> None:
    thread = Thread()
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    with thread.inside("my::fused_op"):
        thread.run("aten::add", S, EPSILON, ONE)
        thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)
    assert calls_of(thread) == []


def test_a_chain_inside_an_op_is_found() -> None:
    thread = Thread()
    with thread.inside("MyRMSNormFunction"):
        llama(thread)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 8


def test_a_trailing_cast_belongs_to_the_chain_only_if_it_restores_the_type_of_x() -> None:
    thread = Thread()
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    thread.cast(X, BF16)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5


def test_a_leading_cast_belongs_to_the_chain_only_if_it_widens() -> None:
    thread = Thread()
    thread.cast(X, BF16)
    thread.run("aten::pow", X16, "2")
    thread.run("aten::mean", X16, *KEPT_LAST)
    thread.run("aten::add", S16, EPSILON, ONE)
    thread.run("aten::rsqrt", S16)
    thread.run("aten::mul", X16, S16)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5
    assert call.cost.bytes_moved == 4 * E


def test_a_copy_that_casts_nothing_is_other_work() -> None:
    """A norm's result is laid out anew for the op that follows."""
    thread = Thread()
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    with thread.inside("aten::contiguous"):
        thread.run("aten::copy_", X, X, "False")
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5


def test_a_scale_for_each_sample_is_no_weight() -> None:
    """As in adaptive norms, where it comes from a conditioning input."""
    thread = Thread()
    with thread.module("AdaNorm_0"):
        mean_square_root(thread)
        thread.run("aten::mul", X, S)
        thread.run("aten::mul", X, (F32, [2, 1, 64]))
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5
    assert call.cost.has_weight is False


def test_a_weight_of_each_head_counts_in_a_module_that_is_called_a_norm() -> None:
    heads, narrow, weight = (F32, [2, 4, 5, 64]), (F32, [2, 4, 5, 1]), (F32, [4, 1, 64])
    thread = Thread()
    with thread.module("MultiHeadRMSNorm_0"):
        thread.run("aten::linalg_vector_norm", heads, "2.", *KEPT_LAST)
        thread.run("aten::clamp_min", narrow, "1e-12")
        thread.run("aten::div", heads, (F32, [2, 4, 5, 64], [20, 5, 1, 0]))
        thread.run("aten::mul", heads, weight)
        thread.run("aten::mul", heads, EPSILON)
    (call,) = calls_of(thread)
    assert len(call.norm_events) == 5
    assert call.cost.bytes_moved == 8 * (2 * 4 * 5 * 64) + 4 * (4 * 64)


@pytest.mark.parametrize(("module", "found"), [(None, 0), ("PixelNorm_0", 1), ("Block_0", 0)])
def test_a_root_mean_square_over_channels_needs_a_weight_or_the_name(module: str | None, found: int) -> None:
    image, narrow = (F32, [2, 64, 4, 4]), (F32, [2, 1, 4, 4])
    thread = Thread()
    with thread.module(module) if module else nullcontext():
        thread.run("aten::pow", image, "2")
        thread.run("aten::mean", image, "[1]", "True", None)
        thread.run("aten::add", narrow, EPSILON, ONE)
        thread.run("aten::rsqrt", narrow)
        thread.run("aten::mul", image, narrow)
    assert len(calls_of(thread)) == found


# What is no norm.


@pytest.mark.parametrize(
    "name",
    [
        *("RMSNorm", "Qwen2RMSNorm", "T5LayerNorm", "WanRMS_norm", "LlamaRMSNorm", "norm1", "LayerNorm2d"),
        *("LayerNormFp32", "RMSnorm", "T5Layernorm", "layernorm", "rms_norm", "norm", "Norm", "MyNORM"),
        *("LayerNormalization", "MambaRMSNormGated", "FP32GroupNorm", "l2norm", "L2Norm", "PixelNorm"),
    ],
)
def test_a_class_is_called_a_norm(name: str) -> None:
    assert is_norm_class(name)


@pytest.mark.parametrize(
    "name",
    [
        *("BatchNormalizedAttention", "Normalize", "Normalization", "NormalizedLinear", "NormalEncoder"),
        *("NormedLinear", "Abnormal", "ABNORMALITY", "Denormalize", "abnorm", "Enormous", "LayerNormed"),
        *("WeightNorm", "_WeightNorm", "_SpectralNorm", "GradNorm", "Linear", ""),
    ],
)
def test_a_class_is_not_called_a_norm(name: str) -> None:
    assert not is_norm_class(name)


@pytest.mark.parametrize("module", ["Normalize_0", "BatchNormalizedAttention_0", "_SpectralNorm_0"])
def test_a_vector_of_length_one_in_a_module_that_only_sounds_like_a_norm_is_none(module: str) -> None:
    """The steps of torch.nn.functional.normalize, which with a norm's name around them are one."""
    found = []
    for name in (module, "L2Norm_0"):
        thread = Thread()
        with thread.module(name):
            thread.run("aten::linalg_vector_norm", X, "2", "[-1]", "True", None)
            thread.run("aten::clamp_min", S, "1e-12")
            thread.run("aten::div", X, S)
        found.append([call.variant for call in calls_of(thread)])
    assert found == [[], ["L2Norm"]]


@pytest.mark.parametrize("module", [None, "RMSNorm_0"])
@pytest.mark.parametrize("missing", range(1, 6))
def test_a_chain_without_one_of_its_steps_is_no_norm(missing: int, module: str | None) -> None:
    """Cast, square, mean, add, root, product: without the cast it is still a norm."""
    steps = [
        ("aten::pow", X, "2"),
        ("aten::mean", X, *KEPT_LAST),
        ("aten::add", S, EPSILON, ONE),
        ("aten::rsqrt", S),
        ("aten::mul", X, S),
    ]
    thread = Thread()
    left = [step for place, step in enumerate(steps, start=1) if place != missing]

    def run() -> None:
        for name, *arguments in left:
            thread.run(str(name), *arguments)

    if module:
        with thread.module(module):
            run()
    else:
        run()
    assert calls_of(thread) == []


@pytest.mark.parametrize("module", [None, "LayerNorm_0"])
def test_a_variance_for_a_log_is_no_norm(module: str | None) -> None:
    thread = Thread()

    def run() -> None:
        thread.run("aten::mean", X, *KEPT_LAST)
        thread.run("aten::sub", X, S, ONE)
        thread.run("aten::pow", X, "2")
        thread.run("aten::mean", X, *KEPT_LAST)
        thread.run("aten::add", S, EPSILON, ONE)
        thread.run("aten::sqrt", S)

    if module:
        with thread.module(module):
            run()
    else:
        run()
    assert calls_of(thread) == []


def softmax(thread: Thread) -> None:
    thread.run("aten::max", X, "-1", "True")
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::exp", X)
    thread.run("aten::sum", X, *KEPT_LAST)
    thread.run("aten::div", X, S)


def features_by_length(thread: Thread) -> None:
    """As image and text embeddings are compared."""
    thread.run("aten::linalg_vector_norm", X, "2", *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::div", X, S)
    thread.run("aten::mul", X, EPSILON)


def images_standardized(thread: Thread) -> None:
    images, one = (F32, [8, 3, 32, 32]), (F32, [8, 1, 1, 1])
    axes = "[1, 2, 3]"
    thread.run("aten::mean", images, axes, "True", None)
    thread.run("aten::std", images, axes, "True", "True")
    thread.run("aten::sub", images, one, ONE)
    thread.run("aten::add", one, EPSILON, ONE)
    thread.run("aten::div", images, one)


def rows_standardized_without_parameters(thread: Thread) -> None:
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::std", X, "[-1]", "True", "True")
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::div", X, S)


def divided_by_the_deviation_alone(thread: Thread) -> None:
    """With a mean that only goes into a log, and a weight."""
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::var", X, "[-1]", "0", "True")
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)
    thread.run("aten::mul", X, W)


def statistics_of_another_tensor(thread: Thread) -> None:
    mean_square_root(thread)
    other, narrow = (F32, [9, 64]), (F32, [9, 1])
    thread.run("aten::mul", other, narrow)


def statistics_of_another_type(thread: Thread) -> None:
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S16, EPSILON, ONE)
    thread.run("aten::rsqrt", S16)
    thread.run("aten::mul", X, S16)


def mean_over_another_axis(thread: Thread) -> None:
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, "[1]", "True", None)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)


def variance_over_another_axis(thread: Thread) -> None:
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, "[1]", "True", None)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::sqrt", S)
    thread.run("aten::div", X, S)
    thread.run("aten::mul", W, X)


def cube(thread: Thread) -> None:
    thread.run("aten::pow", X, "3")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)


def mean_of_everything(thread: Thread) -> None:
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, None)
    thread.run("aten::add", (F32, []), EPSILON, ONE)
    thread.run("aten::rsqrt", (F32, []))
    thread.run("aten::mul", X, (F32, []))


@pytest.mark.parametrize(
    "run",
    [
        softmax,
        features_by_length,
        images_standardized,
        rows_standardized_without_parameters,
        divided_by_the_deviation_alone,
        statistics_of_another_tensor,
        statistics_of_another_type,
        mean_over_another_axis,
        variance_over_another_axis,
        cube,
        mean_of_everything,
    ],
)
def test_what_only_looks_like_a_norm(run: Callable[[Thread], None]) -> None:
    thread = Thread()
    run(thread)
    assert len(thread.kernels) >= 4
    assert calls_of(thread) == []


@pytest.mark.parametrize("run", [features_by_length, rows_standardized_without_parameters])
def test_the_same_in_a_module_that_is_called_a_norm_is_one(run: Callable[[Thread], None]) -> None:
    thread = Thread()
    with thread.module("FeatureNorm_0"):
        run(thread)
    (call,) = calls_of(thread)
    assert call.name == "eager::FeatureNorm"


# Beside the other ways to find norms.


def test_kernels_of_other_calls_are_left_alone() -> None:
    thread = Thread()
    llama(thread)
    linked = linked_threads(thread)
    square = next(i for i, e in enumerate(linked.trace.gpu_events) if "aten::pow" in e.name)
    assert eager_calls(linked, CATALOG, frozenset({square})) == []


def test_a_norm_op_made_of_small_ops_is_one_call_and_says_what_they_move() -> None:
    thread = Thread()
    with thread.inside("aten::rms_norm", **_rms_norm_inputs()):
        thread.cast(X16, F32)
        mean_square_root(thread)
        thread.run("aten::mul", X, S)
        thread.run("aten::mul", X, W16)
        thread.cast(X, BF16, around="aten::type_as")
    (call,) = find_norms(linked_threads(thread), CATALOG)
    assert (call.found_by, call.name) == ("op", "aten::rms_norm")
    # 6E cast, 8E square, 4E + 4R mean, 8R add, 8R root, 8E + 4R product, 8E + 2N weight, 6E cast
    assert call.launched_bytes == 40 * E + 24 * R + 2 * N


def _rms_norm_inputs() -> dict[str, object]:
    return {
        "Input Dims": [SHAPE, [], [64], []],
        "Input type": [BF16, "ScalarList", BF16, "Scalar"],
        "Concrete Inputs": ["", "[64]", "", "1e-06"],
    }


def test_a_norm_op_with_a_kernel_of_its_own_has_no_launched_bytes() -> None:
    thread = Thread()
    with thread.inside("aten::rms_norm", **_rms_norm_inputs()):
        thread.run("aten::_fused_rms_norm", X16, "[64]", W16, "1e-06")
    (call,) = find_norms(linked_threads(thread), CATALOG)
    assert call.launched_bytes is None


def test_a_norm_in_a_compiled_region_is_found_once() -> None:
    name = "triton_per_fused_mean_mul_pow_rsqrt_0"
    thread = Thread()
    with thread.inside("Torch-Compiled Region: 0/0"):
        thread.run(name, X, W, X)
    next(event for event in thread.events if event["cat"] == "kernel")["name"] = name
    llama(thread)
    calls = find_norms(linked_threads(thread), CATALOG)
    assert [(call.found_by, len(call.norm_events)) for call in calls] == [("compiled", 1), ("eager", 8)]


# Backward and recomputed.


def training_step(thread: Thread, *, recomputes_in_node: bool = False) -> list[str]:
    """Run a plain RMS norm with sequence numbers and its backward pass; return the latter's kernels."""
    steps = [
        ("aten::pow", X, "2"),
        ("aten::mean", X, *KEPT_LAST),
        ("aten::add", S, EPSILON, ONE),
        ("aten::rsqrt", S),
        ("aten::mul", X, S),
        ("aten::mul", X, W),
    ]
    for number, (name, *arguments) in enumerate(steps, start=10):
        thread.run(str(name), *arguments, **{"Sequence number": number, "Fwd thread id": 0})
    thread.run("aten::mm", X, X, **{"Sequence number": 16, "Fwd thread id": 0})
    backward: list[str] = []
    for number, node in enumerate(("Mm", "Mul", "Mul", "Rsqrt", "Add", "Mean", "Pow")):
        ids = {"Sequence number": 16 - number, "Fwd thread id": 1}
        with (
            thread.inside(f"autograd::engine::evaluate_function: {node}Backward0", **ids),
            thread.inside(f"{node}Backward0", **ids),
        ):
            if recomputes_in_node and number == 1:
                with thread.inside("aten::linear", **{"Sequence number": 40, "Fwd thread id": 0}):
                    thread.run("aten::addmm", X, X)
            found = thread.run("aten::mul", X, X)
        if node != "Mm":
            backward.append(found)
    return backward


@pytest.mark.parametrize("recomputes_in_node", [False, True])
def test_kernels_of_the_autograd_nodes_are_one_backward_call(recomputes_in_node: bool) -> None:
    """Also where another op's forward pass runs again inside one of the nodes."""
    thread = Thread()
    expected = training_step(thread, recomputes_in_node=recomputes_in_node)
    linked = linked_threads(thread)
    forward, backward = eager_calls(linked, CATALOG, frozenset())
    assert len(forward.norm_events) == 6
    assert kernel_names(linked, backward) == expected
    assert backward.name == "eager::rms_norm_backward"
    assert (backward.direction, backward.row.id) == ("backward", "eager-rms-norm-backward")
    assert not backward.is_recomputed
    # dy and x read, dx written, the root of 4 bytes a row read, weight read and its gradient written
    assert backward.cost.bytes_moved == 3 * 4 * E + 4 * R + 2 * 4 * N
    assert backward.cost.flops == 8 * E + 2 * E
    assert backward.cost.x_shape == tuple(SHAPE)
    assert backward.launched_bytes is None
    assert backward.args.dims == [SHAPE]
    assert linked.trace.cpu_ops[backward.op].name == "autograd::engine::evaluate_function: MulBackward0"


def test_a_chain_in_an_autograd_node_is_recomputed() -> None:
    thread = Thread()
    ids = {"Sequence number": 3, "Fwd thread id": 1}
    with thread.inside("autograd::engine::evaluate_function: CheckpointFunctionBackward", **ids):
        llama(thread)
    (call,) = calls_of(thread)
    assert call.is_recomputed
    assert len(call.norm_events) == 8


# Junk.


@pytest.mark.parametrize(
    "junk",
    [
        {"Input Dims": 5, "Input type": 7},
        {"Input Dims": [["s0", 5, 64], []], "Input type": ["float", "Scalar"]},
        {"Input Dims": [[2, 5, 64], []], "Input type": ["float", "Scalar"], "Concrete Inputs": [[], {}]},
        {"Input Dims": [[2, 5, 64], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "nan"]},
        {"Input Dims": [[2**62, 2**62]], "Input type": ["float"]},
        {"Input Dims": [[]], "Input type": ["float"], "Input Strides": [None]},
        {"Input Dims": [[2, 5, 64]], "Input type": ["float"], "Input Strides": [["a", "b", "c"]]},
    ],
)
def test_junk_among_the_inputs_of_a_chain_is_no_norm(junk: dict[str, object]) -> None:
    for name in ("aten::pow", "aten::mean", "aten::rsqrt"):
        thread = Thread()
        llama(thread)
        for event in thread.events:
            if event["name"] == name:
                event["args"] |= junk
        for call in calls_of(thread):  # strides alone don't matter
            assert "Input Strides" in junk
            assert len(call.norm_events) == 8


def test_a_module_with_thousands_of_ops_takes_no_time_to_reject() -> None:
    thread = Thread()
    with thread.module("Norm_0"):
        for _ in range(2000):
            thread.run("aten::mean", X, *KEPT_LAST)
            thread.cast(("float", [64]), BF16)
    assert calls_of(thread) == []


# Real traces.


class Model(msgspec.Struct, frozen=True):
    """What the reference counts in a trace, and the bytes of one of its norms by hand."""

    trace: str
    module: str
    norms: int
    kernels: int
    us: float
    launched: int


# 36 or 34 bytes an element, 24 a row for what is as narrow as [.., 1], the bf16 weight once.
MODELS = (
    Model(
        "qwen15_mi300x",
        *("Qwen2RMSNorm", 49, 392, 5674.3, 36 * 16 * 559 * 1024 + 24 * 16 * 559 + 2 * 1024),
    ),
    Model(
        "sd35_compiled_mi300x",
        *("T5LayerNorm", 98, 784, 3475.4, 34 * 256 * 4096 + 24 * 256 + 2 * 4096),
    ),
)


@pytest.mark.parametrize("with_modules", [True, False], ids=["modules", "bare"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.trace)
def test_real_models(shared: Path, model: Model, with_modules: bool) -> None:
    trace = read_trace(shared / "traces" / f"{model.trace}.json.gz")
    linked = link(trace if with_modules else msgspec.structs.replace(trace, modules=[]))
    calls = [call for call in find_norms(linked, CATALOG) if call.found_by == "eager"]
    assert len(calls) == model.norms
    assert {call.name for call in calls} == {f"eager::{model.module}" if with_modules else "eager::rms_norm"}
    assert sum(len(call.norm_events) for call in calls) == model.kernels
    assert sum(call.norm_us for call in calls) == pytest.approx(model.us, rel=0.005)
    assert model.launched in {call.launched_bytes for call in calls}


@pytest.mark.parametrize("name", ["owlv2_h100", "owlv2_mi300x", "resnet_checkpoint_mi300x"])
def test_real_models_without_such_norms(shared: Path, name: str) -> None:
    linked = link(read_trace(shared / "traces" / f"{name}.json.gz"))
    assert eager_calls(linked, CATALOG, frozenset()) == []
