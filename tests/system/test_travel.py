"""Objects go through pickle and copy, as sweeps on processes need."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3
from trn3 import systems

GEN2 = systems.trn3_gen2()

MADE: dict[str, Callable[[], Any]] = {
    "bound": lambda: GEN2.bound("all_to_all").levels,
    "spec": GEN2.spec,
    "facts": lambda: GEN2.facts,
    "cost": lambda: GEN2.collective_time("all_reduce", 1e6, range(8)),
    "result": lambda: GEN2.all_reduce([np.arange(3.0), np.ones(3)], range(2)),
    "faults": lambda: GEN2.fail("0/0/1").fail("rack/0:1", link=((0, 3, 1), (1, 3, 1))),
    "joined": lambda: trn3.Cluster(systems.trn2_instance(), 2).system(),
    "joined with faults": lambda: trn3.Cluster(systems.trn2_instance(), 2).system().fail("1/0/1"),
    "comparison": lambda: trn3.compare("trainium3", "b300").systems,
}


@pytest.mark.parametrize("name", MADE)
def test_pickle_returns_an_equal(name: str) -> None:
    made = MADE[name]()
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made


@pytest.mark.parametrize("name", MADE)
def test_hash_is_that_of_an_equal(name: str) -> None:
    made = MADE[name]()
    assert hash(pickle.loads(pickle.dumps(made))) == hash(made)


def test_pickle_keeps_what_failed() -> None:
    broken = MADE["faults"]()
    again = pickle.loads(pickle.dumps(broken))
    assert again.faults == broken.faults
    assert again.slowdown.factor == broken.slowdown.factor
    assert again.bound("all_to_all").per_chip == broken.bound("all_to_all").per_chip


def test_pickle_keeps_a_bound() -> None:
    bound = GEN2.bound("all_to_all")
    again = pickle.loads(pickle.dumps(bound))
    assert again.per_chip == bound.per_chip
    assert again.binding == bound.binding
    assert dict(again.levels) == dict(bound.levels)


def test_pickle_keeps_flows() -> None:
    result = GEN2.simulate([{"source": 0, "target": 1, "bytes": 1e6}])
    again = pickle.loads(pickle.dumps(result))
    assert dict(again.bytes_by_link) == dict(result.bytes_by_link)
    assert again.finish == result.finish


def test_result_differs_where_outputs_do() -> None:
    first = GEN2.all_reduce([np.arange(3.0), np.ones(3)], range(2))
    other = GEN2.all_reduce([np.arange(3.0), np.zeros(3)], range(2))
    assert first != other
    assert first == GEN2.all_reduce([np.arange(3.0), np.ones(3)], range(2))


def test_mapping_refuses_change() -> None:
    levels: Any = GEN2.bound("all_to_all").levels
    with pytest.raises(TypeError):
        levels["rack"] = 1.0
