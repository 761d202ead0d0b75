"""Collectives: data, bit for bit, against NumPy in the documented order; costs; refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from oracle import collectives as oracle
from trn3 import collectives, systems
from trn3.numerics import Xorwow, cast
from trn3.system import System

TRN2 = systems.trn2_instance()
GEN2 = systems.trn3_gen2()

GROUPS: dict[str, tuple[System, Sequence[int]]] = {
    "all 64": (TRN2, range(64)),
    "shuffled": (TRN2, list(np.random.default_rng(1).permutation(64))),
    "one a chip": (TRN2, range(0, 64, 4)),
    "two a chip": (TRN2, [r for r in range(64) if r % 4 < 2]),
    "a row": (TRN2, range(16, 32)),
    "two chips": (TRN2, range(8)),
    "a chip": (TRN2, range(4)),
    "ragged": (TRN2, [0, 1, 5, 33, 34, 35, 60]),
    "one": (TRN2, [9]),
    "sled": (GEN2, range(16)),
    "sleds": (
        GEN2,
        [c * 4 + k for c in (0, 1, 4, 5, 72, 73, 76, 77) for k in range(4)],
    ),
    "one a sled": (GEN2, range(0, 72 * 4, 16)),
}
ALGORITHMS = [
    "ring",
    "kangaring",
    "mesh",
    "single_step_mesh",
    "rdh",
    "hierarchical_ring",
    "hierarchical_mesh",
]
FORMATS = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]
OPS: dict[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def to_format(kind: np.dtype[Any]) -> oracle.Rounded:
    return lambda values: values.astype(kind).astype(np.float32)


def chips_of(system: System, group: Sequence[int]) -> list[oracle.Chip]:
    per_chip = system.ranks_per_chip
    on: dict[int, list[int]] = {}
    for position, rank in sorted(enumerate(group), key=lambda one: one[1]):
        on.setdefault(int(rank) // per_chip, []).append(position)
    return [oracle.Chip(system.chips[chip], tuple(on[chip])) for chip in sorted(on)]


def expected(
    system: System,
    group: Sequence[int],
    algorithm: str,
    inputs: Sequence[NDArray[np.float32]],
    op: Any,
    rounded: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> NDArray[np.float32]:
    chips = chips_of(system, group)
    is_torus = system is TRN2
    if algorithm == "ring":
        return oracle.ring(inputs, chips, is_torus, op, rounded)
    if algorithm == "kangaring":
        return oracle.kangaring(inputs, chips, is_torus, op, rounded)
    if algorithm == "mesh":
        return oracle.mesh(inputs, chips, op, rounded)
    if algorithm == "single_step_mesh":
        return oracle.single_step_mesh(inputs, chips, op, rounded)
    if algorithm == "rdh":
        levels = [[0, 1]] if is_torus else [[0], [1], [2]]
        return oracle.rdh(inputs, chips, levels, is_torus, op, rounded)
    racks = sorted({chip.place[0] for chip in chips})
    sleds = sorted({chip.place[1] for chip in chips})
    inner = [
        [chip for chip in chips if chip.place[:2] == (rack, sled)]
        for rack in racks
        for sled in sleds
    ]
    is_ring = algorithm == "hierarchical_ring"
    return oracle.hierarchical(inputs, [len(racks), len(sleds)], inner, is_ring, False, op, rounded)


def runs(system: System, group: Sequence[int], algorithm: str, operation: str) -> bool:
    try:
        collectives.time(operation, 1.0, system, group, algorithm)
    except ValueError:
        return False
    return True


EVERYWHERE = {"ring", "mesh", "single_step_mesh"}
ABLE = {
    "all 64": {*EVERYWHERE, "kangaring", "rdh"},
    "shuffled": {*EVERYWHERE, "kangaring", "rdh"},
    "one a chip": {*EVERYWHERE, "rdh"},
    "two a chip": {*EVERYWHERE, "rdh"},
    "a row": {*EVERYWHERE, "kangaring", "rdh"},
    "two chips": {*EVERYWHERE, "kangaring", "rdh"},
    "a chip": {*EVERYWHERE, "kangaring", "rdh"},
    "ragged": EVERYWHERE,
    "one": {*EVERYWHERE, "rdh"},
    "sled": {*EVERYWHERE, "kangaring", "rdh"},
    "sleds": set(ALGORITHMS),
    "one a sled": EVERYWHERE,
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_have_the_algorithms_that_they_should(name: str) -> None:
    system, group = GROUPS[name]
    for operation in ("all_reduce", "all_gather", "reduce_scatter"):
        able = {one for one in ALGORITHMS if runs(system, group, one, operation)}
        wanted = ABLE[name] - ({"single_step_mesh"} if operation != "all_reduce" else set())
        assert able == wanted


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("name", "algorithm"), [(name, one) for name in GROUPS for one in sorted(ABLE[name])]
)
def test_all_reduce_adds_in_the_documented_order(name: str, algorithm: str, dtype: str) -> None:
    system, group = GROUPS[name]
    kind = numpy_dtype(dtype)
    draw = np.random.default_rng(7)
    arrays = [(draw.standard_normal(197) * 0.5).astype(kind) for _ in group]
    result = collectives.all_reduce(arrays, system, group, algorithm=algorithm)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = expected(
            system,
            group,
            algorithm,
            [array.astype(np.float32) for array in arrays],
            np.add,
            to_format(kind),
        )
    for output in result.outputs:
        assert output.dtype == kind
        np.testing.assert_array_equal(output.astype(np.float32), wanted)


@pytest.mark.parametrize("op", ["max", "min", "maximum", "minimum"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_reduce_finds_extremes(algorithm: str, op: str) -> None:
    system, group = GROUPS["sleds"]
    arrays = [np.random.default_rng(r).standard_normal((5, 7)).astype(np.float32) for r in group]
    result = collectives.all_reduce(arrays, system, group, op=op, algorithm=algorithm)
    wanted = np.max(arrays, axis=0) if op.startswith("max") else np.min(arrays, axis=0)
    assert all(np.array_equal(output, wanted) for output in result.outputs)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
@pytest.mark.parametrize("name", GROUPS)
def test_whole_numbers_wrap_exactly(name: str, dtype: str) -> None:
    system, group = GROUPS[name]
    kind = np.dtype(dtype)
    limits = np.iinfo(kind)
    draw = np.random.default_rng(3)
    arrays = [
        draw.integers(limits.min, limits.max, 3 * len(group), dtype=kind, endpoint=True)
        for _ in group
    ]
    total = np.sum(arrays, axis=0, dtype=kind)
    for algorithm in ALGORITHMS:
        for operation in ("all_reduce", "reduce_scatter"):
            if not runs(system, group, algorithm, operation):
                continue
            run = getattr(collectives, operation)
            outputs = run(arrays, system, group, algorithm=algorithm).outputs
            parts = np.array_split(total, len(group))
            for rank, output in enumerate(outputs):
                wanted = total if operation == "all_reduce" else parts[rank]
                assert np.array_equal(output, wanted), (algorithm, operation, rank)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "complex64", "bool", "float64"])
@pytest.mark.parametrize("name", GROUPS)
def test_data_movement_keeps_every_bit(name: str, dtype: str) -> None:
    system, group = GROUPS[name]
    n = len(group)
    draw = np.random.default_rng(5)
    arrays = [draw.integers(0, 100, (2, n, 3)).astype(numpy_dtype(dtype)) for _ in range(n)]
    for algorithm in ("auto", *ALGORITHMS):
        if not runs(system, group, algorithm, "all_gather"):
            continue
        outputs = collectives.all_gather(arrays, system, group, algorithm, axis=2).outputs
        wanted = np.concatenate(arrays, axis=2)
        assert all(output.tobytes() == wanted.tobytes() for output in outputs), algorithm
        assert outputs[0].shape == (2, n, 3 * n)
    for algorithm in ("direct", "pairwise", "mesh"):
        outputs = collectives.all_to_all(arrays, system, group, algorithm, axis=1).outputs
        for j, output in enumerate(outputs):
            wanted = np.concatenate([array[:, j : j + 1] for array in arrays], axis=1)
            assert output.tobytes() == wanted.tobytes(), algorithm
    root = group[n // 2]
    for algorithm in ("binomial", "chain"):
        outputs = collectives.broadcast(arrays, system, group, int(root), algorithm).outputs
        assert all(output.tobytes() == arrays[n // 2].tobytes() for output in outputs)
    pairs = [(int(group[i]), int(group[(i + 1) % n])) for i in range(n)]
    outputs = collectives.permute(arrays, pairs, system, group).outputs
    assert all(outputs[(i + 1) % n].tobytes() == arrays[i].tobytes() for i in range(n))


def test_partial_permutes_keep_what_nobody_sends_to() -> None:
    arrays = [np.full(2, rank) for rank in range(4)]
    kept = collectives.permute(arrays, [(0, 2), (2, 0)], GEN2, range(4)).outputs
    assert [int(output[0]) for output in kept] == [2, 1, 0, 3]
    held = [np.full(2, -1)] * 4
    other = collectives.permute(arrays, [(0, 2)], GEN2, range(4), destinations=held).outputs
    assert [int(output[0]) for output in other] == [-1, -1, 0, -1]


@given(st.data())
def test_any_counts_reach_their_places(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    group = data.draw(st.permutations(range(20)).map(lambda ranks: ranks[:n]))
    counts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n * n, max_size=n * n)))
    counts = counts.reshape(n, n)
    algorithm = data.draw(st.sampled_from(["auto", "direct", "pairwise"]))
    arrays = [np.arange(row.sum()) + 100 * i for i, row in enumerate(counts)]
    outputs = collectives.all_to_all_v(arrays, counts, GEN2, group, algorithm).outputs
    starts = np.cumsum(counts, axis=1) - counts
    for j, output in enumerate(outputs):
        wanted = [arrays[i][starts[i, j] : starts[i, j] + counts[i, j]] for i in range(n)]
        assert np.array_equal(output, np.concatenate(wanted))
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    arrays = [np.arange(length) * 10 + i for i, length in enumerate(lengths)]
    way = data.draw(st.sampled_from(["auto", "direct", "ring"]))
    outputs = collectives.all_gather_v(arrays, GEN2, group, way).outputs
    assert all(np.array_equal(output, np.concatenate(arrays)) for output in outputs)


@given(
    st.lists(st.integers(0, 63), min_size=1, max_size=12, unique=True),
    st.integers(0, 40),
    st.sampled_from(["auto", "ring", "mesh", "single_step_mesh"]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_any_group_gets_the_same_sum_everywhere(
    group: list[int], length: int, algorithm: str, dtype: str
) -> None:
    kind = numpy_dtype(dtype)
    # Sums of these are exact in every format, so the order has no effect.
    arrays = [np.arange(length).astype(kind) % kind.type(8) for _ in group]
    result = collectives.all_reduce(arrays, TRN2, group, algorithm=algorithm)
    wanted = (arrays[0].astype(np.float32) * len(group)).astype(kind)
    assert all(output.tobytes() == wanted.tobytes() for output in result.outputs)


def test_index_order_adds_in_float32_and_rounds_once() -> None:
    draw = np.random.default_rng(2)
    arrays = [draw.standard_normal(99).astype(ml_dtypes.bfloat16) for _ in range(64)]
    total = arrays[0].astype(np.float32)
    for array in arrays[1:]:
        total = total + array.astype(np.float32)
    for algorithm in ("ring", "kangaring", "auto"):
        result = collectives.all_reduce(arrays, TRN2, algorithm=algorithm, order="index")
        assert result.outputs[5].tobytes() == total.astype(ml_dtypes.bfloat16).tobytes()
        assert "ascending positions in float32" in result.order
    scattered = collectives.reduce_scatter(
        [np.pad(a, (0, 29)) for a in arrays], TRN2, order="index", out_dtype="float32"
    )
    joined = np.concatenate(scattered.outputs)
    assert joined.dtype == np.float32
    assert np.array_equal(joined[:99], total)
    with pytest.raises(ValueError, match="order='index'"):
        collectives.all_reduce(arrays, TRN2, order="index", dtype="bfloat16")


def test_wire_format_rounds_inputs_and_every_partial_sum() -> None:
    arrays = [np.random.default_rng(r).standard_normal(50).astype(np.float32) for r in range(16)]
    group = range(16)
    for dtype in ("bfloat16", ml_dtypes.float8_e5m2):
        kind = numpy_dtype(dtype) if isinstance(dtype, str) else np.dtype(dtype)
        rounded = [array.astype(kind).astype(np.float32) for array in arrays]
        result = collectives.all_reduce(arrays, TRN2, group, algorithm="ring", dtype=dtype)
        wanted = oracle.ring(
            rounded,
            chips_of(TRN2, group),
            True,
            np.add,
            to_format(kind),
        )
        assert result.outputs[3].dtype == np.float32
        assert np.array_equal(result.outputs[3], wanted)
        assert result.bytes == 50 * kind.itemsize
    # The other way round: bfloat16 arrays, float32 in between.
    narrow = [array.astype(ml_dtypes.bfloat16) for array in arrays]
    result = collectives.all_reduce(narrow, TRN2, group, algorithm="mesh", dtype=np.float32)
    wanted = oracle.mesh(
        [array.astype(np.float32) for array in narrow], chips_of(TRN2, group), np.add, lambda v: v
    )
    assert result.outputs[0].tobytes() == wanted.astype(ml_dtypes.bfloat16).tobytes()


def test_stochastic_rounding_takes_draws_as_documented() -> None:
    arrays = [
        np.random.default_rng(r).standard_normal(33).astype(ml_dtypes.bfloat16) for r in (1, 2)
    ]
    options: dict[str, Any] = {"algorithm": "single_step_mesh", "rounding": "stochastic"}
    first = collectives.all_reduce(arrays, TRN2, [0, 1], rng=11, **options)
    again = collectives.all_reduce(arrays, TRN2, [0, 1], rng=Xorwow.seed(11), **options)
    other = collectives.all_reduce(arrays, TRN2, [0, 1], rng=12, **options)
    assert first.outputs[0].tobytes() == again.outputs[0].tobytes()
    assert first.outputs[0].tobytes() != other.outputs[0].tobytes()
    # One step: both ranks' results laid end to end, as one cast.
    total = arrays[0].astype(np.float32) + arrays[1].astype(np.float32)
    wanted = cast(
        np.concatenate([total, total]),
        ml_dtypes.bfloat16,
        rounding="stochastic",
        rng=Xorwow.seed(11),
    )
    assert np.concatenate(first.outputs).tobytes() == wanted.tobytes()
    rng = Xorwow.seed(4)
    before = rng.state.copy()
    ring = collectives.all_reduce(
        arrays, TRN2, [0, 1], algorithm="ring", rounding="stochastic", rng=rng
    )
    assert ring.outputs[0].tobytes() == ring.outputs[1].tobytes()
    assert not np.array_equal(rng.state, before)


def test_nan_and_infinity_follow_the_rules() -> None:
    arrays = [np.array([np.nan, np.inf, 1, -0.0], np.float32) for _ in range(4)]
    arrays[1] = np.array([1, -np.inf, np.nan, 0.0], np.float32)
    bits = collectives.all_reduce(arrays, TRN2, range(4)).outputs[0].view(np.uint32)
    assert [hex(word) for word in bits[:3]] == ["0x7fc00000"] * 3
    largest = collectives.all_reduce(arrays, TRN2, range(4), op="max").outputs[0]
    assert np.isnan(largest[[0, 2]]).all()
    assert np.isinf(largest[1])
    assert not np.signbit(largest[3])


def test_several_groups_work_at_once() -> None:
    groups = [[0, 1, 2, 3], [8, 9, 10, 11]]
    arrays = [np.full(5, i, np.int32) for i in range(8)]
    result = collectives.all_reduce(arrays, TRN2, groups)
    assert [int(output[0]) for output in result.outputs] == [6] * 4 + [22] * 4
    nested = collectives.all_reduce([arrays[:4], arrays[4:]], TRN2, groups)
    assert [int(output[0]) for output in nested.outputs] == [6] * 4 + [22] * 4
    alone = collectives.all_reduce(arrays[:4], TRN2, groups[0])
    assert result.time == pytest.approx(alone.time)
    # Columns of ranks share the links of their chips.
    columns = [list(range(k, 64, 4)) for k in range(4)]
    together = collectives.time("all_reduce", 1e8, TRN2, columns, "ring")
    single = collectives.time("all_reduce", 1e8, TRN2, columns[0], "ring")
    assert single.time < together.time <= 4 * single.time
    assert sum(together.bytes_by_link.values()) == pytest.approx(
        4 * sum(single.bytes_by_link.values())
    )


def test_group_none_takes_ranks_or_chips() -> None:
    by_chip = TRN2.all_reduce([np.ones(3, np.float32)] * 16)
    by_rank = TRN2.all_reduce([np.ones(3, np.float32)] * 64)
    assert (by_chip.outputs[0][0], by_rank.outputs[0][0]) == (16, 64)
    with pytest.raises(ValueError, match=r"one array for each rank \(64\) or for each chip \(16\)"):
        TRN2.all_reduce([np.ones(3, np.float32)] * 5)
    row = GEN2.all_gather([np.array([i]) for i in range(4)], group="0/3")
    assert row.outputs[0].tolist() == [0, 1, 2, 3]
    named = GEN2.broadcast(
        [np.array([i]) for i in range(2)], group=[(0, 0, 1), (1, 0, 1)], root=(1, 0, 1)
    )
    assert named.outputs[0].tolist() == [1]


def test_every_method_is_its_function() -> None:
    arrays = [np.arange(4, dtype=np.int32) + rank for rank in range(4)]
    group = range(4)
    for name in (
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "all_gather_v",
        "all_to_all",
        "broadcast",
    ):
        method = getattr(GEN2, name)(arrays, group)
        function = getattr(collectives, name)(arrays, GEN2, group)
        assert dataclasses.replace(method, outputs=()) == dataclasses.replace(function, outputs=())
    counts = np.ones((4, 4), int)
    assert GEN2.all_to_all_v(arrays, counts, group).outputs[1].tolist() == [1, 2, 3, 4]
    assert GEN2.permute(arrays, [(0, 1)], group).outputs[1].tolist() == [0, 1, 2, 3]
    assert (
        GEN2.collective_time("all_reduce", 1e6).time
        == collectives.time("all_reduce", 1e6, GEN2).time
    )
    cluster = systems.cluster(2, TRN2)
    assert cluster.all_reduce([np.ones(1, np.float32)] * 32).outputs[0][0] == 32


# Costs


def refused(match: str, **options: Any) -> None:
    arrays = options.pop("arrays", [np.ones(4, np.float32)] * 4)
    system = options.pop("system", TRN2)
    operation = options.pop("operation", "all_reduce")
    with pytest.raises(ValueError, match=match):
        getattr(collectives, operation)(arrays, system=system, **options)


def test_wrong_arguments_are_named() -> None:
    refused(r"rank 64; allowed: 0 to 63", group=[0, 1, 2, 64])
    refused(r"rank -1", group=[0, 1, 2, -1])
    refused(r"rank 1 stands in group 0 and in group 1", group=[[0, 1], [1, 2]])
    refused(r"rank 2 twice", group=[0, 2, 2, 3])
    refused(r"group 1 has 1 ranks", group=[[0, 1, 2], [3]])
    refused(r"arrays has 4 entries; group has 3 ranks", group=[0, 1, 2])
    refused(r"group is empty", group=[])
    refused(r"has no chip 9/9", group=[(0, 0), (9, 9)])
    refused(r"the nearest is \"kangaring\"", group=range(4), algorithm="kangoring")
    refused(r"all_reduce does not have; allowed: auto, ring", group=range(4), algorithm="chain")
    refused(r"the nearest is \"add\"", group=range(4), op="ad")
    refused(r"rounding", group=range(4), rounding="up")
    refused(r"rng goes with", group=range(4), rounding="stochastic")
    refused(r"rng goes with", group=range(4), rng=3)
    refused(r"dtype", group=range(4), dtype="float9")
    refused(r"the nearest is \"index\"", group=range(4), order="indx")
    refused(r"arrays\[1\] has shape \(2,\)", arrays=[np.ones(1), np.ones(2)], group=[0, 1])
    mixed = [np.ones(1, np.float32), np.ones(1, np.float16)]
    refused(r"arrays\[1\] has dtype float16", arrays=mixed, group=[0, 1])
    refused(
        r"4 ranks do not divide; 8 would do",
        operation="reduce_scatter",
        group=range(4),
        arrays=[np.ones(5)] * 4,
    )
    refused(
        r"4 ranks do not divide", operation="all_to_all", group=range(4), arrays=[np.ones(6)] * 4
    )
    refused(r"axis is 1", operation="all_gather", group=range(4), axis=1)
    refused(r"axis is 0", operation="all_gather", group=range(4), arrays=[np.float32(1)] * 4)
    refused(r"needs numbers", group=range(4), arrays=[np.ones(2, np.complex64)] * 4)
    refused(r"system is missing", system=None)
    refused(r"trn2", system="trn22")
    refused(r"root has 9", operation="broadcast", group=range(4), root=9)


def test_permutes_that_are_none_are_refused() -> None:
    for pairs, options, match in (
        ([(0, 1), (0, 2)], {}, "rank 0 sends to rank 1 and to rank 2"),
        ([(0, 1), (2, 1)], {}, "rank 1 receives"),
        ([(0, 7)], {}, "pairs has 7"),
        ([(0, 1), (1, 0), (2, 3), (3, 2)], {"algorithm": "ring"}, "no ring"),
        ([(0, 1), (1, 2), (2, 3)], {"algorithm": "ring"}, "no ring"),
    ):
        refused(match, operation="permute", group=range(4), pairs=pairs, **options)


def test_algorithms_refuse_groups_that_they_cannot_do() -> None:
    cannot = {
        "rdh": (GEN2, range(12), "a power of two of chips"),
        "kangaring": (TRN2, [0, 4, 8], "all ranks of each chip"),
        "hierarchical": (TRN2, range(64), "two levels"),
    }
    for algorithm, (system, group, match) in cannot.items():
        refused(
            match, arrays=[np.ones(3)] * len(group), system=system, group=group, algorithm=algorithm
        )
    uneven = [0, 1, 2, 3, 16]
    refused(
        "hierarchical", arrays=[np.ones(1)] * 5, system=GEN2, group=uneven, algorithm="hierarchical"
    )


def test_schedules_that_would_be_too_large_are_refused() -> None:
    cluster = systems.cluster(20, GEN2)
    with pytest.raises(ValueError, match=r"of 11520 ranks has \d+ transfers"):
        collectives.time("all_to_all", 1e6, cluster, range(11520))


def test_a_million_chips_are_timed_by_one_system() -> None:
    cluster = systems.cluster(6945, GEN2)
    cost = collectives.time("all_reduce", 1e9, cluster)
    assert (cost.ranks, cost.binding) == (6945 * 576, "server links")
    # Each chip sends nearly its part of the buffer twice, at half of 25 GB/s.
    network = 2 * 6944 / 6945 * 1e9 / 144
    assert cost.bytes_by_link["network of each chip"] == pytest.approx(network)
    inner = sum(collectives.time(half, 1e9, GEN2).time for half in ("reduce_scatter", "all_gather"))
    assert cost.time == pytest.approx(inner + 26 * 15e-6 + network / 12.5e9, rel=0.01)
    assert collectives.time("all_reduce", 1e9, systems.cluster(100, GEN2)).time < cost.time
    with pytest.raises(ValueError, match="allowed: auto, hierarchical"):
        collectives.time("all_reduce", 1e9, cluster, algorithm="ring")
    with pytest.raises(ValueError, match="operation is broadcast"):
        collectives.time("broadcast", 1e9, cluster)


def test_counts_that_do_not_fit_are_refused() -> None:
    arrays = [np.arange(3), np.arange(3)]
    for counts, options, match in (
        ([[1, 2]], {}, r"shape \(1, 2\)"),
        ([[1, -2], [0, 0]], {}, "-2; must not be negative"),
        ([[3, 3], [0, 0]], {}, "3 elements from position 0 to 1 begin at 3"),
        ([[1, 1], [1, 1]], {"destinations": [np.zeros(1, int)] * 2}, "begin at 1 of position"),
    ):
        refused(
            match, operation="all_to_all_v", arrays=arrays, group=[0, 1], counts=counts, **options
        )


def test_chips_that_are_cut_off_are_named() -> None:
    lone = (
        systems.trn3_gen2()
        .fail(link=((0, 0, 0), "server/0/0"))
        .fail(link=((0, 0, 0), "rack/0"))
        .fail(link=((0, 0, 0), (1, 0, 0)))
    )
    with pytest.raises(ConnectionError, match="0/0/0"):
        lone.all_reduce([np.ones(1)] * 2, group=[(0, 0, 0), (0, 0, 1)])
