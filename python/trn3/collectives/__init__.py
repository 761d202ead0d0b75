"""Collectives, executed on data and timed on a system's links.

One schedule is both run on the arrays, so that floating-point sums come out in its order, and
timed: steps wait, bytes share links, memories and DMA engines. ``docs/reference/collectives.md``
describes algorithms, orders of addition and the model of time. Every function takes a system of
`trn3.systems` (or its name); systems have the same as methods.

Examples
--------
>>> import numpy as np
>>> from trn3 import collectives, systems
>>> arrays = [np.full(4, rank, np.float32) for rank in range(64)]
>>> result = collectives.all_reduce(arrays, system=systems.trn2_instance())
>>> result.outputs[0].tolist()
[2016.0, 2016.0, 2016.0, 2016.0]
>>> result.algorithm, result.steps, f"{result.time * 1e6:.2f} us"
('mesh', 1, '6.03 us')
"""

from __future__ import annotations

from trn3.collectives.answers import (
    CollectiveCost,
    CollectiveResult,
    CollectiveSpan,
    Cost,
    Overlapping,
    Result,
    Span,
    bus_factor,
)
from trn3.collectives.engine import CollectiveEngine, CollectiveSystem, CollectiveUnits, SystemLike
from trn3.collectives.nccom_tables import TableRow, published
from trn3.collectives.operations import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    collective_permute,
    permute,
    reduce_scatter,
)
from trn3.collectives.timing import MOST_RANKS, algorithms, candidates, estimate, overlap, time
from trn3.collectives.variable import all_gather_v, all_to_all_v

__all__ = [
    "MOST_RANKS",
    "CollectiveCost",
    "CollectiveEngine",
    "CollectiveResult",
    "CollectiveSpan",
    "CollectiveSystem",
    "CollectiveUnits",
    "Cost",
    "Overlapping",
    "Result",
    "Span",
    "SystemLike",
    "TableRow",
    "algorithms",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "broadcast",
    "bus_factor",
    "candidates",
    "collective_permute",
    "estimate",
    "overlap",
    "permute",
    "published",
    "reduce_scatter",
    "time",
]
