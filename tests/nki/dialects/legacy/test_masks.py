"""Masks of any shape: what they leave out is neither read nor written, and reduced by nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl

P, F = 96, 24


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _run(body: Callable[..., Any], *args: Any) -> Any:
    return nki.jit(body)(*args)


#: Masks over (P, F) by index expressions, each no rectangle from the first element on.
MASKS: dict[str, Callable[[Any, Any], Any]] = {
    "staircase": lambda p, f: f <= p // 4,
    "triangle": lambda p, f: p >= f,
    "lower right": lambda p, f: (p >= 10) & (f >= 3),
    "middle": lambda p, f: (p >= 5) & (p < 77) & (f > 2) & (f < 20),
    "quadrant": lambda p, f: (p >= 32) & (p < 64) & (f < F),
    "last row": lambda p, f: (p == P - 1) & (f < F),
    "even columns": lambda p, f: (f % 2 == 0) & (p < P),
    "even rows": lambda p, f: (p % 2 == 0) & (f < F),
    "hole": lambda p, f: (p < 8) | (p > 40) | (f < 5) | (f > 9),
    "diagonal": lambda p, f: p == f,
}
names = pytest.mark.parametrize("name", sorted(MASKS))


def _truth(name: str) -> Any:
    p, f = np.mgrid[0:P, 0:F]
    return np.broadcast_to(MASKS[name](p, f), (P, F))


def _into(shape: tuple[int, ...], made: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a kernel that assigns a result to a tile of -7."""

    def kernel(x: Any) -> Any:
        out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:P, 0:F]
        target = nl.full(shape, -7.0, dtype=nl.float32)
        target[...] = made(nl.load(x), (p, f))
        nl.store(out, target)
        return out

    return kernel


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (nl.sum, np.sum),
    "prod": (nl.prod, np.prod),
    "max": (nl.max, lambda x, **k: np.max(x, initial=-np.inf, **k)),
    "min": (nl.min, lambda x, **k: np.min(x, initial=np.inf, **k)),
    "mean": (nl.mean, np.mean),
    "var": (nl.var, np.var),
}


@names
@pytest.mark.parametrize("function", sorted(REDUCTIONS))
def test_reductions_skip_what_a_mask_leaves_out(name: str, function: str) -> None:
    mine, numpy = REDUCTIONS[function]
    x, truth = _random(P, F), _truth(name)

    def made(tile: Any, grid: Any) -> Any:
        return mine(tile, axis=1, mask=MASKS[name](*grid))

    got = _run(_into((P, 1), made), x)
    some = truth.any(axis=1)
    wanted = np.full((P, 1), -7.0)
    wanted[some, 0] = numpy(x.astype(np.float64)[some], axis=1, where=truth[some])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@names
def test_softmax_skips_what_a_mask_leaves_out(name: str) -> None:
    x, truth = _random(P, F), _truth(name)
    got = _run(_into((P, F), lambda t, g: nl.softmax(t, axis=1, mask=MASKS[name](*g))), x)
    power = np.where(truth, np.exp(x.astype(np.float64)), 0)
    total = np.maximum(power.sum(1, keepdims=True), 1e-300)
    np.testing.assert_allclose(got, np.where(truth, power / total, -7), rtol=1e-4, atol=1e-6)


@names
@pytest.mark.parametrize(
    "function", [nl.exp, nl.floor, nl.negative, nl.copy, nl.sin, nisa.reciprocal]
)
def test_functions_write_where_a_mask_holds(name: str, function: Any) -> None:
    x, truth = _random(P, F), _truth(name)
    got = _run(_into((P, F), lambda t, g: function(t, mask=MASKS[name](*g))), x)
    whole = _run(_into((P, F), lambda t, _: function(t)), x)
    assert np.array_equal(got, np.where(truth, whole, np.float32(-7)))


