"""Kernels on the cores of a chip: values, one timeline, one HBM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import Chip, nki

ROWS = 128
#: So little that two cores that copy from HBM to HBM pass it together.
SLOW = "trn3:hbm_gbps=1500"
HBM_COLUMNS = ("hbm_read", "hbm_write")


@nki.jit
def streaming(x: Any, tiles: int) -> Any:
    """Copy from HBM to HBM, as fast as the engines can."""
    out = nl.ndarray((tiles, *x.shape), x.dtype, buffer=nl.shared_hbm, name="stream")
    for tile in range(tiles):
        nisa.dma_copy(out[tile], x)
    return out


@nki.jit
def computing(x: Any, rounds: int) -> Any:
    """Work a while on what was loaded."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(rounds):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(out, tile)
    return out


@nki.jit
def swapping(x: Any, rounds: int) -> Any:
    """Exchange halves on two cores, over HBM and a barrier."""
    scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // 2
    own, other = (nl.ds(half * place, half) for place in (nl.program_id(0), 1 - nl.program_id(0)))
    for _ in range(rounds):
        nisa.dma_copy(scratch[own], x[own])
        nisa.core_barrier(scratch, (0, 1))
        nisa.dma_copy(out[own], scratch[other])
        nisa.core_barrier(out, (0, 1))
    return out


def array(columns: int) -> Any:
    return np.arange(ROWS * columns, dtype=np.float32).reshape(ROWS, columns)


def alone(work: tuple[Any, ...], arch: str) -> tuple[Any, Any]:
    return nki.profile(work[0], *work[1:], arch=arch)


def hbm_bytes(profile: Any) -> int:
    return sum(
        int(sum(getattr(core.data.instructions, name)))
        for core in profile.cores
        for name in HBM_COLUMNS
    )


def recorded(profile: Any) -> list[Any]:
    """Return what each core recorded, but for the lines of this file."""
    documents = [core.data.to_dict() for core in profile.cores]
    return [
        {part: value for part, value in document.items() if part not in ("sites", "findings")}
        for document in documents
    ]


WORK = st.one_of(
    st.tuples(st.just(streaming), st.sampled_from([64, 1024]), st.integers(1, 5)),
    st.tuples(st.just(computing), st.sampled_from([64, 512]), st.integers(0, 4)),
    st.tuples(st.just(swapping[2]), st.sampled_from([64, 512]), st.integers(1, 2)),
)


@st.composite
def chips(draw: Any) -> dict[int, tuple[Any, ...]]:
    placed = {}
    for pair in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)):
        kernel, columns, count = draw(WORK)
        placed[2 * pair] = (kernel, array(columns), count)
    return placed


@given(chips(), st.sampled_from(["trn3", SLOW]), st.randoms(use_true_random=False))
@settings(max_examples=6, deadline=None)
def test_kernels_give_what_they_give_alone_and_are_never_faster(
    placed: dict[int, tuple[Any, ...]], arch: str, shuffled: Any
) -> None:
    results, profile = Chip().run(placed, arch=arch)
    assert list(results) == sorted(placed)
    cores = iter(profile.cores)
    for core in sorted(placed):
        expected, own = alone(placed[core], arch)
        assert np.array_equal(results[core], expected)
        for single in own.cores:
            assert next(cores).latency_us >= single.latency_us
        assert profile.latency_us >= own.latency_us
    assert not list(cores)
    order = list(placed)
    shuffled.shuffle(order)
    again, other = Chip().run({core: placed[core] for core in order}, arch=arch)
    assert all(np.array_equal(again[core], results[core]) for core in results)
    assert recorded(other) == recorded(profile)
    ceiling = 1500e3 if arch == SLOW else 4900e3
    assert hbm_bytes(profile) <= ceiling * profile.latency_us * (1 + 1e-6)


@pytest.mark.parametrize("core", [0, 5])
def test_a_kernel_alone_takes_the_time_it_takes_without_a_chip(core: int) -> None:
    work = (streaming, array(512), 4)
    results, profile = Chip().run({core: work})
    expected, own = alone(work, "trn3")
    assert np.array_equal(results[core], expected)
    assert recorded(profile) == recorded(own)


def test_cores_below_the_ceiling_do_not_slow_one_another() -> None:
    work = (streaming, array(2048), 6)
    _, own = alone(work, "trn3")
    _, profile = Chip().run(dict.fromkeys(range(4), work))
    assert [core.latency_us for core in profile.cores] == [own.latency_us] * 4


def test_cores_above_the_ceiling_slow_one_another_down_to_it() -> None:
    work = (streaming, array(2048), 6)
    _, own = alone(work, "trn3")
    _, profile = Chip().run(dict.fromkeys(range(8), work))
    # Eight times what one core's engines read and write is more than the 4.9 TB/s there are.
    rate = hbm_bytes(own) / own.latency_us * 1e-6
    assert rate < 4.9 < 8 * rate
    assert profile.latency_us > 1.3 * own.latency_us
    assert hbm_bytes(profile) / profile.latency_us * 1e-6 > 0.8 * 4.9
    # Nobody is served first of all: every core bears its part.
    latencies = [core.latency_us for core in profile.cores]
    assert min(latencies) > 0.7 * max(latencies)


