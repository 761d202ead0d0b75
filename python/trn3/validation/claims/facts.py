"""Figures that follow from others: the formulas of ``claims.toml``."""

from __future__ import annotations

from trn3 import facts
from trn3.facts.expressions import evaluate, names_in
from trn3.facts.spec import spec_of
from trn3.validation.claims.planner import planned


def computed(formula: str, by: str = "") -> float:
    """Return the value of a formula, in base units.

    Parameters
    ----------
    formula
        Arithmetic over names as `figure` reads them.
    by
        Part of the name of the source of what is ``said``.

    Raises
    ------
    ValueError
        If it is no formula, or names what does not exist.

    Examples
    --------
    >>> computed("gen2.chips * published.trainium3.tflops_bf16")
    9.6624e+16
    """
    return evaluate(formula, {name: figure(name, by) for name in names_in(formula)})


def figure(name: str, by: str = "") -> float:
    """Return a figure in base units.

    ``SYSTEM.FIGURE`` is as it follows from the system's parts, ``published.SYSTEM.FIGURE`` as its
    page has it, ``parts.SYSTEM.FIGURE`` as its parts say where computations follow its page,
    ``said.SYSTEM.FIGURE`` what the source says that has `by` in its name, and ``plan.NAME.FIGURE``
    what a command line of ``claims.toml`` prints.

    Raises
    ------
    ValueError
        If there is none.
    """
    reading, system, key = name.split(".") if name.count(".") == 2 else ("", *name.split("."))
    if reading == "":
        return spec_of(system)[key].si
    if reading == "published":
        return facts.load(system)[key].si
    if reading == "plan":
        return planned(system)[key]
    if reading == "parts":
        quantity = spec_of(system)[key]
        if quantity.computed is not None:
            return quantity.computed * facts.factor(quantity.unit)
    if reading == "said":
        quantity = facts.load(system)[key]
        for source in quantity.sources:
            if by in source.source and isinstance(source.value, (int, float)):
                return source.value * facts.factor(source.unit or quantity.unit)
    message = f"{name} has no such reading{f' by {by!r}' if by else ''}"
    raise ValueError(message)
