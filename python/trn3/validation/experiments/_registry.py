"""Experiments by name, and their figures, made once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trn3.validation.rows import RowError

Figures: TypeAlias = Mapping[str, float]
Experiment: TypeAlias = Callable[..., Figures]

_experiments: dict[str, Experiment] = {}
_known: dict[tuple[str, str, str], Figures] = {}


def experiment(function: Experiment) -> Experiment:
    """Make a function known as the experiment of its name."""
    _experiments[function.__name__] = function
    return function


def names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(_experiments)


def figures(name: str, hardware: str, parameters: dict[str, Any]) -> Figures:
    """Return what an experiment measures; one with the same parameters runs once a process.

    Raises
    ------
    RowError
        If there is none of that name.
    """
    if name not in _experiments:
        message = f"experiment is {name}; allowed: {', '.join(names())}"
        raise RowError(message)
    key = (name, hardware, json.dumps(parameters, sort_keys=True))
    if key not in _known:
        _known[key] = _experiments[name](hardware, **parameters)
    return _known[key]


def forget() -> None:
    """Run every experiment anew from here on."""
    _known.clear()
