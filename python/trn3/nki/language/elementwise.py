"""Functions of one or two tiles, element by element. Each is an ``op=`` token too."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language import host
from trn3.nki.language.creation import ndarray
from trn3.nki.language.promotion import promote
from trn3.nki.language.tiles import (
    Operand,
    common_shape,
    converted,
    number,
    require_tile,
    result_like,
    stretch,
)
from trn3.nki.ranks.context import context
from trn3.nki.typing import DTypeLike
from trn3.nki.values.element_types import float32, int32, uint8
from trn3.nki.values.operators import tokens


def _binary(
    name: str, x: Operand, y: Operand, dtype: DTypeLike | None, *, truth: bool = False
) -> NkiTensor:
    """Run one operator on two tiles, or on a tile and a number on either side."""
    left, right = number(x), number(y)
    if left is not None and right is not None:
        message = f"nl.{name} got two numbers; allowed: at least one tile"
        raise TypeError(message)
    if left is not None:
        tile = require_tile(name, "y", y)
        result = result_like(tile, dtype, tile.dtype)
        isa.tensor_scalar(result, tile, name, left, reverse0=True)
    elif right is not None:
        tile = require_tile(name, "x", x)
        result = result_like(tile, dtype, tile.dtype)
        isa.tensor_scalar(result, tile, name, right)
    else:
        one, other = require_tile(name, "x", x), require_tile(name, "y", y)
        shape = common_shape(name, [one.shape, other.shape])
        default = one.dtype if truth else promote(one.dtype, other.dtype)
        result = ndarray(shape, default if dtype is None else dtype)
        isa.tensor_tensor(result, stretch(one, shape), stretch(other, shape), name)
    return result


def _on_host(name: str, x: Operand, y: Operand, dtype: DTypeLike | None) -> NkiTensor:
    """Run an operation that no engine has."""
    tiles = [
        require_tile(name, argument, value)
        for argument, value in (("x", x), ("y", y))
        if number(value) is None
    ]
    if not tiles:
        message = f"nl.{name} got two numbers; allowed: at least one tile"
        raise TypeError(message)
    default = tiles[0].dtype if len(tiles) == 1 else promote(tiles[0].dtype, tiles[1].dtype)
    result = host.run(name, x, y, common_shape(name, [tile.shape for tile in tiles]))
    return converted(result, default if dtype is None else dtype)


def add(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x + y.

    Parameters
    ----------
    x, y : tile or number
        At least one tile in SBUF or PSUM, not both in PSUM. Shapes are equal, or free axes of
        length 1 stretch (**choice**).
    dtype, optional
        Element type of the result. Default: of two tiles the one that `promote` gives, of a tile
        and a number the tile's (**choice**).

    Returns
    -------
    tile
        New, in SBUF.

    Notes
    -----
    Computed in float32 and rounded to the result's type, by ``nki.isa.tensor_tensor`` or
    ``tensor_scalar``; 32-bit integers of two SBUF tiles are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     tile = nl.load(x)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.add(tile, nl.add(1.0, tile)))
    ...     return out
    >>> kernel(np.array([[1.0, 2.0]], np.float32)).tolist()
    [[3.0, 5.0]]
    """
    return _binary("add", x, y, dtype)


