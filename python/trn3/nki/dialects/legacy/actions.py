"""What tensors do, by name: the modules that know how stand above tensors, and register it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: Indexing, assignment, and the functions of the legacy language that operators and methods mean.
ACTIONS: Final[dict[str, Callable[..., Any]]] = {}


def action(name: str) -> Callable[[F], F]:
    """Make a function what tensors do under a name."""

    def register(function: F) -> F:
        ACTIONS[name] = function
        return function

    return register
