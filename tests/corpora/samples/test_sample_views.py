"""Functions of the language on tiles and views of any kind, drawn at random, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from support.samples import wide
from trn3 import nki

TYPES = "float32 float16 bfloat16 int8 int16 int32 uint8 uint16 uint32 float8_e4m3 float8_e5m2"
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "less": np.less,
    "greater_equal": np.greater_equal,
    "power": np.power,
    "mod": np.mod,
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
}
UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "square": np.square,
    "negative": np.negative,
    "floor": np.floor,
    "copy": np.copy,
    "reciprocal": np.reciprocal,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}
REDUCING: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
}
TOLERANCE = {4: 2e-5, 2: 3e-2, 1: 0.2}


class Operand:
    """A tile and a view of it, which may skip, permute or cut free axes, in SBUF or PSUM."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...], *, psum: bool) -> None:
        dtype = getattr(nl, str(rng.choice(TYPES.split())))
        self.kind = str(rng.choice(["whole", "strided", "permuted", "cut"]))
        self.shape, self.buffer = shape, nl.psum if psum else nl.sbuf
        full = list(shape)
        if self.kind == "strided":
            full[-1] = 2 * full[-1] + 1
        elif self.kind == "permuted":
            full[1:] = full[:0:-1]
        elif self.kind == "cut":
            full[1] += 2
        self.array = rng.integers(1, 4, full).astype(np.float32).astype(dtype)
        self.values = self.view(wide(self.array), lambda array, axes: array.transpose(axes))

    def view(self, base: Any, permute: Callable[[Any, list[int]], Any]) -> Any:
        if self.kind == "strided":
            return base[..., 1 : 2 * self.shape[-1] : 2]
        if self.kind == "permuted":
            return permute(base, [0, *range(len(self.shape) - 1, 0, -1)])
        if self.kind == "cut":
            return base[:, 1 : 1 + self.shape[1]]
        return base

    def tile(self, given: Any) -> Any:
        loaded = nl.load(given)
        if self.buffer == nl.psum:
            staged = nl.ndarray(loaded.shape, loaded.dtype, buffer=nl.psum)
            staged[...] = loaded
            loaded = staged
        return self.view(loaded, lambda tile, axes: tile.permute(axes))


def _compare(got: Any, wanted: Any) -> None:
    wanted = np.asarray(wanted).astype(np.float64)
    if got.dtype.kind in "iu":
        limits = np.iinfo(got.dtype)
        wanted = np.clip(np.rint(wanted), limits.min, limits.max)
    assert got.shape == wanted.shape
    tolerance = TOLERANCE[got.dtype.itemsize]
    np.testing.assert_allclose(wide(got), wanted, rtol=tolerance, atol=tolerance)


def _returned(result: Any) -> Any:
    out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


def _draw(seed: int) -> tuple[np.random.Generator, tuple[int, ...], Any, bool]:
    rng = np.random.default_rng(seed)
    free = rng.integers(1, 6, rng.integers(1, 4)).tolist()
    shape = (int(rng.choice([1, 7, 33, 128])), *free)
    dtype = [None, nl.float32, nl.bfloat16][rng.integers(3)]
    return rng, shape, dtype, bool(rng.integers(4) == 0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_of_views_equal_numpy(name: str, seed: int) -> None:
    rng, shape, dtype, psum = _draw(seed)
    one, other = (
        Operand(rng, shape, psum=psum and name != "power"),
        Operand(rng, shape, psum=False),
    )

    @nki.jit
    def kernel(a: Any, b: Any) -> Any:
        x, y, function = one.tile(a), other.tile(b), getattr(nl, name)
        return tuple(_returned(function(*pair, dtype=dtype)) for pair in ((x, y), (x, 2), (3, y)))

    pairs = ((one.values, other.values), (one.values, 2.0), (3.0, other.values))
    for got, (x, y) in zip(kernel(one.array, other.array), pairs, strict=True):
        _compare(got, BINARY[name](x, y))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_of_views_equal_numpy(name: str, seed: int) -> None:
    rng, shape, dtype, psum = _draw(seed)
    operand = Operand(rng, shape, psum=psum)

    @nki.jit
    def kernel(x: Any) -> Any:
        return _returned(getattr(nl, name)(operand.tile(x), dtype=dtype))

    _compare(kernel(operand.array), UNARY[name](operand.values))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", REDUCING)
def test_reductions_of_views_equal_numpy(name: str, seed: int) -> None:
    rng, shape, dtype, psum = _draw(seed)
    operand = Operand(rng, shape, psum=psum)
    first = int(rng.integers(1, len(shape)))
    axes, keepdims = tuple(range(first, len(shape))), bool(rng.integers(2))

    @nki.jit
    def kernel(x: Any) -> Any:
        function = getattr(nl, name)
        return _returned(function(operand.tile(x), axis=axes, keepdims=keepdims, dtype=dtype))

    wanted = REDUCING[name](operand.values, axis=axes, keepdims=keepdims or name == "var")
    # A tile keeps its partitions and one free axis.
    _compare(kernel(operand.array), wanted.reshape(shape[0], 1) if wanted.ndim < 2 else wanted)
