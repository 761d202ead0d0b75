"""Public Python names as data: a path in a module, and what is found there.

A description is found again by its path alone, so that a test asks the product only for what was
recorded.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from surface.descriptions import Description, describe

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
    "trn3.nki.legacy.support", "trn3_pytest", "trn3.system.facts", "trn3.nki.portability",
)  # fmt: skip
#: Names in other modules that pages or examples give.
NAMED = {
    "trn3.__main__": ("main",),
    "trn3.machine.results": ("EngineName",),
    "trn3.nki.differences": ("Diff", "DiffRow", "diff"),
    "trn3.nki.multirank": ("profile_ranks", "simulate_ranks", "spmd"),
    "trn3.nki.profiling": ("profile",),
    "trn3.nki.recording": ("Program", "Replay", "record"),
    "trn3.planner.training": ("Training", "plan_training", "published"),
    "trn3.system.comparison": ("Cell", "Comparison", "Row", "compare"),
    "trn3.system.exchanges": ("Exchange",),
    "trn3.system.spec": ("Spec", "spec_of"),
}
#: Where what a module holds may come from; the rest is what it imported to work with.
OURS = ("trn3", "trn3_pytest", "builtins", "ml_dtypes")
#: Names that `__getattr__` of a module gives and `__all__` leaves out.
LAZY = {"trn3": ("planner",), "trn3.nki": ("builtin", "compiler")}
#: Needs a package that is not always there; the surface is the same with and without.
EXTRA = "trn3.torch"
#: Top-level names that `trn3.nki.install` stands in for.
VENDORS = ("nki", "neuronxcc", "neuron_dtypes", "nki_cpu_simulator")


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
            if f"{found.name}.".startswith(f"{EXTRA}."):
                continue
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


def record() -> dict[str, dict[str, Description]]:
    """Describe what documented modules offer, a module an entry."""
    homes: dict[type, str] = {}
    found: dict[str, dict[str, Description]] = {}
    for module in (*DOCUMENTED, *NAMED):
        entries = found.setdefault(module, {})
        for name in NAMED.get(module) or public_names(load(module)):
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
