"""Kernels that ranks run together against NumPy, on 1 to 64 of them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from expertlib.experimental.collectives.allgather import (
    allgather_compute_matmul,
    allgather_sb2sb,
    allgather_sb2sb_tiled,
    fine_grained_allgather,
)
from expertlib.experimental.collectives.exchange import (
    Exchange,
    all_reduce_rmsnorm,
    expert_dispatch,
    reduce_scatter_gather,
)

import trn3.nki.collectives as ncc
from support.moe_reference import BF16
from trn3 import nki

WORLDS = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (8, 2), (16, 1)]


def _values(n: int, shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.integers(-8, 8, shape).astype(dtype) for _ in range(n)]


@pytest.mark.parametrize(("n", "lnc"), WORLDS)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("kernel", [allgather_sb2sb, allgather_sb2sb_tiled])
def test_gathering_in_sbuf_matches_numpy(kernel: Any, n: int, lnc: int, dtype: Any) -> None:
    rows = 64 if kernel is allgather_sb2sb else 256
    xs = _values(n, (rows, 32), dtype)
    group = ncc.ReplicaGroup([list(range(n))])
    results = nki.simulate_ranks(kernel[lnc], [(x, group, n) for x in xs])
    for result in results:
        np.testing.assert_array_equal(result, np.concatenate(xs, axis=1))


@pytest.mark.parametrize(("n", "lnc"), WORLDS)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("use_sbuf", [False, True])
def test_fine_grained_gathering_matches_numpy(
    n: int, lnc: int, groups: int, use_sbuf: bool
) -> None:
    each = n // groups
    if each == 0:
        return
    xs = _values(n, (64, 16))
    arguments = [
        {"inp": x, "tp_degree": each, "num_groups": groups, "use_sbuf": use_sbuf} for x in xs
    ]
    results = nki.simulate_ranks(fine_grained_allgather[lnc], arguments)
    for rank, result in enumerate(results):
        first = rank // each * each
        np.testing.assert_array_equal(result, np.stack(xs[first : first + each]))


@pytest.mark.parametrize(("n", "lnc"), WORLDS)
def test_multiplying_while_gathering_matches_numpy(n: int, lnc: int) -> None:
    xs, ws = _values(n, (64, 32)), _values(n, (64, 48))
    arguments = [(x, w, n) for x, w in zip(xs, ws, strict=True)]
    results, profiles = nki.profile_ranks(allgather_compute_matmul[lnc], arguments)
    for result, w in zip(results, ws, strict=True):
        wanted = np.concatenate([x.T @ w for x in xs])
        np.testing.assert_array_equal(result, wanted)
    assert len(profiles) == n


@pytest.mark.parametrize(("n", "lnc"), [(2, 2), (4, 1), (8, 2)])
@pytest.mark.parametrize("priority", [None, 0])
def test_reducing_before_a_norm_matches_numpy(n: int, lnc: int, priority: int | None) -> None:
    xs = _values(n, (64, 96))
    gamma = np.linspace(0.5, 1.5, 96, dtype=np.float32)
    exchange = Exchange(replica_group=ncc.ReplicaGroup([list(range(n))]), priority=priority)
    total = np.sum(xs, axis=0)
    wanted = total / np.sqrt((total**2).mean(axis=1, keepdims=True) + 1e-6) * gamma
    for result in nki.simulate_ranks(all_reduce_rmsnorm[lnc], [(x, gamma, exchange) for x in xs]):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_scattering_and_gathering_is_reducing(n: int) -> None:
    xs = _values(n, (32, 24))
    group = ncc.ReplicaGroup([list(range(n))])
    total = np.sum(xs, axis=0)
    results = nki.spmd(reduce_scatter_gather, n)([(x, group) for x in xs])
    for rank, result in enumerate(results):
        np.testing.assert_array_equal(result["plus"], total)
        np.testing.assert_array_equal(result["minus"], -total)
        each = 32 // n
        np.testing.assert_array_equal(result["part"][0], total[rank * each : (rank + 1) * each])


@pytest.mark.parametrize("n", [2, 4])
def test_dispatched_tokens_come_back(n: int) -> None:
    rng = np.random.default_rng(n)
    tokens, hidden = 12, 8
    group = ncc.ReplicaGroup([list(range(n))])
    counts = np.stack([rng.multinomial(tokens, [1 / n] * n) for _ in range(n)]).astype(np.float32)
    xs = _values(n, (tokens, hidden))
    results = nki.simulate_ranks(
        expert_dispatch, [(x, c, group) for x, c in zip(xs, counts, strict=True)]
    )
    for rank, (result, metadata) in enumerate(results):
        owner = np.repeat(np.arange(n), counts[rank].astype(int))
        np.testing.assert_array_equal(result, xs[rank] + owner[:, None])
        np.testing.assert_array_equal(metadata[2], counts[:, rank] * hidden)


@pytest.mark.parametrize(("n", "lnc"), [(32, 1), (64, 2)])
def test_many_ranks_are_done_in_seconds(n: int, lnc: int) -> None:
    xs = _values(n, (8, 16))
    begin = time.process_time()
    results = nki.simulate_ranks(
        fine_grained_allgather[lnc],
        [{"inp": x, "tp_degree": n, "num_groups": 1} for x in xs],
    )
    for result in results:
        np.testing.assert_array_equal(result, np.stack(xs))
    assert time.process_time() - begin < 30
