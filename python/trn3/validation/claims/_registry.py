"""The functions that compute claims, by the claims' ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

#: Figures by their names in the table, in base units: bytes, seconds, operations, plain ratios.
Figures: TypeAlias = Mapping[str, float]
Function: TypeAlias = Callable[[], Figures]

_functions: dict[str, Function] = {}


def claim(name: str) -> Callable[[Function], Function]:
    """Make a function known as the one that computes the claim of this id."""

    def register(function: Function) -> Function:
        _functions[name] = function
        return function

    return register


def functions() -> Mapping[str, Function]:
    """Return all functions by the ids of their claims."""
    return dict(_functions)
