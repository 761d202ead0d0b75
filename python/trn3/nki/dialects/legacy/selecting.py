"""Instructions that evaluate index expressions themselves: `iota`, `affine_select`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.indices import Index, IndexComparison, affine
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.lowering import as_mask, compute, put_where
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.language.creation import new_tensor, shared_constant
from trn3.nki.language.tiles import in_sbuf
from trn3.nki.values.element_types import canonicalise
from trn3.nki.values.memory_regions import sbuf


def iota(expr: Any, dtype: Any, *, mask: Any = None, name: str | None = None, **_: Any) -> Tensor:
    """Return a tile of an index expression's values, on GpSimdE.

    Raises
    ------
    TypeError
        If `expr` is no index expression.
    """
    if not isinstance(expr, np.ndarray) or expr.dtype.kind not in "iu":
        message = f"nisa.iota expr is of type {type(expr).__name__}; allowed: nl.arange expressions"
        raise error(TypeError, message)
    numbers = expr.view(np.ndarray)
    if numbers.ndim < 2:
        numbers = numbers.reshape((1, -1))
    found = affine(numbers)
    if found is None:
        # No even pattern: a constant in HBM holds it.
        constant = shared_constant(np.ascontiguousarray(numbers).astype(np.int32))

        def emit(dst: NkiTensor) -> None:
            tile = new_tensor(numbers.shape, canonicalise("int32"))
            isa.dma_copy(tile, constant)
            isa.tensor_copy(dst, tile)

        return compute(emit, [], numbers.shape, dtype, mask, is_simple=False)
    start, steps = found
    pattern = [list(pair) for pair in zip(steps[1:], numbers.shape[1:], strict=True)]
    left = as_mask(mask, numbers.shape)

    def run(dst: NkiTensor) -> None:
        if left is False:
            return
        isa.iota(dst, pattern, start, steps[0], name=name)

    return WaitingTile(numbers.shape, dtype, sbuf, run, mask=None if left is True else left)


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: float, *, mask: Any = None, dtype: Any = None,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile where an index comparison holds, and a number elsewhere.

    Comparisons of even patterns are GpSimdE's, one instruction for each; others choose by a
    constant.

    Raises
    ------
    TypeError
        If `pred` is no comparison of index expressions.
    """
    tile = require("nisa.affine_select", "on_true_tile", on_true_tile)
    shape = tile.shape
    truth = as_mask(pred, shape)
    left = as_mask(mask, shape)
    comparisons = pred.comparisons if isinstance(pred, Index) else None
    steps = [_pattern(comparison, shape) for comparison in comparisons or ()]
    view = tile.view
    wanted = canonicalise(dtype or tile.dtype)
    if steps and None not in steps:

        def run(dst: NkiTensor) -> None:
            if left is False:
                return
            # GpSimdE, which evaluates comparisons, does not reach PSUM.
            source = in_sbuf(view)
            for step in steps:
                assert step is not None
                pattern, offset, multiplier, operator = step
                isa.affine_select(
                    dst, pattern, multiplier, source, on_false_value, operator, offset, name
                )
                source = dst

        simple = len(steps) == 1
        rest = None if left is True else left
        return WaitingTile(shape, wanted, sbuf, run, is_simple=simple, mask=rest)

    def choose(dst: NkiTensor) -> None:
        if left is False:
            return
        isa.memset(dst, on_false_value)
        if truth is True:
            isa.tensor_copy(dst, view)
        elif truth is not False:
            source = view
            if source.dtype != wanted:
                source = new_tensor(shape, wanted)
                isa.tensor_copy(source, view)
            put_where(dst, source, np.asarray(truth))

    rest = None if left is True else left
    return WaitingTile(shape, wanted, sbuf, choose, is_simple=False, mask=rest)


def _pattern(
    comparison: IndexComparison, shape: tuple[int, ...]
) -> tuple[list[list[int]], int, int, str] | None:
    """Return what `nki.isa.affine_select` takes for a comparison, or None if it is uneven."""
    numbers: NDArray[np.int64] = comparison.difference
    if numbers.ndim != len(shape):
        return None
    found = affine(np.broadcast_to(numbers, shape))
    if found is None:
        return None
    start, steps = found
    pattern = [list(pair) for pair in zip(steps[1:], shape[1:], strict=True)]
    return pattern, start, steps[0], comparison.operator
