"""Float32 values in every floating-point type: ``NKI_PRECISE_FP=0``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

THIRD = np.full((128, 64), 1 / 3, np.float32)
NARROW = ["bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32"]


@pytest.fixture
def precise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")


def through(dtype: str, move: Any = None) -> np.ndarray[Any, Any]:
    """Return thirds that were stored in a type, and moved from tile to tile."""

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, getattr(nl, dtype))
        nisa.dma_copy(tile, x)
        if move is not None:
            tile = move(tile)
        out = nl.ndarray(tile.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    result: np.ndarray[Any, Any] = kernel(THIRD)
    return result


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_types_keep_float32_values(precise: None, dtype: str) -> None:
    assert (through(dtype) == THIRD).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_types_round_by_default(dtype: str) -> None:
    assert (through(dtype) != THIRD).all()


def test_setting_is_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        out = nl.ndarray(tile.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    results = []
    for setting in ("1", "0", ""):
        monkeypatch.setenv("NKI_PRECISE_FP", setting)
        results.append(float(kernel(THIRD)[0, 0]))
    rounded = float(np.float32(1 / 3).astype(ml_dtypes.bfloat16))
    assert results == [rounded, float(THIRD[0, 0]), rounded]


def test_other_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "yes")
    with pytest.raises(ValueError, match=r"NKI_PRECISE_FP is 'yes'; allowed: 1 .*, 0"):
        through("bfloat16")


def copied(tile: Any) -> Any:
    out = nl.ndarray(tile.shape, tile.dtype)
    nisa.tensor_copy(out, tile)
    return out


def by_dma(tile: Any) -> Any:
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(out, tile)
    back = nl.ndarray(tile.shape, tile.dtype)
    nisa.dma_copy(back, out)
    return back


def turned(tile: Any) -> Any:
    out = nl.ndarray((tile.shape[1], tile.shape[0]), tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(out, tile)
    back = nl.ndarray(out.shape, out.dtype)
    nisa.tensor_copy(back, out)
    return back


def turned_by_dma(tile: Any) -> Any:
    out = nl.ndarray((tile.shape[1], tile.shape[0]), tile.dtype)
    nisa.dma_transpose(out, tile)
    return out


def gathered(tile: Any) -> Any:
    indices = nl.ndarray(tile.shape, nl.uint32)
    nisa.iota(indices, [[1, tile.shape[1]]])
    out = nl.ndarray(tile.shape, tile.dtype)
    nisa.nc_n_gather(out, tile, indices)
    return out


def predicated(tile: Any) -> Any:
    mask = nl.ndarray(tile.shape, nl.uint8)
    nisa.memset(mask, 1)
    out = nl.ndarray(tile.shape, tile.dtype)
    nisa.memset(out, 0.0)
    nisa.tensor_copy_predicated(out, tile, mask)
    return out


def shuffled(tile: Any) -> Any:
    out = nl.ndarray((32, tile.shape[1]), tile.dtype)
    nisa.nc_stream_shuffle(out, tile[0:32], list(range(32)))
    return out


MOVES = [copied, by_dma, turned, turned_by_dma, gathered, predicated, shuffled]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_moves_keep_float32_values(precise: None, dtype: str, move: Any) -> None:
    result = through(dtype, move)
    assert (result == THIRD[0, 0]).all()


def test_matmul_takes_float32_values(precise: None) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 128, 128)).astype(np.float32)

    @nki.jit
    def kernel(a: Any, b: Any) -> Any:
        tiles = [nl.ndarray(a.shape, nl.bfloat16) for _ in range(2)]
        for tile, source in zip(tiles, (a, b), strict=True):
            nisa.dma_copy(tile, source)
        psum = nl.ndarray(a.shape, nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum, *tiles)
        out = nl.ndarray(a.shape, nl.float32)
        nisa.tensor_copy(out, psum)
        result = nl.ndarray(a.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(result, out)
        return result

    exact = a.astype(np.float64).T @ b.astype(np.float64)
    assert np.abs(kernel(a, b) - exact).max() < 1e-4


def test_sizes_and_types_stay_the_declared_ones(precise: None) -> None:
    seen = []

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        seen.append((str(tile.dtype), tile.dtype.itemsize))
        # All of the 240 KiB of a partition, which float32 would not fit.
        nl.ndarray((128, 120 * 1024 - 64), nl.bfloat16)
        nisa.dma_copy(tile, x)
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    result = kernel(THIRD)
    assert seen == [("bfloat16", 2)]
    assert result.dtype == ml_dtypes.bfloat16
    assert (result == THIRD.astype(ml_dtypes.bfloat16)).all()


def test_views_of_the_bits_see_the_rounded_value(precise: None) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        out = nl.ndarray(x.shape, nl.uint16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile.view(nl.uint16))
        return out

    assert (kernel(THIRD) == THIRD.astype(ml_dtypes.bfloat16).view(np.uint16)).all()


def test_writing_bits_ends_the_value_beside_them(precise: None) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        nisa.memset(tile.view(nl.uint16)[:, 0:1], 0x3F80)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    result = kernel(THIRD)
    assert (result[:, 0] == 1.0).all()
    assert (result[:, 1:] == THIRD[:, 1:]).all()


def test_narrow_types_do_not_overflow(precise: None) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float16)
        nisa.dma_copy(tile, x)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert kernel(np.array([[1e6]], np.float32)).tolist() == [[1e6]]
    assert nki.last_findings() == []


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4),
    st.sampled_from(["bfloat16", "float16", "float8_e4m3"]),
)
def test_chain_of_operations_equals_float32(values: list[float], dtype: str) -> None:
    x = np.array([values], np.float32)

    def chain(element: Any) -> Any:
        @nki.jit
        def kernel(x: Any) -> Any:
            tiles = [nl.ndarray(x.shape, element) for _ in range(3)]
            nisa.dma_copy(tiles[0], x)
            nisa.tensor_scalar(tiles[1], tiles[0], nl.multiply, 1.1, op1=nl.add, operand1=0.3)
            nisa.tensor_tensor(tiles[2], tiles[1], tiles[0], op=nl.subtract)
            out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(out, tiles[2])
            return out

        return kernel(x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NKI_PRECISE_FP", "0")
        precise = chain(getattr(nl, dtype))
    assert (precise == chain(nl.float32)).all()


@pytest.mark.parametrize("lnc", [1, 2])
def test_cores_exchange_float32_values(precise: None, lnc: int) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        if lnc == 2:
            other = nl.ndarray(x.shape, nl.bfloat16)
            peer = 1 - nl.program_id(0)
            nisa.sendrecv(tile, other, peer, peer, 0)
            tile = other
        out = nl.ndarray((2, *x.shape), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out[nl.program_id(0)], tile)
        return out

    assert (kernel[lnc](THIRD)[0] == THIRD).all()
