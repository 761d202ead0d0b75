"""Index expressions and rectangular masks of the legacy dialect against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
from support.legacy import run, values

X, Y = values(8, 12), values(8, 12, seed=1)
WHOLE = np.arange(96, dtype=np.int32).reshape(8, 12)
T = (np.arange(4)[:, None] * 100 + np.arange(12)).astype(np.float32)


def test_index_expressions_span_a_grid() -> None:
    def body(t: Any) -> Any:
        i_p = nl.arange(4)[:, None, None]
        i_x, i_y = nl.arange(3)[None, :, None], nl.arange(4)[None, None, :]
        return nl.copy(t[i_p, i_y * 3 + i_x])

    got = run(body, T)
    assert got.shape == (4, 3, 4)
    assert got[1].tolist() == [[100, 103, 106, 109], [101, 104, 107, 110], [102, 105, 108, 111]]


@pytest.mark.parametrize(
    "key",
    [
        lambda t: t[nl.arange(8)[:, None], nl.arange(6)[None, :] // 2],
        lambda t: t[nl.arange(8)[:, None], nl.arange(12)[None, :] % 5],
        lambda t: t[nl.arange(4)[:, None] + 0, 2 * nl.arange(3)[None, :] + 1],
        lambda t: t[:, nl.arange(3)],
        lambda t: t[0:8, 2:9:3],
        lambda t: t[nl.ds(0, 8), nl.ds(4, 4)],
        lambda t: t[nl.affine_range(8), nl.ds(1, 2)],
    ],
    ids=["half", "modulo", "step", "column", "slice", "ds", "range"],
)
def test_index_is_that_of_numpy(key: Callable[[Any], Any]) -> None:
    class Plain:
        def __getitem__(self, given: Any) -> Any:
            plain = tuple(
                slice(p.start, p.start + p.size) if isinstance(p, nl.ds)
                else p.as_slice() if hasattr(p, "as_slice") else p
                for p in given
            )  # fmt: skip
            return X[plain]

    assert np.array_equal(run(lambda t: nl.copy(key(t)), X), key(Plain()))


def test_load_of_a_column_is_a_tile() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((8, 1), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:8, 3]) + nl.load(x[nl.arange(8), 3]))
        return out

    assert np.array_equal(kernel(X)[:, 0], 2 * X[:, 3])


def test_masked_indexes_may_lie_outside() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:16, 0:20]
        inside = (p < 8) & (f < 12)
        tile = nl.load(x[p, f], mask=inside)
        nl.store(out[p, f], nl.square(tile, mask=inside), mask=inside)
        return out

    assert np.array_equal(kernel(X), X * X)


def test_unmasked_index_outside_is_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:20]
        nl.load(x[p, f])
        return x

    with pytest.raises(IndexError, match=r"test_indexing.py:\d+: Out-of-bound access .*\[0, 19\]"):
        kernel(X)


def test_mask_leaves_the_rest_of_the_target() -> None:
    def body(x: Any, y: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:12]
        x[...] = nl.copy(y, mask=(p < 8) & (f < 5))
        x[p, f] = nl.multiply(x, 2.0, mask=f >= p + 6)
        return nl.copy(x)

    wanted = X.copy()
    wanted[:, :5] = Y[:, :5]
    triangle = np.arange(12)[None, :] >= np.arange(8)[:, None] + 6
    wanted[triangle] *= 2
    assert np.array_equal(run(body, X, Y), wanted)


def test_mask_from_the_middle_of_a_quadrant() -> None:
    def body(x: Any) -> Any:
        p = nl.arange(8)[:, None]
        x[...] = nl.negative(x, mask=(p > 2) & (p < 6))
        return nl.copy(x)

    wanted = X.copy()
    wanted[3:6] *= -1
    assert np.array_equal(run(body, X), wanted)


@pytest.mark.parametrize("truth", [True, False])
def test_mask_of_one_truth(truth: bool) -> None:
    def body(x: Any, y: Any) -> Any:
        x[...] = nl.add(x, y, mask=truth)
        x += nl.copy(y, mask=truth)
        return nl.copy(x)

    assert np.array_equal(run(body, X, Y), X + Y + Y if truth else X)


def test_indexes_run_backwards() -> None:
    def body(x: Any) -> Any:
        turned = nl.ndarray((8, 12), dtype=x.dtype)
        p, f = nl.mgrid[0:8, 0:12]
        turned[p, 11 - f] = nl.copy(x[p, f])
        return nl.add(turned[p, 11 - f], x[p, 11 - f])

    assert np.array_equal(run(body, X), X + X[:, ::-1])


TABLE = values(3, 64, 16)
PLACES = np.random.default_rng(0).integers(0, 64, (40, 3)).astype(np.int32)


@pytest.mark.parametrize("block", [0, 2])
def test_index_tiles_pick_rows_of_a_later_axis(block: int) -> None:
    @nki.jit
    def kernel(table: Any, places: Any) -> Any:
        out = nl.zeros((3, 64, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        picked = nl.ndarray((40, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:40, 0:16]
        tile = nl.load(places)
        rows = nl.load(table[block, tile[p, 1], f])
        nl.store(picked, rows)
        nl.store(out[block, tile[p, 0], f], rows)
        return picked, out

    unique = PLACES.copy()
    unique[:, 0] = np.random.default_rng(1).permutation(64)[:40]
    picked, out = kernel(TABLE, unique)
    wanted = TABLE[block, unique[:, 1]]
    assert np.array_equal(picked, wanted)
    whole = np.zeros_like(TABLE)
    whole[block, unique[:, 0]] = wanted
    assert np.array_equal(out, whole)


def test_index_tiles_of_several_columns_pick_a_row_for_each() -> None:
    @nki.jit
    def kernel(table: Any, places: Any) -> Any:
        out = nl.zeros((40, 3, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        p = nl.arange(40)[:, None, None]
        k = nl.arange(3)[None, :, None]
        f = nl.arange(16)[None, None, :]
        tile = nl.load(places)
        nl.store(out[p, k, f], nl.load(table[tile[p, k], f]))
        return out

    assert np.array_equal(kernel(TABLE[0], PLACES), TABLE[0][PLACES])


def test_index_tiles_on_chip_are_refused() -> None:
    def body(x: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:12]
        rows = nisa.iota(p[:, 0:1], dtype=nl.int32)
        return nl.copy(x[rows[p, 0], f])

    with pytest.raises(IndexError, match=r"a number for each partition, for a tensor in HBM"):
        run(body, X)
