"""`replay`: the traces of all ranks of a job, run on a simulated system."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from trn3.files import parse_json, read_text
from trn3.interchange.chakra.trace import Trace

if TYPE_CHECKING:
    from trn3.collectives import SystemLike
    from trn3.interchange.chakra.replayed import TraceReplay
    from trn3.system.base import System

Compute: TypeAlias = Literal["duration", "roofline"]
Traces: TypeAlias = "Sequence[Trace] | str | os.PathLike[str]"
Groups: TypeAlias = "Mapping[str, Sequence[int]] | str | os.PathLike[str]"


def replay(
    traces: Traces,
    system: SystemLike,
    *,
    ranks_per_chip: int | None = None,
    compute: Compute = "duration",
    memory: Literal["bytes", "duration"] = "bytes",
    dtype: str = "bf16",
    streams: str | None = None,
    groups: Groups | None = None,
    placement: Sequence[int] | None = None,
    algorithm: str | Mapping[str, str] = "auto",
) -> TraceReplay:
    """Run the traces of all ranks of a job on a system.

    Nodes begin when all that they wait for has ended. A rank computes one node at a time, what was
    ready first **(choice)**; everything else runs beside it. Memory traffic, messages and
    collectives share links, memories and DMA engines by max-min fairness within their priority
    classes.

    - Computation takes its measured duration (``duration_ps``, else whole microseconds), or the
      roofline's time from ``num_ops`` and ``tensor_size``. Nodes with ``is_cpu_op`` always take
      the duration, on a stream of their own.
    - Memory nodes move ``tensor_size`` bytes between the chip's memory and the core, through the
      rank's share of the chip's DMA engines.
    - Messages are matched by sender, receiver and ``comm_tag``, in the order of the nodes. One
      begins when it is sent, whether or not it is awaited **(choice)**.
    - Collectives are matched within their process group (``pg_name``), in the order of the nodes,
      and begin when the last rank arrives. ``comm_size`` is in bytes: of one rank's input, or of
      the root's **(choice)**.
    - ``priority``, 0 to 3, is the class of a message, collective or memory node; 0, the default,
      is served first.

    Attributes that are not named here are ignored.

    Parameters
    ----------
    traces
        One trace for each rank, or the beginning ``NAME`` of the files ``NAME.RANK.et``.
    system
        A system of `trn3.systems`, or its name.
    ranks_per_chip
        Ranks that a chip has; by default its logical cores.
    compute : {"duration", "roofline"}
        How long computation takes.
    memory : {"bytes", "duration"}
        Whether memory nodes move their bytes or take their measured duration.
    dtype
        Whose peak the roofline takes: ``"bf16"``, ``"fp8"``, ``"mxfp8"``, ``"mxfp4"``, ``"fp32"``.
    streams
        An attribute whose values are separate compute streams of a rank, like ``"engine"`` of
        traces that `from_profile` made, or ``"stream"``. By default a rank has one.
    groups
        Ranks of each process group, or a JSON file of such a mapping. A group that is not in it
        has the ranks whose traces name it; collectives without a group are of all ranks.
    placement
        The system's rank that each rank of the job runs on; by default the same number.
    algorithm
        Of collectives: ``"auto"``, a name of `trn3.collectives`, or names by operation, such as
        ``{"all_reduce": "ring"}``.

    Returns
    -------
    TraceReplay
        Times of each node, what each rank and link did, and what bound the finish.

    Raises
    ------
    TraceError
        If a trace is wrong, lacks an attribute, ranks disagree about a message or collective, wait
        for each other, or lie outside the system. The text names rank, node and attribute.
    ValueError
        If an argument is none of those allowed.
    trn3.system.UnreachableError
        If faults of the system cut ranks off from each other.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> from trn3.interchange import chakra
    >>> def rank(us):
    ...     return chakra.Trace(nodes=(
    ...         chakra.Node(0, "matmul", chakra.NodeType.COMP_NODE, duration_micros=us),
    ...         chakra.Node(1, "sum", chakra.NodeType.COMM_COLL_NODE, data_deps=(0,), attributes=(
    ...             chakra.Attribute("comm_type", chakra.CollectiveType.ALL_REDUCE),
    ...             chakra.Attribute("comm_size", 64 << 20),
    ...         )),
    ...     ))
    >>> result = chakra.replay([rank(100)] * 15 + [rank(250)], "gen2")
    >>> result.span(0, 1).start, result.span(0, 0).end == result.span(0, 1).start
    (0.0001, True)
    >>> result.exposed[0] > result.exposed[15]
    True
    """
    from trn3.interchange.chakra.replayed import made
    from trn3.system import execution_traces as engine
    from trn3.system.catalogue import as_system

    where = as_system(system)
    _one_of("compute", compute, ("duration", "roofline"))
    _one_of("memory", memory, ("bytes", "duration"))
    ranks = _traces(traces)
    per_chip = _ranks_per_chip(ranks_per_chip, where)
    usual, others = ("auto", algorithm) if isinstance(algorithm, Mapping) else (algorithm, {})
    options = engine.ReplayOptions(
        ranks_per_chip=per_chip,
        placement=None if placement is None else [operator.index(place) for place in placement],
        peaks=_peaks(where, dtype, per_chip) if compute == "roofline" else None,
        moves_bytes=memory == "bytes",
        streams=streams,
        groups=_groups(groups, len(ranks)),
        algorithm=usual,
        algorithms=list(others.items()),
    )
    return made(where, per_chip, ranks, engine.replay(where, ranks, options))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        message = f"{name} is {value!r}; allowed: {', '.join(map(repr, allowed))}"
        raise ValueError(message)


def _traces(traces: Traces) -> list[Trace]:
    from trn3.interchange.chakra.ranks import read_ranks

    if isinstance(traces, (str, os.PathLike)):
        return read_ranks(traces)
    if isinstance(traces, Trace):
        return [traces]
    found: list[Any] = list(traces)
    if not found:
        message = (
            "traces is empty; needed: one trace for each rank, or the beginning of their names"
        )
        raise ValueError(message)
    wrong = next((each for each in found if not isinstance(each, Trace)), None)
    if wrong is not None:
        message = f"traces has a {type(wrong).__name__}; needed: a Trace for each rank"
        raise TypeError(message)
    return found


def _ranks_per_chip(given: int | None, system: System) -> int:
    if given is None:
        return system.ranks_per_chip
    number = operator.index(given)
    if not 1 <= number < 2**32:
        message = (
            f"ranks_per_chip is {number}; allowed: 1 to {2**32 - 1}, "
            f"here usually {system.ranks_per_chip}"
        )
        raise ValueError(message)
    return number


def _groups(given: Groups | None, count: int) -> dict[str, list[int]]:
    if given is None:
        return {}
    what = "groups"
    if isinstance(given, (str, os.PathLike)):
        what = os.fspath(given)
        given = parse_json(read_text(given, "process groups"), given)
    if not isinstance(given, Mapping):
        message = f"{what}: is {type(given).__name__}; needed: ranks by the name of their group"
        raise ValueError(message)
    made: dict[str, list[int]] = {}
    for name, ranks in given.items():
        try:
            made[str(name)] = [operator.index(rank) for rank in ranks]
        except TypeError:
            message = f"{what}: {name!r} is {ranks!r}; needed: a list of ranks"
            raise ValueError(message) from None
        outside = next((rank for rank in made[str(name)] if not 0 <= rank < count), None)
        if outside is not None:
            message = f"{what}: {name!r} has rank {outside}; the job has 0 to {count - 1}"
            raise ValueError(message)
    return made


def _peaks(system: System, dtype: str, per_chip: int) -> tuple[str, float, float]:
    """Return what one rank does a second."""
    from trn3.facts.spec import spec_of

    chip = system.facts.part("chip") or system.facts
    spec = spec_of(chip)
    key = f"tflops_{dtype}"
    if key not in spec:
        known = sorted(
            str(each).removeprefix("tflops_") for each in spec if str(each).startswith("tflops_")
        )
        allowed = ", ".join(known)
        message = f"dtype is {dtype!r}, for which {chip.name} has no peak; allowed: {allowed}"
        raise ValueError(message)
    return (dtype, spec[key].si / per_chip, spec["hbm_bandwidth"].si / per_chip)
