"""What runs in the place of a graph that torch captured, and what is remembered of its runs."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.aot_autograd import make_boxed_func

from trn3.graph import GraphError, run_on_core, run_on_ranks
from trn3.torch.aten.making import draw
from trn3.torch.conversion import convert
from trn3.torch.eager_collectives import EagerCollectives
from trn3.torch.groups import is_fake, own_rank, world_size
from trn3.torch.held_tensors import array_of, tensor_of
from trn3.torch.locations import is_own
from trn3.torch.options import TorchOptions
from trn3.torch.rank_turns import current_seat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trn3.graph import OperationGraph, StepProfile
    from trn3.torch.conversion import ConvertedGraph

__all__ = ["GraphBreak", "GraphExecutable", "RankCall", "Recording", "recorded", "run_eagerly"]


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where torch stopped capturing, so that a step is several graphs.

    Attributes
    ----------
    line : str
        ``file:line`` of the user's code; empty if unknown.
    reason : str
        In torch's words.
    """

    line: str
    reason: str

    @classmethod
    def of(cls, module: Any) -> GraphBreak | None:
        """Return why the capture of a graph ended early; None if it did not."""
        reason = getattr(module, "compile_subgraph_reason", None)
        if reason is None or not reason.graph_break:
            return None
        frames = list(reason.user_stack or [])
        frames = [frame for frame in frames if not is_own(frame.filename)] or frames
        line = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return cls(line, str(reason.reason).strip().splitlines()[0])


@dataclass
class Recording:
    """What the graphs of a step cost, in the order in which they ran.

    Attributes
    ----------
    has_values : bool
        Whether values are computed.
    options : TorchOptions
        Of the model whose step it is; collectives between its graphs are timed by them.
    """

    has_values: bool
    options: Any
    steps: list[StepProfile] = field(default_factory=list)
    breaks: dict[GraphBreak, None] = field(default_factory=dict)
    graphs: list[OperationGraph] = field(default_factory=list)
    is_timed: bool = True
    # Steps that are collectives between graphs.
    between: list[int] = field(default_factory=list)


_RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recorded(recording: Recording) -> Iterator[Recording]:
    """Remember what graphs cost that run within."""
    token = _RECORDING.set(recording)
    # Ranks of `run_on_ranks` have it already.
    is_needed = world_size() > 1 and current_seat() is None
    try:
        with EagerCollectives(run_eagerly) if is_needed else nullcontext():
            yield recording
    finally:
        _RECORDING.reset(token)


@dataclass(frozen=True)
class RankCall:
    """What one rank brings where all run a graph together."""

    converted: ConvertedGraph
    inputs: list[NDArray[Any]]
    options: Any
    is_timed: bool

    def __str__(self) -> str:
        name = json.loads(self.converted.text)["name"]
        return f"the graph {name!r}"

    def places(self) -> dict[str, Any]:
        """Return what says how long the graph takes."""
        return _places(self.options)


def _places(options: Any) -> dict[str, Any]:
    return {
        "system": options.system,
        "ranks_per_chip": options.ranks_per_chip,
        "arch": options.arch,
        "matmul": options.path,
        "compile": options.level,
        "cores": options.cores,
    }


def run_eagerly(converted: ConvertedGraph, brought: Any) -> Any:
    """Run a collective that torch calls between graphs; None where there are no values."""
    recording, seat = _RECORDING.get(), current_seat()
    options = TorchOptions() if recording is None else recording.options
    if recording is not None:
        graph = converted.graph()
        recording.graphs.append(graph)
        if not recording.has_values:
            if recording.is_timed:
                recording.between.append(len(recording.steps))
                recording.steps.append(
                    run_on_ranks(graph, None, rank=own_rank(), **_places(options))[1]
                )
            return None
    if seat is None:
        return None
    call = RankCall(converted, [array_of(brought)], options, recording is not None)
    (found,), step = seat.meet(call)
    if recording is not None:
        recording.between.append(len(recording.steps))
        recording.steps.append(step)
    return tensor_of(found, converted.outputs[0])


