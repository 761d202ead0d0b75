"""One step of a model on a simulated core: what it cost, and which operation costs what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trn3.machine import arch as find_arch
from trn3.markup import mimebundle
from trn3.profile import profile_of
from trn3.text import printable, time
from trn3.typed import typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from rich.table import Table

    from trn3._trn3.graph import OperationGraph
    from trn3.machine.archs import ArchLike
    from trn3.profile import Profile

__all__ = ["OperationCost", "RegionCost", "StepMemory", "StepProfile", "run_on_core"]


@dataclass(frozen=True, slots=True)
class OperationCost:
    """What one operation of a graph took.

    Attributes
    ----------
    operation : str
        Name and number, the label of its instructions in timelines and traces.
    line : str
        ``file:line`` of the user's code; empty if unknown.
    template : str
        How it was computed: ``folded`` before the run, ``view`` of what is there, ``copy``,
        ``body`` of a loop or case, ``instructions``, ``fused`` with its neighbours, ``attention``,
        ``gpsimd_function``, or ``removed``: no output needs it, or something else is its result.
    is_fallback : bool
        Whether no engine has it, so that a function of GpSimdE stands in.
    cores : int
        Physical cores that its instructions run on: of a step on two cores 1 where it is small or
        falls into no parts; 0 without instructions.
    instructions : int
        Of all cores, barriers before what it needs of another core among them.
    engine : str
        The one that it keeps busy longest, on either core; empty without instructions.
    busy_us, span_us : float
        How long that engine is busy with it, and from its first start to its last result.
    hbm_bytes : int
        Read and written.
    macs : int
        Multiply-adds.
    utilisation : float
        Of its span, what that engine is busy: 0 to 1.
    """

    operation: str
    line: str
    template: str
    is_fallback: bool
    cores: int
    instructions: int
    engine: str
    busy_us: float
    span_us: float
    hbm_bytes: int
    macs: int
    utilisation: float


@dataclass(frozen=True, slots=True)
class RegionCost:
    """A part of a composed step, which was compiled once.

    Attributes
    ----------
    first, last : str
        The operations that it begins and ends with, where it stands first.
    times : int
        How often the step has it; turns of loops count.
    instructions : int
        Of one.
    latency_us : float
        Time of one, in microseconds.
    """

    first: str
    last: str
    times: int
    instructions: int
    latency_us: float


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What a step holds at once.

    Attributes
    ----------
    inputs_bytes : int
        What the step is given: weights, optimiser states, data.
    constants_bytes : int
        What is there before the run besides.
    activations_bytes : int
        What operations make, the most that is there at once: each value until its last use,
        outputs to the end. What templates lay out anew on the way is not among them.
    hbm_peak_bytes : int
        The sum of these.
    sbuf_peak_bytes, psum_peak_bytes : int
        The most bytes of a partition in use at a time.
    """

    inputs_bytes: int
    constants_bytes: int
    activations_bytes: int
    hbm_peak_bytes: int
    sbuf_peak_bytes: int
    psum_peak_bytes: int


class StepProfile:
    """What a graph cost on a simulated core, or on two as one; `run_on_core` makes it.

    Attributes
    ----------
    profile : Profile
        Timeline, lines of the user's code, critical path, report: as for a kernel. Of a composed
        step it is that of the region that takes most of it.
    cores : int
        Physical cores that ran it as one: ``profile.cores`` has the profile of each.
    timing : {"whole", "composed"}
        Whether the time is the schedule of the whole graph, or the sum over regions, each of which
        was compiled once.
    latency_us : float
        Time of the step in microseconds.
    band : tuple of float
        From which to which latency the hardware's is expected, in microseconds: as
        `trn3.profile.Profile` has it in ``latency_low_us`` and ``latency_high_us``. Regions follow
        one another without overlap; the lower bound of a composed step is that of the engine that
        is busy longest, whose work could at best hide all else.
    instructions : int
        Of the whole step, loops unrolled.
    memory : StepMemory
        Bytes of HBM, SBUF and PSUM in use.
    regions : tuple of RegionCost
        What a composed step is made of, the region that takes most of it first; else empty.
    """

    def __init__(self, profile: Profile, made: Mapping[str, Any]) -> None:
        self.profile = profile
        self.cores = len(profile.cores)
        self.timing: str = made["timing"]
        self.latency_us: float = made["latency_us"]
        low, high = made["band"]
        self.band: tuple[float, float] = (low, high)
        self.instructions: int = made["instructions"]
        self.memory = typed(StepMemory, made["memory"])
        self.regions = tuple(typed(RegionCost, region) for region in made["regions"])
        self._operations = tuple(typed(OperationCost, row) for row in made["account"])

    @property
    def composed(self) -> bool:
        """Whether the time is a sum over regions, and not the schedule of the whole graph."""
        return self.timing == "composed"

    def __repr__(self) -> str:
        """Say what was timed, how long it takes and how that was found."""
        name, took = printable(self.profile.data.kernel), time(self.latency_us / 1e6)
        where = "" if self.cores == 1 else f" on {self.cores} cores"
        counted = f"{self.timing}, {self.instructions} instructions"
        return f"<StepProfile of {name}{where}: {took}, {counted}>"

    def account(self) -> tuple[OperationCost, ...]:
        """Return what each operation took, in the order of the graph."""
        return self._operations

    def to_html(self, path: str | None = None) -> str:
        """Return the report of the run, and write it where a path is given."""
        return self.profile.to_html(path)

    def table(self, most: int | None = None) -> Table:
        """Return the account as a table of rich: what keeps an engine busy longest first.

        Parameters
        ----------
        most : int, optional
            Rows; all operations that have instructions if not given.
        """
        from rich import box
        from rich.table import Table

        ranked = sorted(self._operations, key=lambda cost: -cost.busy_us)
        shown = [cost for cost in ranked if cost.instructions]
        kernel = printable(self.profile.data.kernel)
        # Names whole in 80 columns: a name in pieces is found by no search.
        low, high = (time(bound / 1e6) for bound in self.band)
        where = "" if self.cores == 1 else f" on {self.cores} cores"
        title = f"{kernel}{where}: {time(self.latency_us / 1e6)} ({low} to {high}), {self.timing}"
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 0))
        for name in ("operation", "line", "template", "engine"):
            table.add_column(name, no_wrap=True)
        numbers = ("busy", "span", "HBM MB") if self.cores == 1 else ("cores", "busy", "span", "MB")
        for name in numbers:
            table.add_column(name, justify="right", no_wrap=True)
        for cost in shown[:most]:
            file, _, line = cost.line.rpartition(":")
            table.add_row(
                cost.operation,
                printable(f"{Path(file).name}:{line}" if line else ""),
                "gpsimd" if cost.is_fallback else cost.template,
                cost.engine,
                *([] if self.cores == 1 else [str(cost.cores)]),
                time(cost.busy_us / 1e6),
                time(cost.span_us / 1e6),
                f"{cost.hbm_bytes / 1e6:.3f}",
            )
        if most is not None and len(shown) > most:
            table.caption = f"{len(shown) - most} more"
        return table

    def __rich__(self) -> Table:
        return self.table()

    _repr_mimebundle_ = mimebundle


