"""What collectives between simulated ranks refuse, and ranks that do not come together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.ranks import copied, scratch, whole
from trn3 import nki
from trn3.nki.isa import NkiValidationError
from trn3.nki.ranks.gang import DeadlockError


def test_one_array_that_two_ranks_write_is_refused() -> None:
    def kernel(x: Any) -> None:
        nisa.dma_copy(x, nl.zeros(x.shape, x.dtype, buffer=nl.sbuf))

    array = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="ranks 0 and 1 wrote to x, which is one array"):
        nki.simulate_ranks(kernel, [(array,), (array,)])
    assert (array == 1).all()


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([[0, 1], [1, 2]], "none of them twice"),
        ([[0, 1], [2]], "lists of one length"),
        ([], "lists of one length"),
        ([[-1, 0]], "ranks from 0"),
    ],
)
def test_replica_group_refuses(groups: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ncc.ReplicaGroup(groups)


def refused(kernel: Callable[..., Any], error: Any, text: str, n: int = 2) -> None:
    array = np.ones((4, 6), np.float32)
    with pytest.raises(error, match=text) as caught:
        nki.simulate_ranks(kernel, [(array.copy(),) for _ in range(n)])
    assert "test_refusals.py:" in str(caught.value)


def sbuf(x: Any, shape: tuple[int, ...] = (4, 6)) -> Any:
    return nl.zeros(shape, x.dtype, buffer=nl.sbuf)


def permuted_in_place(x: Any) -> None:
    one = copied(x)
    ncc.collective_permute([one], [one], [(0, 1), (1, 0)])


def shifted(x: Any) -> None:
    both = nl.zeros((8, 6), x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce([both[0:4]], [both[2:6]], whole(2), nl.add)


def crossed(x: Any) -> None:
    one, other = copied(x), copied(x)
    ncc.all_reduce([one, other], [other, one], whole(2), nl.add)


REFUSALS = {
    "permuted in place": (
        permuted_in_place,
        "share bytes: .*allowed: tensors of their own",
    ),
    "shifted": (shifted, "srcs and dsts share bytes: .* and "),
    "crossed": (crossed, "srcs and dsts share bytes: "),
    "mixed": (
        lambda x: ncc.all_reduce([copied(x)], [sbuf(x)], whole(2), nl.add),
        "partly in hbm, partly in sbuf",
    ),
    "several in sbuf": (
        lambda x: ncc.all_reduce([sbuf(x), sbuf(x)], [sbuf(x), sbuf(x)], whole(2), nl.add),
        "2 tensors in sbuf; allowed: several in hbm",
    ),
    "psum": (
        lambda x: ncc.all_reduce(
            [nl.zeros((4, 6), nl.float32, buffer=nl.psum)], [sbuf(x)], whole(2), nl.add
        ),
        "psum; allowed: hbm or sbuf",
    ),
    "op": (
        lambda x: ncc.all_reduce([copied(x)], [scratch(x)], whole(2), nl.multiply),
        "op is multiply; allowed: nl.add, nl.maximum, nl.minimum",
    ),
    "counts": (
        lambda x: ncc.all_reduce([copied(x)], [], whole(2), nl.add),
        "dsts is \\[\\]; allowed: a list of tensors",
    ),
    "lengths": (
        lambda x: ncc.all_reduce([copied(x)] * 2, [scratch(x)], whole(2), nl.add),
        "2 and 1 tensors",
    ),
    "shape": (
        lambda x: ncc.all_gather([copied(x)], [scratch(x)], whole(2), 0),
        "24 elements; allowed: 48",
    ),
    "dim in hbm": (
        lambda x: ncc.all_gather([copied(x)], [scratch(x, (4, 12))], whole(2), 1),
        "collective_dim is 1; allowed: 0",
    ),
    "dim in sbuf": (
        lambda x: ncc.all_gather([sbuf(x)], [sbuf(x, (4, 12))], whole(2), 2),
        "collective_dim is 2; allowed: 0 or 1",
    ),
    "other dim in sbuf": (
        lambda x: ncc.all_gather([sbuf(x)], [sbuf(x, (8, 6))], whole(2), 1),
        "all but collective_dim equal",
    ),
    "scatter dim": (
        lambda x: ncc.reduce_scatter([copied(x)], [scratch(x, (4, 3))], whole(2), 1, nl.add),
        "collective_dim is 1",
    ),
    "scatter length": (
        lambda x: ncc.reduce_scatter([copied(x[0:3])], [scratch(x)], whole(2), 0, nl.add),
        "length 3 along dimension 0; allowed: a multiple of 2",
    ),
    "all_to_all in sbuf": (
        lambda x: ncc.all_to_all([sbuf(x)], [sbuf(x)], whole(2), 0),
        "in sbuf; allowed: hbm",
    ),
    "permute of two": (
        lambda x: ncc.collective_permute([copied(x)] * 2, [scratch(x)] * 2, [(0, 1)]),
        "2 tensors; allowed: one",
    ),
    "dtype": (
        lambda x: ncc.all_to_all(
            [copied(x)], [nl.ndarray((4, 6), nl.int32, buffer=nl.shared_hbm)], whole(2), 0
        ),
        "dtype float32, dsts int32",
    ),
    "channel": (
        lambda x: ncc.collective_permute_implicit(
            [[copied(x)]], [[scratch(x)]], whole(2), channel_ids=[4]
        ),
        "channel_ids is \\[4\\]; allowed: different numbers from 0 to 3",
    ),
    "channel lists": (
        lambda x: ncc.collective_permute_implicit(
            [[copied(x)]], [[scratch(x)]], whole(2), channel_ids=[0, 1]
        ),
        "1 lists; allowed: 2",
    ),
    "priority": (
        lambda x: ncc.all_reduce([copied(x)], [scratch(x)], whole(2), nl.add, priority=4),
        "priority is 4; allowed: None or 0 to 3",
    ),
    "displacements": (
        lambda x: ncc.all_gather_v([copied(x)], [scratch(x)], whole(2), x, has_rdispls=True),
        "has_rdispls is True; allowed: False",
    ),
    "metadata": (
        lambda x: ncc.all_to_all_v([copied(x)], [scratch(x)], whole(2), x),
        "allowed: uint32 of shape \\(3, 2\\) in hbm or \\(1, 3, 2\\) in sbuf",
    ),
    "iteration": (
        lambda x: ncc.collective_permute_implicit_current_processing_rank_id(-1, whole(2)),
        "iteration_id is -1",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_wrong_operands_are_refused(case: str) -> None:
    kernel, text = REFUSALS[case]
    refused(kernel, NkiValidationError, text)


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([(0, 2)], "rank 2; allowed: the launch's 2 ranks"),
        ([(0, 1), (0, 0)], "each rank once on each side"),
        ([(0,)], "allowed: \\(source, target\\)"),
    ],
)
def test_permute_refuses_pairs(pairs: Any, text: str) -> None:
    refused(lambda x: ncc.collective_permute([copied(x)], [scratch(x)], pairs), ValueError, text)


def test_rank_outside_the_world_is_refused() -> None:
    refused(
        lambda x: ncc.all_reduce([copied(x)], [scratch(x)], whole(3), nl.add),
        ValueError,
        "has rank 2; allowed: the launch's 2 ranks",
    )


def test_rank_in_no_list_is_refused() -> None:
    group = ncc.ReplicaGroup([[0]])
    refused(
        lambda x: ncc.all_reduce([copied(x)], [scratch(x)], group, nl.add),
        ValueError,
        "no list with rank 1",
    )


def diverging(x: Any, group: Any, what: str) -> None:
    if what == "gather":
        ncc.all_gather([copied(x)], [scratch(x, (8, 6))], group, 0)
    elif what == "less":
        ncc.all_reduce([copied(x[0:2])], [scratch(x, (2, 6))], group, nl.add)
    elif what == "maximum":
        ncc.all_reduce([copied(x)], [scratch(x)], group, nl.maximum)
    else:
        ncc.all_reduce([copied(x)], [scratch(x)], group, nl.add)


@pytest.mark.parametrize("what", ["gather", "less", "maximum"])
def test_ranks_that_diverge_are_named_with_both_lines(what: str) -> None:
    array = np.ones((4, 6), np.float32)
    text = r"(?s)rank 1 calls all_.*_refusals.py:\d+\), rank 0 calls all_reduce.*py:\d+\)"
    with pytest.raises(ValueError, match=text):
        nki.simulate_ranks(diverging, [(array, whole(2), "add"), (array, whole(2), what)])


def test_other_groups_beside_one_list_are_refused() -> None:
    array = np.ones((4, 6), np.float32)
    one, other = ncc.ReplicaGroup([[0, 1], [2, 3]]), ncc.ReplicaGroup([[0, 1], [3, 2]])
    groups = [one, other, one, one]
    with pytest.raises(ValueError, match="rank 1 calls all_reduce"):
        nki.simulate_ranks(diverging, [(array, group, "add") for group in groups])


def test_rank_that_never_comes_is_named() -> None:
    def kernel(x: Any, group: Any, comes: bool) -> None:
        if comes:
            ncc.all_reduce([copied(x)], [scratch(x)], group, nl.add)

    array = np.ones((4, 6), np.float32)
    text = r"rank 0 waits at all_reduce.*py:\d+\) for rank 1, which came to no.*rank 1 has ended"
    with pytest.raises(DeadlockError, match=text):
        nki.simulate_ranks(kernel, [(array, whole(2), True), (array, whole(2), False)])


def test_ranks_in_different_groups_deadlock_with_both_lines() -> None:
    array = np.ones((4, 6), np.float32)
    groups = [ncc.ReplicaGroup([[0, 1]]), ncc.ReplicaGroup([[1, 0]])]
    with pytest.raises(DeadlockError, match=r"rank 0 waits at .*; rank 1 waits at "):
        nki.simulate_ranks(diverging, [(array, group, "add") for group in groups])


def test_failure_of_one_rank_ends_all_and_is_named() -> None:
    def kernel(x: Any, group: Any, fails: bool) -> None:
        if fails:
            raise RuntimeError("no more")
        ncc.all_reduce([copied(x)], [scratch(x)], group, nl.add)

    array = np.ones((4, 6), np.float32)
    with pytest.raises(RuntimeError, match="no more") as caught:
        nki.simulate_ranks(kernel, [(array, whole(2), False), (array, whole(2), True)])
    assert any("rank 1" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("strict_four", [True, False])
def test_strict_environment_refuses_what_the_hardware_lacks(
    monkeypatch: pytest.MonkeyPatch, strict_four: bool
) -> None:
    monkeypatch.setenv("TRN3_NKI_STRICT", "1")

    def kernel(x: Any) -> None:
        metadata = nl.ndarray((3, 2), nl.uint32, buffer=nl.shared_hbm)
        function = ncc.all_gather_v if strict_four else ncc.all_to_all_v
        function([copied(x)], [scratch(x)], whole(2), metadata)

    text = "lists of 2 ranks" if strict_four else "runs on one core"
    wanted = nki.jit(kernel)[2] if strict_four else kernel
    refused(wanted, NkiValidationError, text)


def test_all_reduce_in_place_and_parts_of_one_tensor_are_taken() -> None:
    def kernel(x: Any) -> Any:
        one = copied(x)
        ncc.all_reduce([one], [one], whole(2), nl.add)
        both = nl.zeros((8, 6), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(both[0:4], one)
        ncc.all_reduce([both[0:4]], [both[4:8]], whole(2), nl.add)
        return both

    array = np.ones((4, 6), np.float32)
    for result in nki.simulate_ranks(kernel, [(array,), (array,)]):
        assert (result[:4] == 2).all()
        assert (result[4:] == 4).all()
