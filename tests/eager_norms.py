"""Normalizations written by hand in PyTorch ops, as models have them, and what only looks like one.

``record_eager`` profiles each of them the way a model calls it: ``LAYERS`` blocks ``x + linear(norm(x))``,
run ``STEPS`` times, which makes ``LAYERS * STEPS`` calls of the norm.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from torch_profiles import Event, profiled

SHAPE = (2, 5, 16)
WIDTH = SHAPE[-1]
LAYERS = 2
STEPS = 3
EPS = 1e-6
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class EagerProfile(msgspec.Struct, frozen=True):
    """A profile of a hand-written norm or of a decoy.

    Attributes
    ----------
    events
        As the profiler wrote them, without any GPU event.
    norm
        Which of ``EAGER_NORMS`` or ``DECOYS`` ran.
    dtype
        ``fp32`` or ``bf16``, of the input and of the parameters.
    shape
        Of the input of each call.
    calls
        How often the norm was called, 0 for a decoy.
    backward
        Whether the backward pass ran, too; if not, no gradient was asked for.
    modules
        Whether Python calls, and so ``nn.Module`` events, were recorded.
    """

    events: list[Event]
    norm: str
    dtype: str
    shape: tuple[int, ...]
    calls: int
    backward: bool
    modules: bool


class _Scaled(nn.Module):
    """Holds a weight for each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))


class _Affine(_Scaled):
    """Holds a weight and a bias for each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(WIDTH))


class PlainRMSNorm(_Scaled):
    """In the input's own type."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight


class SquareRMSNorm(_Scaled):
    """With the square as a product and a division by the root."""

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS))


class LlamaRMSNorm(_Scaled):
    """In fp32 throughout, then back to the input's type, then the weight."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        wide = wide * torch.rsqrt(variance + EPS)
        return self.weight * wide.to(x.dtype)


class T5LayerNorm(_Scaled):
    """An RMS norm with its mean alone in fp32; multiplies the input in its own type."""

    def forward(self, x: Tensor) -> Tensor:
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        scaled = x * torch.rsqrt(variance + EPS)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            scaled = scaled.to(self.weight.dtype)
        return self.weight * scaled


class GemmaRMSNorm(_Scaled):
    """In fp32 with a weight that is counted from one."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        return (wide * (1.0 + self.weight.float())).type_as(x)


class MeanLayerNorm(_Affine):
    """From mean, squared deviation, root and division."""

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.pow(2).mean(-1, keepdim=True)
        return self.weight * (centered / torch.sqrt(variance + EPS)) + self.bias


class VarLayerNorm(_Affine):
    """From mean, variance and inverse root."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        return (x - mean) * torch.rsqrt(variance + EPS) * self.weight + self.bias


class StdLayerNorm(_Affine):
    """From mean and standard deviation, with the small number added to the latter."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        return self.weight * (x - mean) / (x.std(-1, keepdim=True) + EPS) + self.bias


class L2Norm(_Scaled):
    """The root of the mean square by way of the length of each row, as for queries and keys."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x, dim=-1) * math.sqrt(WIDTH) * self.weight


EAGER_NORMS: Mapping[str, type[nn.Module]] = {
    "plain_rms_norm": PlainRMSNorm,
    "square_rms_norm": SquareRMSNorm,
    "llama_rms_norm": LlamaRMSNorm,
    "t5_layer_norm": T5LayerNorm,
    "gemma_rms_norm": GemmaRMSNorm,
    "mean_layer_norm": MeanLayerNorm,
    "var_layer_norm": VarLayerNorm,
    "std_layer_norm": StdLayerNorm,
    "l2_norm": L2Norm,
}


class _Blocks(nn.Module):
    """``LAYERS`` residual blocks, each with a norm before a linear layer."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm() for _ in range(LAYERS))
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for norm, linear in zip(self.norms, self.linears, strict=True):
            x = x + linear(norm(x))
        return x


def _logged_variance(x: Tensor) -> Tensor:
    return x.var(-1).mean()


def _stops_at_rsqrt(x: Tensor) -> Tensor:
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)


def _whole_tensor_standardized(x: Tensor) -> Tensor:
    return (x - x.mean()) / x.std()


def _squared_error(x: Tensor) -> Tensor:
    return (x - torch.ones_like(x)).pow(2).mean(-1, keepdim=True)


def _gelu_by_hand(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3))))


def _cosine(x: Tensor) -> Tensor:
    return functional.cosine_similarity(x, torch.ones_like(x), dim=-1)


def _clipped_to_length(x: Tensor) -> Tensor:
    return x * torch.clamp(1.0 / (torch.linalg.vector_norm(x) + EPS), max=1.0)


DECOYS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "logged_variance": _logged_variance,
    "stops_at_rsqrt": _stops_at_rsqrt,
    "whole_tensor_standardized": _whole_tensor_standardized,
    "squared_error": _squared_error,
    "gelu_by_hand": _gelu_by_hand,
    "cosine": _cosine,
    "clipped_to_length": _clipped_to_length,
}
"""No normalization layer, though each has some of the ops of one."""


def record_eager() -> dict[str, EagerProfile]:
    """Profile every norm and decoy.

    Returns
    -------
    dict
        By name: ``llama_rms_norm-bf16-training-modules``, ``softmax-fp32-inference-bare`` and so on.
    """
    return {
        "-".join(
            (
                profile.norm,
                profile.dtype,
                "training" if profile.backward else "inference",
                "modules" if profile.modules else "bare",
            )
        ): profile
        for profile in _profiles()
    }


def _profiles() -> Iterator[EagerProfile]:
    for dtype, backward, modules in product(DTYPES, (False, True), (False, True)):
        for name, norm in EAGER_NORMS.items():
            model = _Blocks(norm).to(DTYPES[dtype])
            events = profiled(_steps(model, DTYPES[dtype], backward=backward), modules=modules)
            yield EagerProfile(events, name, dtype, SHAPE, LAYERS * STEPS, backward, modules)
        for name, decoy in DECOYS.items():
            events = profiled(_steps(decoy, DTYPES[dtype], backward=backward), modules=modules)
            yield EagerProfile(events, name, dtype, SHAPE, 0, backward, modules)


def one_call(norm: nn.Module, dtype: torch.dtype) -> list[Event]:
    """Profile one call of ``norm`` and its backward pass, and nothing else."""
    norm = norm.to(dtype)
    x = torch.randn(SHAPE, dtype=dtype, requires_grad=True)
    dy = torch.randn(SHAPE, dtype=dtype)
    return profiled(lambda: torch.autograd.backward(norm(x), dy))


def _steps(run: Callable[[Tensor], Tensor], dtype: torch.dtype, *, backward: bool) -> Callable[[], None]:
    x = torch.randn(SHAPE, dtype=dtype, requires_grad=backward)

    def steps() -> None:
        with torch.set_grad_enabled(backward):
            for _ in range(STEPS):
                y = run(x)
                if backward:
                    torch.autograd.backward(y, torch.ones_like(y))

    return steps