def subtract(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x - y; operands and result as `add`."""
    return _binary("subtract", x, y, dtype)


def multiply(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x * y; operands and result as `add`."""
    return _binary("multiply", x, y, dtype)


def divide(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x / y, correctly rounded in float32; operands and result as `add`.

    No engine divides; here a program of GpSimdE does, an element a cycle (**choice**). Portable
    kernels multiply by `reciprocal`.
    """
    return _on_host("divide", x, y, dtype)


def maximum(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the larger of x and y, NaN if either is (**choice**); operands as `add`."""
    return _binary("maximum", x, y, dtype)


def minimum(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the smaller of x and y, NaN if either is (**choice**); operands as `add`."""
    return _binary("minimum", x, y, dtype)


def abs_max(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the one of larger magnitude with its sign, y on a tie (gen4); operands as `add`."""
    return _binary("abs_max", x, y, dtype)


def abs_min(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the one of smaller magnitude with its sign, y on a tie (gen4); operands as `add`."""
    return _binary("abs_min", x, y, dtype)


def power(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x to the power y, on GpSimdE; operands in SBUF, else as `add`.

    A number beside a tile becomes a tile first.
    """
    if (number(x) is None) == (number(y) is None):
        return _binary("power", x, y, dtype)
    # GpSimdE takes no number beside a tile: a tile of it does the same.
    running = context()
    if running.watch is not None:
        running.watch.scalar_power(running.core)
    left = number(x)
    plain = number(y) if left is None else left
    tile = require_tile("power", *(("x", x) if left is None else ("y", y)))
    constant = ndarray(tile.shape, float32)
    isa.memset(constant, 0.0 if plain is None else plain)
    pair = (tile, constant) if left is None else (constant, tile)
    return _binary("power", *pair, tile.dtype if dtype is None else dtype)


def mod(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the remainder with the divisor's sign; operands as `add`.

    No engine has it, only simulators; timed as `divide`.
    """
    return _on_host("mod", x, y, dtype)


def fmod(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the remainder with the dividend's sign; operands as `add`.

    No engine has it, only simulators; timed as `divide`.
    """
    return _on_host("fmod", x, y, dtype)


def equal(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x == y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("equal", x, y, dtype, truth=True)


def not_equal(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x != y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("not_equal", x, y, dtype, truth=True)


def less(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x < y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("less", x, y, dtype, truth=True)


def less_equal(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x <= y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("less_equal", x, y, dtype, truth=True)


def greater(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x > y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("greater", x, y, dtype, truth=True)


def greater_equal(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x >= y, else 0, in the type of x's tile; operands as `add`."""
    return _binary("greater_equal", x, y, dtype, truth=True)


def logical_and(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x and y are nonzero, else 0, in the type of x's tile; operands as `add`."""
    return _binary("logical_and", x, y, dtype, truth=True)


def logical_or(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x or y is nonzero, else 0, in the type of x's tile; operands as `add`."""
    return _binary("logical_or", x, y, dtype, truth=True)


def logical_xor(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where one of x and y is nonzero, else 0; operands as `add`."""
    return _binary("logical_xor", x, y, dtype, truth=True)


def logical_not(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 where x is 0 and 0 where x is 1, in the type of x.

    Integers have bit 0 flipped, so that 2 becomes 3 and not 0; floats that are neither 0 nor 1
    count as 1 (**choice**).
    """
    tile = require_tile("logical_not", "x", x)
    if not tile.dtype.is_integer:
        return _binary("logical_xor", tile, 1.0, dtype, truth=True)
    flipped = _binary("bitwise_xor", tile, 1, None)
    return flipped if dtype is None else converted(flipped, dtype)


def bitwise_and(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the bits set in both x and y; integers alone, else as `add`."""
    return _binary("bitwise_and", x, y, dtype)


def bitwise_or(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the bits set in x or y; integers alone, else as `add`."""
    return _binary("bitwise_or", x, y, dtype)


def bitwise_xor(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the bits set in one of x and y; integers alone, else as `add`."""
    return _binary("bitwise_xor", x, y, dtype)


def left_shift(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x shifted towards high bits by y; integers alone, else as `add`."""
    return _binary("left_shift", x, y, dtype)


def right_shift(x: Operand, y: Operand, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x shifted towards low bits by y, zeros from above; integers alone, else as `add`."""
    return _binary("right_shift", x, y, dtype)


def invert(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x with every bit flipped; integers alone."""
    tile = require_tile("invert", "x", x)
    if not tile.dtype.is_integer:
        message = f"nl.invert x has dtype {tile.dtype}; allowed: integers"
        raise TypeError(message)
    # All ones of the type, as the number that has them.
    ones = -1 if tile.dtype.dtype.kind == "i" else (1 << (8 * tile.dtype.itemsize)) - 1
    return _binary("bitwise_xor", tile, ones, dtype)


def negative(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return -x, by a multiplication on VectorE."""
    return _binary("multiply", require_tile("negative", "x", x), -1.0, dtype)


def copy(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return a new SBUF tile of x's values: bit for bit, unless `dtype` is another type."""
    tile = require_tile("copy", "x", x)
    result = result_like(tile, dtype, tile.dtype)
    isa.tensor_copy(result, tile)
    return result


def reciprocal(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 / x, on VectorE: slower than ScalarE's, and more exact."""
    tile = require_tile("reciprocal", "x", x)
    result = result_like(tile, dtype, tile.dtype)
    isa.reciprocal(result, tile)
    return result


def rsqrt(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 / sqrt(x), on GpSimdE; x lies in SBUF."""
    tile = require_tile("rsqrt", "x", x)
    result = result_like(tile, dtype, tile.dtype)
    isa.tensor_scalar(result, tile, "rsqrt", None, engine=isa.gpsimd_engine)
    return result


def where(
    condition: NkiTensor, x: Operand, y: Operand, dtype: DTypeLike | None = None
) -> NkiTensor:
    """Return x where the condition is nonzero, else y.

    Parameters
    ----------
    condition : tile
        Of any type with arithmetic.
    x, y : tile or number
        Of the condition's shape, or with free axes of length 1.
    dtype, optional
        Default: as `add` of the two; float32 of two numbers.

    Returns
    -------
    tile
        New, in SBUF; by `copy` and ``nki.isa.tensor_copy_predicated``.
    """
    tiles = [require_tile("where", "condition", condition)]
    tiles += [item for item in (x, y) if isinstance(item, NkiTensor)]
    shape = common_shape("where", [tile.shape for tile in tiles])
    if dtype is None:
        dtype = float32
        if len(tiles) > 1:
            dtype = tiles[1].dtype if len(tiles) == 2 else promote(tiles[1].dtype, tiles[2].dtype)
    result = ndarray(shape, dtype)
    _fill(result, "y", y)
    chosen: Any = ndarray(shape, dtype)
    _fill(chosen, "x", x)
    predicate = ndarray(condition.shape, uint8)
    isa.tensor_scalar(predicate, condition, "not_equal", 0.0)
    isa.tensor_copy_predicated(result, chosen, stretch(predicate, shape))
    return result


def _fill(target: NkiTensor, argument: str, value: Operand) -> None:
    plain = number(value)
    if plain is not None:
        isa.memset(target, plain)
    else:
        isa.tensor_copy(target, stretch(require_tile("where", argument, value), target.shape))


# From here on every float32 is a whole number already.
_WHOLE_FROM = float(1 << 23)


def _rounded(name: str, x: NkiTensor, dtype: DTypeLike | None) -> NkiTensor:
    """Return floor, ceil or trunc, built of the conversion to integers, which rounds to nearest."""
    tile = require_tile(name, "x", x)
    result = result_like(tile, dtype, tile.dtype)
    if tile.dtype.is_integer:
        isa.tensor_copy(result, tile)
        return result
    magnitude = ndarray(tile.shape, float32)
    isa.tensor_scalar(magnitude, tile, "abs", None)
    value = magnitude if name == "trunc" else converted(tile, float32)
    whole = ndarray(tile.shape, int32)
    isa.tensor_copy(whole, value)
    nearest = ndarray(tile.shape, float32)
    isa.tensor_copy(nearest, whole)
    beyond = ndarray(tile.shape, float32)
    # One step back where rounding went the wrong way.
    isa.tensor_tensor(beyond, nearest, value, "less" if name == "ceil" else "greater")
    isa.tensor_tensor(nearest, nearest, beyond, "add" if name == "ceil" else "subtract")
    if name == "trunc":
        sign_of = ndarray(tile.shape, float32)
        isa.activation(sign_of, "sign", tile)
        isa.tensor_tensor(nearest, nearest, sign_of, "multiply")
    # Large values, infinities and NaN pass as they are.
    small = ndarray(tile.shape, uint8)
    isa.tensor_scalar(small, magnitude, "less", _WHOLE_FROM)
    final = ndarray(tile.shape, float32)
    isa.tensor_copy(final, tile)
    isa.tensor_copy_predicated(final, nearest, small)
    isa.tensor_copy(result, final)
    return result


def floor(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the largest whole number that is not above x; zeros are positive (**choice**)."""
    return _rounded("floor", x, dtype)


def ceil(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the smallest whole number that is not below x; zeros are positive (**choice**)."""
    return _rounded("ceil", x, dtype)


def trunc(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x without its fraction; zeros are positive (**choice**)."""
    return _rounded("trunc", x, dtype)


tokens(
    add, subtract, multiply, divide, maximum, minimum, abs_max, abs_min, power, mod, fmod, equal,
    not_equal, less, less_equal, greater, greater_equal, logical_and, logical_or, logical_xor,
    logical_not, bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift, invert, negative,
    copy, reciprocal, rsqrt, floor, ceil, trunc,
)  # fmt: skip
