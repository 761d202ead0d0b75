"""One operation of graphs on arrays: what front ends call where they are not compiled."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from trn3._trn3.graph import OperationGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trn3.graph.writing import TensorType

__all__ = ["run_alone"]

_REMEMBERED = 256


def run_alone(
    op: str, operands: Sequence[NDArray[Any]], results: Sequence[TensorType], attributes: str
) -> list[NDArray[Any]]:
    """Run an operation on arrays.

    Parameters
    ----------
    op : str
        Its name in graphs.
    operands : sequence of array
    results : sequence of TensorType
        Types of what it makes.
    attributes : str
        Its attributes, as JSON.

    Raises
    ------
    GraphError
        If the operation refuses its operands.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.graph.writing import TensorType
    >>> x = np.arange(4, dtype=np.float32)
    >>> run_alone("prune", [x], [TensorType("float32", (4,))], '{"pattern": "2:4", "axis": 0}')
    [array([0., 0., 2., 3.], dtype=float32)]
    """
    taken = tuple((operand.dtype.name, operand.shape) for operand in operands)
    made = tuple((kind.dtype, kind.shape) for kind in results)
    return _graph(op, taken, made, attributes).execute(list(operands))


@functools.lru_cache(maxsize=_REMEMBERED)
def _graph(op: str, taken: tuple[Any, ...], made: tuple[Any, ...], text: str) -> OperationGraph:
    inputs, results = (
        [{"dtype": dtype, "shape": shape} for dtype, shape in kinds] for kinds in (taken, made)
    )
    operation = {"op": op, "operands": list(range(len(inputs))), "results": results}
    operation["attributes"] = json.loads(text)
    outputs = list(range(len(inputs), len(inputs) + len(results)))
    graph = {"format": "trn3-graph", "version": 1, "name": op, "inputs": inputs}
    return OperationGraph.from_json(
        json.dumps({**graph, "operations": [operation], "outputs": outputs})
    )
