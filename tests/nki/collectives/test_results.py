"""Collectives between simulated ranks, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.ranks import DTYPES, SIZES, copied, on_hbm, same, scratch, summed, values, whole
from trn3 import collectives, nki, systems
from trn3.profile.data import CAUSES


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "reference"), [(nl.add, np.add), (nl.maximum, np.maximum)])
def test_all_reduce_matches_numpy(n: int, dtype: Any, op: Any, reference: Any) -> None:
    arrays = values(n, (4, 6), dtype)

    def run(srcs: Any, dsts: Any, group: Any) -> None:
        ncc.all_reduce(srcs, dsts, group, op)

    results = nki.simulate_ranks(on_hbm(run), [(array, whole(n)) for array in arrays])
    for result in results:
        same(result, summed(arrays, reference))


def test_all_reduce_minimum_in_sbuf_matches_numpy() -> None:
    arrays = values(4, (128, 8), np.float32)

    def kernel(x: Any, group: Any) -> Any:
        tile, reduced, out = nl.load(x), scratch(x, buffer=nl.sbuf), scratch(x)
        ncc.all_reduce([tile], [reduced], group, op=nl.minimum, priority=1, name="reduce")
        nl.store(out, reduced)
        return out

    for result in nki.simulate_ranks(kernel, [(array, whole(4)) for array in arrays]):
        same(result, np.minimum.reduce(arrays))


def test_all_reduce_rounds_once_to_the_result() -> None:
    arrays = [np.full((1, 4), 1 + 2**-8, np.float32), np.full((1, 4), 2**-9, np.float32)]

    def kernel(x: Any, group: Any) -> Any:
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        ncc.all_reduce([copied(x)], [out], group, nl.add)
        return out

    wanted = (arrays[0] + arrays[1]).astype(ml_dtypes.bfloat16)
    for result in nki.simulate_ranks(kernel, [(array, whole(2)) for array in arrays]):
        same(result, wanted)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [*DTYPES, np.bool_])
def test_all_gather_matches_numpy(n: int, dtype: Any) -> None:
    arrays = values(n, (3, 5), dtype)
    kernel = on_hbm(lambda s, d, g: ncc.all_gather(s, d, g, collective_dim=0), n)
    for result in nki.simulate_ranks(kernel, [(array, whole(n)) for array in arrays]):
        same(result, np.concatenate(arrays))


@pytest.mark.parametrize("axis", [0, 1])
def test_all_gather_in_sbuf_matches_numpy(axis: int) -> None:
    arrays = values(4, (32, 8), np.float32)

    def kernel(x: Any, group: Any) -> Any:
        shape = [*x.shape]
        shape[axis] *= 4
        gathered, out = scratch(x, shape, nl.sbuf), scratch(x, shape)
        ncc.all_gather([nl.load(x)], [gathered], group, collective_dim=axis)
        nl.store(out, gathered)
        return out

    for result in nki.simulate_ranks(kernel, [(array, whole(4)) for array in arrays]):
        same(result, np.concatenate(arrays, axis))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16])
def test_reduce_scatter_matches_numpy(n: int, dtype: Any) -> None:
    arrays = values(n, (2 * n, 3), dtype)

    def run(srcs: Any, dsts: Any, group: Any) -> None:
        ncc.reduce_scatter(srcs, dsts, group, collective_dim=0, op=nl.add)

    results = nki.simulate_ranks(on_hbm(run, 1 / n), [(array, whole(n)) for array in arrays])
    for result, wanted in zip(results, np.split(summed(arrays), n), strict=True):
        same(result, wanted)


@pytest.mark.parametrize("n", SIZES)
def test_all_to_all_matches_numpy(n: int) -> None:
    arrays = values(n, (2 * n, 3), np.float32)
    kernel = on_hbm(lambda s, d, g: ncc.all_to_all(s, d, g, collective_dim=0))
    results = nki.simulate_ranks(kernel, [(array, whole(n)) for array in arrays])
    for i, result in enumerate(results):
        same(result, np.concatenate([np.split(array, n)[i] for array in arrays]))


def test_groups_work_apart_and_indices_follow_their_lists() -> None:
    arrays = values(4, (2, 3), np.float32)
    group = ncc.ReplicaGroup([[3, 0], [1, 2]])
    kernel = on_hbm(lambda s, d, g: ncc.all_gather(s, d, g, 0), 2)
    results = nki.simulate_ranks(kernel, [(array, group) for array in arrays])
    for i, order in enumerate([(3, 0), (1, 2), (1, 2), (3, 0)]):
        same(results[i], np.concatenate([arrays[j] for j in order]))


def test_coalesced_tensors_are_all_reduced() -> None:
    arrays = values(2, (4, 3), np.float32)

    def kernel(x: Any, group: Any) -> Any:
        sources = [copied(x[0:1]), copied(x[1:4])]
        results = [scratch(source) for source in sources]
        ncc.all_reduce(sources, results, group, nl.add)
        return tuple(results)

    total = summed(arrays)
    for one, other in nki.simulate_ranks(kernel, [(array, whole(2)) for array in arrays]):
        same(one, total[:1])
        same(other, total[1:])


def test_collective_permute_leaves_what_is_no_target() -> None:
    arrays = values(4, (2, 3), np.float32)

    def kernel(x: Any) -> Any:
        out = copied(x)
        ncc.collective_permute([copied(x)], [out], [(0, 2), (2, 3)])
        return out

    results = nki.simulate_ranks(kernel, [(array,) for array in arrays])
    for result, source in zip(results, (0, 1, 0, 2), strict=True):
        same(result, arrays[source])


@pytest.mark.parametrize("n", SIZES)
def test_ring_holds_the_data_of_the_rank_it_names(n: int) -> None:
    def kernel(x: Any, group: Any) -> Any:
        out = nl.ndarray((n, *x.shape), x.dtype, buffer=nl.shared_hbm)
        held = copied(x)
        for step in range(n):
            register = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.dma_copy(out.select(0, register), held)
            received = scratch(x)
            ncc.collective_permute_implicit([[held]], [[received]], group, channel_ids=[0])
            held = received
        return out

    arrays = values(n, (2, 3), np.float32)
    for result in nki.simulate_ranks(kernel, [(array, whole(n)) for array in arrays]):
        same(result, np.stack(arrays))


def test_current_processing_rank_id_counts_backwards() -> None:
    def kernel(x: Any, group: Any) -> Any:
        out = nl.ndarray((1, 4), nl.int32, buffer=nl.shared_hbm)
        for step in range(4):
            register = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            nisa.register_store(out[0:1, step : step + 1], register)
        return out

    ranks = [(np.zeros((1, 1), np.float32), whole(4))] * 4
    assert nki.simulate_ranks(kernel, ranks)[2].tolist() == [[2, 1, 0, 3]]


def test_implicit_reduce_sends_the_reduction() -> None:
    n = 4
    arrays = values(n, (2, 3), ml_dtypes.bfloat16)

    def kernel(x: Any, group: Any) -> Any:
        out = scratch(x, (1, 3))
        ncc.collective_permute_implicit_reduce(
            [[copied(x[0:1])]], [[copied(x[1:2])]], [[out]], group, nl.add, channel_ids=[0]
        )
        return out

    results = nki.simulate_ranks(kernel, [(array, whole(n)) for array in arrays])
    for i, result in enumerate(results):
        before = arrays[(i - 1) % n]
        same(result, summed([before[0:1], before[1:2]]))


def test_rank_id_is_the_rank() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.register_store(out, ncc.rank_id())
        return out

    ranks = [(np.zeros((1, 1), np.float32),)] * 3
    assert [int(each[0, 0]) for each in nki.simulate_ranks(kernel, ranks)] == [0, 1, 2]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("has_rdispls", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_all_to_all_v_matches_numpy(n: int, has_rdispls: bool, known: bool) -> None:
    rng = np.random.default_rng(n)
    counts = rng.integers(0, 4, (n, n))
    sources = [np.arange(4 * n, dtype=np.float32) + 100 * i for i in range(n)]
    displacements = np.arange(n) * 4
    places = displacements[::-1] if has_rdispls else displacements
    ranks = []
    for i in range(n):
        received = counts[:, i] if known else np.zeros(n, int)
        rows = [counts[i], displacements, received, *([places] if has_rdispls else [])]
        ranks.append((sources[i], np.stack(rows).astype(np.uint32), whole(n)))

    def kernel(x: Any, metadata: Any, group: Any) -> Any:
        out = nl.ndarray((4 * n,), x.dtype, buffer=nl.shared_hbm)
        zeros = nl.zeros((1, 4 * n), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(out, zeros)
        ncc.all_to_all_v([copied(x)], [out], group, metadata, known, has_rdispls)
        return out, metadata

    for i, (result, metadata) in enumerate(nki.simulate_ranks(kernel, ranks)):
        wanted = np.zeros(4 * n, np.float32)
        for r in range(n):
            count = counts[r, i]
            wanted[places[r] : places[r] + count] = sources[r][4 * i : 4 * i + count]
        same(result, wanted)
        assert metadata[2].tolist() == counts[:, i].tolist()


@pytest.mark.parametrize("n", SIZES)
def test_all_gather_v_matches_numpy(n: int) -> None:
    counts = np.arange(n) % 4
    sources = [np.arange(8, dtype=np.int32) + 100 * i for i in range(n)]
    ranks = []
    for i in range(n):
        metadata = np.zeros((3, n), np.uint32)
        metadata[:2, 0] = counts[i], 2
        ranks.append((sources[i], metadata, whole(n)))

    def kernel(x: Any, metadata: Any, group: Any) -> Any:
        out = nl.ndarray((4 * n,), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.zeros((1, 4 * n), x.dtype, buffer=nl.sbuf))
        ncc.all_gather_v([copied(x)], [out], group, metadata)
        return out, metadata

    wanted = np.zeros(4 * n, np.int32)
    for s in range(n):
        wanted[4 * s : 4 * s + counts[s]] = sources[s][2 : 2 + counts[s]]
    for result, metadata in nki.simulate_ranks(kernel, ranks):
        same(result, wanted)
        assert metadata[2].tolist() == counts.tolist()


def ring_matmul(x: Any, w: Any, group: Any) -> Any:
    """x [m, k] stays; w's rows go round: out = x @ (w of all ranks, one below the other)."""
    n = len(group[0])
    k, columns = w.shape
    m = x.shape[0]
    out = nl.ndarray((m, columns), nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((m, columns), nl.float32, buffer=nl.sbuf)
    turned = scratch(x, (n, k, m))
    for block in range(n):
        nisa.dma_copy(turned[block], nl.load_transpose2d(x[:, block * k : (block + 1) * k]))
    held = copied(w)
    for step in range(n):
        rank = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
        moving = nl.load(held)
        received = scratch(w)
        if step < n - 1:
            ncc.collective_permute_implicit([[held]], [[received]], group, channel_ids=[0])
        stationary = nl.ndarray((k, m), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(stationary, turned.select(0, rank))
        product = nl.ndarray((m, columns), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, stationary, moving)
        nisa.tensor_tensor(total, total, product, nl.add)
        held = received
    nl.store(out, total)
    return out


def test_ring_matmul_equals_the_reference() -> None:
    n = 4
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((64, 32 * n)).astype(np.float32) for _ in range(n)]
    ws = [rng.standard_normal((32, 128)).astype(np.float32) for _ in range(n)]
    ranks = [{"x": x, "w": w, "group": whole(n)} for x, w in zip(xs, ws, strict=True)]
    results, profiles = nki.profile_ranks(ring_matmul, ranks)
    for x, result in zip(xs, results, strict=True):
        np.testing.assert_allclose(result, x @ np.concatenate(ws), rtol=1e-4, atol=1e-3)
    assert all(profile.latency_us > 4.5 for profile in profiles)  # three hops, 1.5 us each


def busy(x: Any, group: Any, communicates: bool, computes: bool) -> Any:
    out = scratch(x)
    tile = nl.load(x)
    if communicates:
        ncc.all_reduce([copied(x)], [out], group, nl.add, name="reduce")
    for _ in range(6 if computes else 0):
        nisa.tensor_tensor(tile, tile, tile, nl.maximum)
    return out if communicates else copied(tile)


def test_computing_and_communicating_overlap() -> None:
    arrays = values(4, (128, 2048), np.float32)

    def latency(communicates: bool, computes: bool) -> float:
        ranks = [(array, whole(4), communicates, computes) for array in arrays]
        _, profiles = nki.profile_ranks(busy, ranks, system=systems.trn2_instance())
        return max(profile.latency_us for profile in profiles)

    both, alone, apart = latency(True, True), latency(True, False), latency(False, True)
    assert both < 0.8 * (alone + apart)
    assert both >= max(alone, apart) - 5


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_collective_starts_when_the_last_rank_is_ready(late: int) -> None:
    arrays = values(4, (128, 512), np.float32)

    def kernel(x: Any, group: Any, rounds: int) -> Any:
        tile, out = nl.load(x), scratch(x, buffer=nl.sbuf)
        for _ in range(rounds):
            nisa.tensor_tensor(tile, tile, tile, nl.maximum)
        ncc.all_reduce([tile], [out], group, nl.add)
        return copied(out)

    ranks = [(array, whole(4), 50 if i == late else 0) for i, array in enumerate(arrays)]
    system = systems.trn2_instance()
    _, profiles = nki.profile_ranks(kernel, ranks, system=system)
    spans = []
    for profile in profiles:
        data = profile.data
        row = int(np.flatnonzero(data.instructions.opcode == data.opcodes.index("all_reduce"))[0])
        spans.append((int(data.instructions.start_ps[row]), int(data.instructions.end_ps[row])))
    ready = int(profiles[late].data.instructions.end_ps[50])
    assert len(set(spans)) == 1
    start, end = spans[0]
    assert start >= ready
    wanted = collectives.time("all_reduce", 128 * 512 * 4, system, range(4)).time
    assert end - start == pytest.approx(wanted * 1e12, abs=1)


def test_runs_are_the_same_every_time() -> None:
    arrays = values(4, (128, 64), np.float32)
    ranks = [(array, whole(4), True, True) for array in arrays]
    first = nki.profile_ranks(busy, ranks)
    for _ in range(5):
        again = nki.profile_ranks(busy, ranks)
        for one, other in zip(first[0], again[0], strict=True):
            same(one, other)
        for one, other in zip(first[1], again[1], strict=True):
            for column in ("start_ps", "end_ps", "wait_ps"):
                left = getattr(one.data.instructions, column)
                assert (left == getattr(other.data.instructions, column)).all()


def test_timing_only_has_the_times_of_a_run_with_values() -> None:
    ranks = [(array, whole(4), True, True) for array in values(4, (128, 64), np.float32)]
    _, profiles = nki.profile_ranks(busy, ranks)
    results, skipped = nki.profile_ranks(busy, ranks, values=False)
    assert results == [None] * 4
    assert [one.latency_us for one in profiles] == [one.latency_us for one in skipped]


def test_farther_ranks_take_longer() -> None:
    ranks = [(array, whole(4), True, False) for array in values(4, (128, 2048), np.float32)]
    system = systems.trn2_instance()
    near = nki.profile_ranks(busy, ranks, system=system)[1][0].latency_us
    far = nki.profile_ranks(busy, ranks, system=system, ranks_per_chip=1)[1][0].latency_us
    assert far > near


@pytest.mark.parametrize("n", [1, 2, 4])
def test_ranks_of_two_cores_share_one_transfer(n: int) -> None:
    arrays = values(n, (4, 3), np.float32)

    def kernel(x: Any, group: Any) -> Any:
        mine, out = scratch(x), scratch(x)
        half = nl.program_id(0) * 2
        nisa.dma_copy(mine[half : half + 2], x[half : half + 2])
        ncc.all_reduce([mine], [mine], group, nl.add)
        nisa.dma_copy(out[half : half + 2], mine[2 - half : 4 - half])
        return out

    ranks = [(array, whole(n)) for array in arrays]
    results, profiles = nki.profile_ranks(nki.jit(kernel)[2], ranks)
    total = summed(arrays)
    for result in results:
        same(result, np.concatenate([total[2:], total[:2]]))
    assert [profile.findings for profile in profiles] == [[]] * n


def test_cores_of_ranks_transfer_each_its_own() -> None:
    n = 4
    arrays = values(n, (2, 3), np.float32)

    def kernel(x: Any, group: Any) -> Any:
        mine, out = scratch(x), scratch(x, (2, n, 3))
        own = nl.program_id(0)
        nisa.dma_copy(mine[own], x[own])
        ncc.all_gather([mine[own : own + 1]], [out[own]], group, collective_dim=0)
        return out

    for result in nki.simulate_ranks(nki.jit(kernel)[2], [(a, whole(n)) for a in arrays]):
        same(result, np.stack(arrays, 1))


def test_profiles_of_ranks_of_two_cores_are_whole() -> None:
    def kernel(x: Any, group: Any, rounds: int) -> Any:
        tile, reduced = nl.load(x), scratch(x, buffer=nl.sbuf)
        for _ in range(rounds * (1 + nl.program_id(0))):
            nisa.tensor_tensor(tile, tile, tile, nl.maximum)
        ncc.all_reduce([tile], [reduced], group, nl.add)
        out = scratch(x, (2, *x.shape))
        nl.store(out[nl.program_id(0)], reduced)
        return out

    x = np.ones((128, 512), np.float32)
    ranks = [(x, whole(2), rounds) for rounds in (0, 20)]
    results, profiles = nki.profile_ranks(nki.jit(kernel)[2], ranks)
    assert (results[0] == 2).all()
    for profile in profiles:
        first = profile.critical_path()[0]
        assert first.end_us <= profile.latency_us
    causes = [CAUSES[code] for code in profiles[0].cores[0].data.instructions.cause]
    assert "other rank" in causes


def test_simulate_is_a_world_of_one() -> None:
    array = values(1, (2, 3), np.float32)[0]
    kernel = on_hbm(lambda s, d, g: ncc.all_reduce(s, d, g, nl.add))
    same(nki.simulate(kernel)(array, whole(1)), array)
    with pytest.raises(
        ValueError, match=r"has rank 1; allowed: the launch's 1 ranks.*simulate_ranks"
    ):
        nki.simulate(kernel)(array, whole(2))


def test_inputs_are_updated_in_place() -> None:
    arrays = values(2, (2, 3), np.float32)
    total = summed(arrays)

    def kernel(x: Any, group: Any) -> None:
        ncc.all_reduce([copied(x)], [x], group, nl.add)

    nki.simulate_ranks(kernel, [{"x": array, "group": whole(2)} for array in arrays])
    for array in arrays:
        same(array, total)


def test_spmd_runs_the_world_it_says() -> None:
    kernel = on_hbm(lambda s, d, g: ncc.all_gather(s, d, g, 0), 2)
    arrays = values(2, (2, 3), np.float32)
    ranks = [(array, whole(2)) for array in arrays]
    for result in nki.spmd(kernel, world_size=2)(ranks):
        same(result, np.concatenate(arrays))
    with pytest.raises(ValueError, match="1 entries; world_size is 2"):
        nki.spmd(kernel, world_size=2)(ranks[:1])
    with pytest.raises(ValueError, match="world_size is 0"):
        nki.spmd(kernel, world_size=0)


def test_launches_that_cannot_be_say_so() -> None:
    array = np.ones((1, 1), np.float32)
    with pytest.raises(ValueError, match="per_rank_args is empty"):
        nki.simulate_ranks(lambda x: x, [])
    with pytest.raises(TypeError, match=r"per_rank_args\[0\] is of type int"):
        nki.simulate_ranks(lambda x: x, [3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="allowed: at most 16"):
        nki.simulate_ranks(
            lambda x: x, [(array,)] * 17, system=systems.trn2_instance(), ranks_per_chip=1
        )
    with pytest.raises(ValueError, match="ranks_per_chip is 9"):
        nki.simulate_ranks(lambda x: x, [(array,)] * 2, ranks_per_chip=9)


def test_sixty_four_ranks_run() -> None:
    arrays = values(64, (1, 8), np.float32)
    kernel = on_hbm(lambda s, d, g: ncc.all_gather(s, d, g, 0), 64)
    for result in nki.simulate_ranks(nki.jit(kernel)[2], [(a, whole(64)) for a in arrays]):
        same(result, np.concatenate(arrays))
