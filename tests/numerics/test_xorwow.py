"""Xorwow: known answers, seeding, lanes of one and four generators, jumps, state, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from oracle.xorwow import Lanes
from trn3.numerics import Xorwow

GENERATORS = pytest.mark.parametrize("generators", [1, 4])


def test_known_answer_from_marsaglias_state() -> None:
    """The start values of "Xorshift RNGs" (2003); first draws worked out with its C code's rule."""
    state = np.array([[123456789, 362436069, 521288629, 88675123, 5783321, 6615241]], np.uint32)
    expected = Lanes.from_state(state).uint32(5)
    got = Xorwow(state).uint32(5)
    assert got.dtype == np.uint32
    assert got.tolist() == expected.tolist()
    # One step in plain arithmetic, written out: t from the oldest word, the newest shifted.
    t = 123456789 ^ (123456789 >> 2)
    v = (5783321 ^ (5783321 << 4) ^ t ^ (t << 1)) & 0xFFFFFFFF
    assert got[0, 0] == (v + 6615241 + 362437) & 0xFFFFFFFF


@GENERATORS
@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 16, 17, 128, 200])
def test_seed_and_draws_equal_the_oracle(lanes: int, generators: int) -> None:
    oracle = Lanes.seed(2024, lanes, generators)
    rng = Xorwow.seed(2024, lanes=lanes, generators=generators)
    assert rng.state.shape == (lanes, 6 * generators)
    assert rng.state.dtype == np.uint32
    assert (rng.state == oracle.state).all()
    for count in (1, 2, 3, 0, 5, 16, 33, 100):
        assert (rng.uint32(count) == oracle.uint32(count)).all()
        assert (rng.state == oracle.state).all()
        assert rng.phase == oracle.phase


def test_default_is_128_lanes_of_one_generator() -> None:
    rng = Xorwow.seed(7)
    assert rng == Xorwow.seed(7, lanes=128, generators=1)
    assert rng.state.shape == (128, 6)


@given(seed=st.integers(0, 2**64 - 1), lanes=st.integers(1, 6), generators=st.sampled_from([1, 4]))
def test_any_seed(seed: int, lanes: int, generators: int) -> None:
    rng = Xorwow.seed(seed, lanes=lanes, generators=generators)
    oracle = Lanes.seed(seed, lanes, generators)
    assert (rng.state == oracle.state).all()
    assert (rng.uint32(9) == oracle.uint32(9)).all()


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_seeds_at_the_ends(seed: int) -> None:
    assert (Xorwow.seed(seed, lanes=2).uint32(4) == Lanes.seed(seed, 2).uint32(4)).all()


@GENERATORS
def test_many_small_calls_equal_one_large_call(generators: int) -> None:
    whole = Xorwow.seed(3, lanes=5, generators=generators).uint32(200)
    rng = Xorwow.seed(3, lanes=5, generators=generators)
    parts, taken = [], 0
    for count in (1, 2, 4, 7, 3, 100, 16, 17, 0, 50):
        parts.append(rng.uint32(count))
        taken += count
    assert taken == 200
    assert (np.concatenate(parts, axis=1) == whole).all()


def test_phase_counts_draws_modulo_four() -> None:
    rng = Xorwow.seed(3, lanes=2, generators=4)
    phases = []
    for count in (0, 1, 1, 3, 4, 2):
        rng.uint32(count)
        phases.append(rng.phase)
    assert phases == [0, 1, 2, 1, 1, 3]


def test_phase_of_one_generator_is_always_zero() -> None:
    rng = Xorwow.seed(3, lanes=2)
    for count in (1, 2, 3):
        rng.uint32(count)
        rng.jump(count)
        assert rng.phase == 0


def test_draw_of_four_generators_comes_from_each_in_turn() -> None:
    rng = Xorwow.seed(11, lanes=3, generators=4)
    state = rng.state
    single = [Xorwow(np.ascontiguousarray(state[:, 6 * g : 6 * g + 6])) for g in range(4)]
    draws = rng.uint32(40)
    for generator in range(4):
        assert (draws[:, generator::4] == single[generator].uint32(10)).all()


def test_lanes_are_independent() -> None:
    rng = Xorwow.seed(11, lanes=9)
    lane = Xorwow(rng.state[4:5])
    assert (rng.uint32(50)[4] == lane.uint32(50)[0]).all()


@GENERATORS
@pytest.mark.parametrize("start", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 1000])
def test_jump_equals_drawing(generators: int, start: int, count: int) -> None:
    drawn = Xorwow.seed(5, lanes=3, generators=generators)
    drawn.uint32(start)
    jumped = copy.copy(drawn)
    drawn.uint32(count)
    jumped.jump(count)
    assert jumped == drawn
    assert jumped.phase == drawn.phase
    assert (jumped.state == drawn.state).all()
    assert (jumped.uint32(5) == drawn.uint32(5)).all()


