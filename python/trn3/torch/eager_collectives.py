"""Collectives that torch calls between graphs, as FSDP2's hooks do: each a graph of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trn3.graph import GraphError
from trn3.graph.writing import GraphTables
from trn3.torch.aten import AtenCall, AtenError, AtenWriter, converter_of
from trn3.torch.aten.registry import Held
from trn3.torch.conversion import ConvertedGraph
from trn3.torch.groups import members, own_rank
from trn3.torch.held_tensors import held_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EagerCollectives"]

_GROUPS = ("process_group", "group_name")
# What moves nothing: all ranks come to the next collective anyway.
_SILENT = ("barrier", "monitored_barrier_")


@dataclass(frozen=True)
class _Exchange:
    """One collective: what is brought, and the tensors that take the result, one after another."""

    name: str
    brought: Any
    takers: list[Any]
    given: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0

    def converted(self) -> ConvertedGraph:
        """Write it as a graph."""
        kind = held_type(self.brought)
        if kind is None:
            raise AtenError(f"takes {self.brought.dtype}, which graphs do not have")
        tables = GraphTables()
        writer = AtenWriter(tables, [kind])
        name = f"_c10d_functional.{self.name}"
        converter = converter_of(name)
        if converter is None:
            raise AtenError("is no operation of graphs")
        number = converter(
            AtenCall(writer, name, {"input": Held(0, self.brought), **self.given}, None)
        )
        body = writer.body([number])
        body["inputs"] = [{"name": "brought", **each} for each in body["inputs"]]
        graph = {"format": "trn3-graph", "version": 1, "name": f"eager {self.name}"}
        text = json.dumps({**graph, "ranks": writer.ranks, "locations": [], **body})
        own = writer.types[number]
        like = torch.empty(own.shape, dtype=self.brought.dtype)
        empty = not body["operations"]
        ranks = writer.ranks
        return ConvertedGraph(text, tables.data, [0], ["brought"], [], [like], empty, [], ranks)

    def take(self, result: Any) -> None:
        """Give the result to who waits for it."""
        first, result = self.skipped, result.reshape(-1)
        for taker in self.takers:
            taker.detach().copy_(result[first : first + taker.numel()].reshape(taker.shape))
            first += taker.numel()


def _flat(*tensors: Any) -> Any:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _reduced(tensors: list[Any], given: dict[str, Any]) -> Iterator[_Exchange]:
    op = _op(given)
    return (_Exchange("all_reduce", _flat(one), [one], op) for one in tensors)


def _gathered(given: dict[str, Any]) -> Iterator[_Exchange]:
    pairs = zip(given["input_tensors"], given["output_tensors"], strict=True)
    return (_Exchange("all_gather_into_tensor", _flat(one), outs) for one, outs in pairs)


def _scattered(outs: list[Any], ins: list[list[Any]], given: dict[str, Any]) -> list[_Exchange]:
    op = _op(given)
    pairs = zip(outs, ins, strict=True)
    return [_Exchange("reduce_scatter_tensor", _flat(*own), [out], op) for out, own in pairs]


def _broadcast(given: dict[str, Any]) -> Iterator[_Exchange]:
    root = given["root_rank"]
    is_root = members(given["process_group"]).index(own_rank()) == root
    for one in given["tensors"]:
        brought = _flat(one)
        # Who receives may have memory of anything.
        yield _Exchange(
            "broadcast", brought if is_root else torch.zeros_like(brought), [one], {"src": root}
        )


def _from_root(given: dict[str, Any]) -> Iterator[_Exchange]:
    """Send all parts to all, each of whom keeps its own **(choice)**."""
    ranks = members(given["process_group"])
    place, root = ranks.index(own_rank()), given["root_rank"]
    for number, out in enumerate(given["output_tensors"]):
        parts = (
            given["input_tensors"][number]
            if place == root
            else [torch.zeros_like(out)] * len(ranks)
        )
        skipped = place * out.numel()
        yield _Exchange("broadcast", _flat(*parts), [out], {"src": root}, skipped)


def _to_all(given: dict[str, Any]) -> Iterator[_Exchange]:
    sizes = {name: given[name] for name in ("output_split_sizes", "input_split_sizes")}
    yield _Exchange("all_to_all_single", _flat(given["input"]), [given["output"]], sizes)


def _lists_to_all(given: dict[str, Any]) -> Iterator[_Exchange]:
    if len({one.numel() for one in given["input_tensors"]}) > 1:
        raise AtenError("takes parts of several sizes; allowed: equal ones")
    yield _Exchange("all_to_all_single", _flat(*given["input_tensors"]), given["output_tensors"])


def _op(given: dict[str, Any]) -> dict[str, Any]:
    op = given["reduce_op"]
    kind = op if isinstance(op, str) else torch.distributed.ReduceOp.unbox(op).op
    return {"reduce_op": str(kind).rpartition(".")[2].lower()}


def _one(name: str, tensor: str, *others: str) -> Callable[[dict[str, Any]], Any]:
    """Read a functional collective: the result that torch made takes what is exchanged."""

    def read(given: dict[str, Any]) -> list[_Exchange]:
        made = {each: given[each] for each in others}
        return [_Exchange(name, given[tensor].detach().clone(), [], made)]

    return read


# Which exchanges an operator is, of its arguments by name.
_READ: dict[str, Callable[[dict[str, Any]], Any]] = {
    "c10d.allreduce_": lambda given: _reduced(given["tensors"], given),
    "c10d.allreduce_coalesced_": lambda given: _reduced(given["tensors"], given),
    "c10d.allgather_": _gathered,
    "c10d._allgather_base_": lambda given: _gathered(
        {"input_tensors": [given["input_tensor"]], "output_tensors": [[given["output_tensor"]]]}
    ),
    "c10d.allgather_into_tensor_coalesced_": lambda given: _gathered(
        {"input_tensors": given["inputs"], "output_tensors": [[one] for one in given["outputs"]]}
    ),
    "c10d.reduce_scatter_": lambda given: _scattered(
        given["output_tensors"], given["input_tensors"], given
    ),
    "c10d._reduce_scatter_base_": lambda given: _scattered(
        [given["output_tensor"]], [[given["input_tensor"]]], given
    ),
    "c10d.reduce_scatter_tensor_coalesced_": lambda given: _scattered(
        given["outputs"], [[one] for one in given["inputs"]], given
    ),
    "c10d.broadcast_": _broadcast,
    "c10d.scatter_": _from_root,
    "c10d.alltoall_base_": _to_all,
    "c10d.alltoall_": _lists_to_all,
    "_c10d_functional.all_reduce": _one("all_reduce", "input", "reduce_op"),
    "_c10d_functional.all_reduce_": _one("all_reduce", "input", "reduce_op"),
    "_c10d_functional.all_gather_into_tensor": _one("all_gather_into_tensor", "input"),
    "_c10d_functional.reduce_scatter_tensor": _one("reduce_scatter_tensor", "input", "reduce_op"),
    "_c10d_functional.broadcast": _one("broadcast", "input", "src"),
    "_c10d_functional.broadcast_": _one("broadcast", "input", "src"),
    "_c10d_functional.all_to_all_single": _one(
        "all_to_all_single", "input", "output_split_sizes", "input_split_sizes"
    ),
}


class EagerCollectives(TorchDispatchMode):
    """Gives collectives that torch calls outside of graphs to a function.

    Parameters
    ----------
    run : callable
        Of a `ConvertedGraph` and the tensor that the rank brings: what it takes, or None if there
        are no values.
    """

    def __init__(self, run: Callable[[ConvertedGraph, Any], Any]) -> None:
        super().__init__()
        self._run = run
        self._known: dict[str, ConvertedGraph] = {}

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether torch captures graphs beside it."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether torch does not show it what it does to capture."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operator of torch."""
        del types
        kwargs = kwargs or {}
        name = str(func).rpartition(".")[0]
        space, _, plain = name.partition(".")
        if space not in ("c10d", "_c10d_functional") or plain in _SILENT:
            return func(*args, **kwargs)
        # What names no group is no meeting.
        has_group = any(one.name in _GROUPS for one in func._schema.arguments)
        if not has_group or any(isinstance(one, FakeTensor) for one in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        names = [argument.name for argument in func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if space == "c10d":
            box = given["process_group"]
            given["process_group"] = torch.distributed.ProcessGroup.unbox(box)
        group = given.get("process_group", given.get("group_name"))
        try:
            exchanges = list(_read(name)(given))
            graphs = []
            for one in exchanges:
                one.given["group_name"] = group
                graph = one.converted()
                graphs.append(self._known.setdefault(graph.text, graph))
        except AtenError as refusal:
            raise GraphError(f"{name}: {refusal}") from None
        made = func(*args, **kwargs)
        for one, graph in zip(exchanges, graphs, strict=True):
            result = one.brought if graph.is_empty else self._run(graph, one.brought)
            if result is not None:
                one.take(result)
                if space != "c10d":
                    made.copy_(result)
        if name == "c10d.allreduce_":
            # DistributedDataParallel takes sums from what is awaited, where a fake group has none.
            return given["tensors"], _done(given["tensors"])
        return made


def _done(tensors: list[Any]) -> Any:
    """Return work that has been done."""
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    made = torch._C._distributed_c10d._create_work_from_future(future)
    return torch._C._distributed_c10d.Work.boxed(made)


def _read(name: str) -> Callable[[dict[str, Any]], Any]:
    if name not in _READ:
        raise AtenError("is no operation of graphs between ranks")
    return _READ[name]
