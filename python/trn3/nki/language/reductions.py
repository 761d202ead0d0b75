"""Functions that reduce the free axes of a tile, and those built of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import ndarray
from trn3.nki.language.tiles import common_shape, require_tile, result_like, stretch
from trn3.nki.typing import DTypeLike
from trn3.nki.values.element_types import DType, float32
from trn3.nki.values.operators import token

Axis: TypeAlias = int | Sequence[int]


def _axes(function: str, axis: Axis, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce, rising.

    Raises
    ------
    ValueError
        If there is none, one twice, or one that is no free axis.
    """
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(item + rank if item < 0 else item for item in given))
    if not axes or axes[0] < 1 or axes[-1] >= rank or len(set(axes)) < len(axes):
        message = (
            f"nl.{function} axis is {given} for a tile with {rank} axes; "
            f"allowed: free axes, from 1 to {rank - 1}, each once"
        )
        raise ValueError(message)
    return axes


def _kept(shape: tuple[int, ...], axes: tuple[int, ...], *, keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if item in axes else length for item, length in enumerate(shape))
    kept = tuple(length for item, length in enumerate(shape) if item not in axes)
    return kept if len(kept) > 1 else (*kept, 1)


def _reduce(
    function: str,
    op: str,
    x: NkiTensor,
    axis: Axis,
    dtype: DTypeLike | None,
    *,
    keepdims: bool,
    negate: bool = False,
) -> NkiTensor:
    tile = require_tile(function, "x", x)
    axes = _axes(function, axis, tile.ndim)
    default: DType = tile.dtype
    result = ndarray(_kept(tile.shape, axes, keepdims=keepdims), dtype or default)
    stay = tuple(item for item in range(tile.ndim) if item not in axes)
    # The instruction reduces the last axes: those are walked innermost, wherever they lie.
    moved = tile.permute(stay + axes)
    last = tuple(range(len(stay), tile.ndim))
    target = result.reshape((*moved.shape[: len(stay)], *(1 for _ in last))) if keepdims else result
    isa.tensor_reduce(target, op, moved, last, negate=negate, keepdims=keepdims)
    return result