@GENERATORS
@pytest.mark.parametrize("count", [2**20 + 1, 2**32, 2**32 + 3, 10**18 + 2, 2**63, 2**64 - 1])
def test_far_jump_equals_the_matrix_power(generators: int, count: int) -> None:
    rng = Xorwow.seed(6, lanes=2, generators=generators)
    oracle = Lanes.seed(6, 2, generators)
    rng.uint32(1)
    oracle.uint32(1)
    rng.jump(count)
    oracle.jump(count)
    assert (rng.state == oracle.state).all()
    assert rng.phase == oracle.phase


def test_jumps_add() -> None:
    one, two = Xorwow.seed(1, lanes=2, generators=4), Xorwow.seed(1, lanes=2, generators=4)
    one.jump(10**12 + 3)
    one.jump(7)
    two.jump(10**12 + 10)
    assert one == two


@GENERATORS
def test_state_can_be_saved_and_restored(generators: int) -> None:
    rng = Xorwow.seed(4, lanes=3, generators=generators)
    rng.uint32(4)
    saved = rng.state
    first = rng.uint32(9)
    assert (saved != rng.state).any(), "the array handed out is a copy"
    rng.state = saved
    assert rng.phase == 0
    assert (rng.uint32(9) == first).all()


def test_setting_the_state_resets_the_phase() -> None:
    rng = Xorwow.seed(4, lanes=3, generators=4)
    rng.uint32(3)
    rng.state = rng.state
    fresh = Xorwow(rng.state)
    assert rng.phase == 0
    assert rng == fresh
    assert (rng.uint32(9) == fresh.uint32(9)).all()


def test_writing_to_the_arrays_handed_over_changes_nothing() -> None:
    state = Xorwow.seed(4, lanes=3).state
    rng = Xorwow(state)
    state[:] = 1
    rng.state[:] = 2
    assert rng == Xorwow.seed(4, lanes=3)


@pytest.mark.parametrize("order", ["strided", "fortran", "big-endian", "read-only"])
def test_state_of_any_memory_layout(order: str) -> None:
    state = Xorwow.seed(9, lanes=4, generators=4).state
    same = {
        "strided": np.repeat(state, 2, axis=1)[:, ::2],
        "fortran": np.asfortranarray(state),
        "big-endian": state.astype(">u4"),
        "read-only": state.copy(),
    }[order]
    same.setflags(write=order != "read-only")
    assert Xorwow(same) == Xorwow.seed(9, lanes=4, generators=4)


@GENERATORS
@pytest.mark.parametrize("drawn", [0, 1, 6])
def test_copies_and_pickles_continue_alike(generators: int, drawn: int) -> None:
    rng = Xorwow.seed(8, lanes=3, generators=generators)
    rng.uint32(drawn)
    twins = [copy.copy(rng), copy.deepcopy(rng)]
    twins += [
        pickle.loads(pickle.dumps(rng, protocol))
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    ]
    phase = rng.phase
    expected = rng.uint32(7)
    for twin in twins:
        assert twin is not rng
        assert twin != rng, "drawing from the original must not move a copy"
        assert twin.phase == phase
        assert (twin.uint32(7) == expected).all()
        assert twin == rng


def test_equality_is_of_state_and_phase() -> None:
    one = Xorwow.seed(1, lanes=2, generators=4)
    assert one == Xorwow.seed(1, lanes=2, generators=4)
    assert one != Xorwow.seed(2, lanes=2, generators=4)
    assert one != Xorwow.seed(1, lanes=3, generators=4)
    assert Xorwow.seed(1, lanes=4) != Xorwow.seed(1, lanes=1, generators=4)
    moved = Xorwow.seed(1, lanes=2, generators=4)
    moved.uint32(1)
    same_words = Xorwow(moved.state)
    assert (moved.state == same_words.state).all()
    assert moved != same_words
    assert one != "Xorwow"
    assert (one == 3) is False


