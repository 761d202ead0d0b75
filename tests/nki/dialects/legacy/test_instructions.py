"""Instructions of the legacy dialect, one by one against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl


def _random(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _tile_of(body: Callable[..., Any], *arrays: Any, dtype: Any = None) -> Any:
    """Return what a function of tiles makes of arrays."""

    def kernel(*tensors: Any) -> Any:
        made = body(*(nl.load(tensor) for tensor in tensors))
        made = made if isinstance(made, tuple) else (made,)
        outs = []
        for tile in made:
            out = nl.ndarray(tile.shape, dtype=dtype or tile.dtype, buffer=nl.shared_hbm)
            nl.store(out, value=tile)
            outs.append(out)
        return tuple(outs) if len(outs) > 1 else outs[0]

    return nki.jit(kernel)(*arrays)


@pytest.mark.parametrize("reduces", [False, True])
def test_range_select_keeps_places_between_bounds(reduces: bool) -> None:
    x = _random(128, 40)
    low = np.arange(128, dtype=np.float32)[:, None] % 20
    high = low + 9

    def body(x: Any, low: Any, high: Any) -> Any:
        top = nl.full((128, 1), 0.0, dtype=nl.float32)
        rest: dict[str, Any] = {}
        if reduces:
            rest = {
                "reduce_cmd": nisa.reduce_cmd.reset_reduce, "reduce_res": top[...],
                "reduce_op": np.max,
            }  # fmt: skip
        chosen = nisa.range_select(
            on_true_tile=x[...], comp_op0=np.greater_equal, comp_op1=np.less, bound0=low,
            bound1=high, range_start=4, on_false_value=nl.fp32.min, **rest,
        )  # fmt: skip
        return chosen, top

    chosen, top = _tile_of(body, x, low, high)
    place = np.arange(40)[None] + 4
    held = (place >= low) & (place < high)
    lowest = np.finfo(np.float32).min
    assert np.array_equal(chosen, np.where(held, x, lowest))
    assert np.array_equal(top[:, 0], np.where(held, x, lowest).max(1) if reduces else np.zeros(128))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.bool_])
@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce_chooses_and_reduces(dtype: Any, reverse: bool) -> None:
    x, fill = _random(64, 20), _random(64, 1, seed=1)
    condition = (_random(64, 20, seed=2) > 0).astype(dtype)

    def body(x: Any, condition: Any, fill: Any) -> Any:
        dst = nl.ndarray((64, 20), dtype=nl.float32)
        top = nl.ndarray((64, 1), dtype=nl.float32)
        nisa.select_reduce(
            dst=dst, predicate=condition, on_true=x, on_false=fill, reduce_res=top,
            reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_op=np.max, reverse_pred=reverse,
        )  # fmt: skip
        return dst, top

    chosen, top = _tile_of(body, x, condition, fill)
    wanted = np.where(condition.astype(bool) ^ reverse, x, fill)
    assert np.array_equal(chosen, wanted)
    assert np.array_equal(top[:, 0], wanted.max(1))


@pytest.mark.parametrize("wide", [1, 4])
@pytest.mark.parametrize("valid", [None, 20])
def test_local_gather_takes_lists_of_groups(wide: int, valid: int | None) -> None:
    x = _random(64, 128)
    index = np.random.default_rng(1).integers(0, 128 // wide, (64, 2)).astype(np.uint16) * wide

    def body(x: Any, index: Any) -> Any:
        return nisa.local_gather(x, index, num_elem_per_idx=wide, num_valid_indices=valid)

    got = _tile_of(body, x, index)
    count = 32 if valid is None else valid
    assert got.shape == (64, count * wide)
    for group in range(4):
        rows = slice(16 * group, 16 * group + 16)
        places = index[rows].T.ravel()[:count]
        wanted = np.stack([x[rows, p : p + wide] for p in places], 1).reshape(16, -1)
        assert np.array_equal(got[rows], wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sequence_bounds_find_segments(dtype: Any) -> None:
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 0, 3, 3]], dtype)
    got = _tile_of(lambda ids: nisa.sequence_bounds(segment_ids=ids), ids)
    assert got.shape == (1, 2, 10)
    assert got[0, 0].tolist() == [10, 1, 1, 3, 3, 3, 10, 10, 8, 8]
    assert got[0, 1].tolist() == [-1, 3, 3, 6, 6, 6, -1, -1, 10, 10]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((96, 40), (1, 0)), ((20, 3, 50), (2, 1, 0)), ((20, 3, 4, 50), (3, 1, 2, 0))],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_dma_transpose_permutes_axes(shape: Any, axes: Any, dtype: Any) -> None:
    x = _random(*shape, dtype=dtype)

    def kernel(x: Any) -> Any:
        one = nisa.dma_transpose(x, axes=axes)
        other = nisa.dma_transpose(x)
        out = nl.ndarray((2, *one.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0], one)
        nl.store(out[1], other)
        return out

    got = nki.jit(kernel)(x)
    assert np.array_equal(got[0], x.transpose(axes))
    assert np.array_equal(got[1], x.transpose(axes))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(100, 60), (128, 128), (1, 5), (40, 1)])
def test_load_transpose2d_of_every_type(shape: Any, dtype: Any) -> None:
    x = (_random(*shape) * 30).astype(dtype)

    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=nl.load_transpose2d(x))
        return out

    assert np.array_equal(nki.jit(kernel)(x), x.T)


def test_load_transpose2d_converts_and_masks() -> None:
    x = _random(70, 33)

    def kernel(x: Any) -> Any:
        out = nl.zeros((64, 128), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        p, f = nl.mgrid[0:128, 0:64]
        mask = (p < 70) & (f < 33)
        tile = nl.load_transpose2d(x[p, f], mask=mask, dtype=nl.bfloat16)
        i_p, i_f = nl.mgrid[0:64, 0:128]
        nl.store(out[i_p, i_f], value=tile, mask=(i_p < 33) & (i_f < 70))
        return out

    got = nki.jit(kernel)(x)
    assert np.array_equal(got[:33, :70], x.T.astype(ml_dtypes.bfloat16))
    assert not got[33:].any()


@pytest.mark.parametrize("place", [0, 3, 7])
def test_dynamic_copies_address_by_a_tile(place: int) -> None:
    x = _random(32, 64)

    def body(x: Any, place: Any) -> Any:
        i_p, i_f = nl.mgrid[0:32, 0:8]
        blocks = x.reshape((32, 8, 8))
        taken = nisa.tensor_copy_dynamic_src(blocks[i_p, place, i_f])
        put = nl.zeros((32, 8, 8), dtype=nl.float32)
        nisa.tensor_copy_dynamic_dst(dst=put[i_p, place, i_f], src=taken)
        return taken, put.reshape((32, 64))

    taken, put = _tile_of(body, x, np.array([[place]], np.int32))
    wanted = x.reshape(32, 8, 8)[:, place]
    assert np.array_equal(taken, wanted)
    whole = np.zeros((32, 8, 8), np.float32)
    whole[:, place] = wanted
    assert np.array_equal(put, whole.reshape(32, 64))


def test_iota_holds_any_expression() -> None:
    def kernel() -> Any:
        outs = []
        p, f = nl.arange(100)[:, None], nl.arange(30)[None, :]
        for expression in (p * 7 - f * 2 + 3, f + 0 * p, p // 3 + f % 4, p * p, 0 * p + 5 * f):
            tile = nisa.iota(expression, dtype=nl.int32)
            out = nl.ndarray(tile.shape, dtype=nl.int32, buffer=nl.shared_hbm)
            nl.store(out, tile)
            outs.append(out)
        masked = nl.full((100, 30), -1, dtype=nl.int32)
        masked[...] = nisa.iota(p + f, dtype=nl.int32, mask=p >= f)
        out = nl.ndarray((100, 30), dtype=nl.int32, buffer=nl.shared_hbm)
        nl.store(out, masked)
        return (*outs, out)

    got = nki.jit(kernel)()
    p, f = np.arange(100)[:, None], np.arange(30)[None]
    plain = (p * 7 - f * 2 + 3, f + 0 * p, p // 3 + f % 4, p * p, 0 * p + 5 * f)
    for mine, wanted in zip(got, (*plain, np.where(p >= f, p + f, -1)), strict=True):
        assert np.array_equal(mine, wanted)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_stream_shuffle_exchanges_partitions(dtype: Any) -> None:
    x = _random(128, 12, dtype=dtype)
    order = [(5 * i + 3) % 32 for i in range(32)]
    order[9] = 255

    def body(x: Any) -> Any:
        dst = nl.zeros((128, 12), dtype=x.dtype)
        nisa.nc_stream_shuffle(src=x[0:128, 0:12], dst=dst, shuffle_mask=order)
        i_p, i_f = nl.mgrid[0:128, 0:12]
        half = nl.zeros((128, 12), dtype=x.dtype)
        nisa.nc_stream_shuffle(x, half, order, mask=(i_p < 50) & (i_f < 12))
        return dst, half

    wanted = x.reshape(4, 32, 12)[:, [o % 32 for o in order]].copy()
    wanted[:, 9] = 0
    got, half = _tile_of(body, x)
    assert np.array_equal(got, wanted.reshape(128, 12))
    assert np.array_equal(half[:50], wanted.reshape(128, 12)[:50])
    assert not half[50:].any()


def test_top_eight_are_found_and_replaced() -> None:
    x = _random(64, 50)

    def body(x: Any) -> Any:
        top = nisa.max8(src=x)
        places = nisa.nc_find_index8(data=x, vals=top)
        same = nl.ndarray((64, 8), dtype=nl.uint32)
        rest = nisa.nc_match_replace8(data=x, vals=top, imm=-9.0, dst_idx=same)
        rest2 = nisa.nc_match_replace8(data=x[...], vals=top, imm=nl.fp32.min)
        return top, places, same, rest, nisa.max8(src=rest2)

    top, places, same, rest, following = _tile_of(body, x)
    order = np.argsort(-x, axis=1)
    assert np.array_equal(top, np.take_along_axis(x, order[:, :8], 1))
    assert np.array_equal(places, order[:, :8])
    assert np.array_equal(same, order[:, :8])
    wanted = x.copy()
    np.put_along_axis(wanted, order[:, :8], -9, 1)
    assert np.array_equal(rest, wanted)
    assert np.array_equal(following, np.take_along_axis(x, order[:, 8:16], 1))


@pytest.mark.parametrize("initial", [0, 1.5, "tile"])
def test_scan_runs_along_rows(initial: Any) -> None:
    a, b, start = _random(100, 20) / 2, _random(100, 20, seed=1), _random(100, 1, seed=2)

    def body(a: Any, b: Any, start: Any) -> Any:
        first = start if initial == "tile" else initial
        one = nisa.tensor_tensor_scan(a, b, initial=first, op0=np.multiply, op1=np.add)
        other = nisa.tensor_tensor_scan(
            data0=a, data1=b, initial=first, op0=nl.multiply, op1=nl.subtract, reverse1=True
        )
        return one, other

    one, other = _tile_of(body, a, b, start)
    run = np.broadcast_to(start[:, 0] if initial == "tile" else initial, (100,)).astype(np.float64)
    turned = run.copy()
    for column in range(20):
        run = a[:, column] * run + b[:, column]
        turned = b[:, column] - a[:, column] * turned
        np.testing.assert_allclose(one[:, column], run, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(other[:, column], turned, rtol=1e-4, atol=1e-4)


def test_statistics_aggregate() -> None:
    x = _random(128, 1024, dtype=ml_dtypes.bfloat16)

    def body(x: Any) -> Any:
        stats = nl.ndarray((128, 2, 6), dtype=nl.float32)
        for half in nl.affine_range(2):
            stats[:, half, :] = nisa.bn_stats(x[:, nl.ds(half * 512, 512)], dtype=nl.float32)
        return nisa.bn_aggr(stats.reshape((128, 12)))

    wide = x.astype(np.float64)
    wanted = np.stack([wide.mean(1), wide.var(1)], 1)
    np.testing.assert_allclose(_tile_of(body, x), wanted, rtol=1e-4, atol=1e-5)


def test_gather_flattened_takes_places() -> None:
    x = _random(64, 6, 10)
    places = np.random.default_rng(1).integers(0, 60, (64, 17)).astype(np.uint32)

    def body(x: Any, places: Any) -> Any:
        i_p, i_f = nl.mgrid[0:64, 0:17]
        some = nl.full((64, 17), -1.0, dtype=nl.float32)
        some[...] = nl.gather_flattened(data=x, indices=places, mask=(i_f < 5) & (i_p < 40))
        return nl.gather_flattened(x, places), some

    whole, some = _tile_of(body, x, places)
    wanted = np.take_along_axis(x.reshape(64, 60), places.astype(np.int64), 1)
    assert np.array_equal(whole, wanted)
    wanted[40:] = wanted[:, 5:] = -1
    assert np.array_equal(some, wanted)


@pytest.mark.parametrize("op", [np.add, np.maximum, nl.add, np.bitwise_or])
def test_partitions_reduce(op: Any) -> None:
    whole = op is np.bitwise_or
    x = np.random.default_rng(0).integers(0, 99, (70, 12)).astype(np.int32 if whole else np.float32)
    got = _tile_of(lambda x: nisa.tensor_partition_reduce(op, x), x)
    numpy = {np.add: np.sum, nl.add: np.sum, np.maximum: np.max}.get(op, np.bitwise_or.reduce)
    assert np.array_equal(got[0], numpy(x, axis=0))


def test_predicated_copy_takes_numbers_tiles_and_types() -> None:
    x = _random(32, 10)
    condition = (x > 0).astype(np.uint8)

    def body(x: Any, condition: Any) -> Any:
        one = nl.zeros((32, 10), dtype=nl.float32)
        nisa.tensor_copy_predicated(src=x, dst=one, predicate=condition)
        other = nl.zeros((32, 10), dtype=nl.bfloat16)
        nisa.tensor_copy_predicated(src=x, dst=other, predicate=x > 0, reverse_pred=True)
        number = nl.zeros((32, 10), dtype=nl.float32)
        i_p, i_f = nl.mgrid[0:32, 0:10]
        nisa.tensor_copy_predicated(
            src=3.0, dst=number, predicate=condition, mask=(i_p < 7) & (i_f < 10)
        )
        return one, other, number

    one, other, number = _tile_of(body, x, condition)
    assert np.array_equal(one, np.where(x > 0, x, 0))
    assert np.array_equal(other, np.where(x > 0, 0, x).astype(ml_dtypes.bfloat16))
    assert np.array_equal(number, np.where((x > 0) & (np.arange(32)[:, None] < 7), 3, 0))


MATH = [
    ("abs", np.abs), ("exp", np.exp), ("negative", np.negative), ("sign", np.sign),
    ("square", np.square), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos), ("floor", np.floor),
    ("ceil", np.ceil), ("trunc", np.trunc), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ("relu", lambda x: np.maximum(x, 0)), ("silu", lambda x: x / (1 + np.exp(-x))),
    ("softplus", lambda x: np.log1p(np.exp(x))), ("reciprocal", np.reciprocal), ("copy", np.copy),
    ("tan", np.tan), ("arctan", np.arctan),
]  # fmt: skip


@pytest.mark.parametrize(("name", "numpy"), MATH)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_math_takes_types_and_masks(name: str, numpy: Any, dtype: Any) -> None:
    x = np.clip(_random(40, 9), -1.4, 1.4).astype(dtype)
    x[x == 0] = 1

    def body(x: Any) -> Any:
        i_p, i_f = nl.mgrid[0:40, 0:9]
        masked = nl.full((40, 9), 5.0, dtype=nl.float32)
        masked[...] = getattr(nl, name)(x, dtype=nl.float32, mask=(i_p < 33) & (i_f < 4))
        return getattr(nl, name)(x), getattr(nl, name)(x, dtype=nl.float32), masked

    own, wide, masked = _tile_of(body, x)
    wanted = numpy(x.astype(np.float64))
    assert own.dtype == dtype
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(wide, wanted, **tolerance)
    np.testing.assert_allclose(own.astype(np.float64), wanted, rtol=2e-2, atol=1e-2)
    expected = np.full((40, 9), 5.0)
    expected[:33, :4] = wanted[:33, :4]
    np.testing.assert_allclose(masked, expected, **tolerance)


BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod", "fmod", "equal",
    "less", "logical_and",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", ["tile", "number", "column"])
def test_binary_functions_take_types_and_masks(name: str, other: str) -> None:
    x, y = np.abs(_random(40, 9)) + 1, np.abs(_random(40, 9, seed=1)) + 1
    y = y[:, :1] if other == "column" else y

    def body(x: Any, y: Any) -> Any:
        i_p, i_f = nl.mgrid[0:40, 0:9]
        masked = nl.full((40, 9), 5.0, dtype=nl.float32)
        right = 2.5 if other == "number" else y
        function = getattr(nl, name)
        masked[...] = function(x, right, dtype=nl.float32, mask=(i_p < 33) & (i_f < 4))
        return function(x, right, dtype=nl.float32), masked

    got, masked = _tile_of(body, x, y)
    numpy = {"fmod": np.fmod, "mod": np.mod, "less": np.less, "equal": np.equal}
    function = numpy.get(name) or getattr(np, name)
    wanted = np.broadcast_to(function(x, 2.5 if other == "number" else y), (40, 9)).astype(float)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    expected = np.full((40, 9), 5.0)
    expected[:33, :4] = wanted[:33, :4]
    np.testing.assert_allclose(masked, expected, rtol=1e-4, atol=1e-4)


PSUM: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "scalar_tensor_tensor": (
        lambda q: nisa.scalar_tensor_tensor(
            data=q, op0=np.multiply, operand0=2.0, op1=np.add, operand1=q
        ),
        lambda p: 3 * p,
    ),
    "scan": (
        lambda q: nisa.tensor_tensor_scan(q, q, 0, np.multiply, np.add)[:, 0:1],
        lambda p: p[:, :1],
    ),
    "affine_select": (
        lambda q: nisa.affine_select(
            nl.arange(32)[:, None] >= nl.arange(32)[None, :], on_true_tile=q, on_false_value=0.0
        ),
        np.tril,
    ),
    "sum of two": (lambda q: q + q, lambda p: 2 * p),
    "where": (lambda q: nl.where(q > 1, q, -1.0), lambda p: np.where(p > 1, p, -1)),
    "power": (lambda q: nl.power(q, 2.0), np.square),
    "transpose": (nl.transpose, np.transpose),
    "product": (lambda q: nl.matmul(q, q, transpose_x=True), lambda p: p.T @ p),
    "partitions": (
        lambda q: nisa.tensor_partition_reduce(np.add, q), lambda p: p.sum(0, keepdims=True),
    ),
    "largest": (lambda q: nisa.max8(src=q), lambda p: -np.sort(-p, 1)[:, :8]),
    "gather": (
        lambda q: nl.gather_flattened(
            q, nisa.iota(nl.arange(4)[None, :] + 0 * nl.arange(32)[:, None], dtype=nl.uint32)
        ),
        lambda p: p[:, :4],
    ),
    "statistics": (
        lambda q: nisa.bn_aggr(nisa.bn_stats(q)), lambda p: np.stack([p.mean(1), p.var(1)], 1),
    ),
    "broadcast": (
        lambda q: q[0:1, :].broadcast_to((32, 32)), lambda p: np.broadcast_to(p[:1], (32, 32)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PSUM))
def test_instructions_take_tiles_in_psum(name: str) -> None:
    mine, numpy = PSUM[name]
    x = _random(32, 32)
    got = _tile_of(lambda x: mine(nl.matmul(x, x, transpose_x=True)), x)
    wanted = numpy(x.astype(np.float64).T @ x)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
