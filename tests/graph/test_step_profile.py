"""Graphs run by instructions: the values of the other way, time, and the account."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trn3 import graph


def layer(rows: int = 200, wide: int = 96, out: int = 70) -> graph.OperationGraph:
    """Return tanh(x @ w) and its sums along rows, of bfloat16."""
    x, w = ({"dtype": "bfloat16", "shape": shape} for shape in ([rows, wide], [wide, out]))
    y, total, zero = ({"dtype": "bfloat16", "shape": shape} for shape in ([rows, out], [rows], []))
    operations: list[dict[str, Any]] = [
        {
            "op": "dot_general",
            "operands": [0, 1],
            "results": [y],
            "attributes": {"contracting": [[1], [0]]},
            "location": 0,
        },
        {"op": "tanh", "operands": [3], "results": [y], "location": 1},
        {
            "op": "reduce",
            "operands": [4, 2],
            "results": [total],
            "attributes": {"dimensions": [1], "function": "add"},
            "location": 1,
        },
    ]
    return graph.OperationGraph.from_json(
        json.dumps(
            {
                "format": "trn3-graph",
                "version": 1,
                "name": "layer",
                "locations": [
                    {"file": "model.py", "line": 3, "function": "layer"},
                    {"file": "model.py", "line": 4, "function": "layer"},
                ],
                "inputs": [x, w, zero],
                "operations": operations,
                "outputs": [4, 5],
            }
        )
    )


def arrays(rows: int = 200, wide: int = 96, out: int = 70) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = [(rows, wide), (wide, out)]
    made = [generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    return [*made, np.zeros((), ml_dtypes.bfloat16)]


@pytest.mark.parametrize("arch", ["trn2", "trn3"])
def test_values_are_those_of_the_operations(arch: str) -> None:
    """By instructions and by operation the bits are the same, on any machine."""
    found, step = graph.run_on_core(layer(), arrays(), arch=arch)
    for one, other in zip(found, layer().execute(arrays()), strict=True):
        assert one is not None
        assert one.tobytes() == other.tobytes()
    assert step.latency_us > 0


def test_time_needs_no_values() -> None:
    """A run without values takes as long, and knows no output."""
    found, timed = graph.run_on_core(layer(), None)
    assert found == [None, None]
    assert timed.latency_us == graph.run_on_core(layer(), arrays())[1].latency_us


def test_the_account_names_lines_and_templates() -> None:
    """Each operation has its line, how it was computed, and all that the profile counts."""
    _, step = graph.run_on_core(layer(), None)
    account = step.account()
    assert [(cost.operation, cost.line, cost.template) for cost in account] == [
        ("dot_general.3", "model.py:3", "instructions"),
        ("tanh.4", "model.py:4", "fused"),
        ("reduce.5", "model.py:4", "fused"),
    ]
    assert account[0].macs == 200 * 96 * 70
    assert sum(cost.instructions for cost in account) == len(step.profile.data.instructions.opcode)
    lines = {(line.file, line.line) for line in step.profile.lines()}
    assert {("model.py", 3), ("model.py", 4)} <= lines
    assert "model.py:4" in step.to_html()


def test_two_cores_have_the_bits_of_one() -> None:
    """On two cores the account says which operations run on both, and the profile has each core."""
    sizes = (1024, 1024, 1024)
    (_, whole), (found, step) = (
        graph.run_on_core(layer(*sizes), arrays(*sizes), cores=cores) for cores in (1, 2)
    )
    for one, other in zip(found, layer(*sizes).execute(arrays(*sizes)), strict=True):
        assert one is not None
        assert one.tobytes() == other.tobytes()
    assert [cost.cores for cost in step.account()] == [2, 2, 2]
    assert (whole.cores, step.cores, len(step.profile.cores)) == (1, 2, 2)
    assert step.latency_us < 0.7 * whole.latency_us
    assert step.latency_us == max(core.latency_us for core in step.profile.cores)
    counted = [len(core.data.instructions.opcode) for core in step.profile.cores]
    assert step.instructions == sum(cost.instructions for cost in step.account()) == sum(counted)
    assert "on 2 cores" in repr(step)
    assert "on 2 cores" in step._repr_mimebundle_()["text/html"]


def test_what_is_small_stays_on_the_first_core() -> None:
    """Two cores take as long as one, then; as regions, they add up alike."""
    for whole_below in (1, 2_000_000):
        (_, one), (_, two) = (
            graph.run_on_core(layer(), None, cores=cores, whole_below=whole_below)
            for cores in (1, 2)
        )
        assert [cost.cores for cost in two.account()] == [1, 1, 1]
        assert one.latency_us <= two.latency_us <= one.latency_us + 2
    with pytest.raises(ValueError, match="cores is 3 on trn3; allowed: 1 to 2"):
        graph.run_on_core(layer(), None, cores=3)


def test_tables_show_the_account() -> None:
    """Notebooks get a table of it."""
    _, step = graph.run_on_core(layer(), None)
    shown = step._repr_mimebundle_()
    assert "dot_general.3" in shown["text/html"]


def test_wrong_arguments_are_refused() -> None:
    """Machines, levels and arithmetics are named where they are wrong."""
    with pytest.raises(ValueError, match="trn9"):
        graph.run_on_core(layer(), None, arch="trn9")
    with pytest.raises(ValueError, match="fast"):
        graph.run_on_core(layer(), None, compile="fast")
    with pytest.raises(ValueError, match="int4"):
        graph.run_on_core(layer(), None, matmul="int4")
    with pytest.raises(ValueError, match="whole_below is -1"):
        graph.run_on_core(layer(), None, whole_below=-1)
