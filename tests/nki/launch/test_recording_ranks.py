"""Programs of ranks: recorded collectives give the same bits at the same times on a device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.ranks import copied, scratch, whole
from trn3 import nki


def reduced(x: Any) -> Any:
    out = scratch(x)
    ncc.all_reduce([copied(x)], [out], whole(2), nl.add, priority=1, name="sum")
    tile = nl.zeros(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, out)
    nisa.dma_copy(out, tile)
    return out


def gathered(x: Any) -> Any:
    tile = nl.zeros(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    joined = nl.zeros((x.shape[0], 2 * x.shape[1]), x.dtype, buffer=nl.sbuf)
    ncc.all_gather([tile], [joined], whole(2), 1)
    out = scratch(x, (x.shape[0], 2 * x.shape[1]))
    nisa.dma_copy(out, joined)
    return out


def scattered(x: Any) -> Any:
    out = scratch(x, (x.shape[0] // 2, x.shape[1]))
    ncc.reduce_scatter([copied(x)], [out], whole(2), 0, nl.maximum)
    return out


def exchanged(x: Any) -> Any:
    out = scratch(x)
    ncc.all_to_all([copied(x)], [out], whole(2), 0)
    return out


def permuted(x: Any) -> Any:
    out = copied(x)
    ncc.collective_permute([copied(x)], [out], [(1, 0)])
    return out


def around(x: Any) -> Any:
    first, second = scratch(x), scratch(x)
    ncc.collective_permute_implicit([[copied(x)]], [[first]], whole(2))
    ncc.collective_permute_implicit_reduce([[copied(x)]], [[first]], [[second]], whole(2), nl.add)
    return first, second


def variable(x: Any) -> Any:
    counts = nl.ndarray((1, 6), nl.uint32, buffer=nl.sbuf)
    nisa.memset(counts, 0)
    nisa.memset(counts[0:1, 0:2], 5)
    metadata = nl.ndarray((3, 2), nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(metadata.reshape((1, 6)), counts)
    out = copied(x)
    ncc.all_to_all_v([copied(x)], [out], whole(2), metadata)
    return out, metadata


KERNELS = [reduced, gathered, scattered, exchanged, permuted, around, variable]


@pytest.mark.parametrize("kernel", KERNELS)
def test_replay_gives_the_bits_and_the_time_of_the_kernel(kernel: Callable[..., Any]) -> None:
    rng = np.random.default_rng(7)
    recorded, given = (
        [rng.standard_normal((4, 6)).astype(np.float32) for _ in range(2)] for _ in range(2)
    )
    programs = nki.record_ranks(kernel, [(array,) for array in recorded])
    assert [json.loads(program.text)["version"] for program in programs] == [2, 2]
    replays = nki.replay_ranks(programs, [{"x": array} for array in given])
    results, profiles = nki.profile_ranks(kernel, [(array.copy(),) for array in given])
    for replay, result, profile in zip(replays, results, profiles, strict=True):
        wanted = result if isinstance(result, tuple) else (result,)
        outputs = list(replay.outputs.values())
        assert len(outputs) == len(wanted)
        for output, array in zip(outputs, wanted, strict=True):
            assert output.dtype == array.dtype
            np.testing.assert_array_equal(output, array)
        assert replay.picoseconds == round(profile.latency_us * 1e6)


def test_times_are_the_same_without_values() -> None:
    x = np.ones((4, 6), np.float32)
    programs = nki.record_ranks(reduced, [(x,), (x,)])
    with_values, without = (
        nki.replay_ranks(programs, [{"x": x}] * 2, values=values) for values in (True, False)
    )
    assert [each.picoseconds for each in with_values] == [each.picoseconds for each in without]
    assert without[0].outputs == {}


def test_programs_of_one_core_keep_version_1() -> None:
    def kernel(x: Any) -> Any:
        return copied(x)

    x = np.ones((4, 6), np.float32)
    for program in (nki.record(kernel, x), *nki.record_ranks(kernel, [(x,), (x,)])):
        assert json.loads(program.text)["version"] == 1


def test_a_rank_alone_waits_and_ranks_that_diverge_are_named() -> None:
    x = np.ones((4, 6), np.float32)
    programs = nki.record_ranks(reduced, [(x,), (x,)])
    with pytest.raises(NotImplementedError, match=r"the device has 1 ranks from 0"):
        programs[0].run({"x": x})
    others = nki.record_ranks(exchanged, [(x,), (x,)])
    with pytest.raises(ValueError, match=r"rank 1 calls all_to_all.*rank 0 calls all_reduce"):
        nki.replay_ranks([programs[0], others[1]], [{"x": x}] * 2)
    with pytest.raises(ValueError, match="reduced waits for ranks that never come"):
        nki.replay_ranks([programs[0], nki.record(copied, x)], [{"x": x}] * 2)
    with pytest.raises(ValueError, match="per_rank_inputs has 1 entries and programs 2"):
        nki.replay_ranks(programs, [{"x": x}])


def test_kernels_on_two_cores_are_refused() -> None:
    x = np.ones((4, 6), np.float32)
    with pytest.raises(ValueError, match="runs on 2 cores; a program has one"):
        nki.record_ranks(nki.jit(reduced)[2], [(x,), (x,)])
