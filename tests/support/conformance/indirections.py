"""Operands whose addresses tiles and registers hold: `.indirect` columns, dynamic offsets, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import trn3.nki.language as nl
from support.conformance.elementwise import ones
from support.conformance.table import Array, Close, Refusal, Row, Script, Tile, compare
from support.core import Machine
from trn3.machine import NkiTensor
from trn3.nki import isa

Generator = np.random.Generator
#: The function, the operand that is a view, and the others.
Operation = tuple[str, str, str, dict[str, Any], Callable[[Array], Array | Close]]

_GROUP: Final = 16
_SHAPE: Final = (32, 48)
_PICKED: Final = 2 * _GROUP


def _running(x: Array) -> Array:
    return np.cumsum(x, axis=1, dtype=np.float32)


#: With small whole numbers all but the exponentials are exact.
_OPERATIONS: Final[tuple[Operation, ...]] = (
    ("tensor_copy", "src", "vector", {"engine": isa.vector_engine}, lambda x: x),
    ("tensor_copy", "src", "scalar", {"engine": isa.scalar_engine}, lambda x: x),
    ("tensor_scalar", "data", "vector", {"op0": nl.add, "operand0": 3.0}, lambda x: x + 3),
    (
        "tensor_scalar",
        "data",
        "scalar",
        {"op0": nl.multiply, "operand0": 2.0, "engine": isa.scalar_engine},
        lambda x: x * 2,
    ),
    ("activation", "data", "square", {"op": nl.square, "scale": -1.0}, np.square),
    (
        "activation_reduce",
        "data",
        "abs",
        {"op": nl.abs, "reduce_op": nl.add, "reduce_res": None},
        np.abs,
    ),
    (
        "activate2",
        "data",
        "relu",
        {"op": nl.relu, "op0": nl.multiply, "imm0": 2.0, "op1": nl.add, "imm1": 1.0},
        lambda x: np.maximum(2 * x + 1, 0),
    ),
    ("exponential", "src", "one", {"max_value": 1.0}, lambda x: Close(np.exp(x - 1.0))),
    (
        "tensor_scalar_reduce",
        "data",
        "add",
        {"op0": nl.subtract, "operand0": 1.0, "reduce_op": nl.add},
        lambda x: x - 1,
    ),
    (
        "tensor_scalar_cumulative",
        "src",
        "sum",
        {"op0": nl.multiply, "op1": nl.add, "imm0": 1.0},
        _running,
    ),
)  # fmt: skip


def _whole(rng: Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-8, 9, shape).astype(np.float32)


def _columns(
    rng: Generator, partitions: int, kind: str, group: int = _GROUP
) -> tuple[Array, Array]:
    """Return columns for each group, as lists [partitions, picked] and as their tile."""
    groups, count = partitions // group, 2 * group
    # Different ones where there are enough: what scatters must not write twice.
    repeats = -(-count // _SHAPE[1])
    lists = np.stack([np.tile(rng.permutation(_SHAPE[1]), repeats)[:count] for _ in range(groups)])
    # Entry i of a list at partition i % group, column i // group of the group's rows.
    tile = lists.reshape(groups, 2, group).transpose(0, 2, 1).reshape(partitions, 2)
    return lists.repeat(group, axis=0), tile.astype(kind)


def _gathered(operation: Operation, kind: str, memory: str, rng: Generator) -> Script:
    function, operand, _, options, exact = operation
    x = _whole(rng, _SHAPE)
    lists, index = _columns(rng, _SHAPE[0], kind)
    wanted = exact(np.take_along_axis(x, lists, axis=1))

    def run(machine: Machine) -> None:
        dst = machine.empty((_SHAPE[0], _PICKED))
        view = machine.tile(x, buffer=memory).indirect(machine.tile(index, kind))
        getattr(isa, function)(dst=dst, **{operand: view}, **options)
        compare(machine.get(dst), wanted)

    return Script(run)


def _scattered(operation: Operation, kind: str, rng: Generator) -> Script:
    function, operand, _, options, exact = operation
    x, before = _whole(rng, (_SHAPE[0], _PICKED)), _whole(rng, _SHAPE)
    lists, index = _columns(rng, _SHAPE[0], kind)
    result = exact(x)
    wanted: Any = before.astype(np.float64) if isinstance(result, Close) else before.copy()
    np.put_along_axis(wanted, lists, result.values if isinstance(result, Close) else result, 1)

    def run(machine: Machine) -> None:
        dst = machine.tile(before)
        view = dst.indirect(machine.tile(index, kind))
        getattr(isa, function)(dst=view, **{operand: machine.tile(x)}, **options)
        compare(machine.get(dst), Close(wanted) if isinstance(result, Close) else wanted)

    return Script(run)


def _two_inputs(engine: Any, rng: Generator) -> Script:
    x, y, before = _whole(rng, _SHAPE), _whole(rng, (32, _PICKED)), _whole(rng, _SHAPE)
    lists, index = _columns(rng, 32, "uint16")
    total = np.take_along_axis(x, lists, axis=1) + y
    wanted = before.copy()
    np.put_along_axis(wanted, lists, total, 1)

    def run(machine: Machine) -> None:
        columns = machine.tile(index, "uint16")
        dst = machine.tile(before)
        source = machine.tile(x).indirect(columns)
        isa.tensor_tensor(dst.indirect(columns), source, machine.tile(y), nl.add, engine)
        compare(machine.get(dst), wanted)

    return Script(run)


def _reduced(rng: Generator) -> Script:
    x = _whole(rng, _SHAPE)
    lists, index = _columns(rng, 32, "uint32")
    wanted = np.take_along_axis(x, lists, axis=1).max(axis=1, keepdims=True)

    def run(machine: Machine) -> None:
        dst = machine.empty((32, 1))
        view = machine.tile(x).indirect(machine.tile(index, "uint32"))
        isa.tensor_reduce(dst, nl.maximum, view, axis=1)
        compare(machine.get(dst), wanted)

    return Script(run)


def _predicated(rng: Generator) -> Script:
    before, source = _whole(rng, _SHAPE), _whole(rng, (32, _PICKED))
    mask = rng.integers(0, 2, _SHAPE).astype(np.uint8)
    lists, index = _columns(rng, 32, "uint16")
    chosen = np.take_along_axis(mask, lists, axis=1) != 0
    wanted = before.copy()
    kept = np.take_along_axis(before, lists, axis=1)
    np.put_along_axis(wanted, lists, np.where(chosen, source, kept), 1)

    def run(machine: Machine) -> None:
        columns = machine.tile(index, "uint16")
        dst, predicate = machine.tile(before), machine.tile(mask, "uint8")
        isa.tensor_copy_predicated(
            dst.indirect(columns), machine.tile(source), predicate.indirect(columns)
        )
        compare(machine.get(dst), wanted)

    return Script(run)


def _product(operand: str, rng: Generator) -> Script:
    """TensorE takes the columns of a list for 32 partitions."""
    a, b = _whole(rng, (64, 48)), _whole(rng, (64, 48))
    lists, index = _columns(rng, 64, "uint16", 32)
    picked = 40
    left, right = a, b
    if operand == "stationary":
        left = np.take_along_axis(a, lists[:, :picked], axis=1)
    else:
        right = np.take_along_axis(b, lists[:, :picked], axis=1)
    wanted = left.T @ right

    def run(machine: Machine) -> None:
        tiles = {"stationary": machine.tile(a, "bfloat16"), "moving": machine.tile(b, "bfloat16")}
        columns = machine.tile(index, "uint16")
        tiles[operand] = tiles[operand].indirect(columns, num_elem=picked)
        dst = machine.empty(wanted.shape, buffer="psum")
        isa.nc_matmul(dst, tiles["stationary"], tiles["moving"])
        compare(machine.get(dst), wanted)

    return Script(run)


def _holder(machine: Machine, holder: str, value: int) -> Any:
    """Return a number as a kernel holds it."""
    if holder == "register":
        return isa.register_alloc(value)
    if holder == "slice":
        return machine.tile([[7, value, 9]], "int32")[0, 1]
    return machine.tile([[value]], holder)


_VIEWS: Final[dict[str, Callable[[NkiTensor, Any], NkiTensor]]] = {
    "ap": lambda t, v: t.ap([[48, 32], [1, 8]], offset=4, scalar_offset=v, indirect_dim=1),
    "select": lambda t, v: t.reshape((32, 6, 8)).select(1, v),
    "slice": lambda t, v: t[:, nl.ds(v, 8)],
    "index": lambda t, v: t.reshape((32, 6, 8))[:, v],
}
_PLACES: Final[dict[str, Callable[[int], slice]]] = {
    "ap": lambda v: slice(4 + v, 12 + v),
    "select": lambda v: slice(8 * v, 8 * v + 8),
    "slice": lambda v: slice(v, v + 8),
    "index": lambda v: slice(8 * v, 8 * v + 8),
}


def _dynamic(way: str, view: str, holder: str, memory: str, rng: Generator) -> Script:
    x, y = _whole(rng, _SHAPE), _whole(rng, (32, 8))
    value = int(rng.integers(0, 6))
    place = _PLACES[view](value)
    wanted = x.copy()
    wanted[:, place] = y

    def run(machine: Machine) -> None:
        whole, part = machine.tile(x, buffer=memory), machine.tile(y)
        found = _VIEWS[view](whole, _holder(machine, holder, value))
        function = isa.dma_copy if memory == "hbm" else isa.tensor_copy
        if way == "read":
            function(part, found)
            compare(machine.get(part), np.ascontiguousarray(x[:, place]))
        else:
            function(found, part)
            compare(machine.get(whole), wanted)

    return Script(run)


def _rows_of(first: Any, count: int, kind: str, rng: Generator) -> Script:
    """Gather rows: the leading stride of a pattern is ignored."""
    x = _whole(rng, (20, 12))
    chosen = rng.integers(0, 19, count)
    wide = rng.integers(0, 5, (count, 3))
    wide[:, 1] = chosen

    def run(machine: Machine) -> None:
        table, dst = machine.tile(x, buffer="hbm"), machine.empty((count, 5))
        index = machine.tile(wide, kind).ap([[3, count], [1, 1]], offset=1)
        isa.dma_copy(dst, table.ap([[first, count], [2, 5]], offset=14, vector_offset=index))
        compare(machine.get(dst), np.ascontiguousarray(x[chosen + 1, 2:12:2]))

    return Script(run)


def _moving_index(rng: Generator) -> Script:
    """Use the value that is there when the instruction runs."""
    x = _whole(rng, _SHAPE)

    def run(machine: Machine) -> None:
        whole, dst = machine.tile(x), machine.empty((32, 8))
        index = machine.tile([[1]], "int32")
        view = whole[:, nl.ds(index, 8)]
        isa.tensor_scalar(index, index, nl.add, 30)
        isa.tensor_copy(dst, view)
        compare(machine.get(dst), np.ascontiguousarray(x[:, 31:39]))

    return Script(run)


def rows() -> Iterator[Row]:
    """Yield the rows of this module's functions."""
    for operation in _OPERATIONS:
        function, operand, label, *_ = operation
        for kind in ("uint16", "uint32"):
            build: Any = partial(_gathered, operation, kind, "sbuf")
            yield Row(function, f"indirect-{operand}-{label}-{kind}", build)
        yield Row(
            function,
            f"indirect-{operand}-{label}-psum",
            partial(_gathered, operation, "uint16", "psum"),
        )
        yield Row(function, f"indirect-dst-{label}", partial(_scattered, operation, "uint16"))
    for engine in (isa.vector_engine, isa.gpsimd_engine):
        yield Row("tensor_tensor", f"indirect-{engine.name}", partial(_two_inputs, engine))
    yield Row("tensor_reduce", "indirect-data", _reduced)
    yield Row("tensor_copy_predicated", "indirect-dst-predicate", _predicated)
    for operand in ("stationary", "moving"):
        yield Row("nc_matmul", f"indirect-{operand}", partial(_product, operand))
    for memory, function in (("hbm", "dma_copy"), ("sbuf", "tensor_copy")):
        for view in _VIEWS:
            for holder in ("register", "int32", "uint32", "slice"):
                for way in ("read", "write"):
                    build = partial(_dynamic, way, view, holder, memory)
                    yield Row(function, f"dynamic-{view}-by-{holder}-{way}", build)
    for first in (0, 1, 12, 999):
        for kind in ("int32", "uint32"):
            build = partial(_rows_of, first, 16, kind)
            yield Row("dma_copy", f"rows-stride-{first}-{kind}", build)
    yield Row("tensor_copy", "dynamic-when-it-runs", _moving_index)


