"""Models and functions of torch that run in Trainium's arithmetic."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch._dynamo

from trn3.torch.backend import TrainiumBackend
from trn3.torch.execution import Recording, recorded
from trn3.torch.groups import is_fake
from trn3.torch.model_profile import ModelProfile
from trn3.torch.options import TorchOptions
from trn3.torch.rank_turns import current_seat

if TYPE_CHECKING:
    from trn3.collectives import SystemLike
    from trn3.graph import OperationGraph
    from trn3.machine.archs import ArchLike

__all__ = ["CompiledModel", "account", "compile", "profile"]


class CompiledModel:
    """A model or function of torch that runs in Trainium's arithmetic; `compile` makes it.

    Attributes and methods that are not its own are the model's.

    Attributes
    ----------
    mode : str
        How it runs: ``operations`` or ``instructions``.
    """

    def __init__(self, model: Any, options: TorchOptions) -> None:
        if not isinstance(model, torch.nn.Module):
            functools.update_wrapper(self, model)
        self._model = model
        self.mode = options.way
        self._options = options
        backend = _backend(options)
        self._compiled = torch.compile(_own(model), backend=backend, dynamic=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the simulated core."""
        # Beyond a number of shapes, and at recurrent layers, torch would go on eagerly, in another
        # arithmetic.
        with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True, allow_rnn=True):
            try:
                return self._compiled(*args, **kwargs)
            except torch._dynamo.exc.FailOnRecompileLimitHit:
                most = torch._dynamo.config.recompile_limit
                message = f"more shapes or types came than torch compiles a function for, {most}"
                raise RuntimeError(
                    f"{message}; torch._dynamo.config.recompile_limit says"
                ) from None

    def __getattr__(self, name: str) -> Any:
        if name == "_model":
            raise AttributeError(name)
        return getattr(self._model, name)

    def profile(self, *args: Any, **kwargs: Any) -> tuple[Any, ModelProfile]:
        """Run the model by instructions: what it gives, and what that cost.

        Under a ``fake`` process group there are no values: None, and the time of this rank.

        Examples
        --------
        >>> import torch
        >>> y, step = compile(torch.sqrt).profile(torch.full((128, 64), 4.0))
        >>> float(y[0, 0]), step.latency_us > 0
        (2.0, True)
        """
        if is_fake() and current_seat() is None:
            return None, self.time(*args, **kwargs)
        with recorded(Recording(True, self._options)) as recording:
            result = self(*args, **kwargs)
        return result, _profile(recording)

    def time(self, *args: Any, **kwargs: Any) -> ModelProfile:
        """Return what the model costs for arguments of these shapes, without computing values.

        Parameters and buffers stay as they are. Python that looks at values sees zeros.

        Examples
        --------
        >>> import torch
        >>> x = torch.zeros(256, 256, dtype=torch.bfloat16)
        >>> [cost.template for cost in compile(torch.mm).time(x, x).account()]
        ['instructions']
        """
        with recorded(Recording(False, self._options)) as recording:
            self(*args, **kwargs)
        return _profile(recording)

    def graphs(self, *args: Any, **kwargs: Any) -> list[OperationGraph]:
        """Return the graphs that run for arguments of these shapes and types, without running them.

        Examples
        --------
        >>> import torch
        >>> [graph.outputs for graph in compile(torch.sin).graphs(torch.zeros(3))]
        [[('float32', [3])]]
        """
        with recorded(Recording(False, self._options, is_timed=False)) as recording:
            self(*args, **kwargs)
        return recording.graphs


def _profile(recording: Recording) -> ModelProfile:
    """Return what all that ran cost together."""
    steps, between = recording.steps, recording.between
    # Collectives of a model that torch computes by itself are not what it costs.
    is_captured = len(between) < len(steps)
    return ModelProfile(steps if is_captured else [], tuple(recording.breaks), between)


