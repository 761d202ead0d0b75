"""Functions of one or two tiles, element by element; each is an ``op=`` token too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa, language as modern
from trn3.nki.dialects.legacy.actions import action
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.lowering import compute
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.language.promotion import promote
from trn3.nki.language.tiles import in_sbuf, number
from trn3.nki.values.element_types import DType, bool_, canonicalise, float32, int32, uint8
from trn3.nki.values.memory_regions import is_psum
from trn3.nki.values.operators import token

#: Functions of one tile that ScalarE evaluates by one instruction.
ACTIVATIONS: Final = (
    "abs", "arctan", "erf", "erf_dx", "exp", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh", "gelu_dx", "log", "mish", "relu", "rsqrt", "sigmoid", "sign", "silu",
    "silu_dx", "softplus", "sqrt", "square", "tanh",
)  # fmt: skip
#: Functions of one tile that take several instructions.
COMPOSED: Final = ("ceil", "cos", "floor", "logical_not", "sin", "tan", "trunc")
#: Functions of two tiles, or a tile and a number, that VectorE evaluates.
BINARY: Final = (
    "abs_max", "abs_min", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
    "maximum", "minimum", "multiply", "right_shift", "subtract",
)  # fmt: skip
#: Those whose result is true or false.
TRUTHS: Final = (
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or",
    "logical_xor", "not_equal",
)  # fmt: skip
#: Those that no engine has.
ON_HOST: Final = ("divide", "fmod", "mod", "power")


def _unary(name: str) -> Callable[..., Tensor]:
    def function(
        x: Any, dtype: Any = None, mask: Any = None, *, name: str | None = None, **_: Any
    ) -> Tensor:
        tile = require(f"nl.{own}", "x", x)

        def emit(dst: NkiTensor, data: NkiTensor) -> None:
            isa.activation(dst, own, data, name=name)

        return compute(emit, [tile], tile.shape, dtype or tile.dtype, mask)

    own = name
    return _named(function, own)


def _composed(name: str) -> Callable[..., Tensor]:
    modern_function = getattr(modern, name)

    def function(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
        tile = require(f"nl.{name}", "x", x)

        def emit(dst: NkiTensor, data: NkiTensor) -> None:
            isa.tensor_copy(dst, modern_function(data, dtype=dst.dtype))

        return compute(emit, [tile], tile.shape, dtype or tile.dtype, mask, is_simple=False)

    return _named(function, name)


def _named(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    summary = (getattr(modern, name).__doc__ or "").partition("\n")[0]
    function.__doc__ = f"{summary} With ``mask``, elsewhere the result is left as it comes."
    return action(name)(token(name)(function))


def scalar_type(value: Any) -> DType:
    """Return the type that a number has beside a tile; NumPy's keep theirs.

    Examples
    --------
    >>> scalar_type(True), scalar_type(2), scalar_type(1.5)
    (nki.language.uint8, nki.language.int32, nki.language.float32)
    """
    if isinstance(value, np.generic) and not isinstance(value, (np.float64, np.int64)):
        return canonicalise(value.dtype)
    if isinstance(value, (bool, np.bool_)):
        return uint8
    return int32 if isinstance(value, (int, np.integer)) else float32


def common_shape(function: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the grid of several tiles; axes of length 1 stretch, that of partitions too.

    Raises
    ------
    ValueError
        If they do not fit.
    """
    try:
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(map(str, shapes))
        message = (
            f"nl.{function} tiles have shapes {listed}; allowed: as many axes, of equal length or "
            "of length 1"
        )
        raise error(ValueError, message) from None


def operands_of(name: str, x: Any, y: Any) -> tuple[list[Tensor], tuple[int, ...], DType]:
    """Return the tiles among two operands, their grid, and the type of the result.

    Raises
    ------
    TypeError
        If neither is a tile.
    """
    tiles = [
        require(f"nl.{name}", argument, value)
        for argument, value in (("x", x), ("y", y))
        if number(value) is None
    ]
    if not tiles:
        message = f"nl.{name} got two numbers; allowed: at least one tile"
        raise error(TypeError, message)
    if len(tiles) == 2:
        tiles = _same_rank(tiles)
        default = promote(tiles[0].dtype, tiles[1].dtype)
    else:
        default = promote(tiles[0].dtype, scalar_type(x if number(x) is not None else y))
        if name.startswith("bitwise") or name.endswith("shift"):
            default = tiles[0].dtype
    return tiles, common_shape(name, [tile.shape for tile in tiles]), default


def _same_rank(tiles: list[Tensor]) -> list[Tensor]:
    """Return tiles with as many axes: shorter ones get axes of length 1 after their partitions."""
    rank = max(tile.ndim for tile in tiles)
    made = []
    for tile in tiles:
        missing = rank - tile.ndim
        if missing and tile.size == tile.shape[0] * tile.shape[-1]:
            shape = (tile.shape[0], *(1,) * missing, *tile.shape[1:])
            made.append(tile.reshape(shape))
        else:
            made.append(tile)
    return made


