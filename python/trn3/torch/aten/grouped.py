"""Rows by groups whose lengths are data, as mixtures of experts have them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trn3.torch.aten.registry import AtenCall, AtenError, aten

if TYPE_CHECKING:
    from trn3.torch.aten.writer import AtenWriter

__all__: list[str] = []


@aten("histc")
def _histc(call: AtenCall) -> int:
    """Count elements by part of a range; what lies outside of it, and NaN, is in no part."""
    writer, x, kind = call.writer, call.number("self"), call.type()
    low, high = (float(call[name] or 0) for name in ("min", "max"))
    if low >= high:
        raise AtenError(f"min is {low:g} and max {high:g}; allowed: ends that are no data")
    bins = 100 if call["bins"] is None else call["bins"]
    x = writer.convert(writer.reshape(x, [math.prod(writer.shape(x)), 1]), "float32")
    from_low = writer.scaled("subtract", x, low)
    place = writer.unary("floor", writer.scaled("multiply", from_low, bins / (high - low)))
    # The range's end is of its last part.
    is_end = writer.compare("eq", x, writer.filled(high, "float32"))
    place = writer.select(is_end, writer.filled(bins - 1, "float32"), place)
    parts = writer.convert(writer.iota([1, bins], 1), "float32")
    is_there = writer.convert(writer.compare("eq", place, parts), "float32")
    return writer.convert(writer.reduce("add", is_there, [0]), kind.dtype)


def _members(writer: AtenWriter, ends: int, length: int) -> list[int]:
    """Return for each group which of the rows it has: from the group's before it to its own end."""
    rows = writer.iota([length], 0)
    masks, previous = [], None
    for group in range(writer.shape(ends)[0]):
        end = writer.reshape(writer.part(ends, 0, group, group + 1), [])
        mask = writer.compare("lt", rows, end)
        if previous is not None:
            mask = writer.binary("and", mask, writer.compare("ge", rows, previous))
        masks.append(mask)
        previous = end
    return masks


@aten("_grouped_mm", "transformers.grouped_mm_fallback")
def _grouped_mm(call: AtenCall) -> int:
    """Multiply each group by its own matrix.

    Lengths of groups are data: each matrix is multiplied by all rows, and a row takes the product
    of its group **(choice)**: the same bits, in as many times the work as there are groups. Rows of
    no group are zero.
    """
    writer, kind = call.writer, call.type()
    names = ("self", "mat2") if call["self"] is not None else ("input", "weight")
    left, right = map(call.number, names)
    ranks = len(writer.shape(left)), len(writer.shape(right))
    if call["bias"] is not None:
        raise AtenError("has a bias; allowed: none, as in torch")
    if ranks == (3, 3):
        return writer.convert(writer.dot(left, right, ([2], [1]), ([0], [0])), kind.dtype)
    ends = writer.convert(call.number("offs"), "int32")
    dtype = writer.dtype(left)
    zero = writer.filled(0, dtype)
    if ranks == (2, 2):
        products = []
        for mask in _members(writer, ends, writer.shape(left)[1]):
            own = writer.select(writer.reshape(mask, [1, *writer.shape(mask)]), left, zero)
            product = writer.dot(own, right, ([1], [0]))
            products.append(writer.reshape(product, [1, *writer.shape(product)]))
        return writer.convert(writer.concatenate(products, 0), kind.dtype)
    grouped, axis = (right, 0) if ranks == (2, 3) else (left, 1)
    made = writer.filled(0, dtype, kind.shape)
    for group, mask in enumerate(_members(writer, ends, kind.shape[axis])):
        own = writer.part(grouped, 0, group, group + 1)
        own = writer.reshape(own, writer.shape(own)[1:])
        pair = (left, own) if ranks == (2, 3) else (own, right)
        product = writer.dot(*pair, ([1], [0]))
        shape = [*writer.shape(mask), 1] if axis == 0 else [1, *writer.shape(mask)]
        made = writer.select(writer.reshape(mask, shape), product, made)
    return writer.convert(made, kind.dtype)
