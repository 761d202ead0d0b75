"""The element type of a result when a function of `nki.language` is given none."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn3.nki.values.element_types import (
    DType,
    bfloat16,
    bool_,
    canonicalise,
    float8_e8m0fnu,
    float16,
    float32,
    tfloat32,
    uint8,
)

_FLOAT8: Final = 1
# Each holds the range and the precision of all that it is paired with here.
_WIDER: Final = {
    frozenset((float32, tfloat32)): float32,
    frozenset((float32, bfloat16)): float32,
    frozenset((float32, float16)): float32,
    frozenset((tfloat32, bfloat16)): tfloat32,
    frozenset((tfloat32, float16)): tfloat32,
    frozenset((float16, bfloat16)): float32,
}


def promote(one: DType, other: DType) -> DType:
    """Return the element type of an operation on tiles of two types.

    Float and integer give the float; two floats the wider, or a wider third where neither holds
    the other; two integers likewise. int32 with uint32 is float32, two 8-bit floats are bfloat16.

    Raises
    ------
    TypeError
        For packed types and block scales, which have no arithmetic.

    Examples
    --------
    >>> import trn3.nki.language as nl
    >>> promote(nl.float16, nl.bfloat16), promote(nl.int8, nl.uint16), promote(nl.int32, nl.float16)
    (nki.language.float32, nki.language.int32, nki.language.float16)
    """
    for dtype in (one, other):
        if dtype.is_packed or dtype is float8_e8m0fnu:
            message = f"{dtype} has no arithmetic; allowed: unpacked floats and integers"
            raise TypeError(message)
    if one is other:
        return uint8 if one is bool_ else one
    if one.is_integer and other.is_integer:
        wider = np.promote_types(one.dtype, other.dtype)
        return float32 if wider.itemsize > 4 else canonicalise(wider)
    if one.is_integer or other.is_integer:
        return other if one.is_integer else one
    known = _WIDER.get(frozenset((one, other)))
    if known is not None:
        return known
    if one.itemsize == other.itemsize == _FLOAT8:
        return bfloat16
    # An 8-bit float and a wider one, which holds it: float16 holds e5m2's range exactly.
    return one if one.itemsize > other.itemsize else other
