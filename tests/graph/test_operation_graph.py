"""Graphs read from JSON, run on arrays, refused with operation and line."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from trn3 import graph

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "graph.md"
DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32"]
DTYPES += ["bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"]


def made(
    op: str,
    inputs: list[dict[str, Any]],
    result: dict[str, Any],
    attributes: dict[str, Any] | None = None,
    data: list[NDArray[Any]] | None = None,
) -> graph.OperationGraph:
    operation: dict[str, Any] = {
        "op": op,
        "operands": list(range(len(inputs))),
        "results": [result],
    }
    operation |= {"attributes": attributes or {}, "location": 0}
    text = {
        "format": "trn3-graph",
        "version": 1,
        "name": "step",
        "locations": [{"file": "model.py", "line": 7, "function": "layer"}],
        "inputs": [{"name": f"x{place}", **kind} for place, kind in enumerate(inputs)],
        "operations": [operation],
        "outputs": [len(inputs)],
    }
    return graph.OperationGraph.from_json(json.dumps(text), data)


def kind(dtype: str, *shape: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_of_every_type_come_back_with_their_bits(dtype: str, shape: tuple[int, ...]) -> None:
    """Types, shapes and bits of arrays are kept on the way in and out."""
    own = np.dtype(getattr(ml_dtypes, dtype, dtype))
    count = int(np.prod(shape))
    x = (np.arange(count) % 2).astype(own).reshape(shape)
    found = made("reshape", [kind(dtype, *shape)], kind(dtype, *shape)).execute([x])[0]
    assert (found.dtype, found.shape, found.tobytes()) == (own, shape, x.tobytes())


def test_arrays_may_lie_as_they_like() -> None:
    """Strides, byte order and lists make no difference."""
    twice = made("add", [kind("float32", 2, 3)] * 2, kind("float32", 2, 3))
    x = np.arange(6, dtype=np.float32).reshape(3, 2).T
    y = np.arange(6, dtype=">f4").reshape(2, 3)
    expected = x + y.astype(np.float32)
    np.testing.assert_array_equal(twice.execute([x, y])[0], expected)


def test_constants_come_beside_the_text() -> None:
    value = np.arange(3, dtype=np.int32)
    constant = made("constant", [], kind("int32", 3), {"data": 0}, [value])
    np.testing.assert_array_equal(constant.execute([])[0], value)


def test_a_graph_says_what_it_takes_and_gives() -> None:
    exponential = made("exponential", [kind("bfloat16", 4)], kind("bfloat16", 4))
    assert exponential.name == "step"
    assert exponential.inputs == [("x0", "bfloat16", [4])]
    assert exponential.outputs == [("bfloat16", [4])]


def test_an_operation_is_refused_with_its_line() -> None:
    with pytest.raises(graph.GraphError, match=r"^model\.py:7: fft: is no operation of graphs$"):
        made("fft", [kind("float32", 4)], kind("float32", 4))
    with pytest.raises(graph.GraphError, match=r"^model\.py:7: add: lhs is float32\[4\]"):
        made("add", [kind("float32", 4), kind("float32", 3)], kind("float32", 4))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(graph.GraphError, match="the graph is no such JSON"):
        graph.OperationGraph.from_json("{}")


def test_arguments_of_a_run_are_checked() -> None:
    exponential = made("exponential", [kind("float32", 4)], kind("float32", 4))
    x = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="0 inputs came; step has 1"):
        exponential.execute([])
    with pytest.raises(ValueError, match=r"input 0 \(x0\) is float32\[3\]"):
        exponential.execute([x[:3]])
    with pytest.raises(TypeError, match=r"inputs\[0\] has dtype float64; allowed: bool, int8"):
        exponential.execute([x.astype(np.float64)])
    with pytest.raises(ValueError, match='matmul is "fp4"; allowed: as_typed, bf16'):
        exponential.execute([x], matmul="fp4")


def test_the_page_has_the_table() -> None:
    """docs/reference/graph.md lists what the core has; `scripts/graph_doc.py` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("<!-- operations -->\n")[2].partition("<!-- end of operations -->")[0]
    assert table == graph.markdown()


def test_every_operation_says_what_it_is_made_of_and_how_close_it_is() -> None:
    rows = graph.operations()
    assert len({row["name"] for row in rows}) == len(rows) > 0
    for row in rows:
        assert row["template"], row["name"]
        assert row["accuracy"], row["name"]
        assert row["jax"] or row["aten"], row["name"]
