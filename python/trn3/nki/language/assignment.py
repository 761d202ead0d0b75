"""What tensors do beyond making views: assignment, and showing their values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from trn3._trn3 import machine
from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import fill, shared_constant
from trn3.nki.ranks.context import slot
from trn3.nki.values import arrays
from trn3.nki.values.memory_regions import is_on_chip

_MOST_SHOWN = 1000


def assign(tensor: NkiTensor, key: Any, value: Any) -> None:
    """Copy a tensor, number or array into a view: ``tensor[key] = value``.

    On chip `nki.isa.tensor_copy` or `memset`, else `dma_copy`; types are converted.

    Raises
    ------
    ValueError
        If the shapes differ in more than lengths of 1.
    TypeError
        If `value` is none of these.
    """
    target = tensor[key]
    if isinstance(value, (bool, int, float, np.generic)):
        fill(target, value.item() if isinstance(value, np.generic) else value)
        return
    if isinstance(value, np.ndarray):
        value = shared_constant(value, target.dtype)
    if not isinstance(value, NkiTensor):
        message = (
            f"a tensor is assigned a {type(value).__name__}; allowed: a tensor, a number, an array"
        )
        raise TypeError(message)
    if _essential(value.shape) != _essential(target.shape):
        message = (
            f"value array of shape {value.shape} could not be broadcast to indexing result of "
            f"shape {target.shape}"
        )
        raise ValueError(message)
    if is_on_chip(target) and is_on_chip(value):
        isa.tensor_copy(target, value, engine=isa.vector_engine)
    else:
        isa.dma_copy(target, value)


def _essential(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def show(tensor: NkiTensor) -> str:
    """Return a tensor's name, shape, type, memory, layout and, while its kernel runs, values."""
    text = tensor.describe()
    core = slot.core
    if core is None or not core.values:
        return text
    if tensor.is_indirect():
        return f"{text} at a dynamic address"
    values, _ = arrays.to_array(core, tensor)
    with np.printoptions(threshold=_MOST_SHOWN):
        return f"{text}\n{values}"


def warn_of_pattern_on_view(tensor: NkiTensor) -> None:
    """Say once in a run that `ap` on a view counts from the view's start."""
    running = slot.context
    if running is None or "ap_on_view" in running.warned:
        return
    running.warned.add("ap_on_view")
    message = (
        f"ap() of a view of `{tensor.name}` that starts at element {tensor.offset}: the pattern's "
        "offset is added to that; other versions count from the tensor's start"
    )
    warnings.warn(message, stacklevel=2)


machine.hooks().update(setitem=assign, repr=show, ap_on_view=warn_of_pattern_on_view)
