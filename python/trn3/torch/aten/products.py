"""Products of matrices, and convolutions with what goes back through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3.graph.writing import TensorType
from trn3.torch.aten.registry import AtenCall, AtenError, Held, aten

if TYPE_CHECKING:
    from trn3.torch.aten.writer import AtenWriter

__all__: list[str] = []


@aten("mm")
def _mm(call: AtenCall) -> int:
    return call.writer.dot(call.number("self"), call.number("mat2"), ([1], [0]))


@aten("bmm")
def _bmm(call: AtenCall) -> int:
    pair = call.number("self"), call.number("mat2")
    return call.writer.dot(*pair, ([2], [1]), ([0], [0]))


@aten("mv", "dot", "vdot")
def _mv(call: AtenCall) -> int:
    left = call.number("self")
    right = call.number(
        "vec" if call["vec"] is not None else "tensor" if call["tensor"] else "other"
    )
    return call.writer.dot(left, right, ([len(call.writer.shape(left)) - 1], [0]))


def _added(call: AtenCall, product: int) -> int:
    """Add what a product is added to, with the factors of both."""
    writer, kind = call.writer, call.type()
    alpha, beta = (1 if call[name] is None else call[name] for name in ("alpha", "beta"))
    if alpha != 1:
        product = writer.scaled("multiply", product, alpha)
    if beta == 0:
        return product
    base = writer.convert(call.number("self"), kind.dtype)
    if beta != 1:
        base = writer.scaled("multiply", base, beta)
    return writer.binary("add", product, writer.broadcast(base, kind.shape))


@aten("addmm")
def _addmm(call: AtenCall) -> int:
    return _added(call, call.writer.dot(call.number("mat1"), call.number("mat2"), ([1], [0])))


@aten("baddbmm")
def _baddbmm(call: AtenCall) -> int:
    pair = call.number("batch1"), call.number("batch2")
    return _added(call, call.writer.dot(*pair, ([2], [1]), ([0], [0])))


@aten("addbmm")
def _addbmm(call: AtenCall) -> int:
    pair = call.number("batch1"), call.number("batch2")
    return _added(call, call.writer.dot(*pair, ([0, 2], [0, 1])))


@aten("addmv")
def _addmv(call: AtenCall) -> int:
    return _added(call, call.writer.dot(call.number("mat"), call.number("vec"), ([1], [0])))


class _Sliding:
    """How a kernel slides: one entry a spatial axis."""

    def __init__(self, call: AtenCall, axes: int) -> None:
        def each(name: str, other: int) -> list[int]:
            given = list(call[name] or [other])
            return given * axes if len(given) == 1 else given

        self.axes = axes
        self.stride = each("stride", 1)
        self.padding = each("padding", 0)
        self.dilation = each("dilation", 1)
        self.output_padding = each("output_padding", 0)
        self.groups: int = call["groups"]
        self.is_transposed: bool = call["transposed"]


def _convolved(
    writer: AtenWriter,
    image: int,
    kernel: int,
    shape: list[int],
    *,
    strides: list[int],
    padding: list[list[int]],
    lhs_dilation: list[int],
    rhs_dilation: list[int],
    feature_groups: int = 1,
    batch_groups: int = 1,
    layouts: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((0, 1), (1, 0), (0, 1)),
) -> int:
    """Add a convolution.

    Layouts are batch and feature of the image, input and output features of the kernel, batch and
    feature of the result.
    """
    spatial = list(range(2, 2 + len(strides)))
    (batch, feature), (inner, outer), (out_batch, out_feature) = layouts
    attributes: dict[str, Any] = {
        "window_strides": strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "lhs_layout": {"batch": batch, "feature": feature, "spatial": spatial},
        "rhs_layout": {"input_feature": inner, "output_feature": outer, "spatial": spatial},
        "out_layout": {"batch": out_batch, "feature": out_feature, "spatial": spatial},
        "feature_groups": feature_groups,
        "batch_groups": batch_groups,
    }
    kind = TensorType(writer.dtype(image), tuple(shape))
    return writer.one("convolution", [image, kernel], kind, attributes)


def _turned(writer: AtenWriter, kernel: int, groups: int) -> int:
    """Take kernels from their ends, with input and output features changed for one another."""
    shape = writer.shape(kernel)
    spatial = shape[2:]
    grouped = writer.reshape(kernel, (groups, shape[0] // groups, *shape[1:]))
    axes = [0, 2, 1, *range(3, 3 + len(spatial))]
    swapped = writer.transpose(grouped, axes)
    made = writer.reshape(swapped, (groups * shape[1], shape[0] // groups, *spatial))
    dimensions = [axis + 2 for axis, length in enumerate(spatial) if length > 1]
    if not dimensions:
        return made
    return writer.one("reverse", [made], writer.types[made], {"dimensions": dimensions})


def _forward(writer: AtenWriter, image: int, kernel: int, how: _Sliding) -> int:
    """Write a plain convolution."""
    own, window = writer.shape(image)[2:], writer.shape(kernel)[2:]
    shape = [writer.shape(image)[0], writer.shape(kernel)[0]]
    for axis in range(how.axes):
        reach = how.dilation[axis] * (window[axis] - 1) + 1
        shape.append((own[axis] + 2 * how.padding[axis] - reach) // how.stride[axis] + 1)
    return _convolved(
        writer,
        image,
        kernel,
        shape,
        strides=how.stride,
        padding=[[side, side] for side in how.padding],
        lhs_dilation=[1] * how.axes,
        rhs_dilation=how.dilation,
        feature_groups=how.groups,
    )


def _backward(
    writer: AtenWriter, gradient: int, kernel: int, shape: list[int], how: _Sliding
) -> int:
    """Write the convolution that goes from a plain one's result to its input, of this shape."""
    own, window = writer.shape(gradient)[2:], writer.shape(kernel)[2:]
    padding = []
    for axis in range(how.axes):
        reach = how.dilation[axis] * (window[axis] - 1)
        low = reach - how.padding[axis]
        spread = (own[axis] - 1) * how.stride[axis] + 1
        padding.append([low, shape[2 + axis] - spread - low + reach])
    return _convolved(
        writer,
        gradient,
        _turned(writer, kernel, how.groups),
        shape,
        strides=[1] * how.axes,
        padding=padding,
        lhs_dilation=how.stride,
        rhs_dilation=how.dilation,
        feature_groups=how.groups,
    )


