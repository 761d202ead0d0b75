"""One rank of a graph by instructions: its values, and what its collectives cost on a system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trn3 import systems
from trn3.graph.step_profile import StepProfile
from trn3.machine import arch as find_arch
from trn3.profile import profile_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from trn3._trn3.graph import OperationGraph
    from trn3.collectives import SystemLike
    from trn3.machine.archs import ArchLike

__all__ = ["run_on_ranks"]

#: Systems of the machines, by generation.
_SYSTEMS: Final = {2: "trn1", 3: "trn2", 4: "trn3"}


def run_on_ranks(
    graph: OperationGraph,
    inputs: Sequence[Sequence[ArrayLike]] | None,
    *,
    rank: int = 0,
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
    arch: ArchLike | None = None,
    matmul: str = "as_typed",
    compile: str = "neuronx-cc",  # noqa: A002 - the name that kernels' launches have for it
    cores: int = 1,
) -> tuple[list[NDArray[Any] | None], StepProfile]:
    """Run one rank of a graph by instructions, beside the others, on a simulated core.

    All ranks run one program, so that one's time is that of all. Values are those of
    `OperationGraph.execute_ranks`, bit for bit.

    Parameters
    ----------
    graph : OperationGraph
    inputs : sequence of sequence of array, or None
        Of each rank, arrays of the graph's types; None: time alone, for as many ranks as the system
        has room for.
    rank : int, optional
        Whose program runs.
    system : str or system, optional
        What the ranks stand on, of `trn3.systems`; that of the machine if not given.
    ranks_per_chip : int, optional
        How many a chip has, one after the other; all that it can if not given.
    arch, matmul, compile, cores
        As for `run_on_core`; of two cores the first one issues collectives **(choice)**.

    Returns
    -------
    tuple
        The rank's outputs, each None where a run without values does not know it, and the
        `StepProfile`, whose account has the collectives with the template ``collective``.

    Raises
    ------
    GraphError
        As `run_on_core`, and where a rank waits in a collective for others that do not come.
    ValueError
        If an argument is none of what is allowed, or the system has no room for the ranks.

    Examples
    --------
    >>> import json
    >>> from trn3.graph import OperationGraph, run_on_ranks
    >>> x = {"dtype": "bfloat16", "shape": [1024, 1024]}
    >>> total = {"op": "all_reduce", "operands": [0], "results": [x],
    ...          "attributes": {"replica_groups": [], "function": "add"}}
    >>> graph = OperationGraph.from_json(json.dumps({
    ...     "format": "trn3-graph", "version": 1, "name": "sum", "ranks": 4,
    ...     "inputs": [x], "operations": [total], "outputs": [1]}))
    >>> (y,), step = run_on_ranks(graph, None, system="trn3")
    >>> y, [(cost.operation, cost.template) for cost in step.account()]
    (None, [('all_reduce.1', 'collective')])
    """
    machine = find_arch("trn3" if arch is None else arch)
    if system is None:
        name = machine.name
        system = (
            name
            if name in _SYSTEMS.values()
            else _SYSTEMS[int(machine.entries["generation"].value)]
        )
    found = systems.as_system(system)
    places = rank, found.ranks_per_chip, ranks_per_chip
    collectives = found.collective_engine.core
    described = machine.name, machine.to_toml()
    outputs, ran, made = graph.run_rank_on_core(
        described, collectives, found.name, places, inputs, matmul, compile, cores
    )
    return outputs, StepProfile(profile_of(ran, graph.name or "graph"), made)
