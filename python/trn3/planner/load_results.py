"""What a service under load did, and the least machines for a promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trn3 import offers
from trn3.pictures import finished
from trn3.planner.parts import Layout, LoadTimeline
from trn3.typed import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ServedLoad(offers.Reported):
    """A service under load.

    What users wait for has the names of vLLM's benchmark, as attributes too: ``mean_ttft_ms``,
    ``p99_tpot_ms`` and so on, of ``ttft``, ``tpot``, ``itl`` and ``e2el``; all in simulated time.

    Attributes
    ----------
    duration : float
        Seconds from the first request to the last token.
    completed, failed, num_prompts : int
        Requests that got all of their tokens, that a full queue turned away, and in all.
    total_input_tokens, total_output_tokens : int
        Tokens of prompts, and tokens that were generated.
    request_throughput, output_throughput, total_token_throughput : float
        Completed requests, generated tokens and all tokens, a second.
    request_goodput : float or None
        Good requests a second, where limits were given.
    waits : Mapping[str, float]
        Milliseconds by name.
    bands : Mapping[str, tuple[float, float]] or None
        Between which values each figure is expected: served again with the times of steps at the
        ends of their bands; `band` says why these are as wide as they are.
    models : tuple[Mapping[str, Any], ...]
        Of each model its plan, replicas, utilisation, cache and preemptions.
    chips : float
        Chips that were taken, on average.
    energy, cost : Mapping[str, float] or None
        Watts and joules, dollars; None where no TDP or price is known.
    little : Mapping[str, float]
        Requests under way, counted, and by Little's law.
    timeline : LoadTimeline
        Queue, batch, cache and replicas over time.
    assumptions : tuple[str, ...]
        Every undocumented number that was used.
    """

    duration: float
    completed: int
    failed: int
    num_prompts: int
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    request_goodput: float | None
    output_throughput: float
    total_token_throughput: float
    chips: float
    seed: int
    models: tuple[Mapping[str, Any], ...]
    bands: Mapping[str, tuple[float, float]] | None
    band: tuple[str, ...]
    little: Mapping[str, float]
    energy: Mapping[str, float] | None
    cost: Mapping[str, float] | None
    timeline: LoadTimeline
    assumptions: tuple[str, ...]
    waits: Mapping[str, float]
    _document: Mapping[str, Any] = field(compare=False, repr=False)

    def __getattr__(self, name: str) -> float:
        waits: Mapping[str, float] = self.__dict__.get("waits", {})
        if name in waits:
            return waits[name]
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.waits]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and mappings, vLLM's names first."""
        return dict(self._document)

    @overload
    def plot(self, path: None = None) -> Figure: ...
    @overload
    def plot(self, path: str | Path) -> Path: ...
    def plot(self, path: str | Path | None = None) -> Path | Figure:
        """Draw the waits, and queue, batch and cache over time.

        Parameters
        ----------
        path
            A ``.png``, ``.svg`` or ``.pdf`` file; without one a figure of matplotlib is returned.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the file has another ending.
        OSError
            If the file cannot be written.
        """
        from trn3.planner.load_plots import draw_load

        plan = self.models[0]["plan"]
        title = f"{plan['model']['name']} on {plan['system']['title']}"
        return finished(draw_load(title, self.waits, self.timeline), path)


@dataclass(frozen=True)
class SizedFleet:
    """A fleet that keeps what is promised.

    Attributes
    ----------
    layout : Layout
        Degrees of parallelism and replicas.
    replica_counts : Mapping[str, int]
        Replicas for ``both``, ``prefill`` and ``decode``.
    max_num_seqs : int
        Sequences of a step at most.
    chips, machines : int
        Chips, and systems that they are.
    rate_of_replica : float
        Requests a second that one replica, or one unit of a split, keeps alone.
    dollars_per_hour : float or None
        At the usual price, or a given one.
    served : ServedLoad
        What it does under the whole load.
    """

    layout: Layout
    replica_counts: Mapping[str, int]
    max_num_seqs: int
    chips: int
    machines: int
    rate_of_replica: float
    dollars_per_hour: float | None
    served: ServedLoad


@dataclass(frozen=True)
class SizedOnSystem:
    """The least of one system.

    Attributes
    ----------
    system : str
        Its name.
    best : SizedFleet or None
        The fewest chips; None if nothing keeps the limits.
    frontier : tuple[SizedFleet, ...]
        Fleets of more chips whose requests end sooner.
    tried : int
        Layouts that were tried under load.
    why_not : str or None
        Why there is none.
    """

    system: str
    best: SizedFleet | None
    frontier: tuple[SizedFleet, ...]
    tried: int
    why_not: str | None


@dataclass(frozen=True)
class SizedFleets:
    """The least machines for a promise, on each of some systems.

    Attributes
    ----------
    target : Mapping[str, Any]
        The ``rate`` and the ``limits``.
    systems : tuple[SizedOnSystem, ...]
        In the order in which they were named.
    """

    target: Mapping[str, Any]
    systems: tuple[SizedOnSystem, ...]
    _document: Mapping[str, Any] = field(compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, texts, lists and mappings."""
        return dict(self._document)


def served_load(found: Mapping[str, Any]) -> ServedLoad:
    """Return what the core answers for traffic as a value."""
    names = ("mean_", "median_", "std_", "p50_", "p90_", "p95_", "p99_")
    waits = {name: value for name, value in found.items() if name.startswith(names)}
    return typed(ServedLoad, found, waits=waits, _document=found)


def _fleet(found: Mapping[str, Any]) -> SizedFleet:
    layout = typed(Layout, found)
    return typed(SizedFleet, found, layout=layout, served=served_load(found["served"]))


def sized_fleets(found: Mapping[str, Any]) -> SizedFleets:
    """Return what the core answers for a promise as a value."""
    systems = tuple(
        typed(
            SizedOnSystem,
            one,
            best=None if one["best"] is None else _fleet(one["best"]),
            frontier=tuple(_fleet(each) for each in one["frontier"]),
        )
        for one in found["systems"]
    )
    return SizedFleets(found["target"], systems, found)
