"""Random numbers against Xorwow in Python integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from oracle.xorwow import Lanes
from support.core import Machine


@pytest.mark.parametrize(("arch", "generators"), [("trn1", 1), ("trn2", 1), ("trn3", 4)])
@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint16, np.int8], ids=str)
def test_rng_draws_from_each_partitions_generator(arch: str, generators: int, dtype: Any) -> None:
    lanes = Lanes.seed(77, 128, generators)
    with Machine(arch) as m:
        nisa.set_rng_seed(m.sbuf(np.array([[77]], np.uint32)))
        for shape, first in [((128, 5), 0), ((20, 3), 32)]:
            tile = m.tensor((128, shape[1]), np.dtype(dtype))[first : first + shape[0]]
            nisa.rng(tile)
            draws = lanes.uint32(shape[1])[first : first + shape[0]]
            unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
            np.testing.assert_array_equal(m.read(tile, unsigned), draws.astype(unsigned))


@pytest.mark.parametrize(("engine", "words"), [("gpsimd", 6), ("vector", 24)])
def test_states_are_set_drawn_from_and_read_back(engine: str, words: int) -> None:
    rng = np.random.default_rng(91)
    states = rng.integers(1, 2**32, (128, words), dtype=np.uint32)
    with Machine() as m:
        which = nisa.engine[engine]
        nisa.rand_set_state(m.sbuf(states), which)
        tile, after = m.tensor((128, 7), nl.uint32), m.tensor((128, words), nl.uint32)
        nisa.rng(tile, which)
        lanes = Lanes.from_state(states)
        np.testing.assert_array_equal(m.read(tile), lanes.uint32(7))
        nisa.rand_get_state(after, which)
        np.testing.assert_array_equal(m.read(after), lanes.state)


def test_setting_some_partitions_leaves_the_others() -> None:
    with Machine() as m:
        before, after = m.tensor((128, 6), nl.uint32), m.tensor((128, 6), nl.uint32)
        nisa.rand_get_state(before)
        nisa.rand_set_state(m.sbuf(np.full((3, 6), 9, np.uint32)))
        nisa.rand_get_state(after)
        expected = m.read(before).copy()
        expected[:3] = 9
        np.testing.assert_array_equal(m.read(after), expected)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32], ids=str)
def test_rand2_is_uniform_between_its_ends(dtype: Any) -> None:
    ends = np.linspace(-3, 5, 128, dtype=np.float32)[:, None]
    with Machine() as m:
        nisa.set_rng_seed(m.sbuf(np.array([[5]], np.int32)))
        tile = m.tensor((128, 6), np.dtype(dtype))
        nisa.rand2(tile, m.sbuf(ends), 50.0)
        units = (Lanes.seed(5, 128, 4).uint32(6) >> 8).astype(np.float32) * np.float32(2**-24)
        expected = ends + (np.float32(50) - ends) * units
        kind = np.dtype(dtype)
        expected = np.rint(expected).astype(kind) if kind.kind == "i" else expected.astype(kind)
        np.testing.assert_array_equal(m.read(tile), expected)


def test_generators_refuse() -> None:
    def refused(arch: str, words: str, call: Any) -> None:
        with Machine(arch) as m, pytest.raises(nisa.NkiValidationError) as caught:
            call(m)
        assert words in str(caught.value)

    refused(
        "trn3", "an integer of 8, 16 or 32 bits", lambda m: nisa.rng(m.tensor((4, 4), "float32"))
    )
    refused("trn1", "engine gpsimd", lambda m: nisa.rng(m.tensor((4, 4), "int32"), "gpsimd"))
    refused("trn3", "got psum", lambda m: nisa.rng(m.tensor((4, 4), "int32", nl.psum), "gpsimd"))
    refused("trn3", "engine is scalar", lambda m: nisa.rng(m.tensor((4, 4), "int32"), "scalar"))
    refused("trn2", "gen4", lambda m: nisa.rand2(m.tensor((4, 4), "float32"), 0.0, 1.0))
    refused("trn3", "min below max", lambda m: nisa.rand2(m.tensor((4, 4), "float32"), 1.0, 1.0))
    refused("trn3", "[1, 1] of 32 bits", lambda m: nisa.set_rng_seed(m.tensor((2, 1), "int32")))
    refused("trn3", "[P, 6] of uint32", lambda m: nisa.rand_set_state(m.tensor((2, 24), "uint32")))
    refused(
        "trn2",
        "engine vector",
        lambda m: nisa.rand_get_state(m.tensor((2, 24), "uint32"), "vector"),
    )
    with Machine() as m, pytest.raises(ValueError, match="zero"):
        nisa.rand_set_state(m.sbuf(np.zeros((2, 6), np.uint32)))
