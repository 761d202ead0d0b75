"""Public Python names as data: a path in a module, and what is found there.

A description is found again by its path alone, so that a test asks the product only for what was
recorded. Texts name no module and no address, since what moves keeps its meaning.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

_SET = re.compile(r"^ +self\.([a-z]\w*)(?::.*)? = ", re.MULTILINE)

Description = dict[str, Any]

#: Modules that the pages document or that kernels import: their names and signatures hold. A class
#: is described in full at the first of them that has it.
DOCUMENTED = (
    "trn3.numerics", "trn3.machine", "trn3.system", "trn3.systems", "trn3.collectives",
    "trn3.flows", "trn3.traffic", "trn3.planner", "trn3.cost", "trn3.power", "trn3.sweeps",
    "trn3.chakra", "trn3.export", "trn3.k8s", "trn3.validation", "trn3.validation.claims",
    "trn3.validation.experiments", "trn3.checkpoint", "trn3.budget", "trn3.report", "trn3",
    "trn3.nki", "trn3.nki.language", "trn3.nki.isa", "trn3.nki.isa.constants",
    "trn3.nki.collectives", "trn3.nki.typing", "trn3.nki.dtype", "trn3.nki.dtypes",
    "trn3.nki.tensor", "trn3.nki.tensors", "trn3.nki.experimental", "trn3.nki.neuron_dtypes",
    "trn3.nki.hardware", "trn3.nki.version", "trn3.nki.legacy", "trn3.nki.legacy.language",
    "trn3.nki.legacy.isa", "trn3.nki.legacy.compiler", "trn3.nki.legacy.typing",
    "trn3.nki.legacy.support", "trn3_pytest",
)  # fmt: skip
#: Where what a module holds may come from; the rest is what it imported to work with.
OURS = ("trn3", "trn3_pytest", "builtins", "ml_dtypes")
#: Names that `__getattr__` of a module gives and `__all__` leaves out.
LAZY = {"trn3": ("planner",), "trn3.nki": ("builtin", "compiler")}
#: Top-level names that `trn3.nki.install` stands in for.
VENDORS = ("nki", "neuronxcc", "neuron_dtypes", "nki_cpu_simulator")
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


def load(name: str) -> ModuleType:
    """Import a module by the name that it had; old names are allowed to say that they are old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)


def modules() -> Iterator[str]:
    """Give the names of all public modules."""
    for top in ("trn3", "trn3_pytest"):
        yield top
        package = load(top)
        for found in pkgutil.walk_packages(package.__path__, f"{top}."):
            if not any(part.startswith("_") for part in found.name.split(".")):
                yield found.name


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module offers: `__all__`, or what it holds of ours."""
    lazy = LAZY.get(module.__name__, ())
    listed = getattr(module, "__all__", None)
    if listed is None:
        held = vars(module).items()
        listed = [name for name, value in held if not name.startswith("_") and _is_ours(value)]
    return sorted({*listed, *lazy})


def _is_ours(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in {load(name).__name__ for name in DOCUMENTED}
    if isinstance(value, type) and issubclass(value, np.generic):
        return True
    home = getattr(value, "__module__", None)
    return not isinstance(home, str) or home.partition(".")[0] in OURS


def find(path: str) -> Any:
    """Return what stands at a path, ``module:name.name``."""
    module, _, names = path.partition(":")
    value: Any = load(module)
    for name in filter(None, names.split(".")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            value = getattr(value, name)
    return value


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
    if isinstance(held, classmethod | staticmethod):
        return f"{type(held).__name__}{signature(getattr(kind, name))}"
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
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return re.sub(r"\btrn3(?:\.\w+)*\.(?=\w)", "", text)


def record() -> dict[str, dict[str, Description]]:
    """Describe what documented modules offer, a module an entry."""
    homes: dict[type, str] = {}
    found: dict[str, dict[str, Description]] = {}
    for module in DOCUMENTED:
        entries = found.setdefault(module, {})
        for name in public_names(load(module)):
            path = f"{module}:{name}"
            value = find(path)
            if isinstance(value, type) and homes.setdefault(value, path) != path:
                entries[name] = {"is": "class", "same": homes[value]}
            else:
                entries[name] = describe(value)
    del found["trn3"]["__version__"]["value"]
    return found


def look_again(recorded: dict[str, dict[str, Description]]) -> dict[str, dict[str, Description]]:
    """Describe what stands now where something was recorded; what is gone is left out."""
    found: dict[str, dict[str, Description]] = {}
    for module, names in recorded.items():
        for name, before in names.items():
            try:
                value = find(f"{module}:{name}")
            except (ImportError, AttributeError):
                continue
            now = describe(value)
            if "same" in before and value is find(before["same"]):
                now = before
            found.setdefault(module, {})[name] = now
    return found


def record_inner() -> dict[str, list[str]]:
    """List all other modules, with those of their own names that a documented module offers."""
    offered = {
        id(find(f"{module}:{name}")) for module in DOCUMENTED for name in public_names(load(module))
    }
    return {
        module: sorted(
            name
            for name, value in vars(load(module)).items()
            if not name.startswith("_")
            and id(value) in offered
            and getattr(value, "__module__", None) == module
        )
        for module in modules()
        if module not in DOCUMENTED
    }


def look_again_inner(recorded: dict[str, list[str]]) -> dict[str, list[str]]:
    """List what still is where it was; what is gone is left out."""
    found: dict[str, list[str]] = {}
    for name, offered in recorded.items():
        try:
            module = load(name)
        except ImportError:
            continue
        found[name] = [each for each in offered if hasattr(module, each)]
    return found


def record_installed() -> dict[str, list[str]]:
    """List the modules that `trn3.nki.install` registers, with the names in them.

    As its sibling, to be called in a process of its own: tests have folders with these names.
    """
    load("trn3.nki").install()
    return {
        name: public_names(module)
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in VENDORS
    }


def look_again_installed(recorded: dict[str, list[str]]) -> dict[str, list[str]]:
    """List what still is in the modules that `trn3.nki.install` registers."""
    load("trn3.nki").install()
    return {
        module: [name for name in names if hasattr(sys.modules[module], name)]
        for module, names in recorded.items()
        if module in sys.modules
    }
