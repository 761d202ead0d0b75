"""What callers write for numbers, names and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3
from trn3 import systems

GEN2 = systems.trn3_gen2()
PAIR = [np.arange(4, dtype=np.float32), np.ones(4, np.float32)]


@pytest.mark.parametrize(
    ("op", "name"), [(np.add, "add"), (np.maximum, "max"), (np.minimum, "min")]
)
def test_op_takes_functions(op: Any, name: str) -> None:
    got = GEN2.all_reduce(PAIR, range(2), op=op).outputs[0]
    assert np.array_equal(got, GEN2.all_reduce(PAIR, range(2), op=name).outputs[0])


@pytest.mark.parametrize(("short", "name"), [("bf16", "bfloat16"), ("fp32", "float32")])
def test_dtype_takes_short_names(short: str, name: str) -> None:
    got = GEN2.all_reduce(PAIR, range(2), dtype=short)
    assert got == GEN2.all_reduce(PAIR, range(2), dtype=name)


def test_algorithm_of_no_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"algorithm is None; needed: a name, like 'auto'"):
        GEN2.all_reduce(PAIR, range(2), algorithm=None)


def test_op_of_no_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"op is 3; allowed: 'add', 'max', 'min'"):
        GEN2.all_reduce(PAIR, range(2), op=3)


def test_group_of_tuples_of_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"groups of ranks are lists, like \[\[0, 1\], \[2, 3\]\]"):
        GEN2.all_reduce(PAIR * 2, ((0, 1), (2, 3)))


def test_cluster_takes_any_whole_number() -> None:
    ultraserver = systems.trn2_ultraserver()
    assert trn3.Cluster(ultraserver, np.int64(4)) == trn3.Cluster(ultraserver, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"n is 2\.5; must be a whole number"):
        trn3.Cluster(ultraserver, 2.5)  # type: ignore[arg-type]


def test_collective_time_answers_for_a_million_chips() -> None:
    cluster = trn3.Cluster(systems.trn2_ultraserver(), 15_625)
    small = cluster.collective_time("all_reduce", 1e6)
    large = cluster.collective_time("all_reduce", 1e9)
    assert small.ranks == 4_000_000
    assert 0 < small.time < large.time


def test_neuron_core_is_among_the_systems() -> None:
    assert trn3.system.NeuronCore is trn3.NeuronCore


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_single_step_of_many_ranks_adds_in_order(dtype: Any) -> None:
    # Cut into one piece a rank, the work of 576 ranks would be their number's cube.
    arrays = list(np.random.default_rng(5).integers(-999, 999, (576, 7)).astype(dtype) / dtype(3))
    arrays = [array.astype(dtype) for array in arrays]
    expected = arrays[0]
    for array in arrays[1:]:
        expected = expected + array
    result = GEN2.all_reduce(arrays, algorithm="single_step_mesh")
    assert all(np.array_equal(output, expected) for output in result.outputs)
