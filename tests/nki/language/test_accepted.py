"""What the hardware's own front end accepts: a test for each rule that kernels rely on."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from trn3 import nki
from trn3.numerics import quantize_mx

#: The table of behaviours names tests of this file: they hold under every release.
pytestmark = pytest.mark.usefixtures("every_release")


def ramp(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_tensors_are_true() -> None:
    """``if params.bias:`` asks whether there is one, wherever it lies and however small."""

    def body() -> None:
        assert nl.ndarray((128, 4), nl.float32, buffer=nl.sbuf)
        assert nl.ndarray((1, 1), nl.float32, buffer=nl.psum)
        assert nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)

    run(body)


@pytest.mark.filterwarnings("ignore:depends_on without kind:DeprecationWarning")
def test_empty_slices_are_views_and_nothing_is_done_on_them() -> None:
    def body() -> None:
        tile = put(ramp(4, 6))
        empty = tile[:, nl.ds(2, 0)]
        assert empty.shape == (4, 0)
        assert tile[:, 6:6].shape == tile.slice(1, 3, 3).shape == (4, 0)
        before = nisa.tensor_copy(tile[:, 0:2], tile[:, 2:4])
        nothing = nisa.tensor_copy(tile[:, nl.ds(0, 0)], empty)
        nisa.activation(tile[:, nl.ds(0, 0)], nl.exp, empty)
        nisa.tensor_tensor(empty, empty, empty, nl.add)
        nisa.memset(empty, 1.0)
        hbm = nl.ndarray((4, 6), nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(hbm[:, nl.ds(0, 0)], empty)
        after = nisa.tensor_copy(tile[:, 4:6], tile[:, 2:4])
        # It can be named as what others wait for, or wait itself.
        after.depends_on(nothing)
        nothing.depends_on(before)
        assert after.id == before.id + 1
        np.testing.assert_array_equal(get(tile), ramp(4, 6)[:, [2, 3, 2, 3, 2, 3]])

    run(body)
    with pytest.raises(ValueError, match="3:2 on dimension 1 ends before it begins"):
        run(lambda: put(ramp(4, 6))[:, 3:2])


def test_empty_slices_take_no_time_and_are_not_recorded() -> None:
    @nki.jit
    def kernel(x: Any, count: int) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if count >= 0:
            nisa.tensor_copy(tile[:, nl.ds(0, count)], tile[:, nl.ds(4, count)])
        nl.store(out, tile)
        return out

    x = ramp(4, 8)
    (_, none), (result, empty) = (
        nki.profile(kernel, x, count, compile="as-written") for count in (-1, 0)
    )
    np.testing.assert_array_equal(result, x)
    assert empty.latency_us == none.latency_us
    program = nki.record(kernel, x, 0)
    (out,) = program.run({"x": x}).outputs.values()
    np.testing.assert_array_equal(out, x)


def test_views_know_the_tensor_they_were_made_from() -> None:
    def body() -> None:
        tile = put(ramp(4, 6))
        assert tile.base_tensor is tile
        view = tile[1:3, 2:4].expand_dim(1)
        assert view.base_tensor.shape == (4, 6)
        assert view.base_tensor.storage_id == tile.storage_id
        np.testing.assert_array_equal(get(view.base_tensor), ramp(4, 6))
        bits = tile.view(nl.int32)
        assert bits.base_tensor.dtype == nl.float32

    run(body)


def test_reshape_by_keyword() -> None:
    def body() -> None:
        assert put(ramp(4, 6)).reshape(shape=(4, 2, 3)).shape == (4, 2, 3)

    run(body)


def test_broadcast_to_casts() -> None:
    def body() -> None:
        tile = nl.broadcast_to(put(ramp(4, 1)), (4, 3), dtype=nl.bfloat16)
        assert (tile.shape, tile.dtype) == ((4, 3), nl.bfloat16)
        np.testing.assert_array_equal(get(tile), np.repeat(ramp(4, 1), 3, axis=1))

    run(body)


def test_gather_flattened_takes_the_axis_third() -> None:
    def body() -> None:
        data, places = put(ramp(2, 4)), put(np.array([[3, 0], [1, 1]], np.uint32))
        got = nl.gather_flattened(data, places, 0, dtype=nl.bfloat16)
        assert got.dtype == nl.bfloat16
        np.testing.assert_array_equal(get(got), [[3, 0], [5, 5]])
        assert nl.gather_flattened(data, places, nl.bfloat16).dtype == nl.bfloat16
        with pytest.raises(ValueError, match="axis is 2; allowed: 0"):
            nl.gather_flattened(data, places, 2)

    run(body)


def test_while_loop_takes_its_condition_by_either_name() -> None:
    def body() -> None:
        seen: list[int] = []

        def step(register: Any) -> Any:
            seen.append(register.state)
            return nisa.VirtualRegister(register.state - 1)

        nl.while_loop(init=nisa.VirtualRegister(2), body_fun=step)
        nl.while_loop(init_reg=nisa.VirtualRegister(1), body_fun=step)
        assert seen == [2, 1, 1]
        with pytest.raises(TypeError, match="needs init and body_fun, each once"):
            nl.while_loop(nisa.VirtualRegister(1), step, init=nisa.VirtualRegister(1))

    run(body)


def test_vector_select_by_the_documented_name() -> None:
    @nki.jit
    def kernel(x: Any, rows: Any) -> Any:
        out = nl.ndarray((2, 3), x.dtype, buffer=nl.shared_hbm)
        places = nl.load(rows)
        tile = nl.ndarray((2, 3), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.vector_select(0, vector_offset=places))
        nl.store(out, tile)
        return out

    got = kernel(ramp(5, 3), np.array([[4], [1]], np.int32))
    np.testing.assert_array_equal(got, ramp(5, 3)[[4, 1]])


def test_ranks_take_names() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        assert ncc.rank_id(name="rank").state == 0
        group = ncc.ReplicaGroup([[0]])
        hand = ncc.collective_permute_implicit_current_processing_rank_id(0, group, name="hand")
        assert hand.state == 0
        return x

    kernel(ramp(2, 2))


def test_names_of_the_documentation() -> None:
    assert isinstance(nl.float32, nl.DType)
    assert isinstance(nl.tile_size, nl._TileSize)


def test_addresses_by_keyword() -> None:
    """What `functools.partial` gave a keyword in front can be called by keyword alone."""
    from trn3.nki.dialects.legacy import compiler

    def bank(bank_map: dict[int, int], idx: Any, pdim_size: int, fdim_size: int) -> Any:
        return bank_map[idx[0]], 0, 0

    place = compiler.psum.alloc(functools.partial(bank, bank_map={0: 3, 1: 5}))
    given = place.addresses
    assert given is not None
    assert [given((index,), 128, 2048) for index in (0, 1)] == [(3, 0, 0), (5, 0, 0)]


def test_specs_stand_for_arrays_where_time_is_asked() -> None:
    import trn3.nki.typing as nt

    @nki.benchmark(warmup=1, iters=2)
    def kernel(x: Any, places: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    result = kernel(nt.tensor[[4, 6], nl.bfloat16], nt.tensor[[4, 1], nl.int32])
    assert (result.shape, str(result.dtype)) == ((4, 6), "bfloat16")
    np.testing.assert_array_equal(result, kernel(nt.tensor[[4, 6], nl.bfloat16], result))
    assert kernel.benchmark_result.nc_latency.get_latency_percentile(50) > 0


REDUCTIONS: dict[str, Any] = {
    "sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "mean": np.mean, "var": np.var,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "axis", [1, 2, (1, 3), (2, 4), (4, 1), (1, 2), (1, 2, 3, 4), (-1,), (1, 2, 4), -3]
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_over_any_free_axes(name: str, axis: Any, keepdims: bool) -> None:
    shape = (3, 2, 4, 3, 5)
    values = np.random.default_rng(1).integers(1, 4, shape).astype(np.float32)
    wanted = REDUCTIONS[name](values, axis=axis, keepdims=keepdims or name == "var")
    if wanted.ndim == 1:
        wanted = wanted[:, None]

    def body() -> None:
        tile = put(values)
        for source in (tile, nl.copy(tile)):
            got = getattr(nl, name)(source, axis=axis, keepdims=keepdims)
            assert got.shape == wanted.shape
            np.testing.assert_allclose(get(got), wanted, rtol=1e-6)

    run(body)


def test_reductions_over_any_free_axes_are_one_instruction() -> None:
    @nki.jit
    def kernel(x: Any, axis: Any) -> Any:
        out = nl.ndarray((4, 2, 5), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.sum(nl.load(x), axis=axis))
        return out

    x = ramp(4, 2, 3, 5)
    result, profile = nki.profile(kernel, x, 2, compile="as-written")
    np.testing.assert_array_equal(result, x.sum(axis=2))
    assert len(profile.data.instructions) == 3


@pytest.mark.parametrize("axis", [0, (0, 1), (), (1, 1), 5, (1, -4)])
def test_reductions_refuse_what_is_no_free_axis(axis: Any) -> None:
    with pytest.raises(ValueError, match="allowed: free axes, from 1 to 4, each once"):
        run(lambda: nl.sum(put(ramp(2, 2, 2, 2, 2)), axis=axis))


def test_softmax_over_an_axis_in_the_middle() -> None:
    values = np.random.default_rng(2).standard_normal((3, 4, 5)).astype(np.float32)
    powers = np.exp(values - values.max(axis=1, keepdims=True))

    def body() -> None:
        got = get(nl.softmax(put(values), axis=1))
        np.testing.assert_allclose(got, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)

    run(body)


def test_repeated_elements_of_psum_count_once() -> None:
    """A broadcast read touches few bytes, however many elements it yields."""

    def body() -> None:
        psum = put(ramp(128, 64), nl.psum)
        wide = psum.expand_dim(2).broadcast(2, 128)
        assert wide.shape == (128, 64, 128)
        tile = nl.ndarray(wide.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, wide)
        np.testing.assert_array_equal(get(tile), np.repeat(ramp(128, 64)[..., None], 128, axis=2))

    run(body)


@pytest.mark.parametrize("op", [nl.multiply, nl.subtract])
def test_scalars_of_bfloat16_are_widened(op: Any) -> None:
    def body() -> None:
        scalar = put(np.array([[1.5], [-2.25]], ml_dtypes.bfloat16))
        data, other, out = put(ramp(2, 4)), put(ramp(2, 4)), nl.ndarray((2, 4), nl.float32)
        nisa.scalar_tensor_tensor(out, data, op, scalar, nl.add, other)
        both = np.multiply if op is nl.multiply else np.subtract
        wanted = both(ramp(2, 4), np.array([[1.5], [-2.25]], np.float32)) + ramp(2, 4)
        np.testing.assert_array_equal(get(out), wanted)

    run(body)


def test_nothing_is_skipped_at_static_addresses() -> None:
    def body() -> None:
        source, skip = put(ramp(4, 6), nl.private_hbm), nisa.oob_mode.skip
        tile = nl.ndarray((4, 6), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, source, oob_mode=skip)
        np.testing.assert_array_equal(get(tile), ramp(4, 6))
        nisa.dma_compute(tile, [source, source], nl.add, oob_mode=skip)
        np.testing.assert_array_equal(get(tile), 2 * ramp(4, 6))

    run(body)


@pytest.mark.parametrize("rows", [4, 8, 32])
def test_products_of_one_quadrant_take_larger_scale_tiles(rows: int) -> None:
    """The first rows count, and the others need not hold anything."""
    rng = np.random.default_rng(4)
    left, right = (
        quantize_mx(rng.standard_normal((128, n)).astype(np.float32), "float8_e4m3fn", axis=0)
        for n in (16, 8)
    )

    def body() -> None:
        operands = []
        for side in (left, right):
            data, scales = side.to_trn3_layout()
            assert scales.shape == (4, side.shape[1])
            tile = put(data).view(nl.float8_e4m3fn_x4)
            scale = nl.ndarray((rows, side.shape[1]), nl.uint8, buffer=nl.sbuf)
            nisa.dma_copy(scale[0:4], put(scales, nl.private_hbm))
            operands.append((tile, scale))
        (stationary, one), (moving, other) = operands
        out = nl.ndarray((16, 8), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(out, stationary, moving, one, other)
        wanted = left.dequantize().astype(np.float64).T @ right.dequantize().astype(np.float64)
        np.testing.assert_allclose(get(out), wanted, rtol=1e-5, atol=1e-5)

    run(body)


def test_rows_between_scales_are_read_as_zero() -> None:
    """Kernels store a scale tile whole; what lies between the quadrants' scales is a finding."""

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 4), nl.uint8, buffer=nl.shared_hbm)
        data = nl.ndarray((128, 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scales = nl.ndarray((128, 4), nl.uint8, buffer=nl.sbuf)
        nisa.quantize_mx(data, nl.load(x), scales)
        nisa.dma_copy(out, scales)
        return out

    x = np.random.default_rng(5).standard_normal((128, 16)).astype(ml_dtypes.bfloat16)
    got, profile = nki.profile(kernel, x)
    scaled = np.arange(128) % 32 < 4
    assert not got[~scaled].any()
    assert got[scaled].all()
    assert any("uninitialised" in str(finding).lower() for finding in profile.findings)
