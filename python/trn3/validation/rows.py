"""The published measurements, as data: what was measured, where, and what it is used for."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from trn3 import facts

Class: TypeAlias = Literal["fit", "hold"]
#: Whose text ran: the authors' own operations and loops, one with the compiler's work done by hand,
#: or what a compiler made of the authors'.
Level: TypeAlias = Literal["as-written", "rebuilt", "compiled"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

#: What a unit of the table is in the units of experiments: nanoseconds, bytes, counts, ratios.
UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"ns": 1.0, "us": 1e3, "ms": 1e6, "GB/s": 1.0, "ratio": 1.0, "%": 0.01, "count": 1.0}
)
#: Units of rows that a command line computes, in seconds and events a second.
COMMAND_UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"us": 1e-6, "ms": 1e-3, "s": 1.0, "tok/s": 1.0, "tok/s/GPU": 1.0, "seq/s": 1.0, "x": 1.0}
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
    level
        Whose text ran. Headline figures are those of ``as-written`` rows alone.
    of
        The row that has the same measurement at another level; None where there is none, or for
        the one that others name.
    command
        The command line whose document has the prediction, of which `quantity` is then a formula.
    group
        Of rows with a command, the kind of figure: ``trn1 decode b1``.
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
    level: Level = "as-written"
    of: str | None = None
    command: str | None = None
    group: str | None = None

    @property
    def measurement(self) -> str:
        """The name that the rows of one measurement share."""
        return self.of or self.id


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
    levels = document.get("levels", {})
    entries = {str(entry.get("id")): entry for entry in document.get("row", ())}
    rows = tuple(
        _row(_inherited(entry, entries), sources, tolerances, levels)
        for entry in document.get("row", ())
    )
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            message = f"row {row.id} comes twice"
            raise RowError(message)
        seen.add(row.id)
    absent = tuple(_absent(entry, sources) for entry in document.get("absent", ()))
    return Table(rows, absent)


class _Named(Protocol):
    @property
    def id(self) -> str: ...


N = TypeVar("N", bound=_Named)


def chosen(
    kind: str, names: Sequence[str], among: Sequence[N], fits: Callable[[N, str], bool]
) -> tuple[N, ...]:
    """Return those that fit a name, in their order; all without names.

    Raises
    ------
    RowError
        If a name fits none.
    """
    for name in names:
        if not any(fits(each, name) for each in among):
            ids = ", ".join(each.id for each in among)
            message = f"no {kind} is called {name}; {kind}s: {ids}"
            raise RowError(message)
    return tuple(each for each in among if not names or any(fits(each, name) for name in names))


class TableEntry:
    """An entry of a table as TOML has it.

    Parameters
    ----------
    name
        What messages call it.
    content, known
        What it holds, and what it may hold.

    Raises
    ------
    RowError
        If it holds something else.
    """

    def __init__(self, name: str, content: Mapping[str, Any], known: Collection[str]) -> None:
        self.name = name
        self._content = content
        if unknown := sorted(set(content) - set(known)):
            raise self.error(f" has {', '.join(unknown)}; allowed: {', '.join(sorted(known))}")

    def error(self, text: str) -> RowError:
        """Return the error that says something of this entry."""
        return RowError(f"{self.name}{text}")

    def text(self, key: str) -> str:
        """Return a text that must be there, on one line."""
        value = self._content.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(f": {key} is {value!r}, must be a text")
        return " ".join(value.split())

    def text_if_any(self, key: str) -> str | None:
        """Return a text on one line, or None where there is none."""
        return None if self._content.get(key) is None else self.text(key)

    def choice(self, key: str, allowed: Collection[str], value: str | None = None) -> str:
        """Return a text that must be one of some."""
        chosen = self.text(key) if value is None else value
        if chosen not in allowed:
            raise self.error(f": {key} is {chosen}; allowed: {', '.join(allowed)}")
        return chosen


#: What a row has of the one that it is another level of.
_OF_MEASUREMENT: Final = ("hardware", "what", "published", "unit", "class", "source", "quantity")


def _inherited(
    content: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    if "of" not in content:
        return content
    base = entries.get(str(content["of"]))
    if base is None or "of" in base:
        message = f"row {content.get('id')}: of is {content['of']}, must be a row without of"
        raise RowError(message)
    return {**{key: base[key] for key in _OF_MEASUREMENT if key in base}, **content}


def _row(
    content: Mapping[str, Any],
    sources: Mapping[str, str],
    tolerances: Mapping[str, float],
    levels: Mapping[str, str],
) -> PublishedRow:
    known = {each.name.rstrip("_") for each in fields(PublishedRow)} | {"fact"}
    entry = TableEntry(f"row {content.get('id', 'without an id')}", content, known)
    class_ = entry.choice("class", ("fit", "hold"))
    command = entry.text_if_any("command")
    unit = entry.choice("unit", UNITS if command is None else COMMAND_UNITS)
    level = str(content.get("level", levels.get(str(content.get("experiment")), "as-written")))
    published = content.get("published")
    if "fact" in content:
        system, _, key = entry.text("fact").partition(".")
        published = facts.load(system)[key].number
    if not isinstance(published, (int, float)) or published <= 0:
        raise entry.error(f": published is {published!r}, must be a positive number")
    return PublishedRow(
        id=entry.text("id"),
        hardware=entry.text("hardware"),
        what=entry.text("what"),
        published=float(published),
        unit=unit,
        class_=cast(Class, class_),
        source=sources[entry.choice("source", sorted(sources))],
        experiment=entry.text("experiment") if command is None else "command",
        quantity=entry.text("quantity"),
        tolerance=float(content.get("tolerance", tolerances.get(class_, 0.0))),
        parameters=MappingProxyType(dict(content.get("parameters", {}))),
        miss=entry.text_if_any("miss"),
        level=cast(Level, entry.choice("level", LEVELS, level)),
        of=entry.text_if_any("of"),
        command=command,
        group=entry.text_if_any("group") if command is None else entry.text("group"),
    )


def _absent(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Absent:
    try:
        return Absent(
            what=str(entry["what"]),
            hardware=str(entry["hardware"]),
            published=str(entry["published"]),
            source=sources[
                TableEntry(f"row {entry['what']}", entry, entry).choice("source", sorted(sources))
            ],
            reason=" ".join(str(entry["reason"]).split()),
        )
    except KeyError as error:
        message = f"an absent measurement lacks {error.args[0]}: {dict(entry)}"
        raise RowError(message) from error


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
    return chosen("row", names, table().rows if rows is None else tuple(rows), fits)


def fits(row: PublishedRow, name: str) -> bool:
    """Return whether a name on the command line means this row.

    One without its last words means all rows of commands that begin so.
    """
    if name.endswith("*"):
        return row.id.startswith(name[:-1])
    return row.id == name or (row.command is not None and row.id.startswith(f"{name}-"))
