"""What runs in the place of a graph that torch captured, and what is remembered of its runs."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.aot_autograd import make_boxed_func

from trn3.graph import GraphError, run_on_core
from trn3.torch.aten.making import draw
from trn3.torch.conversion import convert
from trn3.torch.held_tensors import array_of, tensor_of
from trn3.torch.locations import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trn3.graph import OperationGraph, StepProfile

__all__ = ["GraphBreak", "GraphExecutable", "Recording", "recorded"]


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
    """

    has_values: bool
    steps: list[StepProfile] = field(default_factory=list)
    breaks: dict[GraphBreak, None] = field(default_factory=dict)
    graphs: list[OperationGraph] = field(default_factory=list)
    is_timed: bool = True


_RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recorded(recording: Recording) -> Iterator[Recording]:
    """Remember what graphs cost that run within."""
    token = _RECORDING.set(recording)
    try:
        yield recording
    finally:
        _RECORDING.reset(token)


class GraphExecutable:
    """Runs one graph on a simulated core; torch calls what `function` returns."""

    def __init__(
        self, module: Any, part: str, names: list[str], options: Any, found: GraphBreak | None
    ) -> None:
        self._options = options
        self._break = found
        self._updated = [] if part == "backward" else _updated_inputs()
        self._refusal: GraphError | None = None
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
        if recording is not None and self._break is not None:
            recording.breaks[self._break] = None
        if converted.is_empty:
            recording = None
        if recording is not None:
            recording.graphs.append(self._graph)
        if recording is not None and not recording.has_values:
            if recording.is_timed:
                recording.steps.append(self._on_core(None)[1])
            return self._without_values(args)
        inputs = [array_of(args[place], converted.names[place]) for place in converted.arguments]
        inputs += [array_of(draw(node)) for node in converted.drawn]
        is_on_core = recording is not None or self._options.mode == "instructions"
        if is_on_core and not converted.is_empty:
            found, step = self._on_core(inputs)
            if recording is not None:
                recording.steps.append(step)
            return self._returned(found)
        return self._returned(self._graph.execute(inputs, self._options.matmul or "as_typed"))

    def _on_core(
        self, inputs: list[NDArray[Any]] | None
    ) -> tuple[list[NDArray[Any] | None], StepProfile]:
        return run_on_core(
            self._graph,
            inputs,
            arch=self._options.arch,
            matmul=self._options.matmul or "as_typed",
            compile=self._options.compile or "neuronx-cc",
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


def _updated_inputs() -> list[int]:
    """Return inputs whose new values are the first outputs of the graph that torch compiles now."""
    context = torch._guards.TracingContext.try_get()
    known = getattr(context, "fw_metadata", None)
    return list(getattr(known, "mutated_inp_runtime_indices", []))
