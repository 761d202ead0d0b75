"""Figures of a profile against examples computed by hand, and what holds for all profiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.checks import error
from support.profiles import (
    DMA,
    SCALAR,
    TENSOR,
    VECTOR,
    Recorder,
    attention,
    by_hand,
    empty,
    profile_data,
)
from trn3.profile import CAUSES, ENGINES, Profile, ProfileData


def test_times_by_hand() -> None:
    """The profile's timeline stands beside `by_hand`."""
    profile = by_hand()
    assert profile.latency_us == 10.0
    assert profile.overhead_us == 15.0
    assert profile.busy("tensor") == (3.0, 0.3)
    assert profile.busy("vector") == (2.0, 0.2)
    assert profile.busy("scalar") == (0.0, 0.0)
    assert profile.busy("dma") == (2.5, 0.25)
    assert profile.waits("tensor") == {"dma": 3.0, "vector": 1.0}
    assert profile.waits("vector") == {"tensor": 4.0}
    assert profile.waits("scalar") == {}
    tensor = profile.engines()[0]
    assert (tensor.engine, tensor.instructions, tensor.wait_us) == ("tensor", 2, 4.0)
    assert tensor.idle_us == pytest.approx(3.0)


def test_rates_by_hand() -> None:
    profile = by_hand()
    # 128 x 128 cells at 1 GHz; 2 000 cycles of 16-bit work, 500 of work four times as dense.
    assert profile.macs == 2000 * 16384 + 500 * 65536
    assert profile.mfu == pytest.approx(2.5 / 10)
    # 100 GB/s for 10 us are 1 MB.
    assert (profile.hbm_read_bytes, profile.hbm_write_bytes) == (200_000, 50_000)
    assert profile.mbu == pytest.approx(0.25)
    # Engine 0 moves 30 000 bytes in 2 us, engine 1 10 000 in 1 us; each could move 20 a nanosecond.
    assert profile.dma_engine_us.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert profile.dma_mean_busy_share == pytest.approx(0.075)
    assert profile.dma_efficiency == pytest.approx(40_000 / 60_000)
    assert profile.dma_bytes == 250_000
    assert profile.arithmetic_intensity == pytest.approx(2 * profile.macs / 250_000)


def test_roofline_by_hand() -> None:
    roofline = by_hand().roofline()
    # All matmuls take 2.5 us at best, which gives their common peak.
    flop = 2 * (2000 * 16384 + 500 * 65536)
    assert roofline.compute_tflops == pytest.approx(flop / 2.5e-6 / 1e12)
    assert roofline.achieved_tflops == pytest.approx(flop / 10e-6 / 1e12)
    assert (roofline.hbm_gbps, roofline.dma_gbps) == (100, 80)
    assert roofline.ridge == pytest.approx(flop / 2.5e-6 / 80e9)
    assert (roofline.bound, roofline.ceiling) == ("memory", "DMA engines")
    assert roofline.attainable_tflops == pytest.approx(flop / 250_000 * 80e9 / 1e12)


@pytest.mark.parametrize(
    ("arch", "bound", "ceiling"),
    [
        ({"hbm_gbps": 70}, "memory", "HBM"),
        ({"hbm_gbps": 1000, "dma_engine_bytes_per_ns": 500}, "compute", "tensor engine"),
    ],
)
def test_roofline_ceilings(arch: dict[str, float], bound: str, ceiling: str) -> None:
    roofline = by_hand(**arch).roofline()
    assert (roofline.bound, roofline.ceiling) == (bound, ceiling)


def test_lines_by_hand() -> None:
    """The path runs through load (line 3), matmul (5), add (9) and matmul (5)."""
    first, second, third = by_hand().lines()
    assert (first.location, first.function, first.instructions) == ("toy.py:5", "toy", 2)
    assert first.critical_us == pytest.approx(3.0 + 2.0)
    assert (first.slot_us, first.wait_us) == (3.0, 4.0)
    assert first.waits == {"dma": 3.0, "vector": 1.0}
    assert second.location == "toy.py:3"
    assert second.critical_us == pytest.approx(3.0)
    assert second.hbm_bytes == 250_000
    assert third.location == "toy.py:9"
    assert third.critical_us == pytest.approx(2.0)


def test_critical_path_by_hand() -> None:
    path = by_hand().critical_path()
    assert [(step.instruction, step.engine, step.opcode) for step in path] == [
        (0, "dma", "dma_copy"),
        (1, "tensor", "nc_matmul"),
        (2, "vector", "tensor_tensor"),
        (3, "tensor", "nc_matmul_mx"),
    ]
    assert [(step.start_us, step.end_us) for step in path] == [(0, 3), (3, 6), (6, 8), (8, 10)]
    assert path[1].location == "toy.py:5"


def test_hbm_bytes_by_bin_follow_transfers() -> None:
    """200 000 + 50 000 bytes, three quarters of them from 0.5 to 2.5 us, the rest from 2 to 3."""
    edges = np.array([0, 500_000, 2_000_000, 2_500_000, 3_000_000, 10_000_000])
    found = by_hand().hbm_bytes_by_bin(edges)
    assert found == pytest.approx([0, 140_625, 46_875 + 31_250, 31_250, 0])


def test_a_profile_of_nothing() -> None:
    profile = Profile(empty())
    assert (profile.latency_us, profile.mfu, profile.mbu, profile.dma_efficiency) == (0, 0, 0, None)
    assert (profile.lines(), profile.critical_path()) == ([], [])
    assert profile.roofline().bound == "none"
    assert profile.verdict() == "The kernel has no instructions."


