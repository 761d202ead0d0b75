"""Windows of images: the largest, the mean, and what goes back to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trn3.graph.writing import TensorType
from trn3.torch.aten.reductions import arg_reduced, windowed
from trn3.torch.aten.registry import AtenCall, aten
from trn3.torch.aten.writer import NARROW, AtenWriter, neutral

__all__: list[str] = []


class _Pool:
    """How a window slides over the last axes of images."""

    def __init__(self, call: AtenCall, image: tuple[int, ...], made: tuple[int, ...]) -> None:
        def each(name: str, other: list[int]) -> list[int]:
            given = list(call[name] or other)
            return given * axes if len(given) == 1 else given

        axes = 2
        self.window = each("kernel_size", [1])
        self.stride = each("stride", self.window)
        self.padding = each("padding", [0])
        self.dilation = each("dilation", [1])
        self.image, self.made = image[-axes:], made[-axes:]
        # Windows may reach beyond the padding where their number is rounded up.
        self.high = []
        for axis in range(axes):
            reach = (self.made[axis] - 1) * self.stride[axis]
            reach += self.dilation[axis] * (self.window[axis] - 1) + 1
            self.high.append(reach - self.image[axis] - self.padding[axis])

    def sides(self, rank: int) -> list[list[int]]:
        """Return the padding of all axes; what no window reaches is cut."""
        inner = [list(pair) for pair in zip(self.padding, self.high, strict=True)]
        return [[0, 0]] * (rank - 2) + inner


@aten("max_pool2d_with_indices")
def _max_pool(call: AtenCall) -> list[int]:
    writer, x = call.writer, call.number("self")
    kind = call.type(0)
    rank = len(kind.shape)
    how = _Pool(call, writer.shape(x), kind.shape)
    ones = [1] * (rank - 2)
    values = windowed(
        writer,
        x,
        "maximum",
        [*ones, *how.window],
        [*ones, *how.stride],
        how.sides(rank),
        window_dilations=[*ones, *how.dilation],
    )
    return [values, _chosen(writer, x, how, kind)]


def _chosen(writer: AtenWriter, x: int, how: _Pool, kind: TensorType) -> int:
    """Write where in the image each window's largest element is, the first of equal ones."""
    rank, dtype = len(kind.shape), writer.dtype(x)
    low = [sides[0] for sides in how.sides(rank)]
    high = [sides[1] for sides in how.sides(rank)]
    padded = writer.pad(x, writer.filled(neutral("maximum", dtype), dtype), low, high)
    parts, offsets = [], []
    for row in range(how.window[0]):
        for column in range(how.window[1]):
            start = [row * how.dilation[0], column * how.dilation[1]]
            limit = [
                first + (count - 1) * step + 1
                for first, count, step in zip(start, how.made, how.stride, strict=True)
            ]
            own = writer.shape(padded)[:-2]
            part = writer.slice(
                padded, [0] * (rank - 2) + start, [*own, *limit], [1] * (rank - 2) + how.stride
            )
            parts.append(writer.reshape(part, (*kind.shape, 1)))
            offsets.append(start[0] * how.image[1] + start[1])
    place = arg_reduced(writer, writer.concatenate(parts, rank), rank, "maximum")[1]
    # Each window's corner, and from there the chosen element: a table of the window's offsets.
    rows = np.arange(how.made[0])[:, None] * how.stride[0] - how.padding[0]
    columns = np.arange(how.made[1])[None] * how.stride[1] - how.padding[1]
    corners = (rows * how.image[1] + columns).astype(np.int32)
    corner = writer.constant(corners, TensorType("int32", corners.shape))
    table = np.array(offsets, np.int32)
    offset = writer.one(
        "gather",
        [writer.constant(table, TensorType("int32", table.shape)), place],
        TensorType("int32", kind.shape),
        {
            "offset_dims": [],
            "collapsed_slice_dims": [0],
            "start_index_map": [0],
            "index_vector_dim": rank,
            "slice_sizes": [1],
        },
    )
    return writer.binary("add", offset, writer.broadcast(corner, kind.shape))


@aten("max_pool2d_with_indices_backward")
def _max_pool_backward(call: AtenCall) -> int:
    writer, gradient, indices = call.writer, call.number("grad_output"), call.number("indices")
    kind = call.type()
    planes = math.prod(kind.shape[:-2])
    size, count = math.prod(kind.shape[-2:]), math.prod(writer.shape(gradient)[-2:])
    dtype = "float32" if kind.dtype in NARROW else kind.dtype
    places = writer.reshape(writer.convert(indices, "int32"), [planes, count, 1])
    updates = writer.reshape(writer.convert(gradient, dtype), [planes, count])
    made = writer.one(
        "scatter",
        [writer.filled(0, dtype, [planes, size]), places, updates],
        TensorType(dtype, (planes, size)),
        {
            "update_window_dims": [],
            "inserted_window_dims": [1],
            "input_batching_dims": [0],
            "scatter_indices_batching_dims": [0],
            "scatter_dims_to_operand_dims": [1],
            "index_vector_dim": 2,
            "function": "add",
        },
    )
    return writer.reshape(writer.convert(made, kind.dtype), kind.shape)


