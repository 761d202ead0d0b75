"""Values of a function on several ranks: each is there whole, in parts, or both."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from trn3.graph import GraphError
from trn3.graph.writing import TensorType
from trn3.jax.sharding import ArraySharding, RankMesh

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trn3.graph.writing import BodyWriter
    from trn3.jax.hlo import HloBody, HloModule, HloOperation

__all__ = ["FROM_WHOLE", "TO_WHOLE", "RankValues", "cuts_of", "first_cut", "ranks_of", "tile_cut"]

_NAMES = re.compile(r'"([^"]*)"')
# How older versions of JAX enter and leave what runs on ranks: the value's part, and the whole.
FROM_WHOLE, TO_WHOLE = "SPMDFullToShardShape", "SPMDShardToFullShape"
_PLACEMENTS = {"Sharding", TO_WHOLE}
# Of parts they are the parts of the whole: each element comes from those at its place.
_ELEMENTWISE = {"abs", "add", "and", "compare", "convert", "divide", "exponential", "log"}
_ELEMENTWISE |= {"logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "power"}
_ELEMENTWISE |= {"rsqrt", "select", "sign", "sqrt", "subtract", "tanh", "xor"}


class RankValues(dict[int, int]):
    """Numbers of values in a graph by those in StableHLO.

    What is there in parts alone is gathered when somebody asks for the whole.
    """

    def __init__(self, writer: BodyWriter, values: dict[int, int]) -> None:
        super().__init__(values)
        self._writer = writer
        # Values in parts: how they are cut, and the number of the rank's own part.
        self.parts: dict[int, tuple[ArraySharding, int]] = {}

    def __missing__(self, number: int) -> int:
        sharding, whole = self.parts[number]
        for dimension, count in enumerate(sharding.parts):
            if count == 1:
                continue
            kind = self._writer.types[whole]
            shape = list(kind.shape)
            shape[dimension] *= count
            attributes = {"replica_groups": sharding.groups(dimension), "dimension": dimension}
            whole = self._writer.one(
                "all_gather", [whole], TensorType(kind.dtype, tuple(shape)), attributes
            )
        self[number] = whole
        return whole

    def put(self, number: int, sharding: ArraySharding, own: int) -> None:
        """Note a value that a rank has a part of."""
        self.pop(number, None)
        if sharding.is_whole:
            self[number] = own
        else:
            self.parts[number] = sharding, own

    def share(self, number: int, sharding: ArraySharding) -> int:
        """Return the number of the rank's part of a value."""
        known = self.parts.get(number)
        if known is not None and known[0] == sharding:
            return known[1]
        whole = self[number]
        if sharding.is_whole:
            return whole
        kind = self._writer.types[whole]
        local = TensorType(kind.dtype, sharding.local(kind.shape))
        starts = [
            self._start(sharding, dimension, length) for dimension, length in enumerate(local.shape)
        ]
        part = self._writer.one(
            "dynamic_slice", [whole, *starts], local, {"slice_sizes": list(local.shape)}
        )
        self.parts[number] = sharding, part
        return part

    def _start(self, sharding: ArraySharding, dimension: int, length: int) -> int:
        """Where the rank's part begins along a dimension."""
        starts = np.array([index[dimension] * length for index in sharding.indices], np.int32)
        scalar = TensorType("int32", ())
        if not starts.any():
            return self._writer.constant(np.zeros((), np.int32), scalar)
        table = self._writer.constant(starts, TensorType("int32", starts.shape))
        rank = self._writer.one("partition_id", [], TensorType("uint32", ()))
        own = self._writer.one(
            "dynamic_slice", [table, rank], TensorType("int32", (1,)), {"slice_sizes": [1]}
        )
        return self._writer.one("reshape", [own], scalar)

    def adopt(self, other: RankValues, given: Iterable[int], taken: Iterable[int]) -> None:
        """Take values of another one, under new numbers."""
        for old, new in zip(given, taken, strict=True):
            if old in other.parts:
                self.parts[new] = other.parts[old]
            if old in other or old not in other.parts:
                self[new] = other[old]

    def elementwise(self, operation: HloOperation) -> tuple[ArraySharding, list[int]] | None:
        """Return the parts that an operation can be computed on; None where it cannot."""
        if operation.name.removeprefix("stablehlo.") not in _ELEMENTWISE or not self.parts:
            return None
        cuts = [self.parts[number][0] for number in operation.operands if number in self.parts]
        if not cuts or any(cut != cuts[0] for cut in cuts):
            return None
        found = [self._part_of(number, cuts[0]) for number in operation.operands]
        return None if None in found else (cuts[0], [part for part in found if part is not None])

    def _part_of(self, number: int, sharding: ArraySharding) -> int | None:
        if number in self.parts:
            return self.parts[number][1]
        maker = self._writer.maker(self[number])
        if maker is None or maker["op"] != "broadcast_in_dim":
            return None
        if maker["attributes"]["dimensions"]:
            return None
        kind = self._writer.types[self[number]]
        local = TensorType(kind.dtype, sharding.local(kind.shape))
        return self._writer.one("broadcast_in_dim", maker["operands"], local, {"dimensions": []})


def _mesh_of(module: HloModule) -> RankMesh:
    # Axes that are manual or not are those of the same mesh.
    meshes = list(dict.fromkeys(RankMesh.read(text) for text in module.meshes))
    if len(meshes) != 1:
        raise GraphError(f"shard_map: the function has {len(meshes)} meshes; allowed: one")
    return meshes[0]


def ranks_of(module: HloModule) -> int:
    """Return how many ranks the functions of a module run on."""
    if module.meshes:
        return _mesh_of(module).ranks
    functions = (function.body.operations for function in module.functions.values())
    cuts = (tile_cut(operation) for operations in functions for operation in operations)
    ranks = next((len(cut.indices) for cut in cuts if cut is not None), None)
    if ranks is None:
        raise GraphError("shard_map: nothing is cut, which does not say how many ranks there are")
    return ranks


def tile_cut(operation: HloOperation) -> ArraySharding | None:
    """Return how an operation of older versions of JAX says that its value is cut."""
    text = operation.attributes.get("mhlo.sharding")
    if text is None or operation.attributes.get("call_target_name") not in _PLACEMENTS:
        return None
    return ArraySharding.of_tiles(text, len(operation.types[0].shape))


def cuts_of(module: HloModule, operation: HloOperation, which: str) -> list[ArraySharding]:
    """Return the shardings of what a function on ranks takes (``in``) or gives (``out``)."""
    manual = set(_NAMES.findall(operation.attributes["manual_axes"]))
    return _mesh_of(module).shardings(operation.attributes[f"{which}_shardings"], manual)


def _from_whole(body: HloBody) -> list[HloOperation]:
    target = "call_target_name"
    return [each for each in body.operations if each.attributes.get(target) == FROM_WHOLE]


def first_cut(module: HloModule, body: HloBody, number: int) -> ArraySharding | None:
    """Return how the first that takes a part of a value cuts it; None where nobody does."""
    for operation in body.operations:
        if number not in operation.operands:
            continue
        place = operation.operands.index(number)
        if operation.name == "sdy.manual_computation":
            return cuts_of(module, operation, "in")[place]
        is_cut = operation.attributes.get("call_target_name") == "Sharding"
        if is_cut and any(other.operands == operation.results for other in _from_whole(body)):
            return tile_cut(operation)
        if operation.name == "func.call":
            callee = module.functions[operation.attributes["callee"]].body
            found = first_cut(module, callee, callee.inputs[place])
            if found is not None:
                return found
    return None
