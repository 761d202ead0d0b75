"""GpSimdE's own instructions against NumPy."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onchip import TYPES, Machine, assert_same, cast
from trn3._trn3.machine import NkiValidationError, VirtualRegister
from trn3.nki import isa as nisa

FP32_MIN = float(np.finfo(np.float32).min)
TARGETS = ["trn1", "trn2", "trn3"]

# A step and a length of each axis, and what else an affine function has.
PATTERNS = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(1, 5)), min_size=1, max_size=4)
WORDS = st.integers(-(2**31), 2**31 - 1)


def affine(
    partitions: int, pattern: Any, offset: int, multiplier: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return [partitions, ...] of exact integers."""
    value = offset + multiplier * np.arange(partitions, dtype=np.int64)
    for step, num in pattern:
        value = value[..., None] + step * np.arange(num, dtype=np.int64)
    return value


def wrapped(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


@given(pattern=PATTERNS, offset=WORDS, multiplier=WORDS)
def test_iota_is_affine_in_wrapping_integers(
    pattern: list[tuple[int, int]], offset: int, multiplier: int
) -> None:
    expected = wrapped(affine(5, pattern, offset, multiplier))
    with Machine() as m:
        dst = m.empty(expected.shape, "int32")
        nisa.iota(dst, [list(axis) for axis in pattern], offset, multiplier)
        np.testing.assert_array_equal(m.get(dst), expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_iota_casts_to_its_type(dtype: str, target: str) -> None:
    values = affine(128, [(-7000003, 3), (1, 40)], 123456789, 31)
    if np.dtype(TYPES[dtype]).kind in "iu":
        limits = np.iinfo(TYPES[dtype])
        expected = values.clip(limits.min, limits.max).astype(TYPES[dtype])
    else:
        expected = cast(values.astype(np.float32), dtype)
    with Machine(target) as m:
        dst = m.empty((128, 120), dtype)
        nisa.iota(dst, pattern=[(-7000003, 3), (1, 40)], channel_multiplier=31, offset=123456789)
        assert_same(m.get(dst), expected)


def test_iota_and_affine_select_take_registers_as_offset() -> None:
    register = VirtualRegister(5)
    with Machine() as m:
        places = m.empty((4, 3), "int32")
        nisa.iota(places, [[2, 3]], register)
        np.testing.assert_array_equal(m.get(places), np.tile([5, 7, 9], (4, 1)))
        register.set(-2)
        kept = m.empty((4, 3), "int32")
        nisa.affine_select(kept, [[2, 3]], 0, places, -1, np.equal, register)
        np.testing.assert_array_equal(m.get(kept), np.tile([-1, 7, -1], (4, 1)))
        with pytest.raises(ValueError, match="read before anything was written"):
            nisa.iota(places, [[2, 3]], offset=VirtualRegister())


def test_iota_refuses_what_is_no_pattern() -> None:
    with Machine() as m:
        dst = m.empty((4, 6), "int32")
        for pattern in ([1, 6], [[1, 2, 3]], [[1.5, 6]], 6, None):
            with pytest.raises(TypeError, match=re.escape(f"iota pattern is {pattern!r}; allowed:")):
                nisa.iota(dst, pattern)  # type: ignore[arg-type]
        with pytest.raises(NkiValidationError, match=r"iota pattern has nums \[5\]; .* 6"):
            nisa.iota(dst, [[1, 5]])
        with pytest.raises(NkiValidationError, match="iota dst must be in"):
            nisa.iota(m.empty((4, 6), "int32", "psum"), [[1, 6]])
        with pytest.raises(TypeError, match="iota offset is 1.5; allowed: an int or a Virtual"):
            nisa.iota(dst, [[1, 6]], offset=1.5)  # type: ignore[arg-type]


COMPARISONS: dict[str, Any] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
}


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize(
    ("source", "result"),
    [("float32", "float32"), ("int32", "int32"), ("float32", "bfloat16"), ("bfloat16", "float32"),
     ("int32", "float16"), ("uint8", "int16"), ("float8_e5m2", "float8_e5m2")],
)  # fmt: skip
def test_affine_select_keeps_where_the_comparison_holds(op: str, source: str, result: str) -> None:
    rng = np.random.default_rng(3)
    data = cast(rng.integers(-(2**31), 2**31, (128, 4, 15)).astype(np.float64), source)
    mask = COMPARISONS[op](affine(128, [(60, 4), (-1, 15)], -64, 1), 0)
    kept = data if source == result else cast(data.astype(np.float32), result)
    expected = np.where(mask, kept, cast(np.float32(3.5).reshape(1), result))
    with Machine() as m:
        tile, dst = m.tile(data, source), m.empty((128, 60), result)
        nisa.affine_select(dst, [[60, 4], [-1, 15]], 1, tile, 3.5, COMPARISONS[op], -64)
        assert_same(m.get(dst), expected)


def test_affine_select_makes_a_causal_mask_in_place() -> None:
    scores = np.random.default_rng(4).standard_normal((128, 512)).astype(ml_dtypes.bfloat16)
    first_query, first_key = 256, 128
    query = first_query + np.arange(128)[:, None]
    key = first_key + np.arange(512)
    expected = np.where(query >= key, scores, ml_dtypes.bfloat16(-np.inf))
    with Machine() as m:
        tile = m.tile(scores, "bfloat16")
        nisa.affine_select(
            dst=tile,
            pattern=[[-1, 512]],
            offset=first_query - first_key,
            channel_multiplier=1,
            on_true_tile=tile,
            on_false_value=FP32_MIN,
            cmp_op="greater_equal",
            name="mask",
        )
        assert_same(m.get(tile), expected)


def test_affine_select_refuses() -> None:
    with Machine() as m:
        tile = m.empty((128, 4))
        with pytest.raises(NkiValidationError, match="affine_select cmp_op is add; allowed: equal"):
            nisa.affine_select(tile, [[1, 4]], 0, tile, 0.0, np.add)
        with pytest.raises(NkiValidationError, match="on_true_tile has 5 elements per partition"):
            nisa.affine_select(tile, [[1, 4]], 0, m.empty((128, 5)), 0.0)
        with pytest.raises(NkiValidationError, match="on_true_tile must be in"):
            nisa.affine_select(tile, [[1, 4]], 0, m.empty((128, 4), buffer="psum"), 0.0)
