"""What a Python name stands for, as data: signatures, members, values.

Texts name no module and no address, since what moves keeps its meaning.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import re
from collections.abc import Iterator
from types import ClassMethodDescriptorType, ModuleType
from typing import Any

Description = dict[str, Any]

#: What classes can do without a public name.
OPERATORS = frozenset(
    (
        "__abs__", "__add__", "__and__", "__array__", "__bool__", "__buffer__", "__call__",
        "__contains__", "__copy__", "__deepcopy__", "__divmod__", "__enter__", "__eq__",
        "__exit__", "__float__", "__floordiv__", "__ge__", "__getattr__", "__getitem__",
        "__gt__", "__hash__", "__iadd__", "__imul__", "__index__", "__int__", "__invert__",
        "__isub__", "__iter__", "__itruediv__", "__le__", "__len__", "__lshift__", "__lt__",
        "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__", "__next__", "__or__",
        "__pos__", "__pow__", "__radd__", "__rand__", "__reversed__", "__rfloordiv__",
        "__rlshift__", "__rmatmul__", "__rmod__", "__rmul__", "__ror__", "__rpow__",
        "__rrshift__", "__rshift__", "__rsub__", "__rtruediv__", "__rxor__", "__setitem__",
        "__sub__", "__truediv__", "__xor__",
    )
)  # fmt: skip
_SET = re.compile(r"^ +self\.([a-z]\w*)(?::.*)? = ", re.MULTILINE)


def describe(value: object) -> Description:
    """Say what a name stands for."""
    if isinstance(value, ModuleType):
        return {"is": "module"}
    if isinstance(value, type):
        return {"is": "class", **_class(value)}
    if callable(value) and not isinstance(value, enum.Enum):
        return {"is": "function", "signature": signature(value)}
    if isinstance(value, bool | int | float | str | None):
        return {"is": "value", "value": _text(value)}
    return {"is": "value"}


def _class(kind: type) -> Description:
    found: Description = {}
    outer = [base.__name__ for base in kind.__mro__[1:-1] if base.__module__ == "builtins"]
    if outer:
        found["bases"] = outer
    if issubclass(kind, enum.Enum):
        # Some members stand for functions, whose texts hold addresses.
        found["members"] = {name: _text(each.value) for name, each in kind.__members__.items()}
        return found
    # What takes a private argument is made by its own package alone.
    if not re.search(r"[(, ]_[a-z]", text := signature(kind)):
        found["signature"] = text
    found["members"] = dict(_members(kind))
    return found


def _members(kind: type) -> Iterator[tuple[str, str]]:
    inherited = {name for base in kind.__mro__ if _is_foreign(base) for name in dir(base)}
    for name in sorted(dir(kind)):
        if name in OPERATORS:
            own = next(base for base in kind.__mro__ if name in vars(base))
            if not _is_foreign(own) and vars(own)[name] is not None:
                yield name, "operator"
        elif not name.startswith("_") and name not in inherited:
            yield name, _member(kind, name)
    # Fields without a default leave nothing in the class but its annotation; others not even that.
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    for base in kind.__mro__:
        if not _is_foreign(base) and inspect.isfunction(made := vars(base).get("__init__")):
            with contextlib.suppress(OSError):  # a dataclass writes its own, in no file
                fields.update(_SET.findall(inspect.getsource(made)))
    for name in sorted(fields.difference(dir(kind))):
        if not name.startswith("_"):
            yield name, "attribute"


def _is_foreign(base: type) -> bool:
    return base.__module__.partition(".")[0] not in ("trn3", "trn3_pytest")


def _member(kind: type, name: str) -> str:
    held = inspect.getattr_static(kind, name)
    if isinstance(held, staticmethod):
        return f"staticmethod{signature(getattr(kind, name))}"
    # Those of Rust have a type of their own.
    if isinstance(held, classmethod | ClassMethodDescriptorType):
        return f"classmethod{signature(getattr(kind, name))}"
    if callable(held):
        return f"method{signature(held)}"
    # How an attribute is made is nobody's business: a property, a slot, a field, a getter of Rust.
    return "attribute"


def signature(value: Any) -> str:
    """Return parameters with kinds and defaults, without annotations; "(?)" if nobody knows."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(?)"
    parameters = [
        each.replace(
            annotation=inspect.Parameter.empty,
            default=each.default
            if each.default is inspect.Parameter.empty
            else _Default(_text(each.default)),
        )
        for each in found.parameters.values()
    ]
    return str(inspect.Signature(parameters))


class _Default:
    """Shows as a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__qualname__
    # Functions of Python held a type of elements as a default, those of Rust name it.
    if type(value) is str and value == "float32":
        return "float32"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return re.sub(r"\btrn3(?:\.\w+)*\.(?=\w)", "", text)
