"""What collectives cost a core: bytes, classes of service; and the hardware's rules on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.language as nl
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki.isa import NkiValidationError

SHAPE = (128, 512)
SIZE = 128 * 512 * 4


def whole(n: int) -> ncc.ReplicaGroup:
    return ncc.ReplicaGroup([list(range(n))])


def scratch(shape: Any, dtype: Any = nl.float32, buffer: Any = nl.shared_hbm) -> Any:
    return nl.ndarray(shape, dtype, buffer=buffer)


def rows_of(profile: Any, name: str) -> Any:
    data = profile.data
    return np.flatnonzero(data.instructions.opcode == data.opcodes.index(name))


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm])
@pytest.mark.parametrize("lnc", [1, 2])
def test_a_gathering_core_moves_what_it_gets(buffer: Any, lnc: int) -> None:
    def kernel(x: Any, group: Any) -> Any:
        mine, out = scratch(x.shape, buffer=buffer), scratch((256, 512))
        if buffer is nl.sbuf:
            out = scratch((128, 1024), buffer=nl.sbuf)
        nisa.dma_copy(mine, x)
        ncc.all_gather([mine], [out], group, 1 if buffer is nl.sbuf else 0)
        result = scratch(out.shape)
        nisa.dma_copy(result, out)
        return result

    ranks = [(np.full(SHAPE, i, np.float32), whole(2)) for i in range(2)]
    _, profiles = nki.profile_ranks(nki.jit(kernel)[lnc], ranks)
    for profile in profiles:
        cores = [profile] if lnc == 1 else profile.cores
        for number, core in enumerate(cores):
            rows = core.data.instructions
            [at] = rows_of(core, "all_gather")
            # Two cores that pass one tensor pass it once; SBUF is each one's own.
            counts = number == 0 or buffer is nl.sbuf
            in_hbm = buffer is not nl.sbuf
            assert rows.dma_bytes[at] == 2 * SIZE * counts
            assert rows.hbm_read[at] == SIZE * (counts and in_hbm)
            assert rows.hbm_write[at] == 2 * SIZE * (counts and in_hbm)


def test_chunks_of_any_length_count_as_long_as_they_are() -> None:
    counts = np.array([[5, 30], [20, 0]])

    def kernel(x: Any, metadata: Any, group: Any) -> Any:
        mine, out = scratch(x.shape), scratch((128,))
        nisa.dma_copy(mine, x)
        nisa.dma_copy(out, nl.zeros((1, 128), nl.float32))
        ncc.all_to_all_v([mine], [out], group, metadata)
        return out

    ranks = []
    for i in range(2):
        metadata = np.zeros((3, 2), np.uint32)
        metadata[0], metadata[1] = counts[i], (0, 32)
        ranks.append((np.ones(64, np.float32), metadata, whole(2)))
    _, profiles = nki.profile_ranks(kernel, ranks)
    for i, profile in enumerate(profiles):
        [at] = rows_of(profile, "all_to_all_v")
        sent, got = 4 * counts[i].sum(), 4 * counts[:, i].sum()
        assert profile.data.instructions.dma_bytes[at] == max(sent, got)
        assert profile.data.instructions.hbm_read[at] == sent
        assert profile.data.instructions.hbm_write[at] == got


def _spans(priorities: tuple[int | None, ...]) -> list[list[tuple[int, int]]]:
    """Return starts and ends of all-reduces that are ready at one moment, of both ranks."""

    def kernel(x: Any, group: Any) -> Any:
        mine = scratch(x.shape)
        nisa.dma_copy(mine, x)
        outs = [scratch(x.shape) for _ in priorities]
        for out, priority in zip(outs, priorities, strict=True):
            ncc.all_reduce([mine], [out], group, nl.add, priority=priority)
        return outs

    ranks = [(np.full(SHAPE, i, np.float32), whole(2)) for i in range(2)]
    results, profiles = nki.profile_ranks(kernel, ranks)
    for result in results:
        assert all((each == 1).all() for each in result)
    found = []
    for profile in profiles:
        rows, at = profile.data.instructions, rows_of(profile, "all_reduce")
        spans = zip(rows.start_ps[at].tolist(), rows.end_ps[at].tolist(), strict=True)
        found.append(list(spans))
    return found


def test_collectives_that_wait_run_in_order_of_their_class() -> None:
    for one, other in (_spans((None, None)), _spans((2, 2))):
        assert one == other
        assert one[1][0] == one[0][1]
    for one, other in (_spans((None, 0)), _spans((3, 1))):
        assert one == other
        assert one[1] == one[0]  # as if the first were not there
    first, second, third = _spans((None, 0, None))[0]
    duration = first[1] - first[0]
    assert second == first
    assert third[0] == first[0] + 2 * duration


def test_ranks_of_different_classes_are_refused() -> None:
    def kernel(x: Any, group: Any, priority: int) -> None:
        mine = scratch(x.shape)
        nisa.dma_copy(mine, x)
        ncc.all_reduce([mine], [scratch(x.shape)], group, nl.add, priority=priority)

    ranks = [(np.ones((1, 4), np.float32), whole(2), i) for i in range(2)]
    with pytest.raises(ValueError, match=r"at priority 1 .* at priority 0"):
        nki.simulate_ranks(kernel, ranks)


def _variable(x: Any, metadata: Any, group: Any) -> Any:
    mine, out = scratch(x.shape), scratch(x.shape)
    nisa.dma_copy(mine, x)
    nisa.dma_copy(out, x)
    ncc.all_to_all_v([mine], [out], group, metadata)
    return out


@pytest.mark.parametrize(
    ("groups", "missing"),
    [([[0, 1, 2, 3]], None), ([[0, 2], [1, 3]], r"\[1, 3\]"), ([[0, 1], [2, 3]], r"\[2, 3\]")],
)
def test_strict_runs_demand_whole_devices(
    monkeypatch: pytest.MonkeyPatch, groups: Any, missing: str | None
) -> None:
    n = len(groups[0])

    def run() -> list[Any]:
        ranks = [
            (np.arange(8, dtype=np.float32), np.zeros((3, n), np.uint32), ncc.ReplicaGroup(groups))
            for _ in range(4)
        ]
        return nki.simulate_ranks(nki.jit(_variable)[2], ranks)

    assert len(run()) == 4
    monkeypatch.setenv("TRN3_NKI_STRICT", "1")
    if missing is None:
        assert len(run()) == 4
    else:
        with pytest.raises(NkiValidationError, match=f"without ranks {missing}.*4 ranks each"):
            run()
