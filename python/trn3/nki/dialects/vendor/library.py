"""``nkilib``, the name of the vendor's kernel library inside its compiler, for the standalone one.

The standalone package is ``nkilib_src.nkilib``; with it on the path, ``import nkilib.core...``
gives its modules, the same ones under both names.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

_NAME: Final = "nkilib"
_SOURCE: Final = f"nkilib_src.{_NAME}"


class _Alias(importlib.abc.Loader):
    """Gives a module that has another name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._own: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        del spec  # bears the second name
        module = importlib.import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It ran under its own name. Relative imports in it go by its own specification.
        module.__spec__ = self._own


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``nkilib`` and what lies under it, unless a package of that name is on the path."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target  # the standalone package has its own
        top, _, rest = fullname.partition(".")
        if top != _NAME:
            return None
        if rest:
            if getattr(sys.modules.get(_NAME), "__name__", None) != _SOURCE:
                return None
        elif importlib.machinery.PathFinder.find_spec(_NAME) is not None:
            return None
        real = f"{_SOURCE}.{rest}" if rest else _SOURCE
        try:
            if importlib.util.find_spec(real) is None:
                return None
        except ModuleNotFoundError:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(real))


_FINDER: Final = _Finder()


def offer() -> None:
    """Let ``import nkilib`` find the standalone package."""
    if _FINDER not in sys.meta_path:
        # First: a path finder would load its submodules a second time.
        sys.meta_path.insert(0, _FINDER)


def withdraw() -> None:
    """Undo `offer`, and forget the modules by their second names."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    if getattr(sys.modules.get(_NAME), "__name__", None) == _SOURCE:
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            del sys.modules[name]
