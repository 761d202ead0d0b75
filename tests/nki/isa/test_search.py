"""max8, nc_find_index8, nc_match_replace8, bn_stats, bn_aggr, nc_stream_shuffle and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import FLOATS, INTEGERS, assert_same, cases, cast, sample, widen
from trn3 import numerics
from trn3.machine import NkiValidationError
from trn3.nki.isa import search as nisa, select, shuffle, statistics as stats


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "float8_e4m3"])
@pytest.mark.parametrize("columns", [8, 9, 100, 16384])
def test_max8(dtype: str, columns: int) -> None:
    x = sample(np.random.default_rng(1), (16, columns), dtype)
    expected = -np.sort(-widen(x), axis=1)[:, :8]
    with Machine() as m:
        dst = m.empty((16, 8))
        nisa.max8(dst, m.tile(x, dtype))
        np.testing.assert_array_equal(m.get(dst), expected)


def occurrences(row: Any, vals: Any, order: Any) -> list[int]:
    """Slot after slot: the first place of the value that no earlier slot has taken."""
    taken: set[int] = set()
    found = [0xFFFFFFFF] * 8
    for slot in order:
        free = [i for i in range(len(row)) if row[i] == vals[slot] and i not in taken]
        if free:
            found[slot] = free[0]
            taken.add(free[0])
    return found


@pytest.mark.parametrize("dtype", ["uint32", "uint16"])
def test_nc_find_index8_takes_occurrences_in_order(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 12, (32, 40)).astype(np.float32)
    vals = rng.integers(0, 14, (32, 8)).astype(np.float32)
    expected = np.array(
        [occurrences(row, v, range(8)) for row, v in zip(x, vals, strict=True)], np.uint32
    )
    with Machine() as m:
        dst = m.empty((32, 8), dtype)
        nisa.nc_find_index8(dst, m.tile(x.reshape(32, 4, 10)), m.tile(vals))
        assert_same(m.get(dst), expected.astype(m.get(dst).dtype))


def test_nc_match_replace8_takes_the_last_value_first() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 12, (32, 40)).astype(np.float32)
    vals = rng.integers(0, 14, (32, 8)).astype(np.float32)
    places = [occurrences(row, v, range(7, -1, -1)) for row, v in zip(x, vals, strict=True)]
    expected = x.copy()
    for row, found in zip(expected, places, strict=True):
        row[[place for place in found if place != 0xFFFFFFFF]] = -3.5
    with Machine() as m:
        dst, idx = m.empty((32, 40), "bfloat16"), m.empty((32, 8), "uint32")
        nisa.nc_match_replace8(dst, m.tile(x), m.tile(vals), -3.5, idx)
        assert_same(m.get(dst), cast(expected, "bfloat16"))
        assert_same(m.get(idx), np.array(places, np.uint32))


def test_the_documented_example_of_search() -> None:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    with Machine() as m:
        tile, idx = m.tile(data), m.empty((1, 8), "uint32")
        nisa.nc_find_index8(idx, tile, m.tile(vals))
        assert m.get(idx).tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]
        nisa.nc_match_replace8(tile, tile, m.tile(vals), 0.0, idx)
        assert m.get(idx).tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
        assert m.get(tile).tolist() == [[1, 2, 0, 4] + [0] * 7]


def test_search_refusals() -> None:
    with Machine() as m:
        small, data, eight = (
            m.tile(np.ones((8, 7))),
            m.tile(np.ones((8, 20))),
            m.tile(np.ones((8, 8))),
        )
        long = m.tile(np.ones((8, 16385)), "uint8")
        for call, arguments, message in cases(
            (nisa.max8, (eight, small), "src.* has 7 elements per partition; 8 to 16384"),
            (nisa.max8, (eight, long), "src.* has 16385 elements per partition; 8 to 16384"),
            (nisa.max8, (small, data), "dst.* has 7 elements.*; 8 elements per partition"),
            (
                nisa.nc_find_index8,
                (eight, data, eight),
                "dst.* has dtype float32; allowed: uint16, uint32",
            ),
            (
                nisa.nc_find_index8,
                (m.empty((8, 8), "uint32"), data, small),
                "vals.* has 7 elements",
            ),
            (
                nisa.nc_match_replace8,
                (data, data, eight, 0.0, m.empty((8, 8), "uint16")),
                "dst_idx.* allowed: uint32",
            ),
        ):
            with pytest.raises(NkiValidationError, match=message):
                call(*arguments)


@pytest.mark.parametrize("columns", [1, 2, 7, 512])
def test_bn_stats_and_bn_aggr(columns: int) -> None:
    x = np.random.default_rng(4).normal(3, 2, (128, columns)).astype(np.float32)
    with Machine() as m:
        out, mean_variance = m.empty((128, 6)), m.empty((128, 2))
        stats.bn_stats(out, m.tile(x, buffer="psum"))
        halves = [x[:, 0::2].astype(np.float64), x[:, 1::2].astype(np.float64)]
        got = m.get(out)
        for half, triple in zip(halves, (got[:, :3], got[:, 3:]), strict=True):
            count = half.shape[1]
            assert (triple[:, 0] == count).all()
            mean = half.mean(axis=1) if count else np.zeros(128)
            np.testing.assert_allclose(triple[:, 1], mean, rtol=2e-5, atol=1e-6)
            np.testing.assert_allclose(
                triple[:, 2], ((half - mean[:, None]) ** 2).sum(axis=1), rtol=1e-4, atol=1e-6
            )
        stats.bn_aggr(mean_variance, out)
        np.testing.assert_allclose(
            m.get(mean_variance)[:, 0], x.astype(np.float64).mean(axis=1), rtol=2e-5
        )
        np.testing.assert_allclose(
            m.get(mean_variance)[:, 1], x.astype(np.float64).var(axis=1), rtol=1e-4, atol=1e-6
        )


def test_statistics_refusals() -> None:
    with Machine() as m:
        six, two = m.empty((128, 6)), m.empty((128, 2))
        for call, arguments, message in cases(
            (
                stats.bn_stats,
                (six, m.tile(np.ones((128, 513)))),
                "data.* has 513 elements per partition; 1 to 512",
            ),
            (
                stats.bn_stats,
                (two, m.tile(np.ones((128, 8)))),
                "dst.* has 2 elements.*; 6 elements",
            ),
            (
                stats.bn_aggr,
                (two, m.tile(np.ones((128, 8)))),
                "data.* has 8 elements per partition; a multiple of 3",
            ),
            (stats.bn_aggr, (six, m.tile(np.ones((128, 9)))), "dst.* has 6 elements.*; 2 elements"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                call(*arguments)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("in_place", [False, True])
def test_nc_stream_shuffle_rotates_each_quadrant(dtype: str, in_place: bool) -> None:
    x = sample(np.random.default_rng(5), (128, 6), dtype)
    mask = [(i - 1) % 32 for i in range(32)]
    with Machine() as m:
        src = m.tile(x, dtype)
        dst = src if in_place else m.empty((128, 3, 2), dtype, "psum")
        shuffle.nc_stream_shuffle(dst, src, mask)
        rows = [32 * q + mask[i] for q in range(4) for i in range(32)]
        assert_same(m.get(dst), x[rows])


def test_nc_stream_shuffle_keeps_and_broadcasts() -> None:
    x = np.arange(64, dtype=np.float32).reshape(32, 2)
    with Machine(strict=True) as m:
        whole = m.empty((32, 2))
        m.put(whole[0:1], x[:1])
        shuffle.nc_stream_shuffle(whole, whole[0:1], [0] * 32)
        assert_same(m.get(whole), np.repeat(x[:1], 32, axis=0))
        dst = m.tile(x, address=(64, 0))
        shuffle.nc_stream_shuffle(dst, whole, [255] * 31 + [5])
        expected = x.copy()
        expected[31] = x[0]
        assert_same(m.get(dst), expected)


def test_nc_stream_shuffle_refusals() -> None:
    with Machine() as m:
        a, s = m.tile(np.ones((128, 8))), list(range(32))
        for arguments, message in cases(
            ((a, a, s[:31]), "shuffle_mask.* has 31 entries; 32"),
            ((a, a, [*s[:31], 32]), "shuffle_mask.* has entry 32; 0 to 31, or 255"),
            ((a, a[0:32], s), "src.* has 32 partitions; partition 32 of dst becomes partition 32"),
            (
                (a, m.tile(np.ones((128, 8)), "bfloat16"), s),
                "src.* has dtype bfloat16, dst has float32",
            ),
            ((a, a[:, 0:4], s), "src.* has 4 elements"),
            ((a[32:64], a[32:48], [0] * 32), None),
            ((a[0:33], a[64:97], [0] * 32), None),
        ):
            if message is None:
                shuffle.nc_stream_shuffle(*arguments)
                continue
            with pytest.raises(NkiValidationError, match=message):
                shuffle.nc_stream_shuffle(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_dropout_follows_the_generator(dtype: str) -> None:
    x = sample(np.random.default_rng(6), (128, 50), dtype)
    generator = numerics.Xorwow.seed(0, 128, 4)
    with Machine() as m:
        for prob in (0.3, np.linspace(0, 1, 128, dtype=np.float32).reshape(128, 1)):
            dst = m.empty((128, 50), dtype)
            operand = m.tile(prob) if isinstance(prob, np.ndarray) else prob
            select.dropout(dst, m.tile(x, dtype), operand)
            draws = (generator.uint32(50) >> 8).astype(np.float64) * 2.0**-24
            assert_same(m.get(dst), np.where(draws < np.float32(prob), 0, x).astype(x.dtype))


def test_dropout_rate_and_refusals() -> None:
    with Machine() as m:
        a, r = m.tile(np.ones((128, 2000))), m.empty((128, 2000))
        select.dropout(r, a, 0.25)
        assert abs((m.get(r) == 0).mean() - 0.25) < 0.01
        with pytest.raises(NkiValidationError, match=r"dst.* has dtype bfloat16, data has float32"):
            select.dropout(m.empty((128, 2000), "bfloat16"), a, 0.5)
        i = m.tile(np.ones((128, 4)), "int32")
        with pytest.raises(
            NkiValidationError, match=r"prob.* has dtype bfloat16; allowed: float32"
        ):
            select.dropout(i, i, m.tile(np.ones((128, 1)), "bfloat16"))
