"""Modules that kernels also write as annotations."""

from __future__ import annotations

import sys
import types
from typing import Any


class AnnotationModule(types.ModuleType):
    """A module that stands in unions, as a class does: ``nki.dtype | None``."""

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __call__(self, *_: Any) -> Any:
        """Refuse: a module is no function. Older checks of annotations want something callable."""
        message = f"{self.__name__} is a module and an annotation; it cannot be called"
        raise TypeError(message)


def make_annotation(name: str) -> None:
    """Let a module stand as an annotation."""
    sys.modules[name].__class__ = AnnotationModule