@names
@pytest.mark.parametrize("engine", [nisa.tensor_engine, nisa.vector_engine])
def test_transposes_move_what_a_mask_holds(name: str, engine: Any) -> None:
    x, truth = _random(P, F), _truth(name)

    def kernel(x: Any) -> Any:
        p, f = nl.mgrid[0:P, 0:F]
        out = nl.ndarray((F, P), dtype=nl.float32, buffer=nl.shared_hbm)
        target = nl.full((F, P), -7.0, dtype=nl.float32)
        tile = nl.load(x)
        if engine is nisa.vector_engine:
            # VectorE exchanges squares of 32.
            tile = nl.copy(tile[0:F, 0:F])
            p = p[0:F]
            moved = nisa.nc_transpose(tile, engine=engine, mask=MASKS[name](p, f))
            target[0:F, 0:F] = moved
        else:
            target[...] = nisa.nc_transpose(tile, engine=engine, mask=MASKS[name](p, f))
        nl.store(out, target)
        return out

    wanted = np.where(truth.T, x.T, np.float32(-7))
    if engine is nisa.vector_engine:
        wanted[:, F:] = -7
    assert np.array_equal(_run(kernel, x), wanted)


@names
@pytest.mark.parametrize("accumulates", [False, True])
def test_products_write_where_a_mask_holds(name: str, accumulates: bool) -> None:
    a, b, truth = _random(64, P), _random(64, F, seed=1), _truth(name)

    def kernel(a: Any, b: Any) -> Any:
        m, n = nl.mgrid[0:P, 0:F]
        out = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.full((P, F), -7.0, dtype=nl.float32, buffer=nl.psum)
        left, right = nl.load(a), nl.load(b)
        if accumulates:
            total[...] += nl.matmul(left, right, transpose_x=True, mask=MASKS[name](m, n))
        else:
            total[...] = nisa.nc_matmul(left, right, mask=MASKS[name](m, n))
        nl.store(out, nl.copy(total))
        return out

    product = a.astype(np.float64).T @ b + (-7 if accumulates else 0)
    np.testing.assert_allclose(
        _run(kernel, a, b), np.where(truth, product, -7), rtol=1e-4, atol=1e-4
    )


