"""What JAX seldom writes: modules made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn3.graph import GraphError, OperationGraph
from trn3.graph.writing import Frame, TensorType
from trn3.jax.conversion import convert
from trn3.jax.hlo import HloBody, HloFunction, HloModule, HloOperation

FLOAT, TRUTH = TensorType("float32", ()), TensorType("bool", ())


def operation(
    name: str, operands: list[int], result: int, *bodies: HloBody, **attributes: Any
) -> HloOperation:
    frames = (Frame("model.py", 3, "f"),)
    return HloOperation(name, operands, [result], [FLOAT], attributes, list(bodies), frames)


def test_cases_of_two_in_a_function_that_is_called_again() -> None:
    """Each call has its own copy, with its branches in their order."""
    negated = HloBody([], [], [operation("stablehlo.negate", [11], 13)], [13])
    choice = operation("stablehlo.if", [10], 12, negated, HloBody([], [], [], [11]))
    pick = HloFunction("pick", HloBody([10, 11], [TRUTH, FLOAT], [choice], [12]), ["", ""])
    calls = [operation("func.call", [0, last], last + 1, callee="pick") for last in (1, 2, 3)]
    main = HloFunction("main", HloBody([0, 1], [TRUTH, FLOAT], calls, [2, 3, 4]), ["p", "x"])
    module = HloModule("picks", {"main": main, "pick": pick})
    converted = convert(module)
    graph = OperationGraph.from_json(converted.text, converted.data)
    x = np.float32(2)
    assert graph.execute([np.array(True), x]) == [-2, 2, -2]
    assert graph.execute([np.array(False), x]) == [2, 2, 2]


def test_operations_that_nobody_needs_are_not_there() -> None:
    operations = [operation("stablehlo.sine", [0], 1), operation("stablehlo.cosine", [0], 2)]
    main = HloFunction("main", HloBody([0], [FLOAT], operations, [2]), ["x"])
    text = convert(HloModule("one", {"main": main})).text
    assert "cosine" in text
    assert '"sine"' not in text


def test_a_reduction_by_what_is_no_function_of_elements_is_refused() -> None:
    """A function of elements with a branch in it has no form for tensors."""
    branch = HloBody([], [], [], [5])
    choice = operation("stablehlo.if", [7], 9, branch, branch)
    body = HloBody([5, 6, 7, 8], [FLOAT] * 4, [choice], [9, 6])
    row = TensorType("float32", (3,))
    reduce = operation("stablehlo.reduce", [0, 1, 2, 3], 4, body, dimensions=[0])
    kinds = [row, row, FLOAT, FLOAT]
    main = HloFunction("main", HloBody([0, 1, 2, 3], kinds, [reduce], [4]), list("abcd"))
    with pytest.raises(GraphError, match=r"^model\.py:3: if: stands in a function of elements"):
        convert(HloModule("several", {"main": main}))
