"""cast with stochastic rounding: given draws, draws from an Xorwow, and what they are spent on."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle.arrays import (
    all_codes,
    assert_same_bits,
    bits,
    edge_values,
    exact_float32,
    layouts,
    strided_float32,
)
from oracle.formats import (
    BFLOAT16,
    CAST_TARGETS,
    E2M1,
    E4M3FN,
    FLOAT32,
    Format,
    Value,
    decode,
    encode,
)
from oracle.rounding import OVERFLOWS, Overflow, cast_codes, neighbours
from oracle.xorwow import Lanes
from support.casts import check_cast, draws_for, dtype_argument
from trn3 import numerics

TARGETS = [target for target in CAST_TARGETS if target is not FLOAT32]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_draw_that_turns_each_fraction(target: Format) -> None:
    """x at lo + k/8 of a step moves from draw 2^32 - k * 2^29 on, and not one draw sooner."""
    last = target.max_finite_code >> target.padding
    for number in (0, 1, 2, last // 3, last // 2, last - 1):
        lo = decode(target, number << target.padding).magnitude
        _, hi = neighbours(lo, target)
        for eighths in range(1, 8):
            point = exact_float32(lo + (hi - lo) * Fraction(eighths, 8))
            turn = (1 << 32) - (eighths << 29)
            x = np.array([point, point, -point, -point], dtype=np.float32)
            draws = np.array([turn - 1, turn, turn - 1, turn], dtype=np.uint32)
            got = bits(
                numerics.cast(x, dtype_argument(target), rounding="stochastic", rng=draws)
            ).tolist()
            expected = [
                encode(target, Value(sign, "finite", end)) for sign in (0, 1) for end in (lo, hi)
            ]
            assert got == expected


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_values_of_the_target_never_move(target: Format) -> None:
    x = edge_values(target)
    exact = numerics.cast(numerics.cast(x, dtype_argument(target), rounding="zero"), np.float32)
    draws = np.full(exact.shape, 0xFFFFFFFF, dtype=np.uint32)
    got = numerics.cast(exact, dtype_argument(target), rounding="stochastic", rng=draws)
    assert_same_bits(got, cast_codes(bits(exact), FLOAT32, target), exact)


def test_draw_zero_is_truncation() -> None:
    """With r = 0, d + r < 2^32 always: every finite value goes towards zero."""
    x = strided_float32(1 << 16)
    x = x[np.isfinite(x) & (np.abs(x) < 448)]
    draws = np.zeros(x.shape, dtype=np.uint32)
    got = numerics.cast(x, ml_dtypes.float8_e4m3fn, rounding="stochastic", rng=draws)
    assert (bits(got) == bits(numerics.cast(x, ml_dtypes.float8_e4m3fn, rounding="zero"))).all()


def test_a_distance_below_the_draws_resolution_never_moves() -> None:
    """d is a floor: less than 2^-32 of a step counts as nothing, whatever the draw."""
    tiny = np.array([2.0**-9 * 2.0**-33, -(2.0**-149), 2.0**-9 * 2.0**-32], dtype=np.float32)
    draws = np.full(3, 0xFFFFFFFF, dtype=np.uint32)
    got = numerics.cast(tiny, ml_dtypes.float8_e4m3fn, rounding="stochastic", rng=draws)
    assert bits(got).tolist() == [0x00, 0x80, 0x01]


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_above_the_largest_value_the_next_step_overflows(overflow: Overflow) -> None:
    x = np.array([464.0, 464.0, 480.0, -464.0, -464.0], dtype=np.float32)
    half = 1 << 31
    draws = np.array([half - 1, half, 0, half - 1, half], dtype=np.uint32)
    got = numerics.cast(
        x, ml_dtypes.float8_e4m3fn, rounding="stochastic", overflow=overflow, rng=draws
    )
    expected = {
        "ieee": [0x7E, 0x7F, 0x7F, 0xFE, 0x7F],
        "saturate": [0x7E, 0x7E, 0x7E, 0xFE, 0xFE],
    }
    assert bits(got).tolist() == expected[overflow]


def test_the_mean_over_all_high_draws_is_the_value() -> None:
    """2^12 equally spaced draws round 1 + 3/4096 of a step up exactly three times."""
    draws = (np.arange(1 << 12, dtype=np.uint64) << np.uint64(20)).astype(np.uint32)
    x = np.full(1 << 12, 1 + 2.0**-7 * 3 / 4096, dtype=np.float32)
    got = numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws)
    assert np.count_nonzero(bits(got) == 0x3F81) == 3


@pytest.mark.parametrize(("name", "draws"), list(layouts(draws_for((6, 8, 10), seed=5))))
def test_draws_in_any_memory(name: str, draws: npt.NDArray[np.uint32]) -> None:
    """The draws' element (i, j, k) belongs to x's, whatever the strides of either."""
    x = strided_float32(480, offset=9).reshape(6, 8, 10)
    expected = cast_codes(
        bits(x), FLOAT32, BFLOAT16, "stochastic", draws=np.ascontiguousarray(draws)
    )
    for source in (x, np.asfortranarray(x), x[::-1].copy()[::-1]):
        got = numerics.cast(source, ml_dtypes.bfloat16, rounding="stochastic", rng=draws)
        assert_same_bits(got, expected, x)


def test_big_endian_draws() -> None:
    x = strided_float32(100)
    draws = draws_for(x.shape)
    got = numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws.astype(">u4"))
    assert (bits(got) == bits(check_cast(x, BFLOAT16, "stochastic", draws=draws))).all()


@pytest.mark.parametrize("generators", [1, 4])
@pytest.mark.parametrize("lanes", [1, 2, 3, 128, 131])
@pytest.mark.parametrize("count", [0, 1, 5, 127, 128, 129, 1000])
def test_xorwow_gives_each_lane_a_run_of_elements(lanes: int, count: int, generators: int) -> None:
    """N elements get uint32(ceil(N / L)).ravel()[:N], and the generator stands after that."""
    rng = numerics.Xorwow.seed(1234, lanes=lanes, generators=generators)
    oracle = Lanes.seed(1234, lanes, generators)
    x = strided_float32(1000, offset=3)[:count]
    for _ in range(3):
        got = numerics.cast(x, ml_dtypes.float8_e5m2, rounding="stochastic", rng=rng)
        draws = oracle.cast_draws(count)
        assert (
            bits(got)
            == bits(numerics.cast(x, ml_dtypes.float8_e5m2, rounding="stochastic", rng=draws))
        ).all()
        assert (rng.state == oracle.state).all()
        assert rng.phase == oracle.phase


def test_xorwow_lane_is_the_partition_of_a_tile() -> None:
    """A [128, F] tile: row p is rounded with the draws of lane p alone."""
    x = strided_float32(128 * 37, offset=1).reshape(128, 37)
    draws = Lanes.seed(77, 128).uint32(37)
    rng = numerics.Xorwow.seed(77)
    for source in (x, np.asfortranarray(x)):
        rng.state = Lanes.seed(77, 128).state
        got = numerics.cast(source, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
        expected = cast_codes(bits(x), FLOAT32, BFLOAT16, "stochastic", draws=draws)
        assert_same_bits(got, expected, x)


def test_consecutive_casts_continue_the_stream() -> None:
    rng = numerics.Xorwow.seed(5, lanes=4, generators=4)
    oracle = Lanes.seed(5, 4, 4)
    for count in (1, 3, 4, 17, 0, 6):
        x = strided_float32(64)[:count]
        got = numerics.cast(x, ml_dtypes.float8_e4m3fn, rounding="stochastic", rng=rng)
        draws = oracle.cast_draws(count)
        expected = cast_codes(bits(x), FLOAT32, E4M3FN, "stochastic", draws=draws)
        assert_same_bits(got, expected, x)


def test_a_large_cast_uses_the_stream_in_order() -> None:
    """Long enough that the work is split: the pieces must take their own places of the stream."""
    count = (1 << 20) + 7
    x = strided_float32(count)
    rng = numerics.Xorwow.seed(8, lanes=128)
    copy = numerics.Xorwow.seed(8, lanes=128)
    draws = copy.uint32(-(-count // 128)).ravel()[:count]
    got = numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    expected = cast_codes(bits(x), FLOAT32, BFLOAT16, "stochastic", draws=draws)
    assert_same_bits(got, expected, x)
    assert rng == copy


def test_every_element_takes_a_draw_even_if_it_cannot_move() -> None:
    x = np.array([1.0, np.nan, np.inf, 0.0, 1.0 + 2.0**-8], dtype=np.float32)
    rng = numerics.Xorwow.seed(3, lanes=1)
    draws = Lanes.seed(3, 1).uint32(5).ravel()
    got = numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    assert_same_bits(got, cast_codes(bits(x), FLOAT32, BFLOAT16, "stochastic", draws=draws), x)
    after = Lanes.seed(3, 1)
    after.uint32(5)
    assert (rng.state == after.state).all()


@pytest.mark.parametrize("lanes", [1, 128])
def test_zero_dimensional_stochastic(lanes: int) -> None:
    x = np.array(1.003, dtype=np.float32)
    draw = int(Lanes.seed(6, lanes).uint32(1)[0, 0])
    rng = numerics.Xorwow.seed(6, lanes=lanes)
    got = numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    same = numerics.cast(
        x, ml_dtypes.bfloat16, rounding="stochastic", rng=np.array(draw, dtype=np.uint32)
    )
    assert got.shape == same.shape == ()
    assert bits(got) == bits(same)


@given(seed=st.integers(0, 2**64 - 1), lanes=st.integers(1, 9), generators=st.sampled_from([1, 4]))
def test_any_seed(seed: int, lanes: int, generators: int) -> None:
    x = all_codes(BFLOAT16)[:: 1 << 9]
    draws = Lanes.seed(seed, lanes, generators).cast_draws(x.size)
    rng = numerics.Xorwow.seed(seed, lanes=lanes, generators=generators)
    got = numerics.cast(x, ml_dtypes.float4_e2m1fn, rounding="stochastic", rng=rng)
    assert_same_bits(got, cast_codes(bits(x), BFLOAT16, E2M1, "stochastic", draws=draws), x)
