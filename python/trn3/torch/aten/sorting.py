"""Elements in order."""

from __future__ import annotations

from trn3.graph.writing import TensorType
from trn3.torch.aten.reductions import one_axis
from trn3.torch.aten.registry import AtenCall, aten
from trn3.torch.aten.writer import AtenWriter

__all__: list[str] = []


def _sorted(writer: AtenWriter, x: int, axis: int, *, descending: bool) -> list[int]:
    places = writer.iota(writer.shape(x), axis)
    kinds = [writer.types[x], writer.types[places]]
    attributes = {"dimension": axis, "stable": True, "descending": descending, "keys": 1}
    return writer.add("sort", [x, places], kinds, attributes)


@aten("sort", "argsort")
def _sort(call: AtenCall) -> list[int] | int:
    writer, x = call.writer, call.number("self")
    shape = writer.shape(x)
    x = x if shape else writer.reshape(x, [1])
    dimension = -1 if call["dim"] is None else call["dim"]
    axis = one_axis(dimension, len(writer.shape(x)))
    made = _sorted(writer, x, axis, descending=bool(call["descending"]))
    made = [writer.reshape(number, shape) for number in made]
    return made[1] if "argsort" in call.name else made


@aten("topk")
def _topk(call: AtenCall) -> list[int]:
    writer, x, count = call.writer, call.number("self"), call["k"]
    shape = writer.shape(x)
    x = x if shape else writer.reshape(x, [1])
    rank = len(writer.shape(x))
    axis = one_axis(-1 if call["dim"] is None else call["dim"], rank)
    if call["largest"] is False or axis != rank - 1:
        made = _sorted(writer, x, axis, descending=call["largest"] is not False)
        made = [writer.part(number, axis, 0, count) for number in made]
    else:
        cut = (*writer.shape(x)[:-1], count)
        kinds = [TensorType(writer.dtype(x), cut), TensorType("int32", cut)]
        made = writer.add("top_k", [x], kinds, {"k": count})
    return [writer.reshape(number, call.type(place).shape) for place, number in enumerate(made)]