def refusals() -> Iterator[Refusal]:
    """Yield the calls that this module's functions refuse."""
    for arch in ("trn1", "trn2"):
        yield Refusal(
            "tensor_copy",
            f"indirect-{arch}",
            lambda: {
                "dst": Tile((32, 32)),
                "src": Tile(np.zeros((32, 48), np.float32), view=_by_columns),
            },
            "gen4",
            arch=arch,
        )

    def columns(function: str, label: str, match: str, **call: Any) -> Refusal:
        view = Tile(np.zeros((32, 48), np.float32), view=_by_columns)
        arguments = {name: view if value is None else value for name, value in call.items()}
        return Refusal(function, f"indirect-{label}", lambda: arguments, match)

    takes_none = r"takes no \.indirect"
    tile = partial(ones, (32, 32))
    yield columns("memset", "dst", takes_none, dst=None, value=0.0)
    yield columns(
        "tensor_copy", "gpsimd", takes_none, dst=tile(), src=None, engine=isa.gpsimd_engine
    )
    yield columns(
        "tensor_tensor", "data2", takes_none, dst=tile(), data1=tile(), data2=None, op=nl.add
    )
    yield columns("reciprocal", "data", takes_none, dst=tile(), data=None)
    yield columns("dma_copy", "src", takes_none, dst=tile(), src=None)
    yield columns(
        "nc_stream_shuffle", "src", takes_none, dst=tile(), src=None, shuffle_mask=[0] * 32
    )
    yield columns("max8", "src", takes_none, dst=ones((32, 8)), src=None)


def _by_columns(tile: NkiTensor) -> NkiTensor:
    """Return the first columns, by an index made of the tile's own zeros."""
    return tile.indirect(tile.view(nl.uint32)[:, 0:2])
