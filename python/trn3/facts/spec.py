"""A system's figures, computed from its parts and set beside what is published.

An UltraServer's figures follow from its chips', a chip's from its cores', by the formulas of
``formulas.toml``. The computed value is what a `Quantity` holds; what is published stands in its
`published`, and `agrees` says whether the two are within 0.6 %.

Where published sources disagree the defaults are **(choice)**: array x clock for peaks, 1,000 W for
a Trainium3, 16 usable CC-cores; the reasons are in each figure's `why`.

Examples
--------
>>> from trn3.facts.spec import spec_of
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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trn3._trn3 import facts as _core
from trn3.facts.mappings import FrozenMapping
from trn3.facts.published import Facts, Figures, facts_of, load
from trn3.facts.quantity import Quantity, Value, figure_of


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

    def peak(self, dtype: str) -> float | None:
        """Return the operations a second of a chip or a core in a format, as computations use it.

        Array x clock where the core is known, else what the chip's page says; a multiply and an add
        for every product. None where it has no such rate.

        Parameters
        ----------
        dtype
            ``fp32``, ``tf32``, ``bf16``, ``fp16``, ``fp8``, ``mxfp8`` or ``mxfp4``.

        Raises
        ------
        ValueError
            If it is another.

        Examples
        --------
        >>> spec_of("trainium3").peak("bf16"), spec_of("trainium2").peak("mxfp8")
        (629145600000000.0, None)
        """
        return _core.peak(self.facts, list(self.facts.siblings.values()), dtype)

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
    return FrozenMapping(
        {
            table: FrozenMapping(
                {
                    key: Formula(key, tuple(texts), why, unit, check, only)
                    for key, (texts, why, unit, check, only) in rules
                }
            )
            for table, rules in _core.formulas()
        }
    )


@cache
def _built_in(name: str) -> Spec:
    return _computed(load(name), {})


def _computed(facts: Facts, overrides: Mapping[str, Quantity | Value]) -> Spec:
    return _spec(_core.spec(facts, list(facts.siblings.values()), dict(overrides)), facts)


def _spec(fields: Mapping[str, Any], facts: Facts) -> Spec:
    """Return a spec, given what the core computed; parts may be of the same file."""
    quantities = {key: figure_of(entry) for key, entry in fields["quantities"].items()}
    parts = {
        role: _spec(part, facts_of(part["facts"], facts.siblings))
        for role, part in fields["parts"].items()
    }
    return Spec(facts, FrozenMapping(quantities), FrozenMapping(parts))


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
