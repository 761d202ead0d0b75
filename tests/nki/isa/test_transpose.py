"""nc_transpose on both engines."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.checks import assert_bits
from support.core import Machine

FP8 = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2)


def random_bits(shape: tuple[int, int], dtype: Any) -> Any:
    """Elements of any bits, NaN among them."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(31)
    return rng.integers(0, 256, (shape[0], shape[1] * kind.itemsize), dtype=np.uint8).view(kind)


def unsigned(array: Any) -> Any:
    """View the bits."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("engine", [nisa.engine.unknown, nisa.tensor_engine])
def test_transpose_on_tensor_engine_moves_bits(dtype: Any, engine: Any) -> None:
    data = random_bits((128, 77), dtype)
    with Machine() as m:
        dst = m.tensor((77, 128), data.dtype, nl.psum)
        nisa.nc_transpose(dst, m.sbuf(data), engine)
        np.testing.assert_array_equal(unsigned(m.read(dst)), unsigned(data.T))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, ml_dtypes.bfloat16], ids=str)
def test_transpose_on_vector_engine_moves_bits(dtype: Any) -> None:
    data = random_bits((32, 17), dtype)
    with Machine() as m:
        dst = m.tensor((17, 32), data.dtype)
        nisa.nc_transpose(dst, m.sbuf(data))
        np.testing.assert_array_equal(unsigned(m.read(dst)), unsigned(data.T))


@pytest.mark.parametrize("dtype", FP8, ids=str)
@pytest.mark.parametrize("engine", [nisa.tensor_engine, nisa.vector_engine])
def test_transpose_leaves_float8_in_one_byte(dtype: Any, engine: Any) -> None:
    data = random_bits((32, 27), dtype)
    with Machine() as m:
        for offset, columns in ((0, 32), (3, 40)):
            whole = m.tensor((27, columns), data.dtype, nl.psum)
            nisa.memset(whole, 0.0)
            dst = whole[:, offset : offset + 32]
            nisa.nc_transpose(dst, m.sbuf(data), engine)
            stored = unsigned(m.read(whole))
            np.testing.assert_array_equal(stored[:, offset : offset + 32], unsigned(data).T)
            # Bytes beside it stay.
            assert not stored[:, :offset].any()
            assert not stored[:, offset + 32 :].any()


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_transpose_of_a_whole_float8_tile_and_its_use(dtype: Any) -> None:
    data = (np.arange(128 * 96) % 13).reshape(128, 96).astype(dtype)
    with Machine() as m:
        dst = m.tensor((96, 128), data.dtype, nl.psum)
        nisa.nc_transpose(dst, m.sbuf(data))
        turned = m.tensor((96, 128), nl.float32)
        nisa.tensor_copy(turned, dst)
        np.testing.assert_array_equal(m.read(turned), data.T.astype(np.float32))
        assert m.core.findings() == []


@pytest.mark.parametrize("dtype", FP8[1:], ids=str)
def test_transpose_of_float8_in_containers_as_before(dtype: Any) -> None:
    data = random_bits((128, 20), dtype)
    for arch in ("trn2", "trn3"):
        with Machine(arch) as m:
            wide = m.tensor((20, 128), nl.bfloat16, nl.psum)
            nisa.nc_transpose(wide, m.sbuf(data))
            np.testing.assert_array_equal(m.read(wide, np.uint16), unsigned(data).T.astype("u2"))
            spread = m.tensor((20, 128, 2), data.dtype, nl.psum)
            nisa.nc_transpose(spread[:, :, 0], m.sbuf(data))
            stored = m.read(spread, np.uint8)
            np.testing.assert_array_equal(stored[:, :, 0], unsigned(data).T)
            assert not stored[:, :, 1].any()


def test_transpose_of_float8_on_gen3_wants_containers() -> None:
    with Machine("trn2") as m:
        data = m.sbuf(random_bits((16, 12), ml_dtypes.float8_e5m2))
        dense = m.tensor((12, 16), nl.float8_e5m2, nl.psum)
        with pytest.raises(nisa.NkiValidationError, match="two bytes apart"):
            nisa.nc_transpose(dense, data)


def test_transpose_flattens_free_axes() -> None:
    data = np.arange(4 * 2 * 3, dtype=np.float32).reshape(4, 2, 3)
    with Machine() as m:
        dst = m.tensor((6, 2, 2), nl.float32, nl.psum)
        nisa.nc_transpose(dst, m.sbuf(data))
        np.testing.assert_array_equal(m.read(dst).reshape(6, 4), data.reshape(4, 6).T)


def test_transpose_on_gen2_tensor_engine_spreads_nan_and_infinity() -> None:
    data = np.array([[1, np.inf], [2, 3], [4, 5]], np.float32)
    with Machine("trn1") as m:
        dst = m.tensor((2, 3), nl.float32, nl.psum)
        nisa.nc_transpose(dst, m.sbuf(data))
        expected = np.array([[1, 2, 4], [np.inf, np.nan, np.nan]], np.float32)
        assert_bits(m.read(dst), expected)


def test_transpose_refuses() -> None:
    with Machine() as m:
        wide = m.tensor((33, 8), nl.float32)
        with pytest.raises(nisa.NkiValidationError, match="at most 32 x 32 on the vector engine"):
            nisa.nc_transpose(m.tensor((8, 33), nl.float32), wide)
        long = m.tensor((8, 129), nl.float32)
        with pytest.raises(nisa.NkiValidationError, match="at most 128 x 128 on the tensor engine"):
            nisa.nc_transpose(m.tensor((128, 8), nl.float32, nl.psum), long)
        with pytest.raises(nisa.NkiValidationError, match="that of the data, float32"):
            nisa.nc_transpose(m.tensor((8, 33), nl.bfloat16, nl.psum), wide)
        with pytest.raises(nisa.NkiValidationError, match="engine is gpsimd; tensor or vector"):
            nisa.nc_transpose(m.tensor((8, 33), nl.float32), wide, nisa.gpsimd_engine)
        with pytest.raises(nisa.NkiValidationError, match=r"dst has shape \[8, 32\]"):
            nisa.nc_transpose(m.tensor((8, 32), nl.float32, nl.psum), wide)
        with pytest.raises(nisa.NkiValidationError, match=r"dst must be in \['psum'\], got sbuf"):
            nisa.nc_transpose(m.tensor((8, 33), nl.float32), wide, nisa.tensor_engine)