@nki.jit
def urgent(x: Any, tiles: int) -> Any:
    """Copy from HBM to HBM, every second tile ahead of those before it."""
    out = nl.ndarray((tiles, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for tile in range(tiles):
        nisa.dma_copy(out[tile], x, priority=3 - 3 * (tile % 2))
    return out


def test_transfers_that_overtake_others_draw_once() -> None:
    work = (urgent, array(1024), 6)
    expected, own = alone(work, "trn3")
    results, profile = Chip().run(dict.fromkeys(range(4), work))
    assert all(np.array_equal(result, expected) for result in results.values())
    assert [core.latency_us for core in profile.cores] == [own.latency_us] * 4
    _, crowd = Chip().run(dict.fromkeys(range(8), work))
    assert crowd.latency_us > own.latency_us
    assert hbm_bytes(crowd) / crowd.latency_us * 1e-6 > 0.6 * 4.9


def test_work_on_chip_is_not_slowed_by_others_transfers() -> None:
    busy, quiet = (streaming, array(2048), 12), (computing, array(64), 4)
    _, own = alone(quiet, SLOW)
    _, profile = Chip().run({0: busy, 2: busy, 6: quiet}, arch=SLOW)
    compute = [part.us for part in (own.busy("vector"), profile.cores[2].busy("vector"))]
    assert compute[0] == compute[1]
    assert profile.cores[2].latency_us >= own.latency_us


def test_capacity_is_one_for_all_cores() -> None:
    @nki.jit
    def large(x: Any, gigabytes: int) -> Any:
        nl.ndarray((gigabytes, 1 << 30), nl.uint8, buffer=nl.private_hbm, name="cache")
        return x

    x = np.zeros((1, 1), np.float32)
    Chip().run({0: (large, x, 100), 3: (large, x, 40)}, values=False)
    Chip().run({0: (large, x, 140)}, values=False)
    for order in ([0, 3], [3, 0]):
        with pytest.raises(
            MemoryError, match=r"`cache`.*kernel large on core 0 takes 1073741824\d+"
        ):
            Chip().run(dict.fromkeys(order, (large, x, 100)), values=False)


def test_without_values_times_are_the_same() -> None:
    placed = {0: (streaming, array(2048), 4), 2: (swapping[2], array(512), 2)}
    results, timed = Chip().run(placed, values=False, arch=SLOW)
    assert results == {0: None, 2: None}
    _, full = Chip().run(placed, arch=SLOW)
    assert timed.latency_us == full.latency_us


def test_a_joint_profile_prints_plots_and_exports(tmp_path: Path) -> None:
    from rich.console import Console

    _, profile = Chip().run({0: (streaming, array(64), 2), 4: (swapping[2], array(64), 1)})
    console = Console(width=100, record=True, file=None)
    with console.capture() as shown:
        console.print(profile.summary())
    assert "core" in shown.get()
    profile.to_perfetto(tmp_path / "trace.perfetto")
    assert (tmp_path / "trace.perfetto").stat().st_size > 0
    assert {file.name for file in profile.save(tmp_path)} >= {"profile.json", "roofline_core2.png"}
    assert type(profile).from_dict(profile.to_dict()).latency_us == profile.latency_us
    assert len(profile.cores) == 3


@pytest.mark.parametrize(
    ("chip", "kernels", "error", "words"),
    [
        (Chip(), {}, ValueError, "kernels is empty"),
        (Chip(), [computing], TypeError, "list"),
        (Chip(), {8: (computing,)}, ValueError, "core is 8; allowed: 0 to 7"),
        (Chip(), {True: (computing,)}, ValueError, "core is True"),
        (Chip(), {0: computing}, TypeError, r"allowed: \(kernel, \*arguments\)"),
        (Chip(), {0: ()}, TypeError, r"allowed: \(kernel, \*arguments\)"),
        (Chip(), {0: (3,)}, TypeError, "kernel"),
        (Chip(), {1: (swapping[2],)}, ValueError, "the first of them, 0"),
        (Chip(lnc=1), {0: (swapping[2],)}, ValueError, "logical cores have 1"),
        (Chip(), {0: (swapping[2],), 1: (computing,)}, ValueError, "core 1 is taken"),
    ],
)
def test_what_does_not_fit_is_refused(chip: Any, kernels: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        chip.run(kernels)


def test_recorded_programs_run_beside_kernels() -> None:
    x = array(512)
    program = nki.record(computing, x, 3)
    expected, own = alone((computing, x, 3), "trn3")
    results, profile = Chip().run({0: (program, {"x": x}), 1: (streaming, x, 2)})
    assert np.array_equal(results[0]["result"], expected)
    assert np.array_equal(results[1], np.stack([x] * 2))
    assert profile.cores[0].latency_us == own.latency_us
    results, alone_on_chip = Chip().run({6: (program, {"x": x})}, values=False)
    assert results == {6: None}
    assert alone_on_chip.latency_us == own.latency_us
    with pytest.raises(TypeError, match="dict of its inputs"):
        Chip().run({0: (program, x)})
    with pytest.raises(ValueError, match="inputs are none"):
        Chip().run({0: (program, {})})


def test_a_kernel_runs_no_chip() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        Chip().run({0: (computing, x, 1)})
        return x

    with pytest.raises(RuntimeError, match="kernels do not run chips"):
        kernel(array(64))
