"""Products by recipes and pruned weights: operators of `trn3.torch.mx_linear`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trn3.torch.aten.registry import aten

if TYPE_CHECKING:
    from trn3.torch.aten.registry import AtenCall

__all__: list[str] = []


@aten("trn3.mx_dot")
def _mx_dot(call: AtenCall) -> int:
    writer = call.writer
    operands = [call.number("lhs"), call.number("rhs")]
    if call["seed"] is not None:
        operands.append(writer.convert(call.number("seed"), "uint32"))
    return writer.one("mx_dot", operands, call.type(), json.loads(call["attributes"]))


@aten("trn3.prune")
def _prune(call: AtenCall) -> int:
    attributes = {"pattern": call["pattern"], "axis": call["axis"]}
    return call.writer.one("prune", [call.number("w")], call.type(), attributes)