def _of_kernel(
    writer: AtenWriter, image: int, gradient: int, shape: list[int], how: _Sliding
) -> int:
    """Write the convolution that goes from a plain one's input and result to its kernel."""
    own, moved = writer.shape(image)[2:], writer.shape(gradient)[2:]
    padding = []
    for axis in range(how.axes):
        reach = how.dilation[axis] * (shape[2 + axis] - 1)
        spread = how.stride[axis] * (moved[axis] - 1) + 1
        low = how.padding[axis]
        padding.append([low, reach + spread - own[axis] - low])
    return _convolved(
        writer,
        image,
        gradient,
        shape,
        strides=how.dilation,
        padding=padding,
        lhs_dilation=[1] * how.axes,
        rhs_dilation=how.stride,
        batch_groups=how.groups,
        layouts=((1, 0), (0, 1), (1, 0)),
    )


@aten("convolution")
def _convolution(call: AtenCall) -> int:
    writer, image, kernel = call.writer, call.number("input"), call.number("weight")
    kind = call.type()
    how = _Sliding(call, len(kind.shape) - 2)
    if len(kind.shape) == len(writer.shape(kernel)) - 1:
        raise AtenError("an image without a batch came; allowed: [batch, feature, positions...]")
    shape = list(kind.shape)
    if how.is_transposed:
        made = _backward(writer, image, kernel, shape, how)
    else:
        made = _forward(writer, image, kernel, how)
    if not isinstance(call["bias"], Held):
        return made
    return writer.binary("add", made, writer.placed(call.number("bias"), shape, [1]))


@aten("convolution_backward")
def _convolution_backward(call: AtenCall) -> list[int | None]:
    writer = call.writer
    gradient, image, kernel = (call.number(name) for name in ("grad_output", "input", "weight"))
    how = _Sliding(call, len(writer.shape(image)) - 2)
    wanted = call["output_mask"]
    made: list[int | None] = [None, None, None]
    if wanted[0]:
        shape = list(writer.shape(image))
        if how.is_transposed:
            made[0] = _forward(writer, gradient, kernel, how)
        else:
            made[0] = _backward(writer, gradient, kernel, shape, how)
    if wanted[1]:
        pair = (gradient, image) if how.is_transposed else (image, gradient)
        made[1] = _of_kernel(writer, *pair, list(writer.shape(kernel)), how)
    if wanted[2]:
        axes = [axis for axis in range(len(writer.shape(gradient))) if axis != 1]
        made[2] = writer.reduce("add", gradient, axes)
    return made
