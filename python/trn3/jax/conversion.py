"""StableHLO to graphs: functions put where they are called, bodies isolated, lines kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from trn3.graph import GraphError
from trn3.graph.writing import BodyWriter, Frame, TensorType
from trn3.jax.attributes import ATTRIBUTES
from trn3.jax.graph_calls import ATTRIBUTES_KEY, TARGET
from trn3.jax.graph_names import graph_names
from trn3.jax.hlo import HloBody, HloModule, HloOperation
from trn3.jax.joins import TensorJoins
from trn3.jax.locations import TracedFunction, at_line, user_frame
from trn3.jax.regions import (
    arg_function,
    captured,
    comparison_order,
    joining_function,
    least,
    selecting_direction,
)
from trn3.jax.sharded import (
    FROM_WHOLE,
    TO_WHOLE,
    RankValues,
    cuts_of,
    first_cut,
    ranks_of,
    tile_cut,
)
from trn3.jax.wide import WideIntegers
from trn3.jax.written import RankTables, WrittenGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trn3.jax.sharding import ArraySharding

__all__ = ["convert"]

_DTYPES = {"bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"}
_DTYPES |= {"float16", "float32", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"}
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
# They say where values lie, which is all the same on one core.
_IDENTITIES = {"stablehlo.optimization_barrier", "sdy.sharding_constraint"}
_CROSSINGS = {"Sharding", FROM_WHOLE, TO_WHOLE}
_PRECISIONS = {(8, 7): "bfloat16", (5, 10): "float16", (4, 3): "float8_e4m3", (5, 2): "float8_e5m2"}


def convert(module: HloModule) -> WrittenGraph:
    """Write a module as a graph.

    Raises
    ------
    GraphError
        If an operation has no counterpart in graphs; with its line.
    """
    main = module.functions["main"]
    tables = RankTables()
    for name, kind in zip(main.input_names, main.body.types, strict=True):
        if kind.dtype not in _DTYPES:
            allowed = ", ".join(sorted(_DTYPES))
            raise GraphError(f"argument {name or 'without a name'} is {kind}; allowed: {allowed}")
    cuts = [first_cut(module, main.body, number) for number in main.body.inputs]
    inputs_cut = [None if cut is None or cut.is_whole else cut for cut in cuts]
    kinds = [
        kind if cut is None else TensorType(kind.dtype, cut.local(kind.shape))
        for kind, cut in zip(main.body.types, inputs_cut, strict=True)
    ]
    writer = BodyWriter(tables, kinds)
    conversion = _BodyConversion(module, writer, graph_names())
    values = RankValues(writer, {})
    for place, (number, cut) in enumerate(zip(main.body.inputs, inputs_cut, strict=True)):
        if cut is None:
            values[number] = place
        else:
            values.put(number, cut, place)
    conversion.body(main.body, values, TracedFunction("main", None))
    parts = [values.parts.get(number) for number in main.body.outputs]
    outputs = [
        values[number] if part is None else part[1]
        for number, part in zip(main.body.outputs, parts, strict=True)
    ]
    body = writer.body(outputs)
    named = zip(main.input_names, body.pop("inputs"), strict=True)
    inputs = [{"name": name, **kind} for name, kind in named]
    graph = {"format": "trn3-graph", "version": 1, "name": module.name, "inputs": inputs}
    if tables.runs_on_ranks:
        graph["ranks"] = ranks_of(module)
    text = json.dumps({**graph, "locations": tables.locations(), **body})
    outputs_cut = [None if part is None else part[0] for part in parts]
    return WrittenGraph(text, tables.data, inputs_cut, outputs_cut, tables.whole, tables.kernels)


class _BodyConversion:
    """Writes one body of a graph; functions that are called in it become part of it."""

    def __init__(
        self,
        module: HloModule,
        writer: BodyWriter,
        names: dict[str, str],
        lengths: tuple[int, ...] | None = None,
    ) -> None:
        self._module = module
        self._writer = writer
        self._names = names
        # Of a function of elements that is written for tensors: the shape of all.
        self._lengths = lengths
        self._wide = WideIntegers(writer)
        self._function = TracedFunction("main", None)
        self._cuts: dict[int, ArraySharding | None] = {}
        self._uncut: dict[int, Frame | None] = {}
        # Those whose body decides what they become.
        self._special: dict[str, Callable[[HloOperation, list[int]], list[int]]] = {
            "stablehlo.all_gather": self._meeting,
            "stablehlo.all_reduce": self._meeting,
            "stablehlo.all_to_all": self._meeting,
            "stablehlo.case": self._case,
            "stablehlo.convolution": self._convolution,
            "stablehlo.custom_call": self._custom_call,
            "stablehlo.if": self._if,
            "stablehlo.reduce": self._reduce,
            "stablehlo.reduce_precision": self._reduce_precision,
            "stablehlo.reduce_scatter": self._meeting,
            "stablehlo.reduce_window": self._reduce_window,
            "stablehlo.scatter": self._scatter,
            "stablehlo.select_and_scatter": self._select_and_scatter,
            "stablehlo.sort": self._sort,
            "stablehlo.while": self._while,
        }

    def body(self, body: HloBody, values: RankValues, function: TracedFunction) -> None:
        """Write the operations of a body; `values` are the numbers of what it may take."""
        outer, self._function = self._function, function
        for operation in body.operations:
            self._writer.frame = user_frame(operation.frames, function)
            if self._lengths is not None:
                operation = self._widened(operation)  # noqa: PLW2901 - the same, for tensors
            if (callee := _CALLS.get(operation.name)) is not None:
                self._call(operation, operation.attributes[callee], values)
                continue
            if operation.attributes.get("call_target_name") in _CROSSINGS:
                self._cross(operation, values)
                continue
            if operation.name == "sdy.manual_computation":
                self._on_ranks(operation, values)
                continue
            if (parts := values.elementwise(operation)) is not None:
                self._on_parts(operation, *parts, values)
                continue
            operands = [values[number] for number in operation.operands]
            made = self._operation(operation, operands, values)
            values.update(zip(operation.results, made, strict=True))
        # Who cuts a value that no rank takes a part of asks for what is computed whole.
        for frame in self._uncut.values():
            self._computed_whole(frame)
        self._uncut.clear()
        self._function = outer

    def _widened(self, operation: HloOperation) -> HloOperation:
        """Return an operation on elements as one on tensors."""
        lengths = self._lengths or ()
        if operation.bodies or any(kind.shape for kind in operation.types):
            self._refuse(operation, "stands in a function of elements; allowed: of elements alone")
        kinds = [TensorType(kind.dtype, lengths) for kind in operation.types]
        moves = ("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.transpose")
        name = "stablehlo.optimization_barrier" if operation.name in moves else operation.name
        return replace(operation, name=name, types=kinds)

    def _call(self, operation: HloOperation, name: str, values: RankValues) -> None:
        function = self._module.functions[name].body
        inner = RankValues(self._writer, {})
        inner.adopt(values, operation.operands, function.inputs)
        self._wide.pass_on(operation.operands, function.inputs)
        self.body(function, inner, TracedFunction(name, self._writer.frame))
        self._wide.pass_on(function.outputs, operation.results)
        values.adopt(inner, function.outputs, operation.results)

    def _on_ranks(self, operation: HloOperation, values: RankValues) -> None:
        """Write what each rank does with its part of values that are there for all."""
        self._tables().runs_on_ranks = True
        body = operation.bodies[0]
        inner = RankValues(self._writer, {})
        taken = captured(operation.bodies)
        inner.adopt(values, taken, taken)
        cuts = cuts_of(self._module, operation, "in")
        for number, given, cut in zip(body.inputs, operation.operands, cuts, strict=True):
            inner[number] = values.share(given, cut)
        self._wide.pass_on(operation.operands, body.inputs)
        self.body(body, inner, self._function)
        self._wide.pass_on(body.outputs, operation.results)
        cuts = cuts_of(self._module, operation, "out")
        for number, given, cut in zip(operation.results, body.outputs, cuts, strict=True):
            values.put(number, cut, inner[given])

    def _cross(self, operation: HloOperation, values: RankValues) -> None:
        """Enter or leave what runs on ranks, as older versions of JAX say it."""
        (given,), (made,) = operation.operands, operation.results
        target = operation.attributes["call_target_name"]
        self._wide.pass_on(operation.operands, operation.results)
        if target == "Sharding":
            values.adopt(values, [given], [made])
            self._cuts[made] = tile_cut(operation)
            if self._cuts[made] is not None:
                self._uncut[made] = self._writer.frame
            return
        self._tables().runs_on_ranks = True
        cut = self._cuts.get(given) if target == FROM_WHOLE else tile_cut(operation)
        if target == FROM_WHOLE:
            self._uncut.pop(given, None)
            values[made] = values[given] if cut is None else values.share(given, cut)
        elif cut is None:
            values[made] = values[given]
        else:
            values.put(made, cut, values[given])

    def _computed_whole(self, frame: Frame | None) -> None:
        if not self._tables().whole:
            reason = "cuts what is computed whole here; only jax.shard_map's parts have a time"
            self._tables().whole = at_line(frame, "sharding_constraint", reason)

    def _on_parts(
        self,
        operation: HloOperation,
        cut: ArraySharding,
        operands: list[int],
        values: RankValues,
    ) -> None:
        kinds = [TensorType(kind.dtype, cut.local(kind.shape)) for kind in operation.types]
        made = self._operation(replace(operation, types=kinds), operands, values)
        for number, part in zip(operation.results, made, strict=True):
            values.put(number, cut, part)

    def _tables(self) -> RankTables:
        tables = self._writer.tables
        if not isinstance(tables, RankTables):
            raise TypeError("the writer is not this conversion's")
        return tables

    def _meeting(self, operation: HloOperation, operands: list[int]) -> list[int]:
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        if operation.bodies:
            attributes["function"] = self._joined(operation, ("add", "maximum", "minimum"))
        name = self._names[operation.name]
        given = zip(operands, operation.types, strict=True)
        return [self._writer.one(name, [operand], kind, attributes) for operand, kind in given]

    def _operation(
        self, operation: HloOperation, operands: list[int], values: RankValues
    ) -> list[int]:
        name = operation.name
        if name in _IDENTITIES:
            # JAX's own random numbers ask for a mesh without axes, which cuts nothing.
            if name == "sdy.sharding_constraint" and '"' in operation.attributes["sharding"]:
                self._computed_whole(self._writer.frame)
            self._wide.pass_on(operation.operands, operation.results)
            return operands
        attributes: dict[str, Any] = {}
        if (read := ATTRIBUTES.get(name)) is not None:
            attributes = read(operation.attributes)
        if self._wide.concerns(operation):
            if (made := self._wide.write(operation, operands, attributes)) is not None:
                return made
            kind = next((kind for kind in operation.types if kind.dtype not in _DTYPES), None)
            came = kind or "an integer of 64 bits"
            self._refuse(operation, f"{came} came; allowed are those known to fit 32 bits")
        for kind in operation.types:
            if kind.dtype not in _DTYPES:
                allowed = ", ".join(sorted(_DTYPES))
                self._refuse(operation, f"the result is {kind}; allowed: {allowed}")
        if name == "stablehlo.constant":
            return [self._writer.constant(operation.attributes["value"], operation.types[0])]
        self._captured = values
        if (special := self._special.get(name)) is not None:
            return special(operation, operands)
        return self._written(operation, operands, attributes)

    def _written(
        self, operation: HloOperation, operands: list[int], attributes: dict[str, Any]
    ) -> list[int]:
        if (name := self._names.get(operation.name)) is None:
            self._refuse(operation, "is no operation of graphs")
        return self._writer.add(name, operands, operation.types, attributes)

    def _refuse(self, operation: HloOperation, reason: str) -> NoReturn:
        name = operation.name.removeprefix("stablehlo.")
        raise GraphError(at_line(self._writer.frame, name, reason))

    def _custom_call(self, operation: HloOperation, operands: list[int]) -> list[int]:
        target = operation.attributes["call_target_name"]
        if target == "trn3.kernel":
            number = operation.attributes["mhlo.backend_config"]["number"]
            kernel = self._writer.tables.kernel(self._module.kernels[number])
            return self._written(operation, operands, {"kernel": kernel})
        if target.startswith(TARGET):
            text = operation.attributes["mhlo.backend_config"][ATTRIBUTES_KEY]
            name = target.removeprefix(TARGET)
            return self._writer.add(name, operands, operation.types, json.loads(text))
        if target == "ApproxTopK":
            return self._nearly_top_k(operation, operands)
        if target != "annotate_device_placement":
            self._refuse(operation, f"{target} is no operation of graphs")
        return operands

    def _nearly_top_k(self, operation: HloOperation, operands: list[int]) -> list[int]:
        """Write `jax.lax.approx_max_k` as all of a sort: nothing is approximate."""
        options = operation.attributes["mhlo.backend_config"]
        (comparator,) = operation.attributes["called_computations"]
        order = comparison_order(self._module.functions[comparator].body)
        if order is None:
            self._refuse(operation, "its comparison is that of no extreme")
        axis = options["reduction_dim"]
        kinds = [self._writer.types[number] for number in operands[:2]]
        attributes = {"dimension": axis, "stable": True, "descending": order[1], "keys": 1}
        found = self._writer.add("sort", operands[:2], kinds, attributes)
        limit = list(kinds[0].shape)
        limit[axis] = operation.types[0].shape[axis]
        none = [0] * len(limit)
        sliced = {"start": none, "limit": limit, "stride": [1] * len(limit)}
        return [
            self._writer.one("slice", [number], kind, sliced)
            for number, kind in zip(found, operation.types, strict=True)
        ]

    def _convolution(self, operation: HloOperation, operands: list[int]) -> list[int]:
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        image, kernel = operands
        spatial = attributes["rhs_layout"]["spatial"]
        reversal = operation.attributes.get("window_reversal", [False] * len(spatial))
        turned = zip(spatial, reversal, strict=True)
        if dimensions := [axis for axis, is_turned in turned if is_turned]:
            kind = self._writer.types[kernel]
            kernel = self._writer.one("reverse", [kernel], kind, {"dimensions": dimensions})
        return self._written(operation, [image, kernel], attributes)

    def _reduce_precision(self, operation: HloOperation, operands: list[int]) -> list[int]:
        given = operation.attributes
        bits = given["exponent_bits"], given["mantissa_bits"]
        own = operation.types[0].dtype
        if bits == (8, 23) or _PRECISIONS.get(bits) == own:
            return operands
        if bits not in _PRECISIONS:
            allowed = ", ".join(map(str, _PRECISIONS))
            self._refuse(operation, f"exponent and mantissa have {bits} bits; allowed: {allowed}")
        narrow = self._writer.convert(operands[0], _PRECISIONS[bits])
        return [self._writer.convert(narrow, own)]

    def _joined(self, operation: HloOperation, allowed: Iterable[str]) -> str:
        function = joining_function(operation.bodies[0])
        if function is None or function not in allowed:
            self._refuse(operation, f"its function is none of {', '.join(allowed)}")
        return function

    def _reduce(self, operation: HloOperation, operands: list[int]) -> list[int]:
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        if len(operands) == 4 and (function := arg_function(operation.bodies[0])):
            found = self._arg_reduce(operation, operands, attributes["dimensions"], function)
            if found is not None:
                return found
        allowed = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
        function = joining_function(operation.bodies[0]) if len(operands) == 2 else None
        if function in allowed:
            return self._written(operation, operands, {**attributes, "function": function})
        half = len(operands) // 2
        joins = self._joins(operation.bodies[0])
        return joins.reduced(operands[:half], operands[half:], attributes["dimensions"])

    def _joins(self, body: HloBody) -> TensorJoins:
        """Write a function of elements wherever it is asked for."""
        around = {number: self._captured[number] for number in captured([body])}

        def join(left: list[int], right: list[int]) -> list[int]:
            lengths = self._writer.types[left[0]].shape
            values = RankValues(self._writer, dict(zip(body.inputs, [*left, *right], strict=True)))
            for number, scalar in around.items():
                kind = TensorType(self._writer.types[scalar].dtype, lengths)
                values[number] = self._writer.one(
                    "broadcast_in_dim", [scalar], kind, {"dimensions": []}
                )
            inner = _BodyConversion(self._module, self._writer, self._names, lengths)
            inner.body(body, values, self._function)
            return [values[number] for number in body.outputs]

        return TensorJoins(self._writer, join)

    def _arg_reduce(
        self, operation: HloOperation, operands: list[int], dimensions: list[int], function: str
    ) -> list[int] | None:
        x, index, first, zero = operands
        kind = self._writer.types[x]
        is_neutral = self._writer.splat(first) == least(kind.dtype, function)
        counts = len(dimensions) == 1 and self._counts_along(index, dimensions[0])
        if not counts or not is_neutral or self._writer.splat(zero) != 0:
            return None
        values, indices = operation.types
        attributes = {"dimension": dimensions[0], "function": function}
        found, places = self._writer.add(
            "arg_reduce", [x], [values, TensorType("int32", indices.shape)], attributes
        )
        return [found, self._writer.convert(places, indices.dtype)]

    def _counts_along(self, number: int, dimension: int) -> bool:
        """Whether a value is 0, 1, 2 ... along this dimension."""
        maker = self._writer.maker(number)
        while maker is not None and maker["op"] == "broadcast_in_dim":
            dimensions = maker["attributes"]["dimensions"]
            if dimension not in dimensions:
                return False
            dimension = dimensions.index(dimension)
            maker = self._writer.maker(maker["operands"][0])
        if maker is None or maker["op"] != "iota":
            return False
        return bool(maker["attributes"]["dimension"] == dimension)

    def _reduce_window(self, operation: HloOperation, operands: list[int]) -> list[int]:
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        allowed = ("add", "multiply", "maximum", "minimum", "and", "or")
        function = joining_function(operation.bodies[0]) if len(operands) == 2 else None
        if function in allowed:
            return self._written(operation, operands, {**attributes, "function": function})
        half = len(operands) // 2
        joins = self._joins(operation.bodies[0])
        return joins.windows(operands[:half], operands[half:], attributes)

    def _select_and_scatter(self, operation: HloOperation, operands: list[int]) -> list[int]:
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        select, scatter = operation.bodies
        attributes["select"] = selecting_direction(select)
        attributes["scatter"] = joining_function(scatter)
        return self._written(operation, operands, attributes)

    def _scatter(self, operation: HloOperation, operands: list[int]) -> list[int]:
        if len(operands) != 3:
            self._refuse(operation, "several values are scattered at once")
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        allowed = ("replace", "add", "subtract", "multiply", "maximum", "minimum")
        function = self._joined(operation, allowed)
        x, indices, updates = operands
        if function == "subtract":
            kind, function = self._writer.types[updates], "add"
            updates = self._writer.one("negate", [updates], kind)
        return self._written(operation, [x, indices, updates], {**attributes, "function": function})

    def _sort(self, operation: HloOperation, operands: list[int]) -> list[int]:
        order = comparison_order(operation.bodies[0])
        if order is None:
            self._refuse(operation, "its comparison is not that of leading operands, in one order")
        keys, descending = order
        attributes = ATTRIBUTES[operation.name](operation.attributes)
        attributes |= {"descending": descending, "keys": keys}
        return self._written(operation, operands, attributes)

    def _while(self, operation: HloOperation, operands: list[int]) -> list[int]:
        taken = captured(operation.bodies)
        given = [*operands, *(self._captured[number] for number in taken)]
        attributes = {
            name: self._isolated(body, taken, given, passes)
            for name, body, passes in zip(
                ("condition", "body"), operation.bodies, (False, True), strict=True
            )
        }
        kinds = [self._writer.types[number] for number in given]
        found = self._writer.add("while", given, kinds, attributes)
        return found[: len(operands)]

    def _case(self, operation: HloOperation, operands: list[int]) -> list[int]:
        chosen = 0 if len(operation.bodies) == 1 else self._writer.splat(operands[0])
        if chosen is not None:
            place = chosen if 0 <= chosen < len(operation.bodies) else -1
            branch, values = operation.bodies[place], RankValues(self._writer, self._captured)
            values.parts.update(self._captured.parts)
            self.body(branch, values, self._function)
            return [values[number] for number in branch.outputs]
        taken = captured(operation.bodies)
        given = [self._captured[number] for number in taken]
        branches = [self._isolated(body, taken, given, False) for body in operation.bodies]
        return self._writer.add(
            "case", [operands[0], *given], operation.types, {"branches": branches}
        )

    def _if(self, operation: HloOperation, operands: list[int]) -> list[int]:
        index = self._writer.convert(operands[0], "int32")
        then, otherwise = operation.bodies
        return self._case(replace(operation, bodies=[otherwise, then]), [index])

    def _isolated(
        self, body: HloBody, taken: list[int], given: list[int], passes: bool
    ) -> dict[str, Any]:
        """Write a body that is given all that it takes; where asked for, it passes that on."""
        inputs = [*body.inputs, *taken]
        writer = BodyWriter(self._writer.tables, [self._writer.types[number] for number in given])
        values = RankValues(writer, dict(zip(inputs, range(len(inputs)), strict=True)))
        inner = _BodyConversion(self._module, writer, self._names)
        inner.body(body, values, self._function)
        outputs = [*body.outputs, *(taken if passes else [])]
        return writer.body([values[number] for number in outputs])
