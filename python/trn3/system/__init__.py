"""Chips, UltraServers and clusters as objects, and the published facts that they are made of.

`trn3.systems` has them ready made, and `trn3.traffic` says what moves over them.
`trn3.facts` reads spec files, `trn3.facts.spec` computes a system's figures from its parts
and sets them beside what is published, `trn3.facts.comparison` sets systems beside each other.
"""

from __future__ import annotations

from typing import Any

from trn3 import offers
from trn3._trn3.system import DoesNotFitError, UnreachableError
from trn3.system.base import System
from trn3.system.chip import Chip, Core
from trn3.system.cluster import Cluster
from trn3.system.fabric import Binding, Bisection, Bound, Cut, Graph, Slowdown
from trn3.system.links import Leg, Level, Link, Path, Route
from trn3.system.servers import Instance, Pod, Rack, UltraServer

__all__ = [
    "Binding",
    "Bisection",
    "Bound",
    "Chip",
    "Cluster",
    "Core",
    "Cut",
    "DoesNotFitError",
    "Graph",
    "Instance",
    "Leg",
    "Level",
    "Link",
    "NeuronCore",
    "Path",
    "Pod",
    "Rack",
    "Route",
    "Slowdown",
    "System",
    "UltraServer",
    "UnreachableError",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name != "NeuronCore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return offers.take("NeuronCore")
