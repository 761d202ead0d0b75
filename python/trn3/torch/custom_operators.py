"""Operators that users write in Python, by `torch.library.custom_op`, as their steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch._library.custom_ops import OPDEFS

from trn3.torch.aten import converter_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bodies", "why_opaque"]

_refused: dict[str, str] = {}


def bodies() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of the operators that there are now: what their functions do.

    Kernels of `trn3.nki` within stay themselves. What cannot be gone through without values stays
    an operator, which graphs refuse; so does one that writes to its arguments.
    """
    found: dict[Any, Callable[..., Any]] = {}
    for definition in list(OPDEFS.values()):
        operator = definition._opoverload
        if converter_of(operator) is None and not operator._schema.is_mutable:
            found[operator] = functools.partial(_gone_through, str(operator), definition._init_fn)
    return found


def why_opaque(operator: Any) -> str | None:
    """Return why an operator's function was not gone through; None if it was, or is none."""
    return _refused.get(str(operator))


def _gone_through(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        _refused[name] = f"{type(error).__name__}: {text}"
        return NotImplemented
