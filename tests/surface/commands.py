"""Commands of ``trn3`` as data, and the options of its pytest plug-in."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import trn3_pytest
from trn3.cli.app import app


def record() -> dict[str, Any]:
    """Return parameters by command: what is given by name and what by place, in order."""
    return {
        **{name: _parameters(command) for name, command in _walk(typer.main.get_command(app))},
        "pytest": _plugin(),
    }


def _walk(command: Any, name: str = "trn3") -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from _walk(below, f"{name} {word}")


def _parameters(command: Any) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    if command.callback is not None:
        hints = typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    found: dict[str, Any] = {}
    place = 0
    for each in command.params:
        about: dict[str, Any] = {
            "required": each.required,
            "default": _plain(each.default),
            "nargs": each.nargs,
            **_values(hints.get(each.name)),
        }
        if each.param_type_name == "argument":
            place += 1
            found[f"argument {place}"] = about
            continue
        about["is_flag"] = each.is_flag
        about["repeatable"] = each.multiple
        # Every spelling has an entry, so that one more is an addition.
        for spelling in each.opts:
            found[spelling] = about
        for spelling in each.secondary_opts:
            found[spelling] = {"is_flag": True, "denies": each.opts[0]}
    return found


def _values(hint: Any) -> dict[str, Any]:
    """Return which values an option takes."""
    found: dict[str, Any] = {}
    if typing.get_origin(hint) is typing.Annotated:
        for entry in hint.__metadata__:
            for end in ("min", "max"):
                if getattr(entry, end, None) is not None:
                    found[end] = getattr(entry, end)
        hint = hint.__origin__
    while typing.get_origin(hint) in (list, types.UnionType, typing.Union):
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        found["choices"] = list(typing.get_args(hint))
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        found["choices"] = [each.value for each in hint]
    elif isinstance(hint, type):
        found["type"] = "path" if issubclass(hint, Path) else hint.__name__
    return found


def _plain(default: Any) -> Any:
    if isinstance(default, enum.Enum):
        return default.value
    if isinstance(default, list | tuple):
        return [_plain(each) for each in default] or None
    return str(default) if isinstance(default, Path) else default


class _Options:
    """Takes down what a pytest plug-in asks for."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def getgroup(self, *_: str) -> _Options:
        return self

    def addoption(self, spelling: str, **about: Any) -> None:
        kept = ("action", "nargs", "const", "default")
        self.found[spelling] = {key: about[key] for key in kept if key in about}


def _plugin() -> dict[str, Any]:
    options = _Options()
    trn3_pytest.pytest_addoption(typing.cast("Any", options))
    return options.found
