"""Imports the library as its users do: by name, with `nki` installed."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import trn3.nki

collect_ignore = ["expertlib"]

HERE = str(Path(__file__).parent)


def _import_library() -> None:
    """Import every module; `nki` is there only meanwhile, as in other tests."""
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
    trn3.nki.install()
    try:
        library = importlib.import_module("expertlib")
        for module in pkgutil.walk_packages(library.__path__, "expertlib."):
            importlib.import_module(module.name)
    finally:
        trn3.nki.uninstall()


_import_library()
