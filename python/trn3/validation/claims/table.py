"""The claims as data: what was published, by whom, and how exact it can be."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from trn3 import facts
from trn3.validation.rows import RowError

Status: TypeAlias = Literal["arithmetic", "model", "assumption", "open"]

#: The statuses as readers see them.
STATUS_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "arithmetic": "exact arithmetic",
        "model": "model",
        "assumption": "needs an assumption",
        "open": "not derivable",
    }
)
#: What computes a claim.
AREAS: Final = ("facts", "fabric", "collectives", "machine", "planner", "energy")
PERCENT: Final = "%"

_CLAIM_KEYS: Final = frozenset(
    {
        "number", "id", "claim", "status", "area", "sources", "figures", "tolerance", "assumption",
        "fitted", "miss", "refuted", "flag", "note", "bound",
    }
)  # fmt: skip
_FIGURE_KEYS: Final = frozenset(
    {"name", "published", "unit", "fact", "miss", "tolerance", "fitted"}
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a claim.

    Attributes
    ----------
    name
        What it is of.
    published
        As it is printed; None for one that is only shown.
    unit
        Of both.
    tolerance
        Largest error that is no miss, as a part of the published value; None where all printed
        digits must agree.
    miss
        Why it is further off; None where it is not.
    source
        Who published this very number, where that differs from the claim's.
    is_fitted
        Whether a constant of the model was read off this very number.
    """

    name: str
    published: str | None
    unit: str
    tolerance: float | None
    miss: str | None
    source: str | None
    is_fitted: bool

    @property
    def scale(self) -> float:
        """What one of the unit is in base units."""
        return 0.01 if self.unit == PERCENT else facts.factor(self.unit)


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """A published claim.

    Attributes
    ----------
    id, number
        Its names on the command line; a claim outside the numbered list has number None.
    claim
        What is claimed.
    status
        How it can be checked: `STATUS_TEXTS`.
    area
        What computes it: one of `AREAS`.
    source
        Who published it.
    figures
        Its numbers.
    assumption
        What the computed figures rest on, beyond what is documented.
    fitted
        What was read off this claim.
    refuted
        Why the claim does not hold.
    flag, note
        What contradicts it, and what else a reader should know.
    is_bound
        Whether the published numbers are upper bounds.
    """

    id: str
    number: int | None
    claim: str
    status: Status
    area: str
    source: str
    figures: tuple[Figure, ...]
    assumption: str | None
    fitted: str | None
    refuted: str | None
    flag: str | None
    note: str | None
    is_bound: bool

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that must be said beside the figures, each with what kind of remark it is."""
        named = (
            ("refuted", self.refuted), ("assumed", self.assumption), ("fitted", self.fitted),
            ("against it", self.flag), ("note", self.note),
        )  # fmt: skip
        return tuple(f"{kind}: {text}" for kind, text in named if text is not None)


#: Its name in earlier releases.
Claim = PublishedClaim


@cache
def table() -> tuple[PublishedClaim, ...]:
    """Return the claims of the package.

    Raises
    ------
    trn3.validation.RowError
        If the table is wrong; the text names the claim.
    """
    text = files("trn3.validation").joinpath("claims.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> tuple[PublishedClaim, ...]:
    """Return the claims that a TOML text holds.

    Raises
    ------
    trn3.validation.RowError
        If an entry is missing, unknown, of the wrong type, or an id or number comes twice.
    """
    document = tomllib.loads(text)
    sources = document.get("sources", {})
    tolerances = document.get("tolerances", {})
    claims = tuple(_claim(entry, sources, tolerances) for entry in document.get("claim", ()))
    for names in ([c.id for c in claims], [c.number for c in claims if c.number is not None]):
        twice = sorted({str(name) for name in names if names.count(name) > 1})  # type: ignore[arg-type]
        if twice:
            message = f"claim {', '.join(twice)} comes twice"
            raise RowError(message)
    return claims


def select(
    names: Sequence[str], among: Iterable[PublishedClaim] | None = None
) -> tuple[PublishedClaim, ...]:
    """Return the claims of these ids or numbers, in the order of the table; all without names.

    ``*`` stands for any letters.

    Raises
    ------
    trn3.validation.RowError
        If a name fits no claim.
    """
    claims = table() if among is None else tuple(among)
    for name in names:
        if not any(fits(claim, name) for claim in claims):
            message = f"no claim is called {name}; claims: {', '.join(c.id for c in claims)}"
            raise RowError(message)
    return tuple(c for c in claims if not names or any(fits(c, name) for name in names))


def fits(claim: PublishedClaim, name: str) -> bool:
    """Return whether a name on the command line means this claim."""
    return name == str(claim.number) or fnmatch.fnmatchcase(claim.id, name)


def _claim(
    entry: Mapping[str, Any], sources: Mapping[str, str], tolerances: Mapping[str, float]
) -> PublishedClaim:
    name = str(entry.get("id", "without an id"))
    unknown = sorted(set(entry) - _CLAIM_KEYS)
    if unknown:
        message = (
            f"claim {name} has {', '.join(unknown)}; allowed: {', '.join(sorted(_CLAIM_KEYS))}"
        )
        raise RowError(message)

    def text(key: str, *, needed: bool = False) -> str | None:
        value = entry.get(key)
        if value is None and not needed:
            return None
        if not isinstance(value, str) or not value:
            message = f"claim {name}: {key} is {value!r}, must be a text"
            raise RowError(message)
        return " ".join(value.split())

    def choice(key: str, allowed: Collection[str]) -> str:
        value = text(key, needed=True)
        if value is None or value not in allowed:
            message = f"claim {name}: {key} is {value}; allowed: {', '.join(allowed)}"
            raise RowError(message)
        return value

    status = choice("status", STATUS_TEXTS)
    tolerance = entry.get("tolerance", tolerances.get(status))
    cited = entry.get("sources", ())
    for source in cited:
        if source not in sources:
            message = f"claim {name}: source is {source}; allowed: {', '.join(sorted(sources))}"
            raise RowError(message)
    figures = tuple(_figure(name, figure, tolerance) for figure in entry.get("figures", ()))
    if any(figure.is_fitted for figure in figures) and "fitted" not in entry:
        message = f"claim {name} has figures that were fitted to and does not say what: fitted"
        raise RowError(message)
    if not cited or not figures:
        message = f"claim {name} has no {'figures' if cited else 'sources'}; it needs one or more"
        raise RowError(message)
    if status == "assumption" and "assumption" not in entry:
        message = f"claim {name} needs an assumption and does not state it"
        raise RowError(message)
    number = entry.get("number")
    return PublishedClaim(
        id=cast(str, text("id", needed=True)),
        number=None if number is None else int(number),
        claim=cast(str, text("claim", needed=True)),
        status=cast(Status, status),
        area=choice("area", AREAS),
        source="; ".join(sources[source] for source in cited),
        figures=figures,
        assumption=text("assumption"),
        fitted=text("fitted"),
        refuted=text("refuted"),
        flag=text("flag"),
        note=text("note"),
        is_bound=bool(entry.get("bound", False)),
    )


def _figure(claim: str, entry: Mapping[str, Any], tolerance: float | None) -> Figure:
    name = str(entry.get("name", ""))
    unknown = sorted(set(entry) - _FIGURE_KEYS)
    if unknown or not name:
        what = f"has {', '.join(unknown)}" if unknown else "lacks its name"
        message = f"claim {claim}: a figure {what}; allowed: {', '.join(sorted(_FIGURE_KEYS))}"
        raise RowError(message)
    published, unit, source = entry.get("published"), entry.get("unit"), None
    if "fact" in entry:
        system, _, key = str(entry["fact"]).partition(".")
        quantity = facts.load(system)[key]
        published, source = str(quantity.value), quantity.sources[0].source
        # The rest of a unit says under which conditions it holds.
        unit = quantity.unit.partition(" ")[0]
    if published is not None:
        try:
            Decimal(published)
        except (InvalidOperation, TypeError, ValueError) as error:
            message = f"claim {claim}: {name} is {published!r}, must be a number as it is printed"
            raise RowError(message) from error
    figure = Figure(
        name=name,
        published=published,
        unit=str(unit),
        tolerance=entry.get("tolerance", tolerance),
        miss=entry.get("miss"),
        source=source,
        is_fitted=bool(entry.get("fitted", False)),
    )
    try:
        _ = figure.scale
    except ValueError as error:
        message = f"claim {claim}: {name}: {error}"
        raise RowError(message) from error
    return figure
