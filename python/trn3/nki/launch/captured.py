"""Where torch captures: what Dynamo goes through of a kernel, without torch being loaded for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

__all__ = ["are_plain", "is_captured", "is_capturing", "torch_calls"]

#: Tensors without values, as torch has them while it makes a graph.
_WITHOUT_VALUES: Final = frozenset({"FakeTensor", "FunctionalTensor"})


def torch_calls() -> ModuleType:
    """Return what puts kernels into graphs; torch is there already."""
    from trn3.nki.launch import torch_calls

    return torch_calls


def is_capturing() -> bool:
    """Return whether Dynamo goes through this call to make a graph of it."""
    # Dynamo knows the answer without a call; a mere stand-in for torch has no compiler.
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return compiler is not None and compiler.is_dynamo_compiling()


def is_captured(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an argument, or an element of a list or dict among them, has no values."""
    if "torch._subclasses.fake_tensor" not in sys.modules or are_plain(args, kwargs):
        return False
    return any(type(leaf).__name__ in _WITHOUT_VALUES for leaf in _leaves([args, kwargs]))


def are_plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether all arguments are NumPy's arrays, by position: most launches are such."""
    return not kwargs and all(type(value) is np.ndarray for value in args)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
