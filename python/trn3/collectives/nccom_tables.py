"""Published tables of nccom-test beside what the model says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trn3 import facts
from trn3._trn3 import system as _core
from trn3.collectives.engine import CollectiveEngine, as_engine
from trn3.collectives.timing import time_on


@dataclass(frozen=True, slots=True)
class TableRow:
    """One published time and what the model makes of it.

    Attributes
    ----------
    table, system : str
        Name of the table, and the system it is taken for.
    bytes : int
        Size.
    published : float
        Seconds.
    model : float
        Seconds of the model as everybody gets it, launched by whom the table's clock is of.
    fitted : float
        Seconds of the model, its bytes slowed down by one factor, behind a time to start: both are
        the table's own, read off its first and last row.
    is_fit : bool
        Whether the row is one of these two, so that `fitted` is no prediction.
    algorithm : str
        The model's choice.
    source : str
        Who published it.
    """

    table: str
    system: str
    bytes: int
    published: float
    model: float
    fitted: float
    is_fit: bool
    algorithm: str
    source: str

    @property
    def ratio(self) -> float:
        """`fitted` over `published`."""
        return self.fitted / self.published


def _engine(name: str, nodes: int) -> tuple[str, CollectiveEngine]:
    """Return what a table's system is called, and its engine."""
    of = as_engine(name)
    if nodes == 1:
        return of.fabric.name, of
    name = of.fabric.name
    joined = _core.Fabric.cluster(name, name, None, nodes, "docs", None)
    return f"{nodes} x {name}", CollectiveEngine.of(joined, of.ranks_per_chip)


def published() -> tuple[TableRow, ...]:
    """Return the rows of all published tables.

    The tables cannot come from one machine in one mode: the smallest all-gather takes 6 us, the
    smallest all-reduce 58 to 520. The model has one start for calls of a program and another for
    calls of the host. Beside what it says stands a fit to each table alone: a time to start and a
    factor on the model's bytes, read off its smallest and largest row.

    Examples
    --------
    >>> from trn3 import collectives
    >>> for row in collectives.published()[:4]:
    ...     print(row.bytes, f"{row.published * 1e6:.2f} {row.fitted * 1e6:.2f} us", row.is_fit)
    1024 6.16 6.16 us True
    8192 6.48 6.39 us False
    65536 8.17 8.26 us False
    524288 23.16 23.16 us True
    """
    document = facts.nccom_tables()
    rows: list[TableRow] = []
    for table in document["table"]:
        rows.extend(_rows(table, document["source"]))
    return tuple(rows)


def _rows(table: dict[str, Any], source: str) -> list[TableRow]:
    system, engine = _engine(table["system"], table.get("nodes", 1))
    group = range(table["ranks"])
    launch = table["launch"]
    costs = [
        time_on(engine, table["operation"], size, group, launch=launch) for size, _ in table["rows"]
    ]
    (small, first), (large, last) = table["rows"][0], table["rows"][-1]
    moved = [cost.time - cost.latency - cost.start for cost in costs]
    # What is left of the ends without the steps' waits is a start, and bytes at the table's rate.
    rests = (first * 1e-6 - costs[0].latency, last * 1e-6 - costs[-1].latency)
    factor = (rests[1] - rests[0]) / (moved[-1] - moved[0])
    start = rests[0] - factor * moved[0]
    ends = (small, large)
    return [
        TableRow(
            table["name"],
            system,
            size,
            seconds * 1e-6,
            cost.time,
            start + cost.latency + factor * bytes_time,
            size in ends,
            cost.algorithm,
            source,
        )
        for (size, seconds), cost, bytes_time in zip(table["rows"], costs, moved, strict=True)
    ]
