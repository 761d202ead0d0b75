"""What the core answers, in mappings and lists with named parts, as dataclasses."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Made = TypeVar("Made")


def typed(kind: type[Made], found: Mapping[str, Any], **given: Any) -> Made:
    """Return a dataclass of the entries that its fields are named after, `given` ones first.

    Entries become what their fields are declared as: other dataclasses, tuples, mappings (which may
    come as pairs). Entries without a field are left out.

    Examples
    --------
    >>> from trn3.planner.parts import Searched
    >>> typed(Searched, {"objective": "tpot", "evaluated": 1, "refused": [("memory", 2)],
    ...                  "frontier": [], "more": 0})
    Searched(objective='tpot', evaluated=1, refused={'memory': 2}, frontier=())
    """
    owner: Any = kind
    taken = ((name, hint) for name, hint in _fields(owner).items() if name in found.keys() - given)
    return kind(**{name: _value(hint, found[name]) for name, hint in taken}, **given)


@cache
def _fields(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in {Union, types.UnionType}:
        (hint,) = (each for each in inner if each is not types.NoneType)
        return _value(hint, value)
    if origin is tuple:
        return tuple(_value(inner[0], each) for each in value)
    if origin is Mapping:
        return dict(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return typed(hint, value)
    return value
