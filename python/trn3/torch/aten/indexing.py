"""Elements at places that are data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3.graph.writing import TensorType
from trn3.torch.aten.elementwise import floored, operand
from trn3.torch.aten.reductions import one_axis
from trn3.torch.aten.registry import AtenCall, AtenError, Held, aten
from trn3.torch.aten.writer import NARROW, AtenWriter, is_float, neutral

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__: list[str] = []


def _from_front(writer: AtenWriter, index: int, length: int) -> int:
    """Count indices from the front; negative ones are from the end."""
    index = writer.convert(index, "int32")
    is_negative = writer.compare("lt", index, writer.filled(0, "int32"))
    return writer.select(is_negative, writer.scaled("add", index, length), index)


class _Places:
    """Indices of several axes as one array, and where windows lie in what they pick."""

    def __init__(self, writer: AtenWriter, x: int, indices: Sequence[Any], *, wraps: bool) -> None:
        shape = writer.shape(x)
        self.axes = [axis for axis, index in enumerate(indices) if index is not None]
        numbers = []
        for axis in self.axes:
            if str(indices[axis].like.dtype) in {"torch.bool", "torch.uint8"}:
                reason = "picks by a mask, so how many is data"
                raise AtenError(f"{reason}; allowed: indices, or torch.where")
            number = indices[axis].number
            number = (
                _from_front(writer, number, shape[axis])
                if wraps
                else writer.convert(number, "int32")
            )
            numbers.append(number)
        numbers = writer.together(*numbers)
        self.batch = writer.shape(numbers[0])
        rank = len(self.batch)
        columns = [writer.reshape(number, (*self.batch, 1)) for number in numbers]
        self.number = writer.concatenate(columns, rank)
        kept = [axis for axis in range(len(shape)) if axis not in self.axes]
        # Axes of indices that follow one another are replaced where they are, others in front.
        is_run = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        before = self.axes[0] if is_run else 0
        self.windows = [place if place < before else place + rank for place in range(len(kept))]
        lengths = [shape[axis] for axis in kept]
        self.result = (*lengths[:before], *self.batch, *lengths[before:])
        self.sizes = [1 if axis in self.axes else length for axis, length in enumerate(shape)]


def _gathered(writer: AtenWriter, x: int, places: _Places) -> int:
    attributes = {
        "offset_dims": places.windows,
        "collapsed_slice_dims": places.axes,
        "start_index_map": places.axes,
        "index_vector_dim": len(places.batch),
        "slice_sizes": places.sizes,
    }
    kind = TensorType(writer.dtype(x), places.result)
    return writer.one("gather", [x, places.number], kind, attributes)


def _scattered(writer: AtenWriter, x: int, places: _Places, updates: int, function: str) -> int:
    attributes = {
        "update_window_dims": places.windows,
        "inserted_window_dims": places.axes,
        "scatter_dims_to_operand_dims": places.axes,
        "index_vector_dim": len(places.batch),
        "function": function,
    }
    return writer.one("scatter", [x, places.number, updates], writer.types[x], attributes)


@aten("index", "_unsafe_index")
def _index(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    if not math.prod(call.type().shape):
        return writer.broadcast(writer.filled(0, writer.dtype(x)), call.type().shape)
    return _gathered(writer, x, _Places(writer, x, call["indices"], wraps=True))


@aten("index_put", "_unsafe_index_put")
def _index_put(call: AtenCall) -> int:
    writer, x, indices = call.writer, call.number("self"), call["indices"]
    values = writer.convert(call.number("values"), writer.dtype(x))
    masks = [index for index in indices if index is not None]
    if len(masks) == 1 and str(masks[0].like.dtype) == "torch.bool" and indices[0] is not None:
        return _masked_put(call, x, masks[0], values)
    if not math.prod(int(length) for index in masks for length in index.like.shape):
        return x
    places = _Places(writer, x, indices, wraps=True)
    updates = writer.broadcast(values, places.result)
    return _joined(writer, x, places, updates, "add" if call["accumulate"] else "replace")


def _joined(writer: AtenWriter, x: int, places: _Places, updates: int, function: str) -> int:
    """Scatter, narrow floats joined in float32 and rounded at the end."""
    dtype = writer.dtype(x)
    if dtype not in NARROW or function == "replace":
        return _scattered(writer, x, places, updates, function)
    wide = [writer.convert(number, "float32") for number in (x, updates)]
    return writer.convert(_scattered(writer, wide[0], places, wide[1], function), dtype)


def _masked_put(call: AtenCall, x: int, mask: Held, values: int) -> int:
    writer, shape = call.writer, call.writer.shape(x)
    covered = len(mask.like.shape)
    lengths = writer.shape(values)
    if len(lengths) > len(shape) - covered and math.prod(lengths) != 1:
        reason = "puts one value for each truth of a mask, so how many is data"
        raise AtenError(f"{reason}; allowed: one value for all, or torch.where")
    if math.prod(lengths) == 1:
        values = writer.reshape(values, [])
    chosen = writer.broadcast(values, shape)
    if call["accumulate"]:
        chosen = writer.binary("add", x, chosen)
    return writer.select(writer.placed(mask.number, shape, list(range(covered))), chosen, x)


@aten("index_select")
def _index_select(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    kind = call.type()
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    if not writer.shape(x):
        return writer.reshape(x, kind.shape)
    axis = one_axis(call["dim"], len(writer.shape(x)))
    index: Held = call["index"]
    flat = Held(writer.reshape(index.number, [index.like.numel()]), index.like)
    return _gathered(writer, x, _Places(writer, x, [None] * axis + [flat], wraps=True))


@aten("embedding")
def _embedding(call: AtenCall) -> int:
    writer, table = call.writer, call.number("weight")
    kind = call.type()
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    return _gathered(writer, table, _Places(writer, table, [call["indices"]], wraps=False))


@aten("embedding_dense_backward")
def _embedding_backward(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    gradient, index = call.number("grad_output"), call.number("indices")
    dtype = "float32" if kind.dtype in NARROW else kind.dtype
    table = writer.filled(0, dtype, kind.shape)
    index = writer.convert(index, "int32")
    padding = call["padding_idx"]
    if padding is not None and padding >= 0:
        # A row beyond the table is left out.
        is_padding = writer.compare("eq", index, writer.filled(padding, "int32"))
        index = writer.select(is_padding, writer.filled(kind.shape[0], "int32"), index)
    if call["scale_grad_by_freq"]:
        raise AtenError("scale_grad_by_freq is True; allowed: False")
    if not math.prod(writer.shape(gradient)):
        return writer.convert(table, kind.dtype)
    places = _Places(writer, table, [Held(index, call["indices"].like)], wraps=False)
    made = _scattered(writer, table, places, writer.convert(gradient, dtype), "add")
    return writer.convert(made, kind.dtype)


def _coordinates(call: AtenCall, shape: Sequence[int]) -> list[Held]:
    """Return indices of every axis: those given along one, counts along all others."""
    writer, index = call.writer, call["index"]
    axis = one_axis(call["dim"], len(shape))
    lengths = [int(length) for length in index.like.shape] or [1]
    made = []
    for place in range(len(shape)):
        number = (
            writer.reshape(writer.convert(index.number, "int32"), lengths)
            if place == axis
            else writer.iota(lengths, place)
        )
        made.append(Held(number, index.like))
    return made


@aten("gather")
def _gather(call: AtenCall) -> int:
    writer, x = call.writer, call.number("self")
    kind = call.type()
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    x = x if writer.shape(x) else writer.reshape(x, [1])
    places = _Places(writer, x, _coordinates(call, writer.shape(x)), wraps=False)
    return writer.reshape(_gathered(writer, x, places), kind.shape)


_JOINS = {
    None: "replace",
    "add": "add",
    "multiply": "multiply",
    "sum": "add",
    "mean": "add",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


@aten("scatter", "scatter_add", "scatter_reduce")
def _scatter(call: AtenCall) -> int:
    writer, x, kind = call.writer, call.number("self"), call.type()
    if not math.prod(int(length) for length in call["index"].like.shape):
        return x
    name = call.name.split(".")[1]
    reduce = "add" if name == "scatter_add" else call["reduce"]
    function = _JOINS[reduce]
    x = x if kind.shape else writer.reshape(x, [1])
    places = _Places(writer, x, _coordinates(call, writer.shape(x)), wraps=False)
    source = call["src"] if call["src"] is not None else call["value"]
    if isinstance(source, Held) and source.like.dim():
        number = writer.slice(source.number, [0] * len(places.batch), places.batch)
    else:
        number = operand(writer, source, kind.dtype)
        number = writer.reshape(number, []) if writer.shape(number) == (1,) else number
    updates = writer.broadcast(writer.convert(number, kind.dtype), places.batch)
    if call["include_self"] is False:
        first = writer.broadcast(
            writer.filled(neutral(function, kind.dtype), kind.dtype), places.batch
        )
        x = _scattered(writer, x, places, first, "replace")
    made = _joined(writer, x, places, updates, function)
    if reduce == "mean":
        made = _shared(call, places, made)
    return writer.reshape(made, kind.shape)


def _shared(call: AtenCall, places: _Places, total: int) -> int:
    """Divide sums by how many came to each place."""
    writer, shape = call.writer, call.writer.shape(total)
    dtype = "float32" if writer.dtype(total) in NARROW else writer.dtype(total)
    own = 0 if call["include_self"] is False else 1
    ones = writer.filled(1, dtype, places.batch)
    counts = _scattered(writer, writer.filled(own, dtype, shape), places, ones, "add")
    counts = writer.scaled("maximum", counts, 1)
    total_wide = writer.convert(total, dtype)
    if not is_float(dtype):
        return floored(writer, total_wide, counts)
    made = writer.binary("divide", total_wide, counts)
    return writer.convert(made, writer.dtype(total))


def _on_diagonal(call: AtenCall, count: int) -> tuple[int, list[int], Any]:
    """Return a value with the two axes of a diagonal last, their order, and where it lies."""
    writer, x = call.writer, call.number("self")
    rank = len(writer.shape(x))
    first = one_axis(call["dim1"] or 0, rank)
    second = one_axis(1 if call["dim2"] is None else call["dim2"], rank)
    offset = call["offset"] or 0
    others = [axis for axis in range(rank) if axis not in {first, second}]
    order = [*others, first, second]
    turned = writer.transpose(x, order)
    starts = (max(-offset, 0), max(offset, 0))
    counted = writer.iota([count], 0)
    indices: list[Any] = [None] * len(others)
    indices += [Held(writer.scaled("add", counted, start), _Whole) for start in starts]
    return turned, order, _Places(writer, turned, indices, wraps=False)


@aten("diagonal")
def _diagonal(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    turned, _, places = _on_diagonal(call, kind.shape[-1])
    return _gathered(writer, turned, places)


@aten("diagonal_scatter")
def _diagonal_scatter(call: AtenCall) -> int:
    writer, source = call.writer, call.number("src")
    if not math.prod(writer.shape(source)):
        return call.number("self")
    turned, order, places = _on_diagonal(call, writer.shape(source)[-1])
    updates = writer.convert(source, writer.dtype(turned))
    made = _scattered(writer, turned, places, updates, "replace")
    return writer.transpose(made, [order.index(axis) for axis in range(len(order))])


@aten("unfold")
def _unfold(call: AtenCall) -> int:
    writer, x, kind = call.writer, call.number("self"), call.type()
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    x = x if writer.shape(x) else writer.reshape(x, [1])
    rank = len(writer.shape(x))
    axis = one_axis(call["dimension"], rank)
    count = kind.shape[axis] if len(kind.shape) > 1 else 1
    grid = np.arange(count)[:, None] * call["step"] + np.arange(call["size"])[None]
    number = writer.constant(grid.astype(np.int32), TensorType("int32", grid.shape))
    indices = [None] * axis + [Held(number, _Whole)]
    picked = _gathered(writer, x, _Places(writer, x, indices, wraps=False))
    order = [place for place in range(rank + 1) if place != axis + 1]
    return writer.reshape(writer.transpose(picked, [*order, axis + 1]), kind.shape)


class _Whole:
    """What is known of indices that were counted."""

    dtype = "torch.int32"


@aten("as_strided")
def _as_strided(call: AtenCall) -> int:
    writer, x, kind = call.writer, call.number("self"), call.type()
    like = call["self"].like
    if not like.is_contiguous():
        raise AtenError("looks at the memory of a tensor that is not contiguous")
    offset = int(call["storage_offset"] or 0) - int(like.storage_offset())
    if not math.prod(kind.shape):
        return writer.broadcast(writer.filled(0, kind.dtype), kind.shape)
    grid = np.indices(kind.shape).reshape(len(kind.shape), -1)
    strides = np.array([int(stride) for stride in call["stride"]], np.int64)
    flat = (strides @ grid if len(strides) else np.zeros(1, np.int64)) + offset
    count = math.prod(writer.shape(x))
    if flat.min() < 0 or flat.max() >= count:
        raise AtenError("looks at memory beyond the tensor")
    x = writer.reshape(x, [count])
    if (flat == np.arange(count)[: len(flat)]).all():
        return writer.reshape(writer.part(x, 0, 0, len(flat)), kind.shape)
    places = writer.constant(flat.astype(np.int32), TensorType("int32", flat.shape))
    gathered = _gathered(writer, x, _Places(writer, x, [Held(places, _Whole)], wraps=False))
    return writer.reshape(gathered, kind.shape)
