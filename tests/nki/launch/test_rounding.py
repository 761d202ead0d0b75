"""Stochastic rounding of a launch: whose draws, which writes, and who switches it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

import trn3
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from oracle.formats import BFLOAT16, FLOAT32
from oracle.rounding import cast_codes
from oracle.xorwow import Lanes
from support.core import Machine
from trn3 import nki
from trn3.numerics import Xorwow, cast, matmul

SWITCH, SEED = "NEURON_RT_STOCHASTIC_ROUNDING_EN", "NEURON_RT_STOCHASTIC_ROUNDING_SEED"
#: The engines in the order of their lanes in the seed's stream.
ENGINES = ("vector", "scalar", "gpsimd", "tensor")
NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2")
Array = NDArray[Any]


def draws(seed: int, engine: str = "vector", place: int = 0) -> Xorwow:
    """Return an engine's own generator, at the start of a launch."""
    first = 128 * (4 * place + ENGINES.index(engine))
    return Xorwow(Xorwow.seed(seed, lanes=first + 128).state[first:])


def assert_equal(got: Array, wanted: Array) -> None:
    """Compare element types and bits."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


def narrow(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def numbers(seed: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def copies(dtype: str, engine: Any = nisa.vector_engine, first: int = 0) -> Callable[..., Any]:
    """Return a kernel that narrows a tile on an engine, on partitions from `first` on."""

    def kernel(x: Any) -> Any:
        rows = x.shape[0]
        place = nl.ndarray((first + rows, x.shape[1]), nl.float32)[first : first + rows]
        half = nl.ndarray((first + rows, x.shape[1]), narrow(dtype))[first : first + rows]
        nisa.dma_copy(place, x)
        nisa.tensor_copy(half, place, engine=engine)
        out = nl.ndarray(x.shape, narrow(dtype), buffer=nl.shared_hbm)
        nisa.dma_copy(out, half)
        return out

    return kernel


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.delenv(SEED, raising=False)


@pytest.mark.parametrize("engine", ENGINES[:3])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_copy_rounds_by_the_draws_of_its_engine(dtype: str, engine: str) -> None:
    x = numbers(1, (128, 37))
    own = nisa.engine[engine]
    got = nki.simulate(copies(dtype, own), stochastic_rounding=True, seed=9)(x)
    wanted = cast(x, narrow(dtype), rounding="stochastic", rng=draws(9, engine))
    assert_equal(got, wanted)
    assert not np.array_equal(got, x.astype(narrow(dtype)))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    quadrant=st.integers(0, 3),
    rows=st.integers(1, 32),
    columns=st.integers(1, 40),
    dtype=st.sampled_from(NARROW),
)
def test_lanes_are_partitions_and_values_neighbours(
    seed: int, quadrant: int, rows: int, columns: int, dtype: str
) -> None:
    first = 32 * quadrant
    x = numbers(seed % 1000, (rows, columns)) * np.float32(2.0 ** (seed % 7 - 3))
    got = nki.simulate(copies(dtype, first=first), stochastic_rounding=True, seed=seed)(x)
    lanes = draws(seed).uint32(columns)[first : first + rows]
    assert_equal(got, cast(x, narrow(dtype), rounding="stochastic", rng=lanes))
    down, near = (cast(x, narrow(dtype), rounding=how) for how in ("zero", "nearest"))
    low = np.abs(down.astype(np.float64))
    away = cast(x, narrow(dtype), rounding="stochastic", rng=np.full(x.shape, 2**32 - 1, np.uint32))
    found = np.abs(got.astype(np.float64))
    assert ((found == low) | (found == np.abs(away.astype(np.float64)))).all()
    assert ((near == down) | (near == away)).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_the_mean_is_unbiased(dtype: str) -> None:
    step = float(ml_dtypes.finfo(narrow(dtype)).eps)
    for part in (0.125, 0.5, 0.8125):
        x = np.full((128, 1024), 1 + part * step, np.float32)
        got = nki.simulate(copies(dtype), stochastic_rounding=True, seed=3)(x).astype(np.float64)
        assert set(np.unique(got)) == {1.0, 1 + step}
        # Five standard deviations of the mean of 2^17 draws.
        bound = 5 * step * np.sqrt(part * (1 - part) / x.size)
        assert abs(got.mean() - float(x[0, 0])) < bound


def test_a_sum_that_nearest_would_lose_grows() -> None:
    def kernel(start: Any) -> Any:
        total = nl.ndarray((128, 1), nl.float16)
        nisa.dma_copy(total, start)
        for _ in range(2048):
            nisa.tensor_scalar(total, total, nl.add, 0.5)
        out = nl.ndarray((128, 1), nl.float16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    start = np.full((128, 1), 1024, np.float16)
    assert (nki.simulate(kernel)(start) == 1024).all()
    ends = nki.simulate(kernel, stochastic_rounding=True)(start).astype(np.float64)
    # 2048 coins a partition: a deviation of 22.6 each, of 2 in the mean of 128.
    assert abs(ends.mean() - 2048) < 10
    assert 10 < ends.std() < 40


@pytest.mark.parametrize(
    ("issue", "engine"),
    [
        (lambda y, x: nisa.activation(y, nl.copy, x), "scalar"),
        (lambda y, x: nisa.tensor_tensor(y, x, x, nl.maximum), "vector"),
        (lambda y, x: nisa.tensor_tensor(y, x, x, nl.add, engine=nisa.gpsimd_engine), "gpsimd"),
        (nisa.exponential, "vector"),
    ],
)
def test_every_engine_draws_from_a_generator_of_its_own(
    issue: Callable[..., Any], engine: str
) -> None:
    x = numbers(4, (128, 16))
    for place in (0, 3):
        with Machine() as m:
            wide, half = m.empty((128, 16)), m.empty((128, 16), "bfloat16")
            source = m.sbuf(x)
            issue(wide, source)
            m.core.set_stochastic_rounding(5, place)
            issue(half, source)
            rng = draws(5, engine, place)
            wanted = cast(m.get(wide), ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
            assert_equal(m.get(half), wanted)


def test_psum_in_bfloat16_rounds_each_product_once() -> None:
    stationary, moving = numbers(6, (64, 24)), numbers(7, (64, 40))
    left, right = (x.astype(ml_dtypes.bfloat16) for x in (stationary, moving))
    with Machine() as m:
        m.core.set_stochastic_rounding(8)
        psum = m.tensor((24, 40), nl.bfloat16, nl.psum)
        tiles = m.sbuf(left), m.sbuf(right)
        rng, held = draws(8, "tensor"), np.zeros((24, 40), np.float32)
        for _ in range(3):
            nisa.nc_matmul(psum, *tiles)
            held = (matmul(left.T, right) + held).astype(np.float32)
            lanes = rng.uint32(40)[:24]
            held = cast(held, ml_dtypes.bfloat16, rounding="stochastic", rng=lanes)
            held = held.astype(np.float32)
        assert_equal(m.read(psum).astype(np.float32), held)


def test_transfers_moves_integers_and_wide_types_draw_nothing() -> None:
    x = numbers(9, (128, 33))
    near = x.astype(ml_dtypes.bfloat16)

    def kernel(x: Any) -> Any:
        outs = [nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm) for dtype in (
            nl.bfloat16, nl.bfloat16, nl.int32, nl.float32, nl.bfloat16)]  # fmt: skip
        tile, moved = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.bfloat16)
        whole, wide = nl.ndarray(x.shape, nl.int32), nl.ndarray(x.shape, nl.float32)
        half = nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(outs[0], tile)  # DMA casts
        nisa.dma_copy(moved, tile)
        again = nl.ndarray(x.shape, nl.bfloat16)
        nisa.tensor_copy(again, moved)  # bits are moved
        nisa.tensor_copy(whole, tile)
        nisa.tensor_scalar(wide, tile, nl.multiply, 1.0)
        nisa.tensor_copy(half, tile)  # the first draws
        for out, found in zip(outs[1:], (again, whole, wide, half), strict=True):
            nisa.dma_copy(out, found)
        return tuple(outs)

    got = nki.simulate(kernel, stochastic_rounding=True, seed=2)(x)
    assert_equal(got[0], near)
    assert_equal(got[1], near)
    np.testing.assert_array_equal(got[2], np.rint(x).astype(np.int32))
    assert_equal(got[3], x)
    assert_equal(got[4], cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws(2)))


def test_random_numbers_of_the_kernel_stay_the_same() -> None:
    def kernel(x: Any) -> Any:
        bits = nl.ndarray((128, 8), nl.uint32)
        ones, kept = nl.ndarray((128, 8), nl.float32), nl.ndarray((128, 8), nl.float32)
        tile, half = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        nisa.tensor_copy(half, tile)
        nisa.rng(bits)
        nisa.tensor_copy(half, tile)
        nisa.memset(ones, 1.0)
        nisa.dropout(kept, ones, 0.5)
        state = nl.ndarray((128, 24), nl.uint32)
        nisa.rand_get_state(state, engine=nisa.vector_engine)
        found = nl.rand((128, 4), nl.float32), kept, bits, state, half
        outs = [nl.ndarray(each.shape, each.dtype, buffer=nl.shared_hbm) for each in found]
        for out, each in zip(outs, found, strict=True):
            nisa.dma_copy(out, each)
        return tuple(outs)

    x = numbers(10, (128, 21))
    plain = nki.simulate(kernel)(x)
    rounded = nki.simulate(kernel, stochastic_rounding=True, seed=4)(x)
    for one, other in zip(plain[:4], rounded[:4], strict=True):
        assert_equal(one, other)
    assert not np.array_equal(plain[4], rounded[4])


def test_times_stay_the_same_and_runs_repeat() -> None:
    x = numbers(11, (128, 300))
    kernel = copies("bfloat16")
    plain, before = nki.profile(kernel, x)
    rounded, after = nki.profile(kernel, x, stochastic_rounding=True, seed=6)
    assert before.latency_us == after.latency_us
    assert_equal(plain, x.astype(ml_dtypes.bfloat16))
    assert_equal(rounded, cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws(6)))
    other = nki.simulate(kernel, stochastic_rounding=True, seed=7)(x)
    assert not np.array_equal(rounded, other)


@pytest.fixture
def _threads() -> Iterator[None]:
    threads = trn3.get_num_threads()
    yield
    trn3.set_num_threads(threads)


@pytest.mark.usefixtures("_threads")
def test_bits_are_the_same_at_every_thread_count() -> None:
    x = numbers(12, (128, 4096))
    found = []
    for threads in (1, 2, 5):
        trn3.set_num_threads(threads)
        found.append(nki.simulate(copies("float16"), stochastic_rounding=True, seed=1)(x))
    assert_equal(found[0], found[1])
    assert_equal(found[0], found[2])


def test_cores_and_ranks_draw_differently() -> None:
    x = numbers(13, (128, 19))

    @nki.jit
    def kernel(x: Any) -> Any:
        tile, half = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.bfloat16)
        nisa.dma_copy(tile, x)
        nisa.tensor_copy(half, tile)
        out = nl.ndarray((2, *x.shape), nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(out[nl.program_id(0)], half)
        return out

    rounding = nki.simulate(kernel[2], stochastic_rounding=True, seed=5)
    places = [cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws(5, "vector", place))
              for place in range(4)]  # fmt: skip
    assert_equal(rounding(x), np.stack(places[:2]))
    ranks = nki.simulate_ranks(rounding, [(x,), (x,)])
    assert_equal(np.concatenate(ranks), np.stack(places))


def test_the_environment_switches_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(14, (128, 12))
    kernel = nki.jit(copies("bfloat16"))
    near = kernel(x)
    monkeypatch.setenv(SEED, "77")
    assert_equal(kernel(x), near)
    monkeypatch.setenv(SWITCH, "1")
    assert_equal(kernel(x), cast(x, near.dtype, rounding="stochastic", rng=draws(77)))
    own = nki.simulate(kernel, seed=3)
    assert_equal(own(x), cast(x, near.dtype, rounding="stochastic", rng=draws(3)))
    assert_equal(nki.simulate(kernel, stochastic_rounding=False)(x), near)
    monkeypatch.delenv(SEED)
    assert_equal(kernel(x), cast(x, near.dtype, rounding="stochastic", rng=draws(0)))
    monkeypatch.setenv(SWITCH, "0")
    assert_equal(kernel(x), near)
    with pytest.raises(ValueError, match=f"seed is 3 without stochastic_rounding=True or {SWITCH}"):
        own(x)


@pytest.mark.parametrize(
    ("switch", "seed", "message"),
    [
        ("yes", "1", f"{SWITCH} is 'yes'; allowed: 0 .*, 1"),
        ("1", "many", f"{SEED} is 'many'; allowed: a whole number"),
        ("1", "-1", f"{SEED} is -1; allowed: a whole number from 0"),
        ("1", str(2**64), f"{SEED} is {2**64}; allowed"),
    ],
)
def test_the_environment_says_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, switch: str, seed: str, message: str
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    monkeypatch.setenv(SEED, seed)
    with pytest.raises(ValueError, match=message):
        nki.jit(copies("bfloat16"))(numbers(0, (1, 1)))


def test_seeds_are_checked_where_they_are_given() -> None:
    kernel = copies("bfloat16")
    with pytest.raises(ValueError, match="seed is -1; allowed: a whole number from 0 below"):
        nki.simulate(kernel, stochastic_rounding=True, seed=-1)
    with pytest.raises(TypeError, match="seed is of type float; allowed: a whole number"):
        nki.simulate(kernel, stochastic_rounding=True, seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed is 1 with stochastic_rounding=False"):
        nki.simulate(kernel, stochastic_rounding=False, seed=1)


def test_a_kernel_with_a_seed_of_its_own_gets_it_from_profile() -> None:
    def kernel(x: Any, seed: int) -> Any:
        assert seed == 5
        return copies("bfloat16")(x)

    x = numbers(15, (128, 6))
    plain, _ = nki.profile(kernel, x, seed=5)
    assert_equal(plain, x.astype(ml_dtypes.bfloat16))
    rounding = nki.simulate(kernel, stochastic_rounding=True, seed=8)
    rounded, _ = nki.profile(rounding, x, seed=5)
    assert_equal(rounded, cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws(8)))


def test_recorded_programs_replay_the_same_bits() -> None:
    x = numbers(16, (128, 10))
    programs = nki.record_ranks(
        nki.simulate(copies("bfloat16"), stochastic_rounding=True, seed=6), [(x,), (x,)]
    )
    for place, program in enumerate(programs):
        replay = program.run({"x": x})
        rng = draws(6, "vector", place)
        wanted = cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
        assert_equal(replay.outputs["result"], wanted)


def test_shadow_counts_the_rounding_and_leaves_the_bits() -> None:
    x = numbers(17, (128, 64))
    rounded, profile = nki.profile(
        copies("bfloat16"), x, shadow=True, stochastic_rounding=True, seed=6
    )
    assert_equal(rounded, cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=draws(6)))
    lost = next(loss for loss in profile.precision if loss.instruction == "tensor_copy")
    exact = np.abs(rounded.astype(np.float64) - x).max()
    assert lost.added_error == pytest.approx(exact)


def test_the_oracle_of_casts_agrees() -> None:
    x = numbers(18, (128, 5))
    got = nki.simulate(copies("bfloat16"), stochastic_rounding=True, seed=1)(x)
    lanes = Lanes.from_state(draws(1).state).uint32(5)
    codes = cast_codes(x.view(np.uint32), FLOAT32, BFLOAT16, "stochastic", draws=lanes)
    np.testing.assert_array_equal(got.view(np.uint16), codes)
