"""The second step of a launch: instances on cores, arrays in their HBM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trn3._trn3.machine import NeuronCore
from trn3.nki.launch.arguments import Arguments
from trn3.nki.launch.bind import BoundLaunch, NamedArguments
from trn3.nki.ranks.context import Context, Running
from trn3.nki.ranks.logical import LogicalCore, SharedTensors
from trn3.nki.ranks.world import World
from trn3.nki.typing import tensor
from trn3.nki.values.memory_regions import private_hbm, shared_hbm
from trn3.nki.values.targets import MachineSizes

if TYPE_CHECKING:
    from trn3._trn3.machine import RankFabric

__all__ = ["Edge", "Edges", "PlacedLaunch", "PlacedRank", "edge_of", "place"]

#: (consumer, producer or producers), by the names given to instructions.
Edge: TypeAlias = tuple[str, str | Sequence[str]]
#: Consumer and its producers, by the names given to instructions.
Edges: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
#: What an instance is called with, by position and by keyword: tensors in place of arrays.
Operands: TypeAlias = tuple[list[Any], dict[str, Any]]


@dataclass(slots=True)
class PlacedRank:
    """The instances of one rank.

    Attributes
    ----------
    cores : sequence of NeuronCore
    logical : LogicalCore or None
        Where the cores meet; None where there is one.
    contexts : list of Context
        One an instance.
    arguments : Arguments
        What the arrays of the caller became.
    operands : list of (list, dict)
        What each instance is called with.
    """

    cores: Sequence[NeuronCore]
    logical: LogicalCore | None
    contexts: list[Context]
    arguments: Arguments
    operands: list[Operands]


@dataclass(slots=True)
class PlacedLaunch:
    """A launch that is ready to run.

    Attributes
    ----------
    bound : BoundLaunch
    edges : tuple
        Order between instructions beyond what data demands.
    world : World
        Where the ranks meet.
    ranks : list of PlacedRank
    """

    bound: BoundLaunch
    edges: Edges
    world: World
    ranks: list[PlacedRank]


def place(
    bound: BoundLaunch,
    cores: Sequence[Sequence[NeuronCore]],
    fabric: RankFabric | None,
    edges: Edges,
) -> PlacedLaunch:
    """Put each rank on its cores.

    Parameters
    ----------
    bound : BoundLaunch
    cores : sequence of sequences of NeuronCore
        New ones, as many as the launch wants, for each rank.
    fabric : RankFabric or None
        What connects the ranks; None: the machine's own system.
    edges : tuple of (str, tuple of str)
        Consumers and their producers.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be a tensor.
    """
    world = World(len(cores), bound.launch.cores, fabric)
    ranks = []
    for rank, (own, given) in enumerate(zip(cores, bound.given, strict=True)):
        logical = LogicalCore(list(own), world.gang, rank * len(own)) if len(own) > 1 else None
        contexts = _contexts(bound, own, logical, world, rank)
        if edges:
            for core in own:
                core.schedule([(consumer, list(producers)) for consumer, producers in edges])
        buffer = private_hbm if logical is None else shared_hbm
        arguments = Arguments(own[0], buffer.code, shared=len(contexts) > 1)
        with Running(contexts[0]):
            operands = [_operands(arguments, given, bound.expected) for _ in contexts]
        ranks.append(PlacedRank(own, logical, contexts, arguments, operands))
    return PlacedLaunch(bound, edges, world, ranks)


def _contexts(
    bound: BoundLaunch,
    cores: Sequence[NeuronCore],
    logical: LogicalCore | None,
    world: World,
    rank: int,
) -> list[Context]:
    launch = bound.launch
    # Of this core, not by its name: a description of one's own may bear any.
    sizes = MachineSizes(cores[0].arch[0], cores[0])
    instances = len(launch.placement)
    shared = SharedTensors(instances) if instances > 1 else None
    contexts: list[Context] = []
    for instance, (number, ids) in enumerate(
        zip(launch.placement, launch.program_ids(), strict=True)
    ):
        context = Context(cores[number], sizes, launch.grid)
        context.program_ids = ids
        context.instance = instance
        context.logical = logical
        context.shared = shared
        context.world, context.rank = world, rank
        context.watch = bound.watch
        if instance:
            # Kernels read constants only: they are one for all.
            context.constants = contexts[0].constants
            context.prints = contexts[0].prints
        contexts.append(context)
    return contexts


def _operands(arguments: Arguments, given: NamedArguments, expected: dict[str, tensor]) -> Operands:
    """Return what one instance is called with."""
    arguments.next_instance()
    positional = [
        arguments.wrap(value, name, expected.get(name)) for name, value in given.positional
    ]
    keyword = given.keyword and {
        name: arguments.wrap(value, name, expected.get(name))
        for name, value in given.keyword.items()
    }
    return positional, keyword


def edge_of(edge: Any) -> tuple[str, tuple[str, ...]]:
    """Return an edge as consumer and producers.

    Raises
    ------
    TypeError
        If it is none.
    """
    if isinstance(edge, (tuple, list)) and len(edge) == 2:
        consumer, producers = edge
        producers = (producers,) if isinstance(producers, str) else tuple(producers)
        if isinstance(consumer, str) and all(isinstance(name, str) for name in producers):
            return consumer, producers
    message = (
        f"with_schedule edge is {edge!r}; allowed: (consumer, producer) or (consumer, [producers])"
    )
    raise TypeError(message)
