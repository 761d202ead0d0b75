"""Casts on the NumPy side."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.nki.language as nl
from trn3.nki.values import neuron_dtypes as dt

PACKED: list[tuple[Any, Any, Any]] = [
    (dt.float8_e4m3fn_x4, ml_dtypes.float8_e4m3fn, np.uint32),
    (dt.float8_e5m2_x4, ml_dtypes.float8_e5m2, np.uint32),
    (dt.float4_e2m1fn_x4, ml_dtypes.float4_e2m1fn, np.uint16),
]


@pytest.mark.parametrize(("packed", "element", "word"), PACKED)
@hypothesis.given(data=st.data())
def test_static_cast_packs_and_unpacks_every_element(
    packed: Any, element: Any, word: Any, data: st.DataObject
) -> None:
    bits = 8 if word is np.uint32 else 4
    shape = (data.draw(st.integers(1, 3)), 4 * data.draw(st.integers(1, 3)))
    codes: NDArray[np.uint8] = data.draw(
        hnp.arrays(np.uint8, shape, elements=st.integers(0, (1 << bits) - 1))
    )
    values = codes.view(element).astype(np.float32)
    hypothesis.assume(np.isfinite(values).all())
    result = dt.static_cast(values, packed)
    assert result.dtype == packed
    words = result.view(word)
    expected = np.zeros(words.shape, word)
    for lane in range(4):
        expected |= codes[:, lane::4].astype(word) << np.asarray(bits * lane, word)
    np.testing.assert_array_equal(words, expected)
    np.testing.assert_array_equal(dt.static_cast(result, np.float32), values)


def test_static_cast_takes_every_spelling() -> None:
    x = np.array([1.0, 2.5, -3.0], np.float32)
    for spelling in (nl.bfloat16, "bfloat16", dt.bfloat16, np.dtype(dt.bfloat16)):
        assert dt.static_cast(x, spelling).dtype == ml_dtypes.bfloat16
    assert dt.static_cast(x.astype(np.float64), nl.float8_e4m3).dtype == ml_dtypes.float8_e4m3
    assert dt.static_cast(x.astype(dt.bfloat16), np.float32).tolist() == x.tolist()


@pytest.mark.parametrize("source", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("target", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_static_cast_to_integers_rounds_to_even_and_saturates(source: Any, target: Any) -> None:
    x = np.array([0.5, 1.5, 2.5, -1.5, -2.5, 3.75, -0.25, 1e20, -1e20, np.inf, np.nan], source)
    limits = np.iinfo(target)
    low, high = limits.min, limits.max
    wanted = [0, 2, 2, max(-2, low), max(-2, low), 4, 0, high, low, high, 0]
    result = dt.static_cast(x, target)
    assert result.dtype == target
    assert result.tolist() == wanted


def test_static_cast_overflows_in_silence() -> None:
    big = np.array([1e30, -1e30], np.float32)
    assert dt.static_cast(big, np.float16).tolist() == [np.inf, -np.inf]
    assert dt.static_cast(np.array([1e300]), np.float32).tolist() == [np.inf]


def test_static_cast_refuses_a_last_axis_that_does_not_pack() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(2, 6\).*multiple of 4"):
        dt.static_cast(np.zeros((2, 6), np.float32), dt.float8_e4m3fn_x4)


def test_type_queries() -> None:
    assert [dt.sizeinbytes(name) for name in ("bool", "bfloat16", "float32")] == [1, 2, 4]
    assert dt.sizeinbytes(np.float64) == 8
    assert all(
        dt.is_float_type(t) for t in (dt.bfloat16, dt.float8_e5m2_x4, np.float64, "float8e4")
    )
    assert not any(dt.is_float_type(t) for t in (np.int32, bool, np.int64))
    assert float(dt.finfo(dt.bfloat16).max) == 2.0**128 - 2.0**120
    assert float(dt.finfo(dt.float4_e2m1fn_x4).max) == 6.0
