"""Graphs that run on ranks: values by NumPy, time by the system's collectives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from trn3 import collectives, graph


def summing(ranks: int, shape: list[int], groups: list[list[int]] | None = None) -> Any:
    """Return the sum over ranks of a value, and their parts one after another."""
    x = {"dtype": "float32", "shape": shape}
    size = len(groups[0]) if groups else ranks
    longer = {"dtype": "float32", "shape": [shape[0] * size, *shape[1:]]}
    lists = groups or []
    operations = [
        {
            "op": "all_reduce", "operands": [0], "results": [x], "location": 0,
            "attributes": {"replica_groups": lists, "function": "add"},
        },
        {
            "op": "all_gather", "operands": [0], "results": [longer], "location": 0,
            "attributes": {"replica_groups": lists, "dimension": 0},
        },
    ]  # fmt: skip
    text = {"format": "trn3-graph", "version": 1, "name": "sum", "ranks": ranks}
    text |= {"locations": [{"file": "model.py", "line": 5}], "inputs": [x]}
    text |= {"operations": operations, "outputs": [1, 2]}
    return graph.OperationGraph.from_json(json.dumps(text))


def arrays(ranks: int, shape: list[int]) -> list[list[Any]]:
    generator = np.random.default_rng(0)
    return [[generator.standard_normal(shape).astype(np.float32)] for _ in range(ranks)]


def test_every_rank_takes_its_group_s_values() -> None:
    groups = [[0, 2], [1, 3]]
    made = summing(4, [3, 2], groups)
    assert made.ranks == 4
    inputs = arrays(4, [3, 2])
    found = made.execute_ranks(inputs)
    for one, other in groups:
        for rank in (one, other):
            np.testing.assert_array_equal(found[rank][0], inputs[one][0] + inputs[other][0])
            gathered = np.concatenate([inputs[one][0], inputs[other][0]])
            np.testing.assert_array_equal(found[rank][1], gathered)


@pytest.mark.parametrize("rank", [0, 3])
def test_by_instructions_a_rank_has_the_same_bits(rank: int) -> None:
    made, inputs = summing(4, [128, 64]), arrays(4, [128, 64])
    expected = made.execute_ranks(inputs)[rank]
    found, step = graph.run_on_ranks(made, inputs, rank=rank, system="trn3")
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        assert one.tobytes() == other.tobytes()
    sizes = {"all_reduce": 128 * 64 * 4, "all_gather": 4 * 128 * 64 * 4}
    for cost, (name, size) in zip(step.account(), sizes.items(), strict=True):
        seconds = collectives.time(name, size, "trn3", range(4)).time
        assert cost.busy_us == pytest.approx(seconds * 1e6, rel=1e-3)
        assert (cost.template, cost.line) == ("collective", "model.py:5")
    timed = graph.run_on_ranks(made, None, system="trn3")[1]
    assert timed.latency_us == step.latency_us


def test_ranks_stand_where_they_are_put() -> None:
    """Ranks on chips of their own have longer ways than those that share one."""
    made = summing(4, [128, 1024])
    close, far = (
        graph.run_on_ranks(made, None, system="trn2", ranks_per_chip=each)[1].account()[0].busy_us
        for each in (4, 1)
    )
    assert 0 < close != far > 0


def test_what_does_not_fit_the_ranks_is_refused() -> None:
    made = summing(4, [3, 2])
    with pytest.raises(ValueError, match="inputs of 1 ranks came; sum runs on 4"):
        made.execute_ranks(arrays(1, [3, 2]))
    with pytest.raises(ValueError, match="sum runs on 4 ranks, each with inputs of its own"):
        made.execute(arrays(1, [3, 2])[0])
    with pytest.raises(ValueError, match="rank 9 of 4 came"):
        graph.run_on_ranks(made, None, rank=9)
    with pytest.raises(ValueError, match="5000 ranks, "):
        graph.run_on_ranks(summing(5000, [3, 2]), None, system="trn3")
    with pytest.raises(graph.GraphError, match=r"model.py:5: all_reduce: replica_groups has no"):
        summing(4, [3, 2], [[0, 1]])
