"""Published figures of systems, each computed by the command line that a user types for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from trn3 import facts, offers
from trn3.facts.expressions import evaluate, names_in
from trn3.validation.rows import PublishedRow, RowError, parse


@cache
def published() -> tuple[PublishedRow, ...]:
    """Return the rows of ``commands.toml``; each has its `command`.

    Examples
    --------
    >>> row = next(row for row in published() if row.group == "trn1 training")
    >>> row.command.split()[:3], row.published, row.unit
    (['trn3', 'plan', 'gpt3-23b'], 100.0, 'seq/s')
    """
    text = files("trn3.validation").joinpath("commands.toml").read_text(encoding="utf-8")
    return parse(text).rows


@cache
def document(command: str) -> Mapping[str, Any]:
    """Return what a command line prints with ``--json``.

    Raises
    ------
    ValueError
        If the command is refused.
    """
    found: Mapping[str, Any] = offers.take("document of a command line")(command)
    return found


def figures(command: str) -> dict[str, float]:
    """Return the numbers of the document that a command line prints, by their names.

    Times of nccom-test are in seconds; of several lines the first counts.

    Raises
    ------
    ValueError
        If the command is refused.

    Examples
    --------
    >>> found = figures("trn3 plan llama-3-8b --system gen2 --tp 4 --in 512")
    >>> 0 < found["tpot"] < found["ttft"]
    True
    """
    printed = document(command)
    found: dict[str, float] = {}
    for key, value in {**printed, **next(iter(printed.get("results", ())), {})}.items():
        if isinstance(value, int | float):
            name, is_time, _ = key.partition("(us)")
            found[name] = value * (facts.factor("us") if is_time else 1)
    return found


def compute(command: str, formula: str) -> float:
    """Return a formula over `figures` of a command line.

    Raises
    ------
    ValueError
        If the command is refused, or prints no such number.
    """
    found, names = figures(command), names_in(formula)
    if unknown := [name for name in names if name not in found]:
        message = f"{command} prints no {unknown[0]}; allowed: {', '.join(found)}"
        raise RowError(message)
    return evaluate(formula, {name: found[name] for name in names})