def binary(
    name: str, x: Any, y: Any, dtype: Any, mask: Any, label: str | None = None, engine: Any = None
) -> Tensor:
    """Return the tile of an operator on two tiles, or a tile and a number on either side."""
    tiles, shape, default = operands_of(name, x, y)
    if name in TRUTHS:
        default = bool_
    left, right = number(x), number(y)

    def emit(dst: NkiTensor, one: NkiTensor, other: NkiTensor | None = None) -> None:
        if other is None:
            constant = right if left is None else left
            isa.tensor_scalar(
                dst, one, name, constant, reverse0=left is not None, name=label, engine=engine
            )
            return
        if is_psum(one) and is_psum(other):
            other = in_sbuf(other)
        isa.tensor_tensor(dst, one, other, name, name=label, engine=engine)

    return compute(emit, tiles, shape, dtype or default, mask)


def _binary(name: str) -> Callable[..., Tensor]:
    def function(
        x: Any, y: Any, dtype: Any = None, mask: Any = None, *, name: str | None = None, **_: Any
    ) -> Tensor:
        return binary(own, x, y, dtype, mask, name)

    own = name
    return _named(function, own)


def _on_host(name: str) -> Callable[..., Tensor]:
    modern_function = getattr(modern, name)

    def function(x: Any, y: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
        tiles, shape, default = operands_of(name, x, y)
        constant = number(x) if number(x) is not None else number(y)
        reverse = number(x) is not None

        def emit(dst: NkiTensor, *views: NkiTensor) -> None:
            given: tuple[Any, ...] = tuple(in_sbuf(view) for view in views)
            if len(views) == 1:
                given = (constant, given[0]) if reverse else (given[0], constant)
            isa.tensor_copy(dst, modern_function(*given, dtype=float32))

        return compute(emit, tiles, shape, dtype or default, mask, is_simple=False)

    return _named(function, name)


FUNCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    **{name: _unary(name) for name in ACTIVATIONS},
    **{name: _composed(name) for name in COMPOSED},
    **{name: _binary(name) for name in (*BINARY, *TRUTHS)},
    **{name: _on_host(name) for name in ON_HOST},
}


@action("divide")
@token("divide")
def divide(x: Any, y: Any, dtype: Any = None, mask: Any = None, **options: Any) -> Tensor:
    """Return x / y; division by a number multiplies, that of 1 is `reciprocal` (**choice**)."""
    constant = number(y)
    if constant is not None and number(x) is None and constant != 0:
        tile = require("nl.divide", "x", x)
        default = dtype or promote(tile.dtype, scalar_type(y))
        return binary("multiply", x, 1.0 / constant, default, mask)
    if number(x) == 1 and constant is None:
        tile = require("nl.divide", "y", y)
        return reciprocal(tile, dtype or promote(tile.dtype, scalar_type(x)), mask)
    return FUNCTIONS["divide"](x, y, dtype, mask, **options)


@action("negative")
@token("negative")
def negative(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return -x, by a multiplication on VectorE."""
    tile = require("nl.negative", "x", x)
    return binary("multiply", tile, -1.0, dtype or tile.dtype, mask)


@action("invert")
@token("invert")
def invert(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return x with every bit flipped; truths are negated."""
    tile = require("nl.invert", "x", x)
    if tile.dtype is bool_:
        return binary("logical_xor", tile, 1, dtype or bool_, mask)
    if not tile.dtype.is_integer:
        message = f"nl.invert x has dtype {tile.dtype}; allowed: integers"
        raise error(TypeError, message)
    ones = -1 if tile.dtype.dtype.kind == "i" else (1 << (8 * tile.dtype.itemsize)) - 1
    return binary("bitwise_xor", tile, ones, dtype or tile.dtype, mask)


@token("reciprocal")
def reciprocal(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return 1 / x, on VectorE."""
    tile = require("nl.reciprocal", "x", x)
    return compute(isa.reciprocal, [tile], tile.shape, dtype or tile.dtype, mask)


@action("copy")
@token("copy")
def copy(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return a new SBUF tile of x's values."""
    tile = require("nl.copy", "x", x)
    return compute(isa.tensor_copy, [tile], tile.shape, dtype or tile.dtype, mask)


def where(condition: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """Return x where the condition is nonzero, else y; x and y are tiles or numbers."""
    if isinstance(condition, np.ndarray):
        message = (
            "nl.where condition is an index expression; allowed: a tile. nisa.affine_select takes "
            "index expressions"
        )
        raise error(TypeError, message)
    tiles = [require("nl.where", "condition", condition)]
    constants = [number(x), number(y)]
    tiles += [
        require("nl.where", argument, value)
        for argument, value, plain in zip("xy", (x, y), constants, strict=True)
        if plain is None
    ]
    types = [tile.dtype for tile in tiles[1:]] or [float32]
    default = types[0] if len(types) == 1 else promote(*types)

    def emit(dst: NkiTensor, predicate: NkiTensor, *views: NkiTensor) -> None:
        rest = iter(views)
        one, other = (next(rest) if plain is None else plain for plain in constants)
        isa.tensor_copy(dst, modern.where(predicate, one, other, dtype=default))

    shape = common_shape("where", [tile.shape for tile in tiles])
    return compute(emit, tiles, shape, dtype or default, mask, is_simple=False)