@token("add")
def sum(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the sum over free axes.

    Parameters
    ----------
    x : tile, [P, ...]
        In SBUF or PSUM.
    axis : int or sequence of int
        One or more free axes, in any order; the partition axis 0 cannot be reduced.
    dtype, optional
        Element type of the result; x's by default. Sums are float32 until then.
    keepdims : bool, optional
        Whether reduced axes stay, with length 1. One free axis stays in any case.

    Returns
    -------
    tile
        New, in SBUF; by ``nki.isa.tensor_reduce`` on VectorE.

    Raises
    ------
    ValueError
        For other axes, or one twice.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     out = nl.ndarray((2, 1), x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.sum(nl.load(x), axis=1))
    ...     return out
    >>> kernel(np.ones((2, 5), np.float32)).tolist()
    [[5.0], [5.0]]
    """
    return _reduce("sum", "add", x, axis, dtype, keepdims=keepdims)


@token("maximum")
def max(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the largest over free axes, NaN if any is; as `sum`."""
    return _reduce("max", "maximum", x, axis, dtype, keepdims=keepdims)


@token("minimum")
def min(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the smallest over free axes, NaN if any is; as `sum`."""
    return _reduce("min", "minimum", x, axis, dtype, keepdims=keepdims)


@token("multiply")
def prod(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the product over free axes; as `sum`."""
    return _reduce("prod", "multiply", x, axis, dtype, keepdims=keepdims)


@token("logical_and")
def all(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return 1 where every element is nonzero, else 0; as `sum`."""
    return _reduce("all", "logical_and", x, axis, dtype, keepdims=keepdims)


@token("average")
def mean(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the mean over free axes, summed in float32; as `sum`."""
    total = _reduce("mean", "add", x, axis, float32, keepdims=keepdims)
    result = result_like(total, dtype, x.dtype)
    isa.tensor_scalar(result, total, "multiply", 1 / _count(x, axis))
    return result


def _count(x: NkiTensor, axis: Axis) -> int:
    return math.prod(x.shape[item] for item in _axes("mean", axis, x.ndim))


@token("var")
def var(
    x: NkiTensor, axis: Axis, dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Return the population variance over free axes; reduced axes stay, of length 1.

    Deviations from the mean are squared and summed in float32 (**choice**). `keepdims` is ignored,
    as in other versions.
    """
    del keepdims
    middle = mean(x, axis, float32, keepdims=True)
    deviation = ndarray(x.shape, float32)
    isa.tensor_tensor(deviation, x, stretch(middle, x.shape), "subtract")
    squares = ndarray(x.shape, float32)
    isa.tensor_tensor(squares, deviation, deviation, "multiply")
    total = _reduce("var", "add", squares, axis, float32, keepdims=True)
    result = result_like(total, dtype, x.dtype)
    isa.tensor_scalar(result, total, "multiply", 1 / _count(x, axis))
    return result


def softmax(x: NkiTensor, axis: Axis = -1, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return e^x over its sum along free axes.

    The maximum is taken off first; the sum's reciprocal is VectorE's.

    Parameters
    ----------
    x : tile, [P, ...]
        In SBUF or PSUM.
    axis : int or sequence of int
        As of `sum`.
    dtype, optional
        Element type of the result; x's by default. Steps before are float32.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.softmax(nl.load(x)))
    ...     return out
    >>> kernel(np.zeros((1, 4), np.float32)).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    tile = require_tile("softmax", "x", x)
    axes = _axes("softmax", axis, tile.ndim)
    largest = _reduce("softmax", "maximum", tile, axes, float32, keepdims=True, negate=True)
    powers = ndarray(tile.shape, float32)
    if len(axes) == tile.ndim - 1:
        # One maximum and one sum a partition: ScalarE subtracts, evaluates and adds up in one go.
        total = ndarray((tile.shape[0], 1), float32)
        isa.activation(
            powers,
            "exp",
            tile,
            bias=largest.reshape((tile.shape[0], 1)),
            reduce_op="add",
            reduce_res=total,
            reduce_cmd=isa.reduce_cmd.reset_reduce,
        )
        inverse = ndarray(total.shape, float32)
        isa.reciprocal(inverse, total)
        result = result_like(tile, dtype, tile.dtype)
        isa.tensor_scalar(result, powers, "multiply", inverse)
        return result
    shifted = ndarray(tile.shape, float32)
    isa.tensor_tensor(shifted, tile, stretch(largest, tile.shape), "add")
    isa.activation(powers, "exp", shifted)
    total = _reduce("softmax", "add", powers, axes, float32, keepdims=True)
    inverse = ndarray(total.shape, float32)
    isa.reciprocal(inverse, total)
    result = result_like(tile, dtype, tile.dtype)
    isa.tensor_tensor(result, powers, stretch(inverse, tile.shape), "multiply")
    return result


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axis,
    n: int,
    epsilon: float = 1e-6,
    dtype: DTypeLike | None = None,
    compute_dtype: DTypeLike | None = None,
) -> NkiTensor:
    """Return x / sqrt(sum(x²) / n + epsilon) * w.

    Parameters
    ----------
    x : tile, [P, ...]
        In SBUF or PSUM.
    w : tile
        Of x's shape, or with free axes of length 1.
    axis : int or sequence of int
        Axes of the sum, as of `sum`.
    n : int
        What the sum is divided by.
    epsilon : float, optional
        Added under the root.
    dtype, optional
        Element type of the result; x's by default.
    compute_dtype, optional
        Element type of the steps before; float32 by default.
    """
    tile = require_tile("rms_norm", "x", x)
    weights = require_tile("rms_norm", "w", w)
    shape = common_shape("rms_norm", [tile.shape, weights.shape])
    steps = compute_dtype or float32
    squares = ndarray(tile.shape, steps)
    isa.activation(squares, "square", tile)
    total = _reduce("rms_norm", "add", squares, axis, float32, keepdims=True)
    mean_square = ndarray(total.shape, float32)
    isa.tensor_scalar(mean_square, total, "multiply", 1 / n, op1="add", operand1=epsilon)
    inverse = ndarray(total.shape, float32)
    isa.activation(inverse, "rsqrt", mean_square)
    scaled = ndarray(tile.shape, steps)
    isa.tensor_tensor(scaled, tile, stretch(inverse, tile.shape), "multiply")
    result = ndarray(shape, dtype or tile.dtype)
    isa.tensor_tensor(result, stretch(scaled, shape), stretch(weights, shape), "multiply")
    return result
