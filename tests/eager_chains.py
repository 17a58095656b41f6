"""Norms written out in Python as PyTorch records them, with bytes and FLOPs by hand.

E elements, R rows and N features of ``SHAPE``; the sequences are those of profiles of such modules.
"""

from collections.abc import Callable

import msgspec

from small_ops import BF16, EPSILON, F32, KEPT_LAST, ONE, Thread

SHAPE, NARROW, WIDTH = [2, 5, 64], [2, 5, 1], [64]
E, R, N = 640, 10, 64
X, X16 = (F32, SHAPE), (BF16, SHAPE)
S, S16 = (F32, NARROW), (BF16, NARROW)
W, W16 = (F32, WIDTH), (BF16, WIDTH)


class Written(msgspec.Struct, frozen=True):
    """A norm written out in Python.

    Attributes
    ----------
    name
        Class of the module.
    run
        Its ops.
    norm
        What it is: the row of the catalog without ``eager-``.
    kernels
        How many it launches.
    moved, launched
        Bytes of one kernel in its place, and of its own kernels.
    flops
        By the formula of the norm.
    dtype
        Of its input.
    has_bias
        Whether it adds one.
    """

    name: str
    run: Callable[[Thread], None]
    norm: str
    kernels: int
    moved: int
    launched: int
    flops: int
    dtype: str = "bf16"
    has_bias: bool = False


def mean_square_root(thread: Thread) -> None:
    """Run what every RMS norm in fp32 has, up to the reciprocal root."""
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)


def llama(thread: Thread) -> None:
    thread.cast(X16, F32)
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    thread.cast(X, BF16)
    thread.run("aten::mul", W16, X16)


def t5(thread: Thread) -> None:
    thread.cast(X16, F32)
    mean_square_root(thread)
    thread.run("aten::mul", X16, S)
    thread.cast(X, BF16)
    thread.run("aten::mul", W16, X16)


def gemma(thread: Thread) -> None:
    thread.cast(X16, F32)
    mean_square_root(thread)
    thread.run("aten::mul", X, S)
    thread.cast(W16, F32)
    thread.run("aten::add", W, EPSILON, ONE)
    thread.run("aten::mul", X, W)
    thread.cast(X, BF16, around="aten::type_as")


def product_and_root(thread: Thread) -> None:
    thread.cast(X16, F32)
    thread.run("aten::mul", X, X)
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::sqrt", S)
    thread.run("aten::div", X, S)
    thread.cast(X, BF16)
    thread.run("aten::mul", X16, W16)


def reciprocal_of_root(thread: Thread) -> None:
    thread.cast(X16, F32)
    with thread.inside("aten::square"):
        thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add_", S, EPSILON, ONE)
    thread.run("aten::sqrt", S)
    thread.run("aten::reciprocal", S)
    thread.run("aten::mul", X, S)
    thread.cast(X, BF16)
    thread.run("aten::mul", X16, W16)


def power_of_minus_half(thread: Thread) -> None:
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::pow", S, "-0.5")
    thread.run("aten::mul", X, S)
    thread.run("aten::mul", X, W)


def length_by_root_of_size(thread: Thread) -> None:
    thread.run("aten::linalg_vector_norm", X16, "2", *KEPT_LAST)
    thread.run("aten::mul", S16, EPSILON)
    thread.run("aten::add", S16, EPSILON, ONE)
    thread.run("aten::div", X16, S16)
    thread.run("aten::mul", W16, X16)


def mean_layer_norm(thread: Thread) -> None:
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::pow", X, "2")
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::sqrt", S)
    thread.run("aten::div", X, S)
    thread.run("aten::mul", W, X)
    thread.run("aten::add", X, W, ONE)


def variance_layer_norm(thread: Thread) -> None:
    thread.run("aten::mean", X, *KEPT_LAST)
    with thread.inside("aten::var"):
        thread.run("aten::var", X, "[-1]", "0", "True")
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)
    thread.run("aten::mul", X, W)
    thread.run("aten::add", X, W, ONE)


def variance_and_mean_layer_norm(thread: Thread) -> None:
    with thread.inside("aten::var_mean"):
        thread.run("aten::var_mean", X, "[-1]", "0", "True")
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::rsqrt", S)
    thread.run("aten::mul", X, S)
    thread.run("aten::mul", X, W)
    thread.run("aten::add", X, W, ONE)


def deviation_layer_norm(thread: Thread) -> None:
    thread.run("aten::mean", X, *KEPT_LAST)
    thread.run("aten::sub", X, S, ONE)
    thread.run("aten::mul", W, X)
    thread.run("aten::std", X, "[-1]", "True", "True")
    thread.run("aten::add", S, EPSILON, ONE)
    thread.run("aten::div", X, S)
    thread.run("aten::add", X, W, ONE)