def test_matmuls_without_traffic_are_compute_bound() -> None:
    recorder = Recorder("k", [("k.py", 1, "k")])
    recorder.issue("nc_matmul", TENSOR, 0, 100, 200, values={"macs": 9, "peak_macs_per_cycle": 9})
    profile = Profile(recorder.data())
    assert profile.arithmetic_intensity == math.inf
    assert profile.roofline().bound == "compute"
    assert profile.to_dict()["figures"]["roofline"]["intensity"] is None


def test_unknown_engine_is_refused() -> None:
    with error(ValueError, "pool", "tensor, vector, scalar, gpsimd, sync, dma"):
        by_hand().busy("pool")  # type: ignore[arg-type]


@given(profile_data())
def test_busy_and_waits_fit_the_latency(data: ProfileData) -> None:
    profile = Profile(data)
    slack = 1e-9 * (1 + profile.latency_us)
    for total in profile.engines():
        assert 0 <= total.busy_us <= profile.latency_us + slack
        assert 0 <= total.busy_share <= 1 + 1e-12
        assert total.wait_us == pytest.approx(sum(total.waits.values()))
        assert "nothing" not in total.waits
        if total.engine != "dma":
            assert total.busy_us + total.wait_us <= profile.latency_us + slack
            whole = total.busy_us + total.wait_us + total.idle_us
            assert whole == pytest.approx(profile.latency_us)


@given(profile_data())
def test_lines_add_up(data: ProfileData) -> None:
    profile = Profile(data)
    lines = profile.lines()
    assert sum(line.instructions for line in lines) == len(data.instructions)
    assert sum(line.wait_us for line in lines) == pytest.approx(
        sum(total.wait_us for total in profile.engines())
    )
    traffic = profile.hbm_read_bytes + profile.hbm_write_bytes
    assert sum(line.hbm_bytes for line in lines) == traffic
    path = profile.critical_path()
    length = path[-1].end_us - path[0].start_us if path else 0.0
    assert sum(line.critical_us for line in lines) == pytest.approx(length, abs=1e-9)
    assert sum(profile.critical_engine_us.values()) == pytest.approx(length, abs=1e-9)


@given(profile_data(), st.integers(1, 50))
def test_hbm_bytes_by_bin_add_up(data: ProfileData, bins: int) -> None:
    profile = Profile(data)
    found = profile.hbm_bytes_by_bin(np.linspace(0, data.latency_ps + 1, bins + 1))
    traffic = profile.hbm_read_bytes + profile.hbm_write_bytes
    assert found.sum() == pytest.approx(traffic, rel=1e-6, abs=1e-3)
    assert np.all(found >= 0)


@given(profile_data())
def test_verdict_is_one_plain_line(data: ProfileData) -> None:
    text = Profile(data).verdict()
    assert text.endswith(".")
    assert text.isprintable()
    assert len(text) < 300


@pytest.mark.parametrize(
    ("engine", "used", "words"),
    [
        (TENSOR, 1.0, ["Bound by work", "tensor", "at 100 % of peak", "narrower type"]),
        (TENSOR, 0.1, ["Bound by work", "only 10 % of peak", "fill"]),
        (VECTOR, 0.0, ["Bound by work", "vector", "move element-wise work"]),
        (SCALAR, 0.0, ["Bound by work", "scalar", "move plain copies"]),
    ],
)
def test_verdict_of_a_busy_engine(engine: int, used: float, words: list[str]) -> None:
    recorder = Recorder("k", [("dir/k.py", 7, "k")])
    for _ in range(10):
        macs = {"macs": int(2400 * 128 * used), "peak_macs_per_cycle": 128} if used else None
        recorder.issue("nc_matmul", engine, 0, 1000, 1100, values=macs)
    text = Profile(recorder.data()).verdict()
    for word in [*words, "look first at k.py:7"]:
        assert word in text


def test_verdict_of_a_latency_bound_kernel() -> None:
    text = attention(4).verdict()
    assert text.startswith("Bound by waiting: even the busiest engine, vector, works only 14 %")
    assert "DMA holds 65 % of the critical path" in text
    assert "Load earlier, into more buffers; look first at attention.py:31." in text


@pytest.mark.parametrize(("size", "word"), [(1 << 22, "keep data in SBUF"), (1 << 9, "larger")])
def test_verdict_of_busy_dma(size: int, word: str) -> None:
    recorder = Recorder("k", [("k.py", 7, "k")], trigger_ns=0)
    for i in range(20):
        moved = {"dma_bytes": size, "hbm_read": size}
        recorder.issue("dma_copy", DMA, 0, 1, 0, queue=i, values=moved)
    text = Profile(recorder.data()).verdict()
    assert "DMA engines are busy" in text
    assert word in text


def test_verdict_of_few_dma_engines() -> None:
    document = by_hand().data.to_dict()
    document["transfers"]["start_ps"] = [0, 0]
    document["transfers"]["end_ps"] = [10_000_000, 1]
    text = Profile(ProfileData.from_dict(document)).verdict()
    assert "25 % of them at a time; spread transfers over partitions" in text


def test_names_are_as_many_as_numbers() -> None:
    assert len(ENGINES) == 6
    assert len(CAUSES) == 14
    assert CAUSES.index("dma") == 6
