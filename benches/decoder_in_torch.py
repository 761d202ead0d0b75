"""The same step in eager torch, its products faked: quantise, dequantise, multiply in float32.

What a researcher writes who has no such arithmetic at hand, of torch's own operations. Forward and
both products of the way back quantise what they take along what they sum over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from decoder_sizes import BETAS, DECAY, EPSILON, RATE, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 32
# The largest exponent of float8_e4m3fn, less one: nothing saturates.
LARGEST = 7


def faked(x: Any, axis: int) -> Any:
    """Quantise blocks of 32 along an axis to MXFP8, and back."""
    blocks = x.float().movedim(axis, -1).unflatten(-1, (-1, BLOCK))
    largest = blocks.abs().amax(-1, keepdim=True)
    exponents = torch.frexp(largest).exponent - (1 + LARGEST)
    scales = torch.exp2(exponents.clamp(-127, 127).float())
    codes = (blocks / scales).to(torch.float8_e4m3fn)
    return (codes.float() * scales).flatten(-2).movedim(-1, axis)


class FakedProduct(torch.autograd.Function):  # type: ignore[misc]
    """a [..., m, k] by b [..., k, n]."""

    @staticmethod
    def forward(context: Any, a: Any, b: Any) -> Any:
        """Multiply, both quantised along k."""
        context.save_for_backward(a, b)
        return (faked(a, -1) @ faked(b, -2)).to(a.dtype)

    @staticmethod
    def backward(context: Any, *slopes: Any) -> Any:
        """Multiply what comes back by either, quantised along what is summed over now."""
        (slope,), (a, b) = slopes, context.saved_tensors
        of_a = (faked(slope, -1) @ faked(b, -1).mT).to(a.dtype)
        if b.dim() == 2:
            # One matrix for all: its slope is a sum over every row.
            a, slope = a.flatten(0, -2), slope.flatten(0, -2)
        return of_a, (faked(a, -2).mT @ faked(slope, -2)).to(b.dtype)


def product(a: Any, b: Any) -> Any:
    return FakedProduct.apply(a, b)


def norm(x: Any, gain: Any) -> Any:
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
    return (wide * scale * gain).to(x.dtype)


def block(sizes: Sizes, x: Any, w: dict[str, Any], causal: Any) -> Any:
    batch, length, width = x.shape
    mixed = product(norm(x, w["norm_a"]), w["qkv"]).view(batch, length, 3, sizes.heads, -1)
    q, k, v = (mixed[:, :, part].transpose(1, 2) for part in range(3))
    scores = product(q, k.mT).float() / sizes.head**0.5
    chances = scores.masked_fill(~causal, -1e9).softmax(-1).to(x.dtype)
    x = x + product(product(chances, v).transpose(1, 2).reshape(batch, length, width), w["out"])
    hidden = functional.gelu(product(norm(x, w["norm_b"]), w["up"]), approximate="tanh")
    return x + product(hidden, w["down"])


def loss(sizes: Sizes, dtype: Any, weights: dict[str, Any], tokens: Any) -> Any:
    cast = {name: w if "norm" in name else w.to(dtype) for name, w in weights.items()}
    causal = torch.ones(sizes.length, sizes.length, dtype=torch.bool).tril()
    x = cast["embedding"][tokens[:, :-1]] + cast["positions"]
    for layer in range(sizes.layers):
        prefix = f"{layer}."
        own = {name.removeprefix(prefix): w for name, w in cast.items() if name.startswith(prefix)}
        x = block(sizes, x, own, causal)
    logits = product(norm(x, cast["norm"]), cast["embedding"].T).float()
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def step(sizes: Sizes, dtype: Any, weights: dict[str, Any]) -> Callable[[Any], Any]:
    """Return tokens -> the loss, after which the weights have moved."""
    tensors = {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}
    optimiser = torch.optim.AdamW(
        tensors.values(), RATE, BETAS, EPSILON, DECAY, foreach=False, fused=True
    )

    def run(tokens: Any) -> Any:
        value = loss(sizes, dtype, tensors, tokens)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        return value.detach()

    return run