def run_on_core(
    graph: OperationGraph,
    inputs: Sequence[ArrayLike] | None,
    *,
    arch: ArchLike | None = None,
    matmul: str = "as_typed",
    compile: str = "neuronx-cc",  # noqa: A002 - the name that kernels' launches have for it
    whole_below: int = 2_000_000,
    fuse: bool = True,
    cores: int = 1,
) -> tuple[list[NDArray[Any] | None], StepProfile]:
    """Run a graph by instructions on one simulated core, or on two that work as one.

    Values are those of `OperationGraph.execute`, bit for bit.

    Parameters
    ----------
    graph : OperationGraph
    inputs : sequence of array, or None
        Arrays of the graph's types; None: time alone.
    arch : str, mapping or ArchSpec, optional
        The machine; the default target, trn3, if not given.
    matmul : {"as_typed", "bf16"}, optional
        Arithmetic of products.
    compile : str, optional
        Level of the compiler, of `trn3.compiler.levels`.
    whole_below : int, optional
        Without inputs, a graph of at least so many instructions, loops unrolled, is composed: it is
        cut into regions, equal ones are compiled once, and a loop's body is counted turn by turn.
    fuse : bool, optional
        Whether reductions share tiles on chip with what is elementwise around them, and attention
        is one kernel. Values are the same without.
    cores : int, optional
        Physical cores that work as one: 1, or 2 where the machine has logical cores of two. Each
        makes a part of the results; values are the same.

    Returns
    -------
    tuple
        The outputs, each None where a run without values does not know it, and the `StepProfile`.

    Raises
    ------
    GraphError
        For an operation that has no template of instructions, with its line.
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> import json
    >>> import numpy as np
    >>> from trn3.graph import OperationGraph, run_on_core
    >>> x = {"dtype": "float32", "shape": [128, 512]}
    >>> root = {"op": "sqrt", "operands": [0], "results": [x]}
    >>> graph = OperationGraph.from_json(json.dumps({
    ...     "format": "trn3-graph", "version": 1, "name": "roots",
    ...     "inputs": [x], "operations": [root], "outputs": [1]}))
    >>> (y,), step = run_on_core(graph, [np.full((128, 512), 9, np.float32)])
    >>> y.max(), [(cost.operation, cost.template) for cost in step.account()]
    (np.float32(3.0), [('sqrt.1', 'instructions')])
    """
    if whole_below < 0:
        message = f"whole_below is {whole_below}; allowed: instructions, from 0 on"
        raise ValueError(message)
    outputs, ran, made = graph.run_on_core(
        _machine(arch), inputs, matmul, compile, whole_below, fuse, cores
    )
    return outputs, StepProfile(profile_of(ran, graph.name or "graph"), made)


def _machine(arch: ArchLike | None) -> str | tuple[str, str]:
    """Return the name of a machine, or name and text of its description."""
    if arch is None:
        return "trn3"
    if isinstance(arch, str) and "=" not in arch:
        return arch
    machine = find_arch(arch)
    return machine.name, machine.to_toml()
