"""The claims as data: what was published, by whom, and how exact it can be."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from trn3 import facts
from trn3.validation.rows import RowError, TableEntry, chosen

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
#: What a figure is computed from.
_INPUTS: Final = ("formula", "by")
_FIGURE_KEYS: Final = frozenset(
    {"name", "published", "unit", "fact", "miss", "tolerance", "fitted", *_INPUTS}
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
    inputs
        What it is computed from: a ``formula`` of figures of systems and command lines, and ``by``
        whom the one that it takes from a source is.
    """

    name: str
    published: str | None
    unit: str
    tolerance: float | None
    miss: str | None
    source: str | None
    is_fitted: bool
    inputs: Mapping[str, Any] = field(default_factory=dict, compare=False)

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
    example
        Empty: examples of nccom-test are rows of `trn3.validation.commands`.
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
    example: Mapping[str, Any] = field(default_factory=dict, compare=False)

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
    return _parsed(document())


@cache
def document() -> Mapping[str, Any]:
    """Return what ``claims.toml`` holds."""
    return tomllib.loads(files("trn3.validation").joinpath("claims.toml").read_text("utf-8"))


def parse(text: str) -> tuple[PublishedClaim, ...]:
    """Return the claims that a TOML text holds.

    Raises
    ------
    trn3.validation.RowError
        If an entry is missing, unknown, of the wrong type, or an id or number comes twice.
    """
    return _parsed(tomllib.loads(text))


def _parsed(document: Mapping[str, Any]) -> tuple[PublishedClaim, ...]:
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
    return chosen("claim", names, table() if among is None else tuple(among), fits)


def fits(claim: PublishedClaim, name: str) -> bool:
    """Return whether a name on the command line means this claim."""
    return name == str(claim.number) or fnmatch.fnmatchcase(claim.id, name)


def _claim(
    content: Mapping[str, Any], sources: Mapping[str, str], tolerances: Mapping[str, float]
) -> PublishedClaim:
    entry = TableEntry(f"claim {content.get('id', 'without an id')}", content, _CLAIM_KEYS)
    status = entry.choice("status", STATUS_TEXTS)
    tolerance = content.get("tolerance", tolerances.get(status))
    cited = [entry.choice("source", sorted(sources), key) for key in content.get("sources", ())]
    figures = tuple(_figure(entry, figure, tolerance) for figure in content.get("figures", ()))
    if any(figure.is_fitted for figure in figures) and "fitted" not in content:
        raise entry.error(" has figures that were fitted to and does not say what: fitted")
    if not cited or not figures:
        raise entry.error(f" has no {'figures' if cited else 'sources'}; it needs one or more")
    if status == "assumption" and "assumption" not in content:
        raise entry.error(" needs an assumption and does not state it")
    number = content.get("number")
    return PublishedClaim(
        id=entry.text("id"),
        number=None if number is None else int(number),
        claim=entry.text("claim"),
        status=cast(Status, status),
        area=entry.choice("area", AREAS),
        source="; ".join(sources[key] for key in cited),
        figures=figures,
        assumption=entry.text_if_any("assumption"),
        fitted=entry.text_if_any("fitted"),
        refuted=entry.text_if_any("refuted"),
        flag=entry.text_if_any("flag"),
        note=entry.text_if_any("note"),
        is_bound=bool(content.get("bound", False)),
    )


def _figure(claim: TableEntry, content: Mapping[str, Any], tolerance: float | None) -> Figure:
    name = str(content.get("name", ""))
    unknown = sorted(set(content) - _FIGURE_KEYS)
    if unknown or not name:
        what = f"has {', '.join(unknown)}" if unknown else "lacks its name"
        raise claim.error(f": a figure {what}; allowed: {', '.join(sorted(_FIGURE_KEYS))}")
    published, unit, source = content.get("published"), content.get("unit"), None
    if "fact" in content:
        system, _, key = str(content["fact"]).partition(".")
        quantity = facts.load(system)[key]
        published, source = str(quantity.value), quantity.sources[0].source
        # The rest of a unit says under which conditions it holds.
        unit = quantity.unit.partition(" ")[0]
    if published is not None:
        try:
            Decimal(published)
        except (InvalidOperation, TypeError, ValueError) as error:
            text = f": {name} is {published!r}, must be a number as it is printed"
            raise claim.error(text) from error
    figure = Figure(
        name=name,
        published=published,
        unit=str(unit),
        tolerance=content.get("tolerance", tolerance),
        miss=content.get("miss"),
        source=source,
        is_fitted=bool(content.get("fitted", False)),
        inputs=MappingProxyType({key: content[key] for key in _INPUTS if key in content}),
    )
    try:
        _ = figure.scale
    except ValueError as error:
        raise claim.error(f": {name}: {error}") from error
    return figure
