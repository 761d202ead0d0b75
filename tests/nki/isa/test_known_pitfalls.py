"""Cases that simulators of these instructions are known to get wrong, one by one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from trn3 import nki
from trn3.nki.values import neuron_dtypes as dt

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn


def tile(shape: Any, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype, buffer=buffer)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_skipping_rows_keeps_wide_integers(dtype: Any) -> None:
    table = (np.arange(32, dtype=np.uint32).reshape(8, 4) * 0x01000001 + 0x7654321).astype(dtype)
    rows = np.array([3, -1, 7, 100], np.int32)

    def body() -> Any:
        dst = put(np.full((4, 4), 0x12345679, dtype))
        index = put(rows[:, None])
        source = put(table, nl.shared_hbm)
        view = source.ap([[4, 4], [1, 4]], vector_offset=index)
        nisa.dma_copy(dst, view, oob_mode=nisa.oob_mode.skip)
        return get(dst)

    wanted = np.full((4, 4), 0x12345679, dtype)
    wanted[[0, 2]] = table[[3, 7]]
    np.testing.assert_array_equal(run(body), wanted)


@pytest.mark.parametrize("name", ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"])
@pytest.mark.parametrize("scatters", [False, True])
def test_skipping_rows_keeps_packed_elements(name: str, scatters: bool) -> None:
    word: Any = np.uint16 if "float4" in name else np.uint32
    rng = np.random.default_rng(0)
    table = rng.integers(0, 1 << 16, (8, 6)).astype(word)
    tokens = rng.integers(0, 1 << 16, (4, 6)).astype(word)
    rows = np.array([[6], [1 << 20], [0], [8]], np.uint32)

    @nki.jit
    def kernel(table: Any, tokens: Any, rows: Any) -> Any:
        index, data = tile((4, 1), nl.uint32), tile((4, 6), tokens.dtype)
        nisa.dma_copy(index, rows)
        nisa.dma_copy(data, tokens)
        view = table.vector_select(0, index)
        if scatters:
            nisa.dma_copy(view, data, oob_mode=nisa.oob_mode.skip)
            return table
        nisa.dma_copy(data, view, oob_mode=nisa.oob_mode.skip)
        out = tile((4, 6), tokens.dtype, nl.shared_hbm)
        nisa.dma_copy(out, data)
        return out

    kind = getattr(dt, name)
    got = kernel(table.copy().view(kind), tokens.view(kind), rows).view(word)
    wanted = table.copy() if scatters else tokens.copy()
    if scatters:
        wanted[[6, 0]] = tokens[[0, 2]]
    else:
        wanted[[0, 2]] = table[[6, 0]]
    np.testing.assert_array_equal(got, wanted)


def test_transposing_gather_leaves_columns_of_rows_outside() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(64, 128)).astype(BF16)
    rows = rng.permutation(64)[:32].astype(np.uint32)
    rows[[3, 17, 31]] = 64, 1 << 30, 0xFFFFFFFF

    def body() -> Any:
        dst = put(np.full((128, 32), 7.0, BF16))
        source = put(table, nl.shared_hbm)
        view = source.ap([[128, 32], [1, 128]], vector_offset=put(rows[:, None]))
        nisa.dma_transpose(dst, view, oob_mode=nisa.oob_mode.skip)
        return get(dst)

    wanted = np.full((128, 32), 7.0, BF16)
    inside = rows < 64
    wanted[:, inside] = table[rows[inside]].T
    np.testing.assert_array_equal(run(body), wanted)


@pytest.mark.parametrize("partitions", [32, 64, 128])
def test_shuffle_leaves_partitions_that_255_names(partitions: int) -> None:
    rng = np.random.default_rng(2)
    x, before = (rng.normal(size=(partitions, 5)).astype(np.float32) for _ in range(2))
    mask = [255 if i % 3 else 31 - i for i in range(32)]

    def body() -> Any:
        dst = put(before)
        nisa.nc_stream_shuffle(dst, put(x), mask)
        return get(dst)

    wanted = before.copy()
    for p in range(partitions):
        if mask[p % 32] != 255:
            wanted[p] = x[p // 32 * 32 + mask[p % 32]]
    np.testing.assert_array_equal(run(body), wanted)


def test_local_gather_fills_part_of_a_tile() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(32, 64)).astype(np.float32)
    index = rng.integers(0, 60, (32, 2)).astype(np.uint16)

    def body() -> Any:
        whole = put(np.full((32, 3, 20), -1.0, np.float32))
        nisa.local_gather(whole[:, 1, 3:15], put(x), put(index), 1, 12)
        return get(whole)

    wanted = np.full((32, 3, 20), -1.0, np.float32)
    for p in range(32):
        first = p // 16 * 16
        order = index[first : first + 16].flatten(order="F")[:12]
        wanted[p, 1, 3:15] = x[p, order]
    np.testing.assert_array_equal(run(body), wanted)


def test_matmul_flattens_free_dimensions_and_takes_no_pair_for_double_rows() -> None:
    rng = np.random.default_rng(4)
    # The first free dimension is 2, of eight bits: a double row only where it is asked for.
    a = rng.integers(-4, 5, (64, 2, 8)).astype(E4M3)
    b = rng.integers(-4, 5, (64, 2, 3, 4)).astype(E4M3)

    def body() -> Any:
        plain, double = tile((16, 24), buffer=nl.psum), tile((8, 3, 4), buffer=nl.psum)
        s, m = put(a), put(b)
        nisa.nc_matmul(plain, s, m)
        nisa.nc_matmul(double, s, m, perf_mode=nisa.matmul_perf_mode.double_row)
        return get(plain), get(double)

    plain, double = run(body)
    x, y = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(plain, x.reshape(64, 16).T @ y.reshape(64, 24))
    np.testing.assert_array_equal(double, np.einsum("kim,kiab->mab", x, y))


def test_matmuls_accumulate_element_by_element_in_windows_that_overlap() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-4, 5, (32, 40)).astype(np.float32)
    w = rng.integers(-4, 5, (3, 32, 16)).astype(np.float32)

    def body() -> Any:
        psum = tile((16, 42), buffer=nl.psum)
        moving = put(x)
        for tap in range(3):
            nisa.nc_matmul(psum[:, tap : tap + 40], put(w[tap]), moving)
        return get(psum)

    wanted = np.zeros((16, 42), np.float32)
    for tap in range(3):
        wanted[:, tap : tap + 40] += w[tap].T @ x
    np.testing.assert_array_equal(run(body), wanted)


def test_accumulating_on_nothing_is_a_finding() -> None:
    def kernel(x: Any) -> Any:
        psum, data = tile((8, 8), buffer=nl.psum), nl.load(x)
        nisa.nc_matmul(psum, data, data, accumulate=True)
        out = tile((8, 8), buffer=nl.shared_hbm)
        nl.store(out, nl.copy(psum))
        return out

    _, profile = nki.profile(kernel, np.ones((8, 8), np.float32))
    assert any("accumulat" in str(finding) for finding in profile.findings), profile.findings


@pytest.mark.parametrize("kind", ["float8_e4m3fn_x4", "float8_e5m2_x4"])
@pytest.mark.parametrize("at", [0, 4, 8, 12])
def test_quantised_operands_take_scales_from_slices(kind: str, at: int) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(128, 32)).astype(BF16)
    y = rng.normal(size=(128, 64)).astype(BF16)

    def product(offset: int) -> Any:
        psum = tile((8, 16), buffer=nl.psum)
        scales = put(np.full((128, 40), 99, np.uint8))
        made = []
        for first, array in ((0, x), (8, y)):
            width = array.shape[1] // 4
            data = tile((128, width), getattr(nl, kind))
            scale = scales[offset:, first : first + width]
            nisa.quantize_mx(data, put(array), scale)
            made.append((data, scale))
        (s, ss), (m, ms) = made
        nisa.nc_matmul_mx(psum, s, m, ss, ms)
        return get(psum), get(scales)

    got, scales = run(lambda: product(at))
    wanted, others = run(lambda: product(0))
    np.testing.assert_array_equal(got, wanted)
    left, right = (a.astype(np.float32).reshape(128, -1, 4) for a in (x, y))
    exact = np.einsum("pmq,pnq->mn", left, right)
    bound = 0.05 if "e4m3" in kind else 0.1
    assert np.linalg.norm(got - exact) < bound * np.linalg.norm(exact)
    rows = np.arange(128) % 32
    written = (rows >= at) & (rows < at + 4)
    assert (scales[~written, :24] == 99).all()
    np.testing.assert_array_equal(scales[written, :24], others[rows < 4, :24])


def test_patterns_take_their_offset_from_a_register() -> None:
    def body() -> Any:
        where = nisa.register_alloc(put(np.array([[-5]], np.int32)))
        counted, chosen = tile((4, 6), nl.int32), tile((4, 6))
        nisa.iota(counted, [[2, 6]], offset=where, channel_multiplier=10)
        nisa.affine_select(
            chosen, [[-1, 6]], 1, put(np.ones((4, 6), np.float32)), -3.5,
            cmp_op=nl.greater_equal, offset=nisa.register_alloc(2),
        )  # fmt: skip
        return get(counted), get(chosen)

    counted, chosen = run(body)
    p, i = np.mgrid[:4, :6]
    np.testing.assert_array_equal(counted, -5 + 10 * p + 2 * i)
    np.testing.assert_array_equal(chosen, np.where(2 + p - i >= 0, 1.0, -3.5))


def test_sums_of_transfers_take_scales_of_one_alone() -> None:
    a, b = np.ones((2, 3), np.float32), np.full((2, 3), 4.0, np.float32)

    def body(scales: Any) -> Any:
        dst = tile((2, 3))
        nisa.dma_compute(dst, [put(a), put(b)], nl.add, scales=scales)
        return get(dst)

    for scales in (None, [1.0, 1.0], (1, 1)):
        np.testing.assert_array_equal(run(lambda scales=scales: body(scales)), a + b)
    for wrong in ([1.0], [1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(nisa.NkiValidationError, match="scales"):
            run(lambda wrong=wrong: body(wrong))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int32])
def test_logical_operators_ask_for_nonzero(dtype: Any) -> None:
    x, y = np.array([[0, 1, 2, 0, 4]], dtype), np.array([[0, 4, 2, 3, 0]], dtype)

    def body(op: Any) -> Any:
        dst = tile((1, 5), nl.uint8)
        nisa.tensor_tensor(dst, put(x), put(y), op)
        return get(dst)

    for op, function in (
        (nl.logical_and, np.logical_and),
        (nl.logical_or, np.logical_or),
        (nl.logical_xor, np.logical_xor),
    ):
        np.testing.assert_array_equal(run(lambda op=op: body(op)), function(x, y))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_floats_to_integers_round_to_even_and_saturate(dtype: Any) -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 1e20, -1e20, 126.5, 254.5, np.inf]], np.float32)

    def body() -> Any:
        dst, moved = tile((1, 10), dtype), tile((1, 10), dtype)
        nisa.tensor_copy(dst, put(x))
        nisa.dma_copy(moved, put(x))
        return get(dst), get(moved)

    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(x.astype(np.float64)), limits.min, limits.max).astype(dtype)
    for got in run(body):
        np.testing.assert_array_equal(got, wanted)


def test_searches_take_places_of_equal_values_in_order() -> None:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    absent = np.array([[9, 8, 7, 1, 1, 2, 8, 9]], np.float32)

    def body() -> Any:
        found, missing = tile((1, 8), nl.uint32), tile((1, 8), nl.uint16)
        nisa.nc_find_index8(found, put(data), put(vals))
        nisa.nc_find_index8(missing, put(data), put(absent))
        replaced, places = tile((1, 11)), tile((1, 8), nl.uint32)
        nisa.nc_match_replace8(replaced, put(data), put(vals), -1.0, dst_idx=places)
        return get(found), get(missing), get(replaced), get(places)

    found, missing, replaced, places = run(body)
    assert found.tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]
    assert missing.tolist() == [[0xFFFF, 4, 0xFFFF, 0, 0xFFFF, 1, 5, 0xFFFF]]
    assert replaced.tolist() == [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]]
    assert places.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]


def test_a_sum_may_lie_in_the_result_it_sums() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)

    def body() -> Any:
        both = tile((2, 7))
        nisa.activation(
            both[:, 0:6], nl.square, put(x), reduce_op=nl.add, reduce_res=both[:, 5:6],
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
        nisa.memset(both[:, 6:7], 0.0)
        return get(both)

    wanted = np.zeros((2, 7), np.float32)
    wanted[:, :6] = x**2
    wanted[:, 5] = (x**2).sum(axis=1)
    np.testing.assert_array_equal(run(body), wanted)


def test_selections_take_operands_of_other_ranks() -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.normal(size=(4, 2, 6)).astype(np.float32) for _ in range(2))
    mask = (rng.random((4, 12)) < 0.5).astype(np.uint8)

    def body() -> Any:
        copied, chosen = put(y.reshape(4, 12)), tile((4, 3, 4))
        nisa.tensor_copy_predicated(copied, put(x), put(mask.reshape(4, 3, 4)))
        nisa.select_reduce(chosen, put(mask), put(x), -2.0)
        return get(copied), get(chosen)

    copied, chosen = run(body)
    flat = x.reshape(4, 12)
    np.testing.assert_array_equal(copied, np.where(mask, flat, y.reshape(4, 12)))
    np.testing.assert_array_equal(chosen.reshape(4, 12), np.where(mask, flat, np.float32(-2)))


@pytest.mark.parametrize("fill", [-3.4028235e38, nl.fp32.min, float(np.finfo(np.float32).min)])
def test_fills_are_plain_floats(fill: float) -> None:
    x = np.arange(8, dtype=np.float32)[None]

    def body() -> Any:
        ranged, affine = tile((1, 8)), tile((1, 8))
        low, high = put(np.array([[2.0]], np.float32)), put(np.array([[5.0]], np.float32))
        nisa.range_select(ranged, put(x), nl.greater_equal, nl.less, low, high, on_false_value=fill)
        nisa.affine_select(affine, [[1, 8]], 0, put(x), fill, cmp_op=nl.less, offset=-3)
        return get(ranged), get(affine)

    ranged, affine = run(body)
    least = np.finfo(np.float32).min
    np.testing.assert_array_equal(ranged, np.where((x >= 2) & (x < 5), x, least))
    np.testing.assert_array_equal(affine, np.where(x < 3, x, least))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_while_loops_end_with_their_register(count: int) -> None:
    def body() -> Any:
        left, total = put(np.array([[count]], np.int32)), put(np.array([[0]], np.int32))
        reg = nisa.register_alloc(left)
        turns = 0
        while reg:
            turns += 1
            nisa.tensor_tensor(total, total, left, nl.add)
            nisa.tensor_scalar(left, left, nl.subtract, 1)
            nisa.register_load(reg, left)
        first = get(total)[0, 0]

        def again(register: Any) -> Any:
            nisa.tensor_scalar(total, total, nl.subtract, 1)
            nisa.register_load(register, total)
            return register

        nl.while_loop(nisa.register_alloc(total), again)
        return turns, first, get(total)[0, 0]

    assert run(body) == (count, count * (count + 1) // 2, 0)


def test_an_index_is_read_when_it_is_used() -> None:
    table = np.arange(24, dtype=np.float32).reshape(6, 4)

    def body() -> Any:
        index, row = put(np.array([[1]], np.int32)), tile((1, 4))
        source = put(table, nl.shared_hbm)
        view = source.ap([[4, 1], [1, 4]], scalar_offset=index)
        nisa.tensor_scalar(index, index, nl.add, 3)
        nisa.dma_copy(row, view)
        return get(row)

    np.testing.assert_array_equal(run(body), table[4:5])


@pytest.mark.parametrize("function", ["gather", "scatter", "add", "turn", "element"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, BF16])
def test_runs_without_values_leave_out_rows_outside_too(function: str, dtype: Any) -> None:
    if function == "turn" and dtype is not BF16:
        return
    rows = np.arange(32, dtype=np.int32)[:, None]
    rows[[3, 30], 0] = -1, 64

    def kernel(table: Any, rows: Any) -> Any:
        index, tokens = tile(rows.shape, nl.int32), tile((32, 64), table.dtype)
        nisa.dma_copy(index, rows)
        nisa.memset(tokens, 1)
        view, skip = table.vector_select(0, index), nisa.oob_mode.skip
        if function == "gather":
            nisa.dma_copy(tokens, view, oob_mode=skip)
        elif function == "scatter":
            nisa.dma_copy(view, tokens, oob_mode=skip)
        elif function == "add":
            nisa.dma_compute(view, [view, tokens], nl.add, oob_mode=skip)
        elif function == "turn":
            nisa.dma_transpose(tile((64, 32), table.dtype), view, oob_mode=skip)
        else:
            far = tile((1, 1), nl.int32)
            nisa.dma_copy(far, rows[3])
            away = table.ap([[64, 1], [1, 64]], scalar_offset=far)
            nisa.dma_copy(tokens[0:1], away, oob_mode=skip)
            nisa.dma_copy(away, tokens[0:1], oob_mode=skip)
        out = tile((32, 64), table.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tokens)
        return out

    table = np.ones((64, 64), dtype)
    times = []
    for values in (True, False):
        _, profile = nki.profile(kernel, table.copy(), rows, values=values)
        times.append(profile.latency_us)
    assert times[0] == times[1]


def test_copying_a_tensor_onto_itself_changes_nothing() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    @nki.jit
    def kernel(x: Any) -> Any:
        nisa.dma_copy(dst=x, src=x)
        return x

    np.testing.assert_array_equal(kernel(x.copy()), x)


def test_a_tensor_stands_for_an_argument_that_is_there() -> None:
    @nki.jit
    def kernel(x: Any, bias: Any = None) -> Any:
        assert x
        assert not bias
        assert bias == None  # noqa: E711
        assert x != None  # noqa: E711
        return x

    kernel(np.ones((2, 2), np.float32))


def test_copies_of_what_holds_tensors_hold_the_same() -> None:
    import copy
    import dataclasses

    @dataclasses.dataclass
    class Inputs(nl.NKIObject):
        x: Any
        scale: float = 1.0

    def body() -> Any:
        own = Inputs(tile((2, 2)))
        found = [copy.copy(own.x), copy.deepcopy(own).x, dataclasses.asdict(own)["x"]]
        return [each is own.x for each in found]

    assert run(body) == [True, True, True]


def test_ranges_take_their_bounds_by_name() -> None:
    for function in (nl.affine_range, nl.sequential_range, nl.static_range):
        assert list(function(start=1, stop=6, step=2)) == [1, 3, 5]
        assert list(function(stop=3)) == [0, 1, 2]
        assert list(function(2, stop=4)) == [2, 3]
        assert list(function(4, step=2)) == [0, 2]
        for wrong in ({"stop": 3, "begin": 1}, {"start": 1, "step": 1}):
            if "begin" in wrong:
                with pytest.raises(TypeError, match="begin"):
                    function(**wrong)