def _own(model: Any) -> Any:
    """Return a function with code of its own: torch counts by code how often it compiled."""
    if isinstance(model, torch.nn.Module):
        return model
    function = model
    if inspect.isbuiltin(model):

        def function(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

    if not isinstance(function, FunctionType):
        return function
    code, closure = function.__code__, function.__closure__
    made = FunctionType(
        code.replace(), function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)


_BACKENDS: list[TrainiumBackend] = []


def _backend(options: TorchOptions) -> TrainiumBackend:
    """Return the one backend of these options: torch compares backends by identity."""
    seat = current_seat()
    backends = _BACKENDS if seat is None else seat.backends
    for known in backends:
        if known.options == options:
            return known
    backends.append(TrainiumBackend(options))
    return backends[-1]


def compile(  # noqa: A001 - the field's word
    f: Any,
    *,
    arch: ArchLike | None = None,
    cores: int = 1,
    mode: Literal["auto", "instructions", "operations"] = "auto",
    matmul: Literal["bf16", "mxfp8", "mxfp4"] | None = None,
    compile: str | None = None,  # noqa: A002 - the name that kernels' launches have for it
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
) -> CompiledModel:
    """Compile a model or function of torch for a simulated core.

    As ``torch.compile(f, backend="trn3", dynamic=False, options={...})``, which needs no import of
    trn3, with what `profile` and `time` add. Types are the program's: a float32 product is one of
    float32, a bfloat16 one of bfloat16, also by ``torch.autocast("cpu")``; whole numbers are exact.
    Those of 64 bits are held in 32 and come back as int64. Random numbers are drawn by torch, as it
    draws them eagerly. Backward and optimisers run as they do in torch.

    Parameters
    ----------
    f : torch.nn.Module or callable
        Whatever `torch.compile` takes; tensors in CPU memory. Parameters and buffers are the
        module's own, and are updated where the module updates them.
    arch : str, mapping or ArchSpec, optional
        The machine, as `trn3.machine.arch` takes it. By operation all have the same values.
    cores : int, optional
        How many physical cores work as one: 1, or 2 where the machine has logical cores of two.
        Both have the same values; by instructions each makes a part of the results.
    mode : {"auto", "instructions", "operations"}, optional
        ``operations`` computes each operation on whole tensors, in the order and arithmetic of the
        instructions that it is made of; ``instructions`` runs these on a simulated core, with the
        same bits, some thousand times slower. ``auto`` is ``operations``.
    matmul : {"bf16", "mxfp8", "mxfp4"}, optional
        Arithmetic that products of floating-point operands are cast down to: bfloat16, or MX blocks
        along the contraction.
    compile : str, optional
        Level of the compiler, of `trn3.compiler.levels`; neuronx-cc if not given. By operation
        nothing depends on it.
    system : str or system, optional
        What the ranks of `torch.distributed` stand on, of `trn3.systems`: it says how long
        collectives take. That of the machine if not given.
    ranks_per_chip : int, optional
        How many of them a chip has; all that it can if not given.

    Returns
    -------
    CompiledModel
        Takes what `f` takes; shapes that did not come before are compiled anew.

    Raises
    ------
    ValueError
        If an argument is none of what is allowed.

    When called, the result raises `trn3.graph.GraphError`, a ValueError, for an operator that
    graphs do not have and for types that Trainium does not have (float64, complex), with the line
    of the user's code, and where values of other ranks would be needed (`run_on_ranks` has them);
    and ValueError for whole numbers that do not fit 32 bits.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 2, bias=False)
    >>> _ = torch.nn.init.constant_(model.weight, 0.5)
    >>> y = compile(model)(torch.ones(3, 4))
    >>> y.sum().backward()
    >>> y[0].tolist(), model.weight.grad[0].tolist()
    ([2.0, 2.0], [3.0, 3.0, 3.0, 3.0])
    """
    return CompiledModel(
        f, TorchOptions(arch, cores, mode, matmul, compile, system, ranks_per_chip)
    )


# What `profile` has an argument of the same name for.
_compiled = compile


def profile(
    model: Any,
    *args: Any,
    arch: ArchLike | None = None,
    cores: int = 1,
    matmul: Literal["bf16", "mxfp8", "mxfp4"] | None = None,
    compile: str | None = None,  # noqa: A002 - the name that kernels' launches have for it
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
) -> tuple[Any, ModelProfile]:
    """Run a model by instructions on a simulated core: what it gives, and what that cost.

    Parameters
    ----------
    model : torch.nn.Module or callable
        As `trn3.torch.compile` takes it: also a function that runs forward, backward and the
        optimiser, whose graphs follow one another.
    *args
        What it is called with.
    arch, cores, matmul, compile, system, ranks_per_chip
        As for `trn3.torch.compile`.

    Returns
    -------
    tuple
        What ``compile(model)(*args)`` gives, bit for bit, and its `ModelProfile`, a
        `trn3.graph.StepProfile`. Under a ``fake`` process group there are no values: None, and the
        time of this rank.

    Raises
    ------
    GraphError
        As for `trn3.torch.compile`, and for an operation that has no template of instructions and
        does not fit on chip.
    ValueError
        If an argument is none of what is allowed.

    Examples
    --------
    >>> import torch
    >>> y, step = profile(lambda x, w: torch.relu(x @ w), torch.ones(64, 128), torch.ones(128, 32))
    >>> y.shape, [cost.operation.partition(".")[0] for cost in step.account() if cost.instructions]
    (torch.Size([64, 32]), ['dot_general', 'maximum'])
    """
    options: dict[str, Any] = {"matmul": matmul, "compile": compile, "system": system}
    made = _compiled(model, arch=arch, cores=cores, ranks_per_chip=ranks_per_chip, **options)
    return made.profile(*args)


def account(
    model: Any,
    *args: Any,
    arch: ArchLike | None = None,
    cores: int = 1,
    compile: str | None = None,  # noqa: A002 - the name that kernels' launches have for it
    system: SystemLike | None = None,
    ranks_per_chip: int | None = None,
    most: int | None = None,
) -> ModelProfile:
    """Print what each operation of a model costs, where torch broke its graph, and return it.

    Values are not computed, and state is not changed.

    Parameters
    ----------
    model : torch.nn.Module or callable
        As for `profile`.
    *args
        What it is called with.
    arch, cores, compile, system, ranks_per_chip
        As for `trn3.torch.compile`.
    most : int, optional
        Rows; all operations that have instructions if not given.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(128, 64)
    >>> step = account(model, torch.ones(8, 128))  # doctest: +ELLIPSIS +NORMALIZE_WHITESPACE
    forward: ...
    >>> [cost.operation.partition(".")[0] for cost in step.account() if cost.instructions]
    ['dot_general', 'add']
    """
    from rich.console import Console

    places: dict[str, Any] = {"system": system, "ranks_per_chip": ranks_per_chip, "cores": cores}
    step = _compiled(model, arch=arch, compile=compile, **places).time(*args)
    Console().print(step.table(most))
    return step
