"""The published measurements, as data: what was measured, where, and what it is used for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

Class: TypeAlias = Literal["fit", "hold"]

#: What a unit of the table is in the units of experiments: nanoseconds, bytes, counts, ratios.
UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"ns": 1.0, "us": 1e3, "ms": 1e6, "GB/s": 1.0, "ratio": 1.0, "%": 0.01, "count": 1.0}
)


class RowError(ValueError):
    """The table of measurements is wrong, or a row was asked for that it does not have."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One published measurement that can be rebuilt.

    Attributes
    ----------
    id
        Its name on the command line.
    hardware
        The machine it was measured on.
    what
        What was measured.
    published, unit
        The figure.
    class_
        ``fit``: constants of the machine were read off it; ``hold``: none was, it only compares.
    source
        Where it was published.
    experiment, parameters, quantity
        Which run gives the prediction, with what, and which of its figures it is.
    tolerance
        Largest error that is no miss, as a part of the published value.
    miss
        Why the prediction is further off than that; None where it is not.
    """

    id: str
    hardware: str
    what: str
    published: float
    unit: str
    class_: Class
    source: str
    experiment: str
    quantity: str
    tolerance: float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    miss: str | None = None


#: Its name in earlier releases.
Row = PublishedRow


@dataclass(frozen=True, slots=True)
class Absent:
    """A published measurement that is not rebuilt, and why."""

    what: str
    hardware: str
    published: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Table:
    """Everything that was published: what is rebuilt and what is not."""

    rows: tuple[PublishedRow, ...]
    absent: tuple[Absent, ...]


@cache
def table() -> Table:
    """Return the table of the package.

    Raises
    ------
    RowError
        If it is wrong; the text names the row.
    """
    text = files("trn3.validation").joinpath("rows.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Table:
    """Return the table that a TOML text holds.

    Raises
    ------
    RowError
        If an entry is missing, is of the wrong type, or comes twice.
    """
    document = tomllib.loads(text)
    sources = document.get("sources", {})
    tolerances = document.get("tolerances", {})
    rows = tuple(_row(entry, sources, tolerances) for entry in document.get("row", ()))
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            message = f"row {row.id} comes twice"
            raise RowError(message)
        seen.add(row.id)
    absent = tuple(_absent(entry, sources) for entry in document.get("absent", ()))
    return Table(rows, absent)


def _row(
    entry: Mapping[str, Any], sources: Mapping[str, str], tolerances: Mapping[str, float]
) -> PublishedRow:
    name = str(entry.get("id", "without an id"))
    known = {
        "id", "hardware", "what", "published", "unit", "class", "source", "experiment",
        "quantity", "tolerance", "parameters", "miss",
    }  # fmt: skip
    unknown = sorted(set(entry) - known)
    if unknown:
        message = f"row {name} has {', '.join(unknown)}; allowed: {', '.join(sorted(known))}"
        raise RowError(message)

    def text(key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            message = f"row {name}: {key} is {value!r}, must be a text"
            raise RowError(message)
        return value

    class_ = text("class")
    if class_ not in {"fit", "hold"}:
        message = f"row {name}: class is {class_}; allowed: fit, hold"
        raise RowError(message)
    unit = text("unit")
    if unit not in UNITS:
        message = f"row {name}: unit is {unit}; allowed: {', '.join(UNITS)}"
        raise RowError(message)
    published = entry.get("published")
    if not isinstance(published, (int, float)) or published <= 0:
        message = f"row {name}: published is {published!r}, must be a positive number"
        raise RowError(message)
    miss = entry.get("miss")
    return PublishedRow(
        id=text("id"),
        hardware=text("hardware"),
        what=text("what"),
        published=float(published),
        unit=unit,
        class_=cast(Class, class_),
        source=_source(text("source"), sources, name),
        experiment=text("experiment"),
        quantity=text("quantity"),
        tolerance=float(entry.get("tolerance", tolerances.get(class_, 0.0))),
        parameters=MappingProxyType(dict(entry.get("parameters", {}))),
        miss=None if miss is None else " ".join(str(miss).split()),
    )


def _absent(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Absent:
    try:
        return Absent(
            what=str(entry["what"]),
            hardware=str(entry["hardware"]),
            published=str(entry["published"]),
            source=_source(str(entry["source"]), sources, str(entry["what"])),
            reason=" ".join(str(entry["reason"]).split()),
        )
    except KeyError as error:
        message = f"an absent measurement lacks {error.args[0]}: {dict(entry)}"
        raise RowError(message) from error


def _source(key: str, sources: Mapping[str, str], name: str) -> str:
    if key not in sources:
        message = f"row {name}: source is {key}; allowed: {', '.join(sorted(sources))}"
        raise RowError(message)
    return sources[key]


def select(
    names: Sequence[str], rows: Iterable[PublishedRow] | None = None
) -> tuple[PublishedRow, ...]:
    """Return the rows of these names, in the order of the table; all without names.

    A name that ends in ``*`` stands for all rows that begin with what is before it.

    Raises
    ------
    RowError
        If a name fits no row.
    """
    among = table().rows if rows is None else tuple(rows)

    for name in names:
        if not any(fits(row, name) for row in among):
            message = f"no row is called {name}; rows: {', '.join(row.id for row in among)}"
            raise RowError(message)
    return tuple(row for row in among if not names or any(fits(row, name) for name in names))


def fits(row: PublishedRow, name: str) -> bool:
    """Return whether a name on the command line means this row."""
    return row.id.startswith(name[:-1]) if name.endswith("*") else row.id == name
