"""A system's figures, computed from its parts and set beside what is published.

An UltraServer's figures follow from its chips', a chip's from its cores', by the formulas of
``formulas.toml``. The computed value is what a `Quantity` holds; what is published stands in its
`published`, and `agrees` says whether the two are within 0.6 %.

Where published sources disagree the defaults are **(choice)**: array x clock for peaks, 1,000 W for
a Trainium3, 16 usable CC-cores; the reasons are in each figure's `why`.

Examples
--------
>>> from trn3.system.spec import spec_of
>>> chip = spec_of("trainium3")
>>> chip["tflops_mxfp8"].value, chip["tflops_mxfp8"].published, chip["tflops_mxfp8"].agrees
(2516.5824, 2517, True)
>>> chip["tflops_mxfp8"].formula
'cores * core.tflops_mxfp8 = 8 x 314.57 TFLOPS = 2,516.6 TFLOPS'
>>> chip["tflops_bf16"].value, chip["tflops_bf16"].published, chip["tflops_bf16"].agrees
(629.1456, 671, False)
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from trn3.facts.mappings import FrozenMapping
from trn3.system import expressions
from trn3.system.facts import (
    Facts,
    Figures,
    Quantity,
    Source,
    Value,
    agree,
    factor,
    load,
    nearest,
    shown,
)

#: Which table of formulas a kind of system reads.
TABLES: Final[Mapping[str, tuple[str, ...]]] = FrozenMapping(
    {
        "core": ("core",),
        "chip": ("chip",),
        "chip and pod": ("chip", "pod"),
        "server": ("system",),
        "ultraserver": ("system",),
        "rack": ("system",),
        "pod": ("system",),
    }
)
#: The roles of parts that formulas may name.
ROLES: Final = ("core", "chip", "server", "peer", "basis")


@dataclass(frozen=True, slots=True)
class Formula:
    """How a figure follows from others: an entry of ``formulas.toml``."""

    key: str
    formulas: tuple[str, ...]
    why: str
    unit: str | None
    check: bool
    published_only: bool


@dataclass(frozen=True)
class Spec(Figures):
    """A system's figures by the facts' own names.

    Attributes
    ----------
    facts
        What is published about it.
    parts
        The specs of what it is made of, by role: ``core``, ``chip``, ``server``, ``peer``,
        ``basis``.
    """

    facts: Facts
    quantities: Mapping[str, Quantity]
    parts: Mapping[str, Spec]

    def _owner(self) -> str:
        return self.facts.name

    def __hash__(self) -> int:
        return hash(self.facts)


def spec_of(
    name: str | os.PathLike[str] | Facts,
    *,
    overrides: Mapping[str, Quantity | Value] | None = None,
) -> Spec:
    """Return a system's figures, computed from its parts where they can be.

    Parameters
    ----------
    name
        A system of the package, an alias, a spec file's path, or facts that are already loaded.
    overrides
        Other values for what is published, in the figure's unit: ``{"tdp": 500}``. With a role
        before the name they hold for a part: ``{"chip.hbm_bandwidth": 4.7}``. What is computed from
        them follows.

    Raises
    ------
    ValueError
        If the system, a figure or a part does not exist, or an override is not of the figure's
        type, negative, or a rate of zero.

    Examples
    --------
    >>> spec_of("gen2")["hbm_bandwidth"].formula
    'chips * chip.hbm_bandwidth = 144 x 4.9 TB/s = 705.6 TB/s'
    >>> spec_of("gen2", overrides={"chip.hbm_bandwidth": 4.7})["hbm_bandwidth"].value
    676.8
    """
    facts = name if isinstance(name, Facts) else load(name)
    if overrides or facts.siblings:
        return _computed(facts, dict(overrides or {}))
    return _built_in(facts.name)


@cache
def formulas() -> Mapping[str, Mapping[str, Formula]]:
    """Return the formulas of the package, by table and figure."""
    text = files("trn3.system").joinpath("formulas.toml").read_text(encoding="utf-8")
    return FrozenMapping(
        {
            table: FrozenMapping(
                {
                    key: Formula(
                        key=key,
                        formulas=tuple(entry["formulas"]),
                        why=entry["why"],
                        unit=entry.get("unit"),
                        check=entry.get("check", False),
                        published_only=entry.get("published", False),
                    )
                    for key, entry in entries.items()
                }
            )
            for table, entries in tomllib.loads(text).items()
        }
    )


@cache
def _built_in(name: str) -> Spec:
    return _computed(load(name), {})


def _computed(facts: Facts, overrides: Mapping[str, Quantity | Value]) -> Spec:
    mine: dict[str, Quantity | Value] = {}
    of_parts: dict[str, dict[str, Quantity | Value]] = {}
    for key, value in overrides.items():
        role, dot, rest = key.partition(".")
        if dot:
            of_parts.setdefault(role, {})[rest] = value
        else:
            mine[key] = value
    parts = {}
    for role in ROLES:
        part = facts.part(role)
        if part is not None:
            parts[role] = spec_of(part, overrides=of_parts.pop(role, None))
    for role in of_parts:
        message = f"overrides: {facts.name} has no part {role!r}; {nearest(role, tuple(parts))}"
        raise ValueError(message)
    quantities = dict(facts.quantities)
    rules: dict[str, Formula] = {}
    for table in TABLES.get(facts.kind, ()):
        rules.update(formulas()[table])
    for key, given in mine.items():
        quantities[key] = _overridden(facts, key, given, quantities, rules)
    known = {key: q.si for key, q in quantities.items() if q.is_number}
    for role, spec in parts.items():
        known.update({f"{role}.{key}": q.si for key, q in spec.items() if q.is_number})
    pending = {key: rule for key, rule in rules.items() if key not in mine}
    for key, rule in _in_order(pending):
        formula = next(
            (f for f in rule.formulas if set(expressions.names_in(f)) <= set(known)), None
        )
        if formula is None or ((rule.check or rule.published_only) and key not in quantities):
            continue
        quantity = _from_parts(rule, formula, known, quantities, parts)
        quantities[key] = quantity
        known[key] = quantity.si
    return Spec(facts, FrozenMapping(quantities), FrozenMapping(parts))


def _in_order(rules: Mapping[str, Formula]) -> Iterator[tuple[str, Formula]]:
    """Give rules after those whose figures they read."""
    given: set[str] = set()

    def give(key: str) -> Iterator[tuple[str, Formula]]:
        if key in given:
            return
        given.add(key)
        for formula in rules[key].formulas:
            for name in expressions.names_in(formula):
                if name in rules:
                    yield from give(name)
        yield key, rules[key]

    for key in rules:
        yield from give(key)


def _from_parts(
    rule: Formula,
    formula: str,
    known: Mapping[str, float],
    quantities: Mapping[str, Quantity],
    parts: Mapping[str, Spec],
) -> Quantity:
    published = quantities.get(rule.key)
    unit = published.unit if published is not None else rule.unit or ""
    value = _plain_number(expressions.evaluate(formula, known) / factor(unit))
    result = f"{shown(value)} {unit}" if _is_measured(unit) else shown(value)
    text = f"{formula} = {_with_numbers(formula, quantities, parts)} = {result}"
    if published is None or not published.is_number:
        return Quantity(value=value, unit=unit, formula=text, why=rule.why)
    agrees = agree(value, published.number)
    why = "; ".join(filter(None, (published.why, None if agrees else rule.why)))
    return replace(
        published,
        value=published.value if rule.check else value,
        formula=text,
        published=published.value,
        agrees=agrees,
        computed=value if rule.check else None,
        conflict=published.conflict or not agrees,
        why=why or rule.why,
    )


def _with_numbers(
    formula: str, quantities: Mapping[str, Quantity], parts: Mapping[str, Spec]
) -> str:
    def number(match: re.Match[str]) -> str:
        name = match.group(0)
        if name in {"min", "max"}:
            return name
        role, dot, key = name.partition(".")
        quantity = parts[role][key] if dot else quantities[name]
        unit = re.split("[ ,]", quantity.unit)[0]
        return f"{shown(quantity.value)} {unit}" if _is_measured(unit) else shown(quantity.value)

    return re.sub(r"[a-z_][a-z0-9_.]*", number, formula).replace(" * ", " x ")


#: First words of units that say nothing beside a number.
_COUNTS: Final = frozenset(("", "count", "x", "fraction", "bool", "multiply", "cores", "servers"))


def _is_measured(unit: str) -> bool:
    return re.split("[ ,/]", unit)[0] not in _COUNTS


def _overridden(
    facts: Facts,
    key: str,
    given: Quantity | Value,
    quantities: Mapping[str, Quantity],
    rules: Mapping[str, Formula],
) -> Quantity:
    if isinstance(given, Quantity):
        factor(given.unit)
        return given
    published = quantities.get(key)
    if published is None and key not in rules:
        message = f"overrides: {facts.name} has no {key}; {nearest(key, quantities)}"
        raise ValueError(message)
    unit = published.unit if published is not None else rules[key].unit or ""
    numeric = published is None or published.is_number
    if numeric != (isinstance(given, (int, float)) and not isinstance(given, bool)):
        wanted = f"a number of {unit}" if numeric else "a text or a list, as published"
        message = f"overrides: {key} is {given!r}; must be {wanted}"
        raise ValueError(message)
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        is_rate = "/s" in unit or "FLOPS" in unit or "Hz" in unit
        if not 0 <= given < float("inf") or (is_rate and given == 0):
            must = "positive" if is_rate else "not negative"
            message = f"overrides: {key} is {given} {unit}; must be finite and {must}"
            raise ValueError(message)
    source = Source(given, "override")
    if published is None:
        return Quantity(value=given, unit=unit, sources=(source,), why="set by the caller")
    return replace(
        published,
        value=given,
        formula=None,
        sources=(*published.sources, source),
        published=published.value,
        why="set by the caller",
    )


def _plain_number(value: float) -> int | float:
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def as_json(spec: Spec) -> dict[str, Any]:
    """Return a spec as plain data."""
    facts = spec.facts
    return {
        "name": facts.name,
        "title": facts.title,
        "kind": facts.kind,
        "parts": {role: part.facts.name for role, part in spec.parts.items()},
        "quantities": {key: quantity_as_json(quantity) for key, quantity in spec.items()},
    }


def quantity_as_json(quantity: Quantity) -> dict[str, Any]:
    """Return a figure as plain data; entries without content are left out."""
    entry: dict[str, Any] = {
        "value": _plain_data(quantity.value),
        "unit": quantity.unit,
        "status": quantity.status,
        "conflict": quantity.conflict,
    }
    if quantity.range is not None:
        entry["range"] = list(quantity.range)
    for name in ("formula", "published", "computed", "agrees", "why", "note"):
        content = getattr(quantity, name)
        if content is not None:
            entry[name] = _plain_data(content)
    entry["sources"] = [
        {
            "value": _plain_data(source.value),
            "source": source.source,
            **({"unit": source.unit} if source.unit is not None else {}),
        }
        for source in quantity.sources
    ]
    return entry


def _plain_data(value: Value) -> Any:
    return [_plain_data(item) for item in value] if isinstance(value, tuple) else value
