"""Where modules that users could import went: the old names keep working for one release.

One table for all of them. An old name, or one below it, gives the module itself and not a copy of
it, with one `DeprecationWarning` for each name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Old name to new name; what lies below an old name lies below the new one, unless it is listed.
MOVED: dict[str, str] = {}


def renamed(name: str) -> str | None:
    """Return what a module of an earlier release is called now; None for one that never moved.

    >>> renamed("trn3.numerics") is None
    True
    """
    stem, below = name, ""
    while stem != "trn3":
        if stem in MOVED:
            return MOVED[stem] + below
        stem, _, last = stem.rpartition(".")
        below = f".{last}{below}"
    return None


class MovedFinder(MetaPathFinder, Loader):
    """Finds modules by the names that they had in an earlier release."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return a spec whose loader gives the moved module; None for every other name."""
        if not fullname.startswith("trn3.") or renamed(fullname) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the placeholder, which `exec_module` replaces, to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the moved module in the place of the old name."""
        old = module.__name__
        new = renamed(old)
        assert new is not None
        warnings.warn(
            f"{old} is now {new}; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[old] = import_module(new)


def install() -> None:
    """Look for moved names before the folders: below an alias these would load a module twice."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
