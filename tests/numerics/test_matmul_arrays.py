"""`matmul` on every layout: batches, views, c, out, and bfloat16 results of each rounding."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from oracle import matmul as oracle, operands
from oracle.arrays import layouts
from oracle.operands import BFLOAT16, E4M3FN, FLOAT16, FLOAT32
from support.checks import assert_bits, error
from trn3.numerics import Xorwow, matmul

Array = npt.NDArray[Any]

BATCHES = [
    ((), (3,)),
    ((3,), ()),
    ((3,), (3,)),
    ((1,), (4,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((2, 1, 2), (4, 1)),
    ((0,), (1,)),
    ((2, 0), (1, 1)),
]


def random_draws(rng: Xorwow, shape: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """Take the draws of that many elements from the generator, as the contract lays them out."""
    count = int(np.prod(shape))
    lanes = len(rng.state)
    draws: npt.NDArray[np.uint32] = rng.uint32(-(-count // lanes))
    return draws.ravel()[:count].reshape(shape)


@pytest.mark.parametrize(("a_batch", "b_batch"), BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32, E4M3FN], ids=lambda dtype: dtype.name)
def test_batches_broadcast(a_batch: tuple[int, ...], b_batch: tuple[int, ...], dtype: Any) -> None:
    random = np.random.default_rng(1)
    a = operands.normal(random, (*a_batch, 3, 150), dtype)
    b = operands.normal(random, (*b_batch, 150, 18), dtype)
    c = operands.normal(random, (*np.broadcast_shapes(a_batch, b_batch), 3, 18), FLOAT32)
    assert_bits(matmul(a, b), oracle.matmul(a, b))
    assert_bits(matmul(a, b, c=c), oracle.matmul(a, b, c=c), "with c")


def test_batches_that_do_not_broadcast() -> None:
    a, b = np.zeros((2, 3, 4), dtype=BFLOAT16), np.zeros((3, 4, 5), dtype=BFLOAT16)
    with error(ValueError, "a", "b"):
        matmul(a, b)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT32, E4M3FN], ids=lambda d: d.name)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_every_memory_layout(dtype: Any, batch: tuple[int, ...]) -> None:
    """Strides, orders, byte orders, alignment and writability of a, b and c change nothing."""
    random = np.random.default_rng(2)
    a = operands.normal(random, (*batch, 9, 133), dtype)
    b = operands.normal(random, (*batch, 133, 21), dtype)
    c = operands.normal(random, (*batch, 9, 21), FLOAT32)
    expected, expected_c = oracle.matmul(a, b), oracle.matmul(a, b, c=c)
    others = dict(layouts(b))
    for layout, view in layouts(a):
        assert_bits(matmul(view, others.get(layout, b)), expected, f"both {layout}")
        assert_bits(matmul(view, b), expected, f"a {layout}")
        kept = view.copy()
        matmul(view, b)
        assert kept.tobytes() == view.tobytes(), f"a {layout} was modified"
    for layout, view in layouts(b):
        assert_bits(matmul(a, view), expected, f"b {layout}")
    for layout, view in layouts(c):
        assert_bits(matmul(a, b, c=view), expected_c, f"c {layout}")


def test_broadcast_inputs_of_stride_zero() -> None:
    random = np.random.default_rng(3)
    row = operands.normal(random, (1, 140), BFLOAT16)
    column = operands.normal(random, (140, 1), BFLOAT16)
    a, b = np.broadcast_to(row, (2, 7, 140)), np.broadcast_to(column, (140, 33))
    c = np.broadcast_to(np.float32(2.5), (2, 7, 33))
    assert_bits(matmul(a, b, c=c), oracle.matmul(a, b, c=c))


def test_operands_may_be_one_array() -> None:
    """A and b may overlap each other in any way: inputs are only read."""
    memory = operands.normal(np.random.default_rng(4), (200,), BFLOAT16)
    overlapping = np.lib.stride_tricks.as_strided(memory, (20, 30), (2, 2), writeable=False)
    assert_bits(matmul(overlapping, overlapping.T), oracle.matmul(overlapping, overlapping.T))


@pytest.mark.parametrize("shape", [(5, 1), (1, 7), (7,), (1, 5, 7), (5, 8), ()], ids=str)
def test_c_has_exactly_the_shape_of_the_output(shape: tuple[int, ...]) -> None:
    """A c that would broadcast is refused as well."""
    a, b = np.zeros((5, 4), dtype=BFLOAT16), np.zeros((4, 7), dtype=BFLOAT16)
    with error(ValueError, "c", "(5, 7)", str(shape)):
        matmul(a, b, c=np.zeros(shape, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "object", E4M3FN], ids=str)
def test_c_is_float32_or_bfloat16(dtype: Any) -> None:
    dtype = np.dtype(dtype)
    a, b = np.zeros((5, 4), dtype=BFLOAT16), np.zeros((4, 7), dtype=BFLOAT16)
    with error(TypeError, "c", dtype.name, "float32", "bfloat16"):
        matmul(a, b, c=np.zeros((5, 7), dtype=dtype))


MISFITS: list[tuple[tuple[int, ...], tuple[int, ...], list[str]]] = [
    ((3, 4), (5, 6), ["a", "b", "4", "5"]),
    ((2, 3, 4), (5, 4), ["a", "b", "4", "5"]),
    ((4,), (4, 5), ["a", "(4)"]),
    ((3, 4), (4,), ["b", "(4)"]),
    ((), (4, 5), ["a", "()"]),
    ((3, 4), (), ["b", "()"]),
]


@pytest.mark.parametrize(("a_shape", "b_shape", "words"), MISFITS, ids=str)
def test_shapes_that_do_not_fit(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...], words: list[str]
) -> None:
    with error(ValueError, *words):
        matmul(np.zeros(a_shape, dtype=BFLOAT16), np.zeros(b_shape, dtype=BFLOAT16))


@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("k", [1, 128, 129, 300])
def test_bfloat16_result_is_rounded_after_every_tile(k: int, rounding: oracle.Rounding) -> None:
    random = np.random.default_rng(k)
    a = operands.normal(random, (2, 11, k), BFLOAT16)
    b = operands.normal(random, (k, 50), BFLOAT16)
    c = operands.normal(random, (2, 11, 50), FLOAT32)
    for start in (None, c, c.astype(BFLOAT16)):
        got = matmul(a, b, c=start, out_dtype=BFLOAT16, rounding=rounding)
        expected = oracle.matmul(a, b, c=start, bfloat16=True, rounding=rounding)
        assert_bits(got, expected)


@pytest.mark.parametrize("lanes", [1, 5, 128])
@pytest.mark.parametrize("k", [3, 128, 257])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
def test_stochastic_draws_and_how_many(batch: tuple[int, ...], k: int, lanes: int) -> None:
    """One draw an element a tile, laid out [tiles, *batch, M, N], and not one more taken."""
    random = np.random.default_rng(9)
    a = operands.normal(random, (*batch, 5, k), BFLOAT16)
    b = operands.normal(random, (k, 23), E4M3FN)
    c = operands.normal(random, (*batch, 5, 23), FLOAT32)
    rng = Xorwow.seed(77, lanes=lanes)
    rng.uint32(3)
    reference = copy.copy(rng)
    for start in (None, c):
        got = matmul(a, b, c=start, out_dtype=BFLOAT16, rounding="stochastic", rng=rng)
        draws = random_draws(reference, oracle.draws_shape(a, b))
        expected = oracle.matmul(a, b, c=start, bfloat16=True, rounding="stochastic", draws=draws)
        assert_bits(got, expected)
        assert rng == reference


def test_stochastic_with_four_generators_a_lane() -> None:
    """The phase goes on from call to call."""
    random = np.random.default_rng(10)
    a, b = operands.normal(random, (3, 140), BFLOAT16), operands.normal(random, (140, 7), BFLOAT16)
    rng = Xorwow.seed(5, lanes=4, generators=4)
    reference = copy.copy(rng)
    for _ in range(3):
        got = matmul(a, b, out_dtype=BFLOAT16, rounding="stochastic", rng=rng)
        draws = random_draws(reference, (2, 3, 7))
        expected = oracle.matmul(a, b, bfloat16=True, rounding="stochastic", draws=draws)
        assert_bits(got, expected)
        assert (rng == reference, rng.phase) == (True, reference.phase)


@pytest.mark.parametrize("rounding", ["nearest", "zero", "stochastic"])
def test_bfloat16_results_at_the_ends_of_the_range(rounding: oracle.Rounding) -> None:
    """Overflow goes to infinity except by truncation; subnormals are rounded like any number."""
    random = np.random.default_rng(12)
    rng = Xorwow.seed(1, lanes=16) if rounding == "stochastic" else None
    for low, high in [(62, 63), (-66, -64), (-75, -70)]:
        a = operands.between(random, (24, 2), FLOAT32, low, high)
        b = operands.between(random, (2, 40), FLOAT32, low, high)
        draws = None if rng is None else random_draws(copy.copy(rng), (1, 24, 40))
        got = matmul(a, b, out_dtype=BFLOAT16, rounding=rounding, rng=rng)
        expected = oracle.matmul(a, b, bfloat16=True, rounding=rounding, draws=draws)
        assert_bits(got, expected, f"exponents {low}")


@pytest.mark.parametrize("rounding", ["nearest", "zero", "stochastic"])
def test_no_tile_takes_no_draws(rounding: Any) -> None:
    """With K = 0 the result is c rounded to nearest once, whatever the rounding."""
    a, b = np.zeros((4, 0), dtype=BFLOAT16), np.zeros((0, 9), dtype=BFLOAT16)
    c = operands.codes(np.random.default_rng(3), (4, 9), FLOAT32)
    rng = Xorwow.seed(3, lanes=8) if rounding == "stochastic" else None
    before = copy.copy(rng)
    got = matmul(a, b, c=c, out_dtype=BFLOAT16, rounding=rounding, rng=rng)
    assert_bits(got, oracle.matmul(a, b, c=c, bfloat16=True))
    assert rng == before


@pytest.mark.parametrize("out_dtype", [np.float32, BFLOAT16, "float32", np.dtype("float32")])
def test_out_dtype_in_every_spelling(out_dtype: Any) -> None:
    a = np.ones((2, 2), dtype=BFLOAT16)
    assert matmul(a, a, out_dtype=out_dtype).dtype == np.dtype(out_dtype)


@pytest.mark.parametrize("out_dtype", ["float16", "float64", "int32", E4M3FN], ids=str)
def test_out_dtype_is_float32_or_bfloat16(out_dtype: Any) -> None:
    a = np.ones((2, 2), dtype=BFLOAT16)
    with error(TypeError, "out_dtype", np.dtype(out_dtype).name, "float32", "bfloat16"):
        matmul(a, a, out_dtype=out_dtype)


@pytest.mark.parametrize("rounding", ["zero", "stochastic"])
def test_rounding_is_for_bfloat16_results(rounding: Any) -> None:
    a = np.ones((2, 2), dtype=BFLOAT16)
    rng = Xorwow.seed(1, lanes=2) if rounding == "stochastic" else None
    with error(ValueError, "rounding", rounding, "nearest", "float32"):
        matmul(a, a, rounding=rounding, rng=rng)


@pytest.mark.parametrize("out_dtype", [FLOAT32, BFLOAT16], ids=lambda dtype: dtype.name)
def test_out_is_filled_and_returned(out_dtype: Any) -> None:
    """What was in `out` before does not matter, and it is the array that comes back."""
    random = np.random.default_rng(5)
    a = operands.normal(random, (2, 9, 200), BFLOAT16)
    b = operands.normal(random, (200, 31), BFLOAT16)
    c = operands.normal(random, (2, 9, 31), FLOAT32)
    out = np.full((2, 9, 31), np.nan, dtype=out_dtype)
    bfloat16 = out_dtype == BFLOAT16
    assert matmul(a, b, out_dtype=out_dtype, out=out) is out
    assert_bits(out, oracle.matmul(a, b, bfloat16=bfloat16))
    assert matmul(a, b, c=c, out_dtype=out_dtype, out=out) is out
    assert_bits(out, oracle.matmul(a, b, c=c, bfloat16=bfloat16), "with c")
    empty = np.full((2, 2), np.nan, dtype=out_dtype)
    assert matmul(a[0, :2, :0], b[:0, :2], out_dtype=out_dtype, out=empty) is empty
    assert_bits(empty, np.zeros((2, 2), dtype=np.float32), "K = 0")
