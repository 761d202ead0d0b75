"""nc_matmul_mx and nc_matmul_sparse against chains over what the operands stand for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from oracle.chain import add, chain, to_float32
from oracle.sparse import PATTERNS, matmul_sparse, pattern_numbers
from support.checks import assert_bits
from support.core import Machine

TYPES = {
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}


def packed(seed: int, shape: tuple[int, int], dtype: str) -> tuple[Any, Any]:
    """Make a tile of words [P, F] and the values [4 P, F] in the order of the contraction."""
    element = TYPES[dtype]
    rng = np.random.default_rng(seed)
    values = np.clip(rng.standard_normal((*shape, 4)) * 2, -6, 6).astype(element)
    codes = values.view(np.uint8).astype(np.uint32)
    bits = 4 if "float4" in dtype else 8
    words = sum(codes[..., lane] << (bits * lane) for lane in range(4))
    words = words.astype(np.uint16 if bits == 4 else np.uint32)
    contraction = values.astype(np.float32).transpose(0, 2, 1).reshape(4 * shape[0], shape[1])
    return words, contraction


def scaled(values: Any, scales: Any) -> Any:
    """Values [4 P, F] by scales [P / 8, F]: 32 consecutive k share one."""
    exponents = np.where(scales == 255, 0, scales.astype(np.int32) - 127)
    factors = np.repeat(np.ldexp(np.float64(1), exponents), 32, axis=0)
    product = (values * factors).astype(np.float32)
    product[np.repeat(scales == 255, 32, axis=0)] = np.nan
    return product


def scale_tile(scales: Any, partitions: int, offset: int = 0) -> Any:
    """[P / 8, F] scales as the quadrant rows of a tile; other rows hold what must not be read."""
    if partitions == 32:
        return scales
    tile = np.full((partitions, scales.shape[1]), 201, np.uint8)
    for row, line in enumerate(scales):
        tile[32 * (row // 4) + offset + row % 4] = line
    return tile


def random_scales(seed: int, partitions: int, columns: int) -> Any:
    """Scales around one."""
    return np.random.default_rng(seed).integers(120, 134, (partitions // 8, columns), np.uint8)


@pytest.mark.parametrize("one", TYPES)
@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("partitions", [32, 64, 128])
def test_matmul_mx_is_one_chain_over_partitions_and_lanes(
    one: str, other: str, partitions: int
) -> None:
    stationary, left = packed(41, (partitions, 6), one)
    moving, right = packed(42, (partitions, 11), other)
    left_scales = random_scales(43, partitions, 6)
    right_scales = random_scales(44, partitions, 11)
    with Machine() as m:
        dst = m.tensor((6, 11), nl.float32, nl.psum)
        nisa.nc_matmul_mx(
            dst,
            m.sbuf(stationary, one),
            m.sbuf(moving, other),
            m.sbuf(scale_tile(left_scales, partitions)),
            m.sbuf(scale_tile(right_scales, partitions), "float8_e8m0fnu"),
        )
        a, b = scaled(left, left_scales), scaled(right, right_scales)
        assert_bits(m.read(dst), chain(a.T.copy(), b))


@pytest.mark.parametrize("offset", [0, 4, 8, 12])
def test_matmul_mx_reads_scales_that_start_further_down_their_quadrants(offset: int) -> None:
    dtype = "float8_e4m3fn_x4"
    stationary, left = packed(45, (128, 4), dtype)
    moving, right = packed(46, (128, 8), dtype)
    left_scales, right_scales = random_scales(47, 128, 4), random_scales(48, 128, 8)
    with Machine() as m:
        tiles = m.sbuf(scale_tile(left_scales, 128, offset)), m.sbuf(scale_tile(right_scales, 128))
        dst = m.tensor((4, 8), nl.bfloat16, nl.psum)
        data = m.sbuf(stationary, dtype), m.sbuf(moving, dtype)
        nisa.nc_matmul_mx(dst, *data, tiles[0][offset:], tiles[1])
        expected = chain(scaled(left, left_scales).T.copy(), scaled(right, right_scales))
        assert_bits(to_float32(m.read(dst)), to_float32(expected.astype(ml_dtypes.bfloat16)))


def test_matmul_mx_leaves_unused_scale_rows_unread() -> None:
    dtype = "float8_e5m2_x4"
    stationary, left = packed(49, (64, 4), dtype)
    scales = random_scales(50, 64, 4)
    with Machine(strict=True) as m:
        tile = m.tensor((64, 4), nl.uint8)
        for quadrant in range(2):
            first = 32 * quadrant
            nisa.dma_copy(tile[first : first + 4], m.hbm(scales[4 * quadrant : 4 * quadrant + 4]))
        data = m.sbuf(stationary, dtype)
        dst = m.tensor((4, 4), nl.float32, nl.psum)
        nisa.nc_matmul_mx(dst, data, data, tile, tile)
        a = scaled(left, scales)
        assert_bits(m.read(dst), chain(a.T.copy(), a))


def test_matmul_mx_scale_255_is_nan_and_sums_accumulate() -> None:
    dtype = "float8_e4m3fn_x4"
    stationary, left = packed(51, (32, 2), dtype)
    scales = random_scales(52, 32, 2)
    scales[1, 1] = 255
    with Machine() as m:
        data, tile = m.sbuf(stationary, dtype), m.sbuf(scales)
        dst = m.tensor((2, 2), nl.float32, nl.psum)
        for _ in range(2):
            nisa.nc_matmul_mx(dst, data, data, tile, tile)
        a = scaled(left, scales)
        once = chain(a.T.copy(), a)
        assert np.isnan(once[1, 1])
        assert_bits(m.read(dst), add(once, once))


@pytest.mark.parametrize(
    ("arch", "partitions", "columns", "dtype", "scale", "words"),
    [
        ("trn2", 32, 4, "float8_e5m2_x4", (4, "uint8"), "available from gen4 on"),
        ("trn3", 40, 4, "float8_e5m2_x4", (5, "uint8"), "a multiple of 32"),
        ("trn3", 32, 3, "float8_e5m2_x4", (4, "uint8"), "an even number"),
        ("trn3", 32, 4, "float8_e5m2", (4, "uint8"), "float8_e4m3fn_x4, float8_e5m2_x4"),
        ("trn3", 32, 4, "float8_e5m2_x4", (4, "int8"), "float8_e8m0fnu or uint8"),
        ("trn3", 32, 4, "float8_e5m2_x4", (3, "uint8"), "at least 4 partitions, one for 8 of the"),
        ("trn3", 64, 4, "float8_e5m2_x4", (8, "uint8"), "64 partitions"),
    ],
)
def test_matmul_mx_refuses(
    arch: str, partitions: int, columns: int, dtype: str, scale: Any, words: str
) -> None:
    with Machine(arch) as m:
        data = m.tensor((partitions, columns), dtype)
        tile = m.tensor((scale[0], columns), scale[1])
        dst = m.tensor((columns, columns), nl.float32, nl.psum)
        with pytest.raises(nisa.NkiValidationError) as caught:
            nisa.nc_matmul_mx(dst, data, data, tile, tile)
        assert words in str(caught.value)


def compressed(seed: int, partitions: int, columns: int, pattern: str, dtype: Any) -> Any:
    """Values and positions [P, M], in any order inside a group, and the dense form."""
    keep, group = pattern_numbers(pattern)
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((partitions, columns)).astype(np.float32).astype(dtype)
    values[rng.random(values.shape) < 0.2] = 0
    positions = np.zeros((partitions, columns), np.int64)
    dense = np.zeros((partitions // keep * group, columns), dtype)
    for first in range(0, partitions, keep):
        for column in range(columns):
            places = rng.permutation(group)[:keep]
            positions[first : first + keep, column] = places
            dense[first // keep * group + places, column] = values[first : first + keep, column]
    return values, positions, dense


def tags_of(positions: Any) -> Any:
    """Positions of four neighbouring columns in a word, the first in the low bits."""
    rows, columns = positions.shape
    padded = np.zeros((rows, -(-columns // 4) * 4), np.int64)
    padded[:, :columns] = positions
    shifted = padded.reshape(rows, -1, 4) << (4 * np.arange(4))
    return shifted.sum(axis=2).astype(np.uint16)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("columns", [8, 7])
def test_matmul_sparse_is_the_product_with_the_dense_form(pattern: str, columns: int) -> None:
    keep, group = pattern_numbers(pattern)
    ratio = group // keep
    values, positions, dense = compressed(61, 128, columns, pattern, ml_dtypes.bfloat16)
    rng = np.random.default_rng(62)
    moving = rng.standard_normal((128 * ratio, 10)).astype(np.float32).astype(ml_dtypes.bfloat16)
    expected = matmul_sparse(moving.T, dense).T
    with Machine() as m:
        tiles = (
            m.sbuf(values),
            m.sbuf(moving.reshape(128, ratio, 10)),
            m.sbuf(tags_of(positions)),
        )
        dst = m.tensor((columns, 10), nl.float32, nl.psum)
        nisa.nc_matmul_sparse(dst, *tiles, pattern)
        assert_bits(m.read(dst), expected)
        nisa.nc_matmul_sparse(dst, *tiles, pattern)
        assert_bits(m.read(dst), add(expected, expected))


def test_matmul_sparse_refuses() -> None:
    def call(arch: str, pattern: str, dtype: Any = "bfloat16", ratio: int = 2) -> str:
        with Machine(arch) as m:
            stationary, tags = m.tensor((16, 8), dtype), m.tensor((16, 2), nl.uint16)
            moving = m.tensor((16, ratio, 4), dtype)
            dst = m.tensor((8, 4), nl.float32, nl.psum)
            with pytest.raises((nisa.NkiValidationError, ValueError)) as caught:
                nisa.nc_matmul_sparse(dst, stationary, moving, tags, pattern)
            return str(caught.value)

    assert "available from gen3 on" in call("trn1", "4:8")
    assert "all seven from gen4 on" in call("trn2", "2:4")
    assert "[P, 4, N] with pattern 4:16" in call("trn3", "4:16")
    assert "float16, bfloat16 or tfloat32" in call("trn3", "4:8", "float8_e5m2")
    assert "4:16, 4:12, 4:8" in call("trn3", "3:8")


def test_matmul_sparse_refuses_positions_outside_their_group() -> None:
    with Machine() as m:
        stationary = m.sbuf(np.ones((4, 4), np.float16))
        moving = m.tensor((4, 2, 4), np.float16)
        tags = m.sbuf(np.full((4, 1), 0x9999, np.uint16))
        dst = m.tensor((4, 4), nl.float32, nl.psum)
        with pytest.raises(ValueError, match="position 9"):
            nisa.nc_matmul_sparse(dst, stationary, moving, tags, "4:8")