class GraphExecutable:
    """Runs one graph on a simulated core; torch calls what `function` returns."""

    def __init__(
        self, module: Any, part: str, names: list[str], options: Any, found: GraphBreak | None
    ) -> None:
        self._options = options
        self._break = found
        self._updated = [] if part == "backward" else _updated_inputs()
        self._place = _place()
        self._refusal: GraphError | None = None
        self._timed: StepProfile | None = None
        try:
            self._converted = convert(module, part, names)
            self._graph = self._converted.graph(options.arch)
        except GraphError as refusal:
            # A model may be used forward though its backward is refused: whoever runs it is told.
            self._refusal = refusal

    def function(self) -> Any:
        """Return a function of the inputs, in the form that torch calls."""
        return make_boxed_func(lambda *args: self._run(args))

    def _run(self, args: tuple[Any, ...]) -> list[Any]:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        converted, recording = self._converted, _RECORDING.get()
        _check_place(self._place)
        if recording is not None and self._break is not None:
            recording.breaks[self._break] = None
        if converted.is_empty:
            recording = None
        if recording is not None:
            recording.graphs.append(self._graph)
        if recording is not None and not recording.has_values:
            if recording.is_timed:
                recording.steps.append(self._time())
            return self._without_values(args)
        _check_values(converted.ranks)
        inputs = [array_of(args[place], converted.names[place]) for place in converted.arguments]
        inputs += [array_of(draw(node)) for node in converted.drawn]
        if converted.ranks > 1:
            call = RankCall(converted, inputs, self._options, recording is not None)
            found, step = self._place.seat.meet(call)
            if recording is not None:
                recording.steps.append(step)
            return self._returned(found)
        is_on_core = recording is not None or self._options.way == "instructions"
        if is_on_core and not converted.is_empty:
            found, step = self._on_core(inputs)
            if recording is not None:
                recording.steps.append(step)
            return self._returned(found)
        return self._returned(self._graph.execute(inputs, self._options.path))

    def _time(self) -> StepProfile:
        """Without values a graph takes what it took: layers of one text share theirs."""
        if self._timed is None:
            if self._converted.ranks == 1:
                self._timed = self._on_core(None)[1]
            else:
                places = _places(self._options)
                self._timed = run_on_ranks(self._graph, None, rank=own_rank(), **places)[1]
        return self._timed

    def _on_core(
        self, inputs: list[NDArray[Any]] | None
    ) -> tuple[list[NDArray[Any] | None], StepProfile]:
        return run_on_core(
            self._graph,
            inputs,
            arch=self._options.arch,
            matmul=self._options.path,
            compile=self._options.level,
            cores=self._options.cores,
        )

    def _returned(self, found: Any) -> list[Any]:
        arrays = iter(found)
        return [
            tensor_of(next(arrays), like) if isinstance(like, torch.Tensor) else like
            for like in self._converted.outputs
        ]

    def _without_values(self, args: tuple[Any, ...]) -> list[Any]:
        """Zeros; what the step would change stays as it is."""
        made = [
            torch.zeros(tuple(like.shape), dtype=like.dtype)
            if isinstance(like, torch.Tensor)
            else like
            for like in self._converted.outputs
        ]
        for place, number in enumerate(self._updated):
            made[place] = args[number].detach().clone()
        return made


@dataclass(frozen=True)
class _Place:
    """Which rank a program is; what torch captures for one is not another one's."""

    seat: Any
    rank: int
    ranks: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.ranks}"


def _place() -> _Place:
    return _Place(current_seat(), own_rank(), world_size())


def _check_place(captured: _Place) -> None:
    if (here := _place()) != captured:
        came = f"captured as {captured} and called as {here}"
        raise GraphError(
            f"{came}; allowed: the same. In trn3.torch.run_on_ranks each rank compiles for itself, "
            "by trn3.torch.compile"
        )


def _check_values(ranks: int) -> None:
    """Refuse values that other ranks would have to give, which are nowhere."""
    if current_seat() is not None or (ranks == 1 and not is_fake()):
        return
    here = f"rank {own_rank()} of {world_size()} runs alone, without the values of the others"
    raise GraphError(
        f"{here}; call trn3.torch.run_on_ranks for all ranks with values, or trn3.torch.account or "
        "trn3.torch.compile(model).time for the time of one"
    )


def _updated_inputs() -> list[int]:
    """Return inputs whose new values are the first outputs of the graph that torch compiles now."""
    context = torch._guards.TracingContext.try_get()
    known = getattr(context, "fw_metadata", None)
    return list(getattr(known, "mutated_inp_runtime_indices", []))