def length(thread: Thread) -> None:
    thread.run("aten::linalg_vector_norm", X16, "2.", *KEPT_LAST)
    thread.run("aten::clamp_min", S16, "9.9999999999999998e-13")
    thread.view("aten::expand_as", S16, X16)
    thread.run("aten::div", X16, (BF16, SHAPE, [5, 1, 0]))
    thread.run("aten::mul", X16, EPSILON)
    thread.run("aten::mul", X16, W16)


# One kernel reads x and writes y in bf16, 4E, or in fp32, 8E, and reads the parameters. FLOPs of an RMS norm
# are 3E + 2R and E for the weight, those of a layer norm 6E + 3R and E for each parameter.
RMS_FLOPS, LAYER_NORM_FLOPS = 4 * E + 2 * R, 8 * E + 3 * R
WRITTEN = (
    # 6E cast, 8E square, 4E + 4R mean, 8R add, 8R root, 8E + 4R product, 6E cast, 4E + 2N weight
    Written("LlamaRMSNorm", llama, "rms-norm", 8, 4 * E + 2 * N, 36 * E + 24 * R + 2 * N, RMS_FLOPS),
    # as before, but the product reads bf16: 6E + 4R
    Written("T5LayerNorm", t5, "rms-norm", 8, 4 * E + 2 * N, 34 * E + 24 * R + 2 * N, RMS_FLOPS),
    # 26E + 24R up to the product, 6N cast, 8N add, 8E + 4N weight, 6E cast
    Written("GemmaRMSNorm", gemma, "rms-norm", 10, 4 * E + 2 * N, 40 * E + 24 * R + 18 * N, RMS_FLOPS),
    # x * x reads one tensor, once
    Written(
        "SquareRMSNorm", product_and_root, "rms-norm", 8, 4 * E + 2 * N, 36 * E + 24 * R + 2 * N, RMS_FLOPS
    ),
    # 8R more for the reciprocal
    Written(
        "ReciprocalRMSNorm",
        *(reciprocal_of_root, "rms-norm", 9, 4 * E + 2 * N, 36 * E + 32 * R + 2 * N, RMS_FLOPS),
    ),
    # 8E square, 4E + 4R mean, 8R add, 8R power, 8E + 4R product, 8E + 4N weight
    Written(
        "PowerRMSNorm",
        *(power_of_minus_half, "rms-norm", 6, 8 * E + 4 * N, 28 * E + 24 * R + 4 * N, RMS_FLOPS, "fp32"),
    ),
    # 2E + 2R length, 4R scale, 4R add, 4E + 2R quotient, 4E + 2N weight
    Written(
        "LengthRMSNorm",
        *(length_by_root_of_size, "rms-norm", 5, 4 * E + 2 * N, 10 * E + 12 * R + 2 * N, RMS_FLOPS),
    ),
    # twice 4E + 4R mean, twice 8E + 4R difference, 8E square, 8R add, 8R root, 8E + 4R quotient,
    # twice 8E + 4N parameters
    Written(
        "MeanLayerNorm",
        mean_layer_norm,
        "layer-norm",
        10,
        8 * E + 8 * N,
        56 * E + 36 * R + 8 * N,
        LAYER_NORM_FLOPS,
        "fp32",
        has_bias=True,
    ),
    # 4E + 4R mean, 4E + 4R variance, 8E + 4R difference, 8R add, 8R root, 8E + 4R product,
    # 16E + 8N parameters
    Written(
        "VarLayerNorm",
        variance_layer_norm,
        "layer-norm",
        8,
        8 * E + 8 * N,
        40 * E + 32 * R + 8 * N,
        LAYER_NORM_FLOPS,
        "fp32",
        has_bias=True,
    ),
    # as before, but one pass of 4E + 8R for both statistics
    Written(
        "VarMeanLayerNorm",
        variance_and_mean_layer_norm,
        "layer-norm",
        7,
        8 * E + 8 * N,
        36 * E + 32 * R + 8 * N,
        LAYER_NORM_FLOPS,
        "fp32",
        has_bias=True,
    ),
    # 4E + 4R mean, 4E + 4R deviation, 8E + 4R difference, 8R add, 8E + 4R quotient, 16E + 8N parameters
    Written(
        "StdLayerNorm",
        deviation_layer_norm,
        "layer-norm",
        7,
        8 * E + 8 * N,
        40 * E + 24 * R + 8 * N,
        LAYER_NORM_FLOPS,
        "fp32",
        has_bias=True,
    ),
    # 2E + 2R length, 4R clamp, 4E + 2R quotient, 4E scale, 4E + 2N weight
    Written("QKL2Norm", length, "l2-norm", 5, 4 * E + 2 * N, 14 * E + 8 * R + 2 * N, RMS_FLOPS),
)
