"""Claims about serving and training models: what command lines say of that which was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trn3.validation import commands
from trn3.validation.claims.table import Figure, document


def command(name: str) -> str:
    """Return one of the command lines of ``claims.toml``.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    known: Mapping[str, str] = document()["plans"]
    if name not in known:
        message = f"plan is {name}; allowed: {', '.join(known)}"
        raise ValueError(message)
    return known[name]


def planned(name: str) -> Mapping[str, float]:
    """Return the numbers that a command line of ``claims.toml`` prints.

    Raises
    ------
    ValueError
        If there is none of that name, or it is refused.
    """
    return commands.figures(command(name))


def commands_of(figure: Figure) -> list[str]:
    """Return the command lines whose numbers a figure is computed from."""
    names = re.findall(r"\bplan\.(\w+)\.", figure.inputs.get("formula", ""))
    return [command(name) for name in dict.fromkeys(names)]
