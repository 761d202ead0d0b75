"""Random instructions: what they draw, in which order, and what runs without values know of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle.xorwow import Lanes
from support.core import Machine
from support.engines import TYPES, assert_same
from trn3.machine import NkiTensor, NkiValidationError, SkippedValueError
from trn3.nki import isa as nisa


def seeded(m: Machine, seed: int = 11) -> None:
    tile = m.empty((1, 1), "int32")
    nisa.memset(tile, seed)
    nisa.set_rng_seed(tile)


def drawn(m: Machine, count: int = 4) -> np.ndarray[Any, Any]:
    tile = m.empty((128, count), "uint32")
    nisa.rng(tile)
    return m.get(tile)


def ones(m: Machine, shape: tuple[int, ...], dtype: str = "float32") -> NkiTensor:
    tile = m.empty(shape, dtype)
    nisa.memset(tile, 1)
    return tile


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("values", [True, False])
def test_each_draw_takes_every_lane_ahead(target: str, values: bool) -> None:
    lanes = Lanes.seed(11, 128, 4 if target == "trn3" else 1)
    with Machine(target, values=values) as m:
        seeded(m)
        data = ones(m, (32, 3, 5))
        nisa.dropout(data, data, 0.5)
        lanes.uint32(15)
        if target == "trn3":
            nisa.rand2(m.empty((2, 7), "bfloat16"), ones(m, (2, 1)), 3.0)
            lanes.uint32(7)
        np.testing.assert_array_equal(drawn(m), lanes.uint32(4))


def test_engines_draw_from_generators_of_their_own() -> None:
    with Machine() as m:
        first, second = m.empty((128, 4), "uint32"), m.empty((128, 4), "uint32")
        nisa.rng(first, nisa.engine.gpsimd)
        nisa.rng(second, nisa.engine.vector)
        mixed = m.get(second)
        assert (m.get(first) != mixed).any()
    with Machine() as m:
        np.testing.assert_array_equal(drawn(m), mixed)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "uint8"])
def test_rand2_casts_uniform_numbers(dtype: str) -> None:
    units = (Lanes.seed(11, 128, 4).uint32(9)[32:64] >> 8).astype(np.float32) * np.float32(2**-24)
    expected = np.float32(-1.5) + np.float32(200.25 + 1.5) * units
    if dtype == "uint8":
        expected = np.rint(expected).clip(0, 255)
    with Machine() as m:
        seeded(m)
        dst = m.empty((32, 9), dtype, address=(32, 0))
        nisa.rand2(max=200.25, dst=dst, min=-1.5)
        assert_same(m.get(dst), expected.astype(TYPES[dtype]))


def test_rand2_reaches_psum_and_tells_ends_apart_by_partition() -> None:
    low = np.array([[0.0], [2.0]], np.float32)
    with Machine() as m:
        dst = m.empty((2, 600), buffer="psum")
        nisa.rand2(dst, m.tile(low), m.tile(low + 1))
        values = m.get(dst)
        assert ((values >= low) & (values < low + 1)).all()
        assert (abs(values.mean(1) - low[:, 0] - 0.5) < 0.05).all()
        with pytest.raises(NkiValidationError, match="rand2 min is 2 on partition 1, max 1"):
            nisa.rand2(dst, m.tile(low), 1.0)


def test_states_start_at_the_tiles_partition() -> None:
    words = np.arange(1, 32 * 24 + 1, dtype=np.uint32).reshape(32, 24)
    with Machine() as m:
        tile = m.empty((32, 24), "uint32", address=(64, 0))
        m.put(tile, words)
        before, after = m.empty((128, 24), "uint32"), m.empty((128, 24), "uint32")
        nisa.rand_get_state(before, engine=nisa.vector_engine)
        nisa.rand_set_state(tile, engine=nisa.vector_engine)
        nisa.rand_get_state(after, engine=nisa.vector_engine)
        expected = m.get(before).copy()
        expected[64:96] = words
        np.testing.assert_array_equal(m.get(after), expected)


def test_a_stored_state_goes_on_as_it_was() -> None:
    with Machine() as m:
        state = m.empty((128, 6), "uint32")
        draws = [m.empty((128, 5), "uint32") for _ in range(2)]
        nisa.rng(draws[0], nisa.gpsimd_engine)
        nisa.rand_get_state(state)
        for tile in draws:
            nisa.rng(tile, engine=nisa.gpsimd_engine, name="again")
            nisa.rand_set_state(state)
        np.testing.assert_array_equal(m.get(draws[0]), m.get(draws[1]))


def test_an_unknown_seed_makes_draws_unknown_until_the_next() -> None:
    with Machine(values=False) as m:
        # Float tiles are skipped in runs without values.
        nisa.set_rng_seed(ones(m, (1, 1)))
        with pytest.raises(SkippedValueError):
            drawn(m)
        data = ones(m, (128, 2), "int32")
        nisa.dropout(data, data, 0.5)
        with pytest.raises(SkippedValueError):
            m.get(data)
        seeded(m)
        np.testing.assert_array_equal(drawn(m), Lanes.seed(11, 128, 4).uint32(4))


def test_dropout_of_known_integers_is_known_without_values() -> None:
    found = []
    for values in (True, False):
        with Machine(values=values) as m:
            seeded(m)
            data = ones(m, (128, 6), "int16")
            nisa.dropout(data, data, 0.25)
            found.append(m.get(data))
    np.testing.assert_array_equal(found[0], found[1])
    units = (Lanes.seed(11, 128, 4).uint32(6) >> 8).astype(np.float32) * np.float32(2**-24)
    np.testing.assert_array_equal(found[0], (units >= 0.25).astype(np.int16))


def test_seeds_of_equal_bits_are_equal() -> None:
    results = []
    for dtype, value in [("float32", 1.0), ("uint32", 0x3F800000), ("int32", 0x3F800000)]:
        with Machine() as m:
            tile = m.tile(np.array([[value]]), dtype, "psum")
            nisa.set_rng_seed(tile)
            results.append(drawn(m))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("dtype", ["bfloat16", "bool"])
def test_rng_refuses_what_is_no_integer(dtype: str) -> None:
    with Machine() as m, pytest.raises(NkiValidationError, match=f"rng dst has dtype {dtype}"):
        nisa.rng(m.empty((4, 4), dtype))


def test_rng_keeps_the_low_bits() -> None:
    expected = Lanes.seed(11, 128, 4).uint32(3).astype(np.uint8)
    with Machine() as m:
        seeded(m)
        dst = m.empty((128, 3), "uint8", "psum")
        nisa.rng(dst)
        np.testing.assert_array_equal(m.get(dst), expected)
