"""Norms of layers: what torch keeps as one operator each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trn3.torch.aten.reductions import averaged, wide
from trn3.torch.aten.registry import AtenCall, Held, aten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trn3.torch.aten.writer import AtenWriter

__all__: list[str] = []


def _normed(
    writer: AtenWriter, x: int, axes: Sequence[int], epsilon: float
) -> tuple[int, int, int]:
    """Bring a value to mean 0 and variance 1 along axes: with its mean, and 1 by its deviation."""
    shape = writer.shape(x)
    thin = [1 if axis in axes else length for axis, length in enumerate(shape)]
    mean = writer.reshape(averaged(writer, x, axes), thin)
    away = writer.binary("subtract", x, writer.broadcast(mean, shape))
    squares = writer.binary("multiply", away, away)
    variance = writer.reshape(averaged(writer, squares, axes), thin)
    inverse = writer.unary("rsqrt", writer.scaled("add", variance, epsilon))
    normed = writer.binary("multiply", away, writer.broadcast(inverse, shape))
    return normed, mean, inverse


def _finished(
    call: AtenCall, made: tuple[int, int, int], lengths: Sequence[int], axes: Sequence[int]
) -> list[int]:
    """Scale and shift by weights that have these axes, and give all the types of the results."""
    writer = call.writer
    y = writer.reshape(made[0], lengths)
    for op, name in (("multiply", "weight"), ("add", "bias")):
        if isinstance(call[name], Held):
            factor = writer.convert(call.number(name), writer.dtype(y))
            y = writer.binary(op, y, writer.placed(factor, lengths, axes))
    numbers = (y, *made[1:])
    kinds = [call.type(place) for place in range(3)]
    return [
        writer.reshape(writer.convert(number, kind.dtype), kind.shape)
        for number, kind in zip(numbers, kinds, strict=True)
    ]


@aten("native_layer_norm")
def _layer_norm(call: AtenCall) -> list[int]:
    writer = call.writer
    x = wide(writer, call.number("input"))
    rank = len(writer.shape(x))
    axes = list(range(rank - len(call["normalized_shape"]), rank))
    return _finished(call, _normed(writer, x, axes, call["eps"]), writer.shape(x), axes)


@aten("native_group_norm")
def _group_norm(call: AtenCall) -> list[int]:
    writer = call.writer
    x = wide(writer, call.number("input"))
    shape = writer.shape(x)
    rows = [shape[0], call["group"], math.prod(shape) // max(shape[0] * call["group"], 1)]
    return _finished(call, _normed(writer, writer.reshape(x, rows), [2], call["eps"]), shape, [1])
