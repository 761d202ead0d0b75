"""The first step of a launch: what each rank is given, by the names of the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from trn3.nki.launch.grid import Launch
from trn3.nki.lint.watch import Watch, watch
from trn3.nki.typing import tensor
from trn3.nki.values.callers import warn_caller
from trn3.nki.values.environment import variable
from trn3.nki.values.kernel_function import KernelFunction

__all__ = ["BoundLaunch", "Given", "NamedArguments", "Parameters", "bind", "parameters_of"]

#: The arguments of each rank, by position and by keyword.
Given: TypeAlias = Sequence[tuple[Sequence[Any], dict[str, Any]]]

#: How the library's test harness marks an argument that the kernel writes to.
_ALIAS_SUFFIX: Final = ".must_alias_input"


@dataclass(slots=True)
class Parameters:
    """What a kernel's function takes.

    Attributes
    ----------
    names : list of str
    expected : dict of str to annotation
        The annotations that demand a shape, by parameter.
    """

    names: list[str]
    expected: dict[str, tensor]


@dataclass(slots=True)
class NamedArguments:
    """The arguments of one rank, as it was given them.

    Attributes
    ----------
    positional : list of (name, value)
    keyword : dict of str to value
    """

    positional: list[tuple[str, Any]]
    keyword: dict[str, Any]


@dataclass(slots=True)
class BoundLaunch:
    """A kernel with the arguments of each rank.

    Attributes
    ----------
    kernel : KernelFunction
    launch : Launch
        The instances that each rank runs.
    expected : dict of str to annotation
        As of `Parameters`.
    given : list of NamedArguments
        Of each rank.
    watch : Watch or None
        Collects what the hardware would refuse; None where nobody asks.
    """

    kernel: KernelFunction
    launch: Launch
    expected: dict[str, tensor]
    given: list[NamedArguments]
    watch: Watch | None


def bind(
    kernel: KernelFunction, parameters: Parameters, launch: Launch, given: Given
) -> BoundLaunch:
    """Name the arguments of each rank, of a kernel that may run.

    Raises
    ------
    PortabilityError
        Under ``TRN3_NKI_STRICT=1``, if the hardware compiler would refuse the kernel.
    """
    _check_environment(kernel, launch)
    watching = watch(kernel, given)
    named = [_named(parameters.names, args, kwargs) for args, kwargs in given]
    return BoundLaunch(kernel, launch, parameters.expected, named, watching)


def _check_environment(kernel: KernelFunction, launch: Launch) -> None:
    """Warn of a device that there is not, and of brackets that a runtime would refuse."""
    simulator = variable("NKI_SIMULATOR")
    if simulator not in (None, "", "1"):
        message = (
            f"NKI_SIMULATOR is {simulator!r}, which asks for a device; {kernel!r} is simulated all "
            "the same; allowed: 1, or unset"
        )
        warn_caller(message)
    configured = variable("NEURON_LOGICAL_NC_CONFIG") if launch.grid else None
    if configured not in (None, "", str(launch.cores)):
        message = (
            f"{kernel!r} runs on {launch.cores} cores, NEURON_LOGICAL_NC_CONFIG is {configured}: "
            "a runtime set so would refuse it"
        )
        warn_caller(message)


def _named(names: list[str], args: Sequence[Any], kwargs: dict[str, Any]) -> NamedArguments:
    known = names + [f"argument {i}" for i in range(len(names), len(args))]
    return NamedArguments(
        list(zip(known, args, strict=False)),
        {name.removesuffix(_ALIAS_SUFFIX): value for name, value in kwargs.items()},
    )


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return what a function takes."""
    expected = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        meant = annotation
        if isinstance(annotation, str):
            try:
                meant = eval(annotation, getattr(function, "__globals__", {}))
            except Exception:  # it may name what exists for checkers only
                continue
        if isinstance(meant, tensor):
            expected[name] = meant
    return Parameters(list(inspect.signature(function).parameters), expected)
