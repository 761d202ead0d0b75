"""What torch makes of its operators before graphs are written: a smaller set of ATen's own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch._decomp

from trn3.torch.aten import converter_of
from trn3.torch.aten.making import DRAWN
from trn3.torch.fast_paths import FAST_PATHS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decompositions"]

# Functions of torch that lists of tensors have under other names, where the other is a number.
_OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return torch's own decompositions of operators that graphs do not have.

    Examples
    --------
    >>> torch.ops.aten.silu.default in decompositions()
    True
    >>> torch.ops.aten.mm.default in decompositions()
    False
    """
    table: dict[Any, Callable[..., Any]] = dict(torch._decomp.core_aten_decompositions())
    for operator, function in torch._decomp.decomposition_table.items():
        if getattr(function, "__module__", "") == "torch._decomp.decompositions":
            table.setdefault(operator, function)
    table.update(_of_lists())
    table.update(FAST_PATHS)
    return {operator: how for operator, how in table.items() if not _is_written(operator)}


def _is_written(operator: Any) -> bool:
    name = str(operator).rpartition(".")[0]
    return converter_of(operator) is not None or name in DRAWN


def _of_lists() -> dict[Any, Callable[..., Any]]:
    """Functions of lists of tensors, as optimisers call them, one tensor after another."""
    found: dict[Any, Callable[..., Any]] = {}
    for name in dir(torch.ops.aten):
        plain = name.removeprefix("_foreach_")
        if plain == name or name.endswith("_") or not hasattr(torch, plain):
            continue
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            if not overload.endswith("out"):
                found[getattr(packet, overload)] = functools.partial(_one_by_one, plain)
    return found


def _one_by_one(name: str, *args: Any, **kwargs: Any) -> list[Any]:
    lists = [value for value in args if isinstance(value, list | tuple)]
    made = []
    for place in range(len(lists[0])):
        own = [value[place] if isinstance(value, list | tuple) else value for value in args]
        if name in {"addcmul", "addcdiv"} and len(own) == 4:
            kwargs = {"value": own.pop()}
        is_number = len(own) == 2 and not isinstance(own[1], torch.Tensor)
        function = getattr(torch, _OF_NUMBERS.get(name, name) if is_number else name)
        made.append(function(*own, **kwargs))
    return made
