"""What DMA engines did in a profile is a schedule, whatever the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.profile import Profile

#: Steps of a kernel: what it does, columns, priority of its transfers.
Step = tuple[str, int, int | None]

steps = st.lists(
    st.tuples(
        st.sampled_from(["through", "load", "copy", "store"]),
        st.integers(1, 2048),
        st.none() | st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)


@nki.jit
def kernel(x: Any, plan: Sequence[Step]) -> Any:
    out = nl.ndarray((len(plan), *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    for number, (kind, columns, priority) in enumerate(plan):
        if kind == "copy":
            nisa.dma_copy(out[number, :, 0:columns], x[:, 0:columns], priority=priority)
            continue
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        if kind == "store":
            nisa.memset(tile, value=1.0)
        else:
            nisa.dma_copy(tile, x[:, 0:columns], priority=priority)
        if kind == "through":
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        if kind != "load":
            nisa.dma_copy(out[number, :, 0:columns], tile, priority=priority)
    return out


X = np.ones((128, 2048), np.float32)
PLAIN: list[Step] = [("through", 2048, None)] * 8


def profile_of(plan: Sequence[Step]) -> Profile:
    _, profile = nki.profile(kernel, X, tuple(plan), arch="trn3", values=False)
    return profile


def assert_schedule(profile: Profile) -> None:
    data, arch = profile.data, profile.data.arch
    transfers, instructions = data.transfers, data.instructions
    start, end = transfers.start_ps.astype(np.int64), transfers.end_ps.astype(np.int64)
    for engine in range(int(arch["dma_engines"])):
        own = np.flatnonzero(transfers.dma_engine == engine)
        own = own[np.lexsort((end[own], start[own]))]
        assert np.all(end[own][:-1] <= start[own][1:])
    row = transfers.instruction
    assert np.all(instructions.start_ps[row] <= transfers.start_ps)
    assert np.all(start <= end)
    assert np.all(transfers.end_ps <= instructions.end_ps[row])
    moved = np.bincount(row, transfers.bytes, len(instructions))
    assert moved.tolist() == instructions.dma_bytes.tolist()
    edges = np.linspace(0, data.latency_ps, 98)
    rate = profile.hbm_bytes_by_bin(edges) / np.diff(edges) * 1e3
    moving = float(arch["dma_engines"]) * float(arch["dma_engine_bytes_per_ns"])
    drawn = (instructions.hbm_read + instructions.hbm_write) / np.maximum(instructions.dma_bytes, 1)
    # Whole bytes of whole picoseconds; what is copied within HBM is read and written there.
    assert rate.max() <= min(float(arch["hbm_gbps"]), moving * drawn.max()) * (1 + 1e-3)
    share = profile.busy("dma").share
    assert profile.dma_mean_busy_share <= share * (1 + 1e-12) <= 1 + 1e-9


def test_a_plain_kernel_stays_under_the_ceiling() -> None:
    profile = profile_of(PLAIN)
    assert_schedule(profile)
    edges = np.linspace(0, profile.data.latency_ps, 201)
    rate = profile.hbm_bytes_by_bin(edges) / np.diff(edges) * 1e3
    # Loads and stores at once: as much as all engines move, and no more.
    assert rate.max() == pytest.approx(528, rel=0.02)


@settings(deadline=None, max_examples=40)
@given(plan=steps)
def test_every_record_is_a_schedule(plan: list[Step]) -> None:
    assert_schedule(profile_of(plan))


@settings(deadline=None, max_examples=20)
@given(plan=steps)
def test_values_do_not_depend_on_priorities(plan: list[Step]) -> None:
    plain = [(kind, columns, None) for kind, columns, _ in plan]
    found, expected = kernel(X, tuple(plan)), kernel(X, tuple(plain))
    for number, (kind, columns, _) in enumerate(plan):
        if kind != "load":
            assert np.array_equal(found[number, :, :columns], expected[number, :, :columns])


def test_an_urgent_load_comes_sooner_and_a_lone_one_takes_as_long() -> None:
    def end(plan: list[Step]) -> int:
        return int(profile_of(plan).data.instructions.end_ps[len(plan) - 1])

    behind: list[Step] = [("load", 2048, 3), ("load", 2048, 3)]
    assert end([*behind, ("load", 256, 0)]) < end([*behind, ("load", 256, 3)])
    assert len({end([("load", 700, priority)]) for priority in (None, 0, 1, 2, 3)}) == 1