@GENERATORS
@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1), (2.5, 7.25), (-1e-3, 1e30), (0.1, 0.7)])
def test_uniform_rule(generators: int, bounds: tuple[float, float]) -> None:
    """low + (high - low) * ((r >> 8) * 2^-24), every operation rounded to float32."""
    low, high = bounds
    rng = Xorwow.seed(10, lanes=5, generators=generators)
    draws = Lanes.seed(10, 5, generators).uint32(300)
    got = rng.uniform(300, low=low, high=high)
    assert got.dtype == np.float32
    assert got.shape == (5, 300)
    fraction = (draws >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    width = np.float32(high) - np.float32(low)
    expected = np.float32(low) + width * fraction
    assert (got.view(np.uint32) == expected.view(np.uint32)).all()
    after = Lanes.seed(10, 5, generators)
    after.jump(300)
    assert (rng.state == after.state).all()


def test_uniform_defaults_to_zero_and_one() -> None:
    got = Xorwow.seed(10).uniform(100)
    assert (got == Xorwow.seed(10).uniform(100, low=0, high=1)).all()
    assert ((got >= 0) & (got < 1)).all()
    assert 0.45 < got.mean() < 0.55


@GENERATORS
@pytest.mark.parametrize("count", [0, 1, 5, 64])
def test_out_is_filled_and_returned(generators: int, count: int) -> None:
    out = np.zeros((3, count), dtype=np.uint32)
    assert Xorwow.seed(2, lanes=3, generators=generators).uint32(count, out=out) is out
    assert (out == Lanes.seed(2, 3, generators).uint32(count)).all()


def test_result_is_contiguous() -> None:
    got = Xorwow.seed(2, lanes=3).uint32(5)
    assert got.shape == (3, 5)
    assert got.flags.c_contiguous
    assert Xorwow.seed(2, lanes=3).uint32(0).shape == (3, 0)


def test_bad_out() -> None:
    rng = Xorwow.seed(2, lanes=3)
    frozen = np.zeros((3, 4), dtype=np.uint32)
    frozen.setflags(write=False)
    cases: list[tuple[Any, type[Exception], str]] = [
        (np.zeros((3, 5), dtype=np.uint32), ValueError, "5"),
        (np.zeros((4, 3), dtype=np.uint32), ValueError, "out"),
        (np.zeros(12, dtype=np.uint32), ValueError, "12"),
        (np.zeros((3, 4), dtype=np.int32), TypeError, "int32"),
        (np.zeros((3, 4), dtype=np.uint64), TypeError, "uint64"),
        (np.zeros((4, 3), dtype=np.uint32).T, ValueError, "(?i)contiguous"),
        (frozen, ValueError, "(?i)read-?only|writ"),
        ([0] * 12, TypeError, "list"),
    ]
    before = rng.state
    for out, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            rng.uint32(4, out=out)
        assert "out" in str(caught.value)
    assert (rng.state == before).all(), "a refused call draws nothing"


@pytest.mark.parametrize("generator", range(4))
def test_an_all_zero_xorshift_part_is_refused(generator: int) -> None:
    """It would stay zero for ever; a nonzero counter does not help."""
    state = Xorwow.seed(1, lanes=3, generators=4).state
    state[1, 6 * generator : 6 * generator + 5] = 0
    for make in (
        Xorwow,
        lambda words: setattr(Xorwow.seed(1, lanes=3, generators=4), "state", words),
    ):
        with pytest.raises(ValueError, match=r"(?i)state.*zero|zero.*state|state.*\b0\b"):
            make(state)
    state[1, 6 * generator] = 1
    assert Xorwow(state).uint32(1).shape == (3, 1)


def test_a_zero_counter_is_no_fault() -> None:
    state = Xorwow.seed(1, lanes=2).state
    state[:, 5] = 0
    assert (Xorwow(state).uint32(3) == Lanes.from_state(state).uint32(3)).all()


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (np.ones((2, 5), dtype=np.uint32), ValueError, "5"),
        (np.ones((2, 7), dtype=np.uint32), ValueError, "7"),
        (np.ones((2, 12), dtype=np.uint32), ValueError, "12"),
        (np.ones(6, dtype=np.uint32), ValueError, "6"),
        (np.ones((1, 2, 6), dtype=np.uint32), ValueError, "1, 2, 6"),
        (np.ones((2, 6), dtype=np.int32), TypeError, "int32"),
        (np.ones((2, 6), dtype=np.uint64), TypeError, "uint64"),
        (np.ones((2, 6), dtype=np.float32), TypeError, "float32"),
        ([[1] * 6], TypeError, "list"),
        (None, TypeError, "None"),
    ],
    ids=["5", "7", "12", "1-d", "3-d", "int32", "uint64", "float32", "list", "None"],
)
def test_bad_state(state: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        Xorwow(state)
    assert "state" in str(caught.value)
    rng = Xorwow.seed(1, lanes=2)
    with pytest.raises(error, match="state"):
        rng.state = state
    assert rng == Xorwow.seed(1, lanes=2)


@pytest.mark.parametrize("seed", [-1, 2**64, 2**70, -(2**63)])
def test_seed_out_of_range(seed: int) -> None:
    with pytest.raises(ValueError, match="seed"):
        Xorwow.seed(seed)


@pytest.mark.parametrize("seed", [1.5, "1", None])
def test_seed_of_a_wrong_type(seed: Any) -> None:
    with pytest.raises(TypeError, match="seed"):
        Xorwow.seed(seed)


@pytest.mark.parametrize("generators", [0, 2, 3, 5, -1])
def test_bad_generators(generators: int) -> None:
    with pytest.raises(ValueError, match=rf"generators.*{generators}"):
        Xorwow.seed(1, generators=generators)


@pytest.mark.parametrize("lanes", [-1, -128])
def test_bad_lanes(lanes: int) -> None:
    with pytest.raises(ValueError, match="lanes"):
        Xorwow.seed(1, lanes=lanes)


def test_bad_counts() -> None:
    rng = Xorwow.seed(1, lanes=2)
    before = rng.state
    not_a_count: Any = "3"
    for call in (rng.uint32, rng.uniform, rng.jump):
        with pytest.raises(ValueError, match=r"\bn\b"):
            call(-1)
        with pytest.raises(TypeError, match=r"\bn\b"):
            call(not_a_count)
    assert (rng.state == before).all()
