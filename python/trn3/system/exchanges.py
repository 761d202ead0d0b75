"""Roles of a cluster's systems; what a training step exchanges over them, and how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Role:
    """What systems of a cluster have in common that the network cannot tell apart.

    Attributes
    ----------
    units : int
        How many systems work and have it.
    bottom, middle : tuple of int
        Under their network node of that layer: places, and how many of them work.
    """

    units: int
    bottom: tuple[int, int]
    middle: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange that a training step waits for.

    Attributes
    ----------
    operation : str
        ``"all_reduce"``, ``"reduce_scatter"``, ``"all_gather"``, ``"all_to_all"``, or
        ``"send_receive"``: to the next system, or with one system to its next `chips` chips.
    bytes : float
        Of each chip's buffer: what it sends in all, or for an all-gather what it has in the end.
    units : int or None
        Units, which are the cluster's systems, that a group spans; None for all.
    chips : int or None
        Chips of a group in each; None for all.
    count : int
        How often it is done in a step.
    algorithm : str
        Between systems: ``"ring"``, ``"rdh"``, ``"tree"`` (all-reduce only), or ``"auto"``, the
        fastest.
    """

    operation: str
    bytes: float
    units: int | None = None
    chips: int | None = None
    count: int = 1
    algorithm: str = "auto"


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of an exchange.

    Attributes
    ----------
    name : str
        What and where: ``"all_reduce between (ring)"``.
    time : float
        Seconds.
    steps : int
        Messages that follow one another.
    bytes : float
        Bytes that each chip sends.
    binding : str
        What limits its rate.
    """

    name: str
    time: float
    steps: int
    bytes: float
    binding: str


@dataclass(frozen=True, slots=True)
class ExchangeTime:
    """How long an exchange takes, once.

    Attributes
    ----------
    exchange : Exchange
        What was asked, with its units and chips.
    time : float
        Seconds.
    phases : tuple of Phase
        Its parts in order.
    binding : str
        What limits the longest of them.
    """

    exchange: Exchange
    time: float
    phases: tuple[Phase, ...]
    binding: str


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long the exchanges of a training step take.

    Attributes
    ----------
    time : float
        Seconds, each exchange as often as it is done.
    exchanges : tuple of ExchangeTime
        Each of them, in order.
    binding : str
        What limits the phase that takes longest over the step.
    assumptions : tuple of str
        Figures that nobody published, and what was chosen.
    """

    time: float
    exchanges: tuple[ExchangeTime, ...]
    binding: str
    assumptions: tuple[str, ...] = field(repr=False)


def as_exchange(place: int, given: object) -> Exchange:
    """Return an exchange from one, or from a mapping of its fields; `place` names it in errors."""
    if isinstance(given, Exchange):
        return given
    if isinstance(given, Mapping):
        try:
            return Exchange(**given)
        except TypeError as error:
            allowed = ", ".join(Exchange.__dataclass_fields__)
            message = f"exchange {place}: {error}; its fields are {allowed}"
            raise ValueError(message) from None
    message = f"exchange {place} is a {type(given).__name__}; needed: Exchange or a mapping"
    raise TypeError(message)
