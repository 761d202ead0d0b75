"""Graphs of ATen operators, as torch traces them, to graphs of tensor operations."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray

from trn3.graph import GraphError, OperationGraph
from trn3.graph.kernels import KernelThere
from trn3.graph.writing import GraphTables, TensorType
from trn3.torch.aten import AtenCall, AtenError, AtenWriter, converter_of
from trn3.torch.aten.making import BY_DATA, DRAWN, constant, dropped
from trn3.torch.aten.registry import Held
from trn3.torch.custom_operators import why_opaque
from trn3.torch.held_tensors import HELD, held_type
from trn3.torch.locations import at_line, user_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trn3.machine.archs import ArchLike

__all__ = ["ConvertedGraph", "convert"]


@dataclass(frozen=True)
class ConvertedGraph:
    """A graph that was written, and how torch's values are its inputs and outputs.

    Attributes
    ----------
    text, data
        As `OperationGraph.from_json` takes them.
    arguments : list of int
        Places of torch's inputs that are tensors: the first inputs of the graph, in this order.
    names : list of str
        Of all of torch's inputs.
    drawn : list of torch.fx.Node
        Operators of random numbers; what they give follows as inputs.
    outputs : list
        What torch expects: FakeTensor for each output of the graph, in its order; else as it is.
    is_empty : bool
        Whether it has no operation, as where torch only looks at a tensor anew.
    kernels : list
        Those that it calls, by number.
    ranks : int
        How many run it side by side.
    """

    text: str
    data: list[NDArray[Any]]
    arguments: list[int]
    names: list[str]
    drawn: list[Any]
    outputs: list[Any]
    is_empty: bool
    kernels: list[Any]
    ranks: int = 1

    def graph(self, arch: ArchLike | None = None) -> OperationGraph:
        """Check the graph; its kernels run on a machine, or each on its own target."""
        kernels = [KernelThere(kernel, arch) for kernel in self.kernels]
        return OperationGraph.from_json(self.text, self.data, kernels)


def convert(module: Any, name: str, names: Sequence[str] = ()) -> ConvertedGraph:
    """Write the graph of a module of torch.fx, of ATen operators without side effects.

    Parameters
    ----------
    module : torch.fx.GraphModule
        With FakeTensors as ``node.meta["val"]``.
    name : str
        What the graph is called.
    names : sequence of str, optional
        What the inputs are called; the placeholders' own names if they are not as many.

    Raises
    ------
    GraphError
        If an operator has no counterpart in graphs, or an element type; with its line.
    """
    return _GraphConversion(module, name, names).converted()


class _GraphConversion:
    def __init__(self, module: Any, name: str, names: Sequence[str]) -> None:
        self._module = module
        self._name = name
        nodes = list(module.graph.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._names = list(names)
        if len(names) != len(self._inputs):
            self._names = [str(node.target) for node in self._inputs]
        self._drawn = [node for node in nodes if _is_drawn(node)]
        self._values: dict[Any, Any] = {}

    def converted(self) -> ConvertedGraph:
        arguments: list[int] = []
        kinds: list[TensorType] = []
        for place, node in enumerate(self._inputs):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self._values[node] = len(kinds)
                kinds.append(self._argument_type(value, self._names[place]))
                arguments.append(place)
            else:
                self._values[node] = None if value is None else _number(value)
        for node in self._drawn:
            self._values[node] = len(kinds)
            kinds.append(self._held(node, _mask_of(node)))
        tables = GraphTables()
        self._writer = AtenWriter(tables, kinds)
        outputs: list[Any] = []
        for node in self._module.graph.nodes:
            if node.op == "output":
                outputs = list(node.args[0])
            elif node.op != "placeholder":
                self._node(node)
        numbers = [self._values[one] for one in outputs if _is_tensor(one)]
        body = self._writer.body(numbers)
        input_names = [self._names[place] for place in arguments]
        input_names += [f"random bits of {node.name}" for node in self._drawn]
        inputs = [
            {"name": called, **kind}
            for called, kind in zip(input_names, body.pop("inputs"), strict=True)
        ]
        graph = {"format": "trn3-graph", "version": 1, "name": self._name, "inputs": inputs}
        if self._writer.ranks > 1:
            graph["ranks"] = self._writer.ranks
        text = json.dumps({**graph, "locations": tables.locations(), **body})
        expected = [
            one.meta["val"]
            if _is_tensor(one)
            else self._values[one]
            if isinstance(one, torch.fx.Node)
            else one
            for one in outputs
        ]
        return ConvertedGraph(
            text,
            tables.data,
            arguments,
            self._names,
            self._drawn,
            expected,
            not body["operations"],
            tables.kernels,
            self._writer.ranks,
        )

    def _argument_type(self, value: Any, name: str) -> TensorType:
        if (kind := held_type(value)) is None:
            came = f"{_plain(value.dtype)}{list(value.shape)}"
            raise GraphError(f"argument {name} is {came}; allowed: {_allowed()}")
        return kind

    def _held(self, node: Any, value: Any) -> TensorType:
        if (kind := held_type(value)) is None:
            came = f"{_plain(value.dtype)}{list(value.shape)}"
            raise _refusal(node, f"the result is {came}; allowed: {_allowed()}")
        return kind

    def _node(self, node: Any) -> None:
        self._writer.frame = user_frame(node)
        try:
            self._values[node] = self._written(node)
        except AtenError as refusal:
            raise _refusal(node, str(refusal)) from None

    def _written(self, node: Any) -> Any:
        if node.op == "get_attr":
            found = operator.attrgetter(node.target)(self._module)
            if not isinstance(found, torch.Tensor):
                return found
            self._held(node, found)
            return constant(self._writer, found)
        if node.target is operator.getitem:
            return self._values[node.args[0]][node.args[1]]
        results = node.meta.get("val")
        several = results if isinstance(results, list | tuple) else [results]
        for result in several:
            if isinstance(result, torch.Tensor):
                self._held(node, result)
        if not any(isinstance(result, torch.Tensor) for result in several):
            if results is None:
                return None
            return _number(results)
        given = self._arguments(node)
        call = AtenCall(self._writer, str(node.target), given, results)
        is_dropout = call.name == "aten.native_dropout.default"
        if node in self._drawn:
            drawn = self._values[node]
            return dropped(call, drawn) if is_dropout else drawn
        if is_dropout:
            return dropped(call, -1)
        if call.name in BY_DATA:
            raise AtenError("draws by what a tensor holds; allowed: by a number")
        converter = converter_of(node.target)
        if converter is None:
            why = why_opaque(node.target)
            raise AtenError("is no operation of graphs" + (f"; within, {why}" if why else ""))
        return converter(call)

    def _arguments(self, node: Any) -> dict[str, Any]:
        """Arguments by name, tensors as they are held."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            raise AtenError("is no operation of graphs")

        def held(value: Any) -> Any:
            if not _is_tensor(value):
                return self._values[value]
            return Held(self._values[value], value.meta["val"])

        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), held)
        given: dict[str, Any] = {
            argument.name: argument.default_value
            for argument in schema.arguments
            if argument.has_default_value()
        }
        names = [argument.name for argument in schema.arguments]
        given |= dict(zip(names, args, strict=False))
        given |= kwargs
        return given


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.Tensor)


def _is_drawn(node: Any) -> bool:
    name = str(node.target).rpartition(".")[0]
    if node.op != "call_function" or name not in DRAWN or str(node.target) in BY_DATA:
        return False
    return name != "aten.native_dropout" or (node.args[2] is not False and node.args[1] != 0)


def _mask_of(node: Any) -> Any:
    """Return what is drawn: of a dropout its mask."""
    value = node.meta["val"]
    return value[1] if isinstance(value, list | tuple) else value


def _number(value: Any) -> Any:
    """Return a number that torch may know as a symbol: that of this call, which is then guarded."""
    try:
        if isinstance(value, torch.SymInt):
            return int(value)
        return float(value) if isinstance(value, torch.SymFloat) else value
    except RuntimeError:
        raise AtenError("gives a number that is data; allowed: shapes that are known") from None


def _plain(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _allowed() -> str:
    return ", ".join(sorted(_plain(dtype) for dtype in HELD))


def _refusal(node: Any, reason: str) -> GraphError:
    name = str(node.target)
    name = name.removesuffix(".default")
    return GraphError(at_line(user_frame(node), name, reason))