def _shares(call: AtenCall, how: _Pool) -> Any:
    """Return by how many each window's sum is divided."""
    if call["divisor_override"]:
        return np.full(how.made, call["divisor_override"], np.float64)
    lengths = []
    for axis in range(2):
        start = np.arange(how.made[axis]) * how.stride[axis] - how.padding[axis]
        end = np.minimum(start + how.window[axis], how.image[axis] + how.padding[axis])
        if not call["count_include_pad"] and call["count_include_pad"] is not None:
            start, end = np.maximum(start, 0), np.minimum(end, how.image[axis])
        lengths.append(end - start)
    return np.outer(lengths[0], lengths[1]).astype(np.float64)


@aten("avg_pool2d")
def _avg_pool(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    x = call.number("self")
    x = writer.convert(x, "float32") if kind.dtype in NARROW else x
    rank = len(kind.shape)
    how = _Pool(call, writer.shape(x), kind.shape)
    ones = [1] * (rank - 2)
    sums = windowed(writer, x, "add", [*ones, *how.window], [*ones, *how.stride], how.sides(rank))
    made = writer.binary("divide", sums, _spread(writer, _shares(call, how), sums))
    return writer.convert(made, kind.dtype)


def _spread(writer: AtenWriter, shares: Any, like: int) -> int:
    """Return one number a window for all images."""
    if (shares == shares.flat[0]).all():
        return writer.filled(float(shares.flat[0]), writer.dtype(like))
    array = shares.astype(np.float32)
    number = writer.constant(array, TensorType("float32", array.shape))
    return writer.broadcast(writer.convert(number, writer.dtype(like)), writer.shape(like))


@aten("avg_pool2d_backward")
def _avg_pool_backward(call: AtenCall) -> int:
    writer, kind = call.writer, call.type()
    gradient = call.number("grad_output")
    gradient = writer.convert(gradient, "float32") if kind.dtype in NARROW else gradient
    rank = len(kind.shape)
    how = _Pool(call, kind.shape, writer.shape(gradient))
    shared = writer.binary("divide", gradient, _spread(writer, _shares(call, how), gradient))
    padding = [[0, 0] for _ in range(rank - 2)]
    for axis in range(2):
        spread = (how.made[axis] - 1) * how.stride[axis] + 1
        low = how.window[axis] - 1 - how.padding[axis]
        padding.append([low, how.image[axis] - spread - low + how.window[axis] - 1])
    ones = [1] * (rank - 2)
    window, strides = [*ones, *how.window], [1] * rank
    made = windowed(writer, shared, "add", window, strides, padding, [*ones, *how.stride])
    return writer.convert(made, kind.dtype)


def _bins(length: int, count: int) -> Any:
    """Return the matrix that means over parts of nearly one length are."""
    made = np.zeros((count, length))
    for place in range(count):
        start, end = place * length // count, -(-(place + 1) * length // count)
        made[place, start:end] = 1 / (end - start)
    return made


def _pooled(call: AtenCall, x: int, matrices: list[Any]) -> int:
    """Multiply both last axes by matrices, [made, length]."""
    writer, kind = call.writer, call.type()
    x = writer.convert(x, "float32")
    for matrix in reversed(matrices):
        array = matrix.astype(np.float32)
        rank = len(writer.shape(x))
        weights = writer.constant(array, TensorType("float32", array.shape))
        # The axis goes in front of all others that are left: the next one is the last.
        dotted = writer.dot(x, weights, ([rank - 1], [1]))
        x = writer.transpose(dotted, [*range(rank - 2), rank - 1, rank - 2])
    return writer.convert(x, kind.dtype)


@aten("_adaptive_avg_pool2d")
def _adaptive(call: AtenCall) -> int:
    x = call.number("self")
    own, made = call.writer.shape(x)[-2:], call.type().shape[-2:]
    return _pooled(call, x, [_bins(*pair) for pair in zip(own, made, strict=True)])


@aten("_adaptive_avg_pool2d_backward")
def _adaptive_backward(call: AtenCall) -> int:
    gradient = call.number("grad_output")
    own, made = call.type().shape[-2:], call.writer.shape(gradient)[-2:]
    return _pooled(call, gradient, [_bins(*pair).T for pair in zip(own, made, strict=True)])
