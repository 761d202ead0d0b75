"""Operators in which ranks meet: functional collectives of torch.distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3.graph.writing import TensorType
from trn3.torch.aten.registry import AtenCall, AtenError, Held, aten
from trn3.torch.groups import members, replica_groups, world_size

if TYPE_CHECKING:
    from trn3.torch.aten.writer import AtenWriter

__all__: list[str] = []

_JOINS = {"sum": "add", "avg": "add", "max": "maximum", "min": "minimum"}


class _Meeting:
    """The ranks that an operator joins, and the operations that they meet in."""

    def __init__(self, call: AtenCall, first: int = 0) -> None:
        self.writer: AtenWriter = call.writer
        own = members(call["group_name"])
        self.size = len(own)
        if self.size > 1:
            self.writer.ranks = world_size()
            groups = replica_groups(own, self.writer.ranks)
            # Whom a broadcast comes from stands first.
            self._groups = [[*group[first:], *group[:first]] for group in groups]

    def one(self, op: str, x: int, kind: TensorType, **attributes: Any) -> int:
        """Add an operation between ranks; what one rank does alone is what it brought."""
        if self.size == 1:
            return x
        return self.writer.one(op, [x], kind, {"replica_groups": self._groups, **attributes})

    def scaled(self, x: int, dimension: int, times: int = 1, parts: int = 1) -> TensorType:
        """Return the type of a value with an axis as many times as long, or of a part of it."""
        shape = list(self.writer.shape(x))
        if shape[dimension] % parts:
            raise AtenError(
                f"cuts {shape[dimension]} elements into {parts} parts; allowed: equal ones"
            )
        shape[dimension] = shape[dimension] // parts * times
        return TensorType(self.writer.dtype(x), tuple(shape))

    def join(self, reduce_op: Any) -> str:
        """Return the function that elements are joined by."""
        name = str(reduce_op).lower().removeprefix("redoptype.").removeprefix("reduceop.")
        if name not in _JOINS:
            raise AtenError(f"joins by {name}; allowed: {', '.join(_JOINS)}")
        return _JOINS[name]

    def averaged(self, x: int, reduce_op: Any) -> int:
        """Divide a sum where the average was asked for, rounded once more **(choice)**."""
        if "avg" not in str(reduce_op).lower() or self.size == 1:
            return x
        return self.writer.scaled("divide", x, self.size)


def _with_axis(call: AtenCall, x: int) -> int:
    return x if call.writer.shape(x) else call.writer.reshape(x, [1])


def _reduced(call: AtenCall, x: int) -> int:
    meeting, op = _Meeting(call), call["reduce_op"]
    made = meeting.one("all_reduce", x, call.writer.types[x], function=meeting.join(op))
    return meeting.averaged(made, op)


def _gathered(call: AtenCall, x: int) -> int:
    meeting, x = _Meeting(call), _with_axis(call, x)
    return meeting.one("all_gather", x, meeting.scaled(x, 0, times=meeting.size), dimension=0)


def _scattered(call: AtenCall, x: int) -> int:
    meeting, op = _Meeting(call), call["reduce_op"]
    kind = meeting.scaled(x, 0, parts=meeting.size)
    made = meeting.one("reduce_scatter", x, kind, dimension=0, function=meeting.join(op))
    return meeting.averaged(made, op)


def _both(*names: str) -> list[str]:
    kinds = ("_c10d_functional", "_c10d_functional_autograd")
    return [f"{kind}.{name}" for name in names for kind in kinds]


def _each(call: AtenCall, written: Any) -> list[int]:
    return [written(call, held.number) for held in call["inputs"]]


@aten(*_both("all_reduce"))
def _all_reduce(call: AtenCall) -> int:
    return _reduced(call, call.number("input"))


@aten(*_both("all_reduce_coalesced"))
def _all_reduce_coalesced(call: AtenCall) -> list[int]:
    return _each(call, _reduced)


@aten(*_both("all_gather_into_tensor", "all_gather_into_tensor_out"))
def _all_gather(call: AtenCall) -> int:
    return _gathered(call, call.number("input"))


@aten(*_both("all_gather_into_tensor_coalesced"))
def _all_gather_coalesced(call: AtenCall) -> list[int]:
    return _each(call, _gathered)


@aten(*_both("reduce_scatter_tensor", "reduce_scatter_tensor_out"))
def _reduce_scatter(call: AtenCall) -> int:
    return _scattered(call, call.number("input"))


@aten(*_both("reduce_scatter_tensor_coalesced"))
def _reduce_scatter_coalesced(call: AtenCall) -> list[int]:
    return _each(call, _scattered)


@aten(*_both("all_to_all_single"))
def _all_to_all(call: AtenCall) -> int:
    meeting, x = _Meeting(call), call.number("input")
    for name in ("output_split_sizes", "input_split_sizes"):
        sizes = list(call[name] or [])
        if len(set(sizes)) > 1:
            raise AtenError(f"{name} are {sizes}; allowed: equal parts")
    kind = meeting.scaled(x, 0, meeting.size, meeting.size)
    return meeting.one("all_to_all", x, kind, split_dimension=0, concat_dimension=0)


@aten("_dtensor.shard_dim_alltoall")
def _reshard(call: AtenCall) -> int:
    meeting, x = _Meeting(call), call.number("input")
    axes = {"split_dimension": call["shard_dim"], "concat_dimension": call["gather_dim"]}
    part = meeting.scaled(x, axes["split_dimension"], parts=meeting.size)
    shape = list(part.shape)
    shape[axes["concat_dimension"]] *= meeting.size
    return meeting.one("all_to_all", x, TensorType(part.dtype, tuple(shape)), **axes)


@aten(*_both("broadcast"))
def _broadcast(call: AtenCall) -> int:
    x = call.number("input")
    return _Meeting(call, call["src"]).one("collective_broadcast", x, call.writer.types[x])


@aten("_c10d_functional.wait_tensor")
def _wait(call: AtenCall) -> int:
    return call.number("tensor")


@aten("_c10d_functional.wait_tensors")
def _wait_all(call: AtenCall) -> list[int]:
    return [held.number for held in call["tensors"] if isinstance(held, Held)]