def test_products_sum_where_a_mask_holds() -> None:
    a, b = _random(64, 32), _random(64, 40, seed=1)

    def kernel(a: Any, b: Any, kind: str) -> Any:
        out = nl.ndarray((32, 40), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(a), nl.load(b)
        if kind == "k, n":
            k, n = nl.mgrid[0:64, 0:40]
            mask = (k < 37) & (n < 40)
        else:
            k, m, n = nl.mgrid[0:64, 0:32, 0:40]
            mask = (k >= 5) & (m < 30) & (n < 33)
        total = nl.zeros((32, 40), dtype=nl.float32, buffer=nl.psum)
        total[...] += nl.matmul(left, right, transpose_x=True, mask=mask)
        nl.store(out, nl.copy(total))
        return out

    wide = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(
        _run(kernel, a, b, "k, n"), wide[0][:37].T @ wide[1][:37], rtol=1e-4, atol=1e-4
    )
    wanted = wide[0][5:].T @ wide[1][5:]
    wanted[30:] = wanted[:, 33:] = 0
    np.testing.assert_allclose(_run(kernel, a, b, "k, m, n"), wanted, rtol=1e-4, atol=1e-4)


@names
def test_statistics_skip_what_a_mask_leaves_out(name: str) -> None:
    x, truth = _random(P, F), _truth(name)

    def kernel(x: Any) -> Any:
        out = nl.ndarray((P, 10), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:P, 0:F]
        mask = MASKS[name](p, f)
        tile = nl.load(x)
        target = nl.full((P, 10), -7.0, dtype=nl.float32)
        stats = nl.zeros((P, 6), dtype=nl.float32)
        stats[...] = nisa.bn_stats(tile, mask=mask)
        target[:, 0:2] = nisa.bn_aggr(stats)
        target[:, 2:10] = nisa.max8(src=tile, mask=mask)
        nl.store(out, target)
        return out

    got = _run(kernel, x)
    for row in range(P):
        held = x[row, truth[row]].astype(np.float64)
        if len(held):
            np.testing.assert_allclose(
                got[row, :2], [held.mean(), held.var()], rtol=1e-4, atol=1e-5
            )
        if len(held) >= 8:
            assert np.array_equal(got[row, 2:], np.sort(x[row, truth[row]])[:-9:-1])
        if not len(held):
            assert (got[row, 2:] == -7).all()


@names
@pytest.mark.parametrize("function", ["activation_reduce", "tensor_scalar_reduce"])
def test_reductions_beside_a_result_skip_what_a_mask_leaves_out(name: str, function: str) -> None:
    x, truth = _random(P, F), _truth(name)

    def kernel(x: Any) -> Any:
        out = nl.ndarray((P, F + 1), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:P, 0:F]
        mask = MASKS[name](p, f)
        tile = nl.load(x)
        target = nl.full((P, F + 1), -7.0, dtype=nl.float32)
        if function == "activation_reduce":
            target[:, 0:F] = nisa.activation_reduce(
                nl.exp, tile, reduce_op=nl.add, reduce_res=target[:, F], mask=mask
            )
        else:
            target[:, 0:F] = nisa.tensor_scalar_reduce(
                data=tile, op0=np.multiply, operand0=2.0, reduce_op=np.add,
                reduce_res=target[:, F], mask=mask,
            )  # fmt: skip
        nl.store(out, target)
        return out

    got = _run(kernel, x)
    values = np.exp(x) if function == "activation_reduce" else 2 * x
    np.testing.assert_allclose(got[:, :F], np.where(truth, values, -7), rtol=1e-4, atol=1e-5)
    some = truth.any(axis=1)
    wanted = np.where(some, np.where(truth, values, 0).sum(1), -7)
    np.testing.assert_allclose(got[:, F], wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_mask_holds_on_sums_and_copies(data: Any) -> None:
    rows, columns = data.draw(st.integers(1, 128)), data.draw(st.integers(1, 9))
    seed = data.draw(st.integers(0, 999))
    truth = np.random.default_rng(seed).random((rows, columns)) < data.draw(st.floats(0, 1))
    x = _random(rows, columns)

    def kernel(x: Any) -> Any:
        sums = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        copies = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        total = nl.full((rows, 1), -7.0, dtype=nl.float32)
        total[...] = nl.sum(tile, axis=1, mask=truth)
        target = nl.full((rows, columns), -7.0, dtype=nl.float32)
        target[...] = nl.add(tile, tile, mask=truth)
        nl.store(sums, total)
        nl.store(copies, target)
        return sums, copies

    sums, copies = _run(kernel, x)
    assert np.array_equal(copies, np.where(truth, x + x, np.float32(-7)))
    wanted = np.where(truth.any(1), np.where(truth, x, 0).sum(1), -7)
    np.testing.assert_allclose(sums[:, 0], wanted, rtol=1e-5, atol=1e-5)


def test_masked_indexes_outside_are_not_read() -> None:
    x = _random(64, 20)

    def kernel(x: Any) -> Any:
        out = nl.ndarray((64, 20), dtype=nl.float32, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:64, 0:20]
        tile = nl.load(x)
        target = nl.full((64, 20), -7.0, dtype=nl.float32)
        # One row up, one column to the left: nothing lies there at the edge.
        target[...] = nl.copy(tile[p - 1, f - 1], mask=(p >= 1) & (f >= 1))
        nl.store(out, target)
        total = nl.sum(tile[p, f + 3], axis=1, mask=f + 3 < 20)
        nl.store(out[p, f[:, 0:1] * 0], total)
        return out

    got = _run(kernel, x)
    wanted = np.full((64, 20), -7, np.float32)
    wanted[1:, 1:] = x[:-1, :-1]
    wanted[:, 0] = x[:, 3:].sum(1)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_masks_of_coupled_products_are_refused() -> None:
    def kernel(a: Any, b: Any) -> Any:
        k, m, n = nl.mgrid[0:16, 0:16, 0:16]
        nl.matmul(nl.load(a), nl.load(b), transpose_x=True, mask=k + m + n < 20)

    with pytest.raises(NotImplementedError, match="couples all axes"):
        _run(kernel, _random(16, 16), _random(16, 16))


def test_scans_with_masked_starts_are_refused() -> None:
    def kernel(x: Any) -> Any:
        p, f = nl.mgrid[0:32, 0:8]
        tile = nl.load(x)
        nisa.tensor_tensor_scan(tile, tile, 0, nl.multiply, nl.add, mask=f >= 2 + 0 * p)

    with pytest.raises(NotImplementedError, match="start or the middle of a row; allowed: its end"):
        _run(kernel, _random(32, 8))
