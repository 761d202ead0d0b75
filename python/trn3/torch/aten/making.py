"""Values that no tensor gives: constants, counts, and random bits that torch draws."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from trn3.graph.writing import TensorType
from trn3.torch.aten.registry import AtenCall, AtenError, Held, aten
from trn3.torch.held_tensors import array_of

__all__ = ["BY_DATA", "DRAWN", "constant", "draw", "dropped"]

# Operators of random numbers: torch draws what they give, on the host.
DRAWN = frozenset(
    f"aten.{name}"
    for name in (
        "bernoulli",
        "exponential",
        "normal",
        "normal_functional",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "randperm",
        "uniform",
        "native_dropout",
    )
)

# Of these, those that draw by what a tensor holds.
BY_DATA = frozenset(
    f"aten.{name}"
    for name in (
        "bernoulli.default",
        "bernoulli.Tensor",
        "normal.Tensor_Tensor",
        "normal.Tensor_float",
        "normal.float_Tensor",
    )
)


def draw(node: Any) -> Any:
    """Draw what an operator of random numbers gives, as torch does when it runs eagerly."""
    operator = node.target
    if "native_dropout" in str(operator):
        like, chance = node.args[0].meta["val"], node.args[1]
        return torch.empty_strided(like.shape, like.stride(), dtype=torch.bool).bernoulli_(
            1.0 - chance
        )

    def real(value: Any) -> Any:
        if not isinstance(value, torch.fx.Node):
            return value
        like = value.meta["val"]
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)

    args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), real)
    return operator(*args, **kwargs)


@aten("full", "full_like", "new_full")
def _full(call: AtenCall) -> int:
    kind = call.type()
    return call.writer.filled(call["fill_value"], kind.dtype, kind.shape)


@aten("scalar_tensor")
def _scalar(call: AtenCall) -> int:
    return call.writer.filled(call["s"], call.type().dtype)


@aten("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided")
@aten("new_empty_strided", "empty_permuted")
def _zeros(call: AtenCall) -> int:
    kind = call.type()
    return call.writer.filled(0, kind.dtype, kind.shape)


@aten("ones", "ones_like", "new_ones")
def _ones(call: AtenCall) -> int:
    kind = call.type()
    return call.writer.filled(1, kind.dtype, kind.shape)


@aten("fill")
def _fill(call: AtenCall) -> int:
    kind = call.type()
    if call.name == "aten.fill.Tensor":
        value = call.writer.convert(call.number("value"), kind.dtype)
        return call.writer.broadcast(value, kind.shape)
    return call.writer.filled(call["value"], kind.dtype, kind.shape)


@aten("arange")
def _arange(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    start, step = call["start"] or 0, 1 if call["step"] is None else call["step"]
    if kind.dtype == "int32" and step == 1:
        counted = writer.iota(kind.shape, 0)
        return writer.scaled("add", counted, start) if start else counted
    with unset_fake_temporarily():
        made = torch.arange(start, call["end"], step, dtype=call.result.dtype)
    return constant(writer, made)


@aten("linspace")
def _linspace(call: AtenCall) -> int:
    ends = call["start"], call["end"]
    if any(isinstance(end, Held) for end in ends):
        raise AtenError("its ends are tensors; allowed: numbers")
    with unset_fake_temporarily():
        made = torch.linspace(*ends, call["steps"], dtype=call.result.dtype)
    return constant(call.writer, made)


def constant(writer: Any, tensor: Any) -> int:
    """Add a tensor's elements as a constant."""
    try:
        # torch compiles while its tensors are fakes.
        with unset_fake_temporarily():
            array = array_of(tensor, "a constant")
    except ValueError as refusal:
        raise AtenError(str(refusal)) from None
    return int(writer.constant(array, TensorType(array.dtype.name, array.shape)))


@aten("native_dropout_backward")
def _dropout_backward(call: AtenCall) -> int:
    writer, gradient = call.writer, call.number("grad_output")
    wide = writer.convert(gradient, "float32")
    scaled = writer.scaled("multiply", wide, call["scale"])
    mask = writer.convert(call.number("mask"), "float32")
    return writer.convert(writer.binary("multiply", scaled, mask), writer.dtype(gradient))


def dropped(call: AtenCall, mask: int) -> list[int]:
    """Write a dropout whose mask was drawn: what stays is scaled up, as torch does eagerly."""
    writer, x, chance = call.writer, call.number("input"), call["p"]
    if call["train"] is False or chance == 0:
        ones = writer.filled(True, "bool", writer.shape(x))
        return [x, ones]
    # One number for what stays, rounded to the type, and one product.
    scale = 0.0 if chance == 1 else 1 / (1 - chance)
    dtype = writer.dtype(x)
    noise = writer.select(mask, writer.filled(scale, dtype), writer.filled(0, dtype))
    return [writer.binary("multiply", x, noise), mask]
