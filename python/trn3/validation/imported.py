"""Texts of kernels, imported by the vendor's names as users' kernels are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from types import ModuleType

from trn3 import nki


@contextmanager
def vendor_names() -> Iterator[None]:
    """Let ``nki`` and ``neuronxcc`` be trn3's; whoever installed them himself keeps them."""
    if sys.modules.get("nki") is nki:
        yield
        return
    nki.install()
    try:
        yield
    finally:
        nki.uninstall()


def import_text(name: str, text: str) -> ModuleType:
    """Return the module of a source text in which the vendor's names are trn3's."""
    module = ModuleType(name)
    with vendor_names():
        exec(compile(text, name, "exec"), vars(module))
    return module


@cache
def authored(text: str) -> ModuleType:
    """Return the kernels of one text: ``fused_mamba`` and its neighbours by name."""
    source = files("trn3.validation").joinpath("authored", f"{text}.py.txt")
    return import_text(f"{text}.py", source.read_text(encoding="utf-8"))
