"""The base class of objects that kernels take and make."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor

__all__ = ["NKIObject"]

_PLAIN = (int, float, str, bool, bytes, enum.Enum, type(None))
#: The file that methods come from which `dataclasses` wrote.
_GENERATED = "<string>"


def _annotated(cls: type) -> list[str]:
    """Return the fields of a class in order of declaration, those of its bases first."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            # As text, since annotations may be text already.
            if not str(annotation).partition("[")[0].endswith("ClassVar"):
                names[name] = None
    return list(names)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, NkiTensor) or isinstance(other, NkiTensor):
        return False
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if type(one) is type(other) and isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


class NKIObject:
    """Base of classes whose objects kernels take, make and pass on.

    A subclass is built by keyword from what its class body names, annotated or not, or by position
    in the order of annotation; a field that is not given has its class's default, or None.
    ``__post_init__`` is called if there is one. A dataclass is built by the same rule: what the
    decorator made sees every field, and a name of the body without annotation is set before
    ``__post_init__`` runs. Classes with an ``__init__`` of their own are left as they are.

    Objects are equal if their classes and fields are; tensors only if they are the same object.
    They can be dict keys even where a dataclass took the hash away: the hash is made of the fields
    that are numbers, strings, enums or None, which must then not change.

    Raises
    ------
    TypeError
        For arguments that name no field, or name one twice.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> class Config(nl.NKIObject):
    ...     rows: int
    ...     columns: int = 4
    ...     scale: float
    >>> config = Config(2, scale=0.5)
    >>> config.rows, config.columns, config.scale, Config().rows
    (2, 4, 0.5, None)
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Make an object that can be a dict key."""
        # The decorator works after the class is made: a dataclass that compares has lost its hash,
        # and has an `__init__` that insists on every field.
        if cls.__hash__ is None:
            cls.__hash__ = NKIObject.__hash__  # type: ignore[unreachable]
        owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
        made = vars(owner)["__init__"]
        if getattr(getattr(made, "__code__", None), "co_filename", None) == _GENERATED:
            owner.__init__ = _filling(made)  # type: ignore[misc]
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        names = _annotated(cls)
        if len(args) > len(names):
            message = (
                f"{cls.__name__}() takes {len(names)} fields ({', '.join(names)}), got {len(args)}"
            )
            raise TypeError(message)
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                message = f"{cls.__name__}() got field {name} twice"
                raise TypeError(message)
            # A class without annotations takes any field, as its kernels assign any.
            if names and name not in names and name not in _named(cls):
                raise _no_field(cls, name, names)
            given[name] = value
        for name in names:
            if name not in given:
                given[name] = _default(cls, name)
        self.__dict__.update(given)
        after = getattr(self, "__post_init__", None)
        if after is not None:
            after()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _same(_fields(self), _fields(other))

    def __hash__(self) -> int:
        plain = (item for item in sorted(_fields(self).items()) if isinstance(item[1], _PLAIN))
        return hash((type(self), tuple(plain)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in _fields(self).items())
        return f"{type(self).__qualname__}({fields})"


def _no_field(cls: type, name: str, names: Sequence[str]) -> TypeError:
    allowed = ", ".join([*names, *_named(cls)])
    return TypeError(f"{cls.__name__}() got {name!r}, which is no field; allowed: {allowed}")


def _named(cls: type) -> list[str]:
    """Return what the bodies of a class and its bases name without annotation, as values."""
    annotated = _annotated(cls)
    return [
        name
        for base in reversed(cls.__mro__)
        if base is not NKIObject and issubclass(base, NKIObject)
        for name, value in vars(base).items()
        if not name.startswith("__")
        and name not in annotated
        and not callable(value)
        and not hasattr(value, "__get__")
    ]


def _filling(made: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that hands the dataclass's own every field, None for the unset ones."""
    signature = inspect.signature(made)
    unset = {
        name: None
        for name, parameter in signature.parameters.items()
        if parameter.default is inspect.Parameter.empty
    }

    @functools.wraps(made)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        cls = type(self)
        # A subclass without the decorator has fields that the decorated base knows nothing of.
        later = [name for name in _annotated(cls) if name not in signature.parameters]
        others = {name: _default(cls, name) for name in later}
        for name in [name for name in kwargs if name not in signature.parameters]:
            if name not in others and name not in _named(cls):
                raise _no_field(cls, name, _annotated(cls))
            others[name] = kwargs.pop(name)
        for name, value in others.items():
            # Also where the class is frozen.
            object.__setattr__(self, name, value)
        bound = signature.bind_partial(self, *args, **kwargs)
        made(**{**unset, **bound.arguments})

    return __init__


def _default(cls: type, name: str) -> Any:
    """Return the value of a field that was not given."""
    value = getattr(cls, name, None)
    if not isinstance(value, dataclasses.Field):
        return value
    # `dataclasses.field()` in a class that the decorator was left off.
    if value.default_factory is not dataclasses.MISSING:
        return value.default_factory()
    return None if value.default is dataclasses.MISSING else value.default


def _fields(item: Any) -> dict[str, Any]:
    slots = {
        name: getattr(item, name)
        for base in type(item).__mro__
        for name in base.__dict__.get("__slots__", ())
        if hasattr(item, name)
    }
    return slots | getattr(item, "__dict__", {})
