"""Bits of element types."""

from __future__ import annotations

from typing import Any

import ml_dtypes


def bits(dtype: Any) -> int:
    """Return how many bits a value of a floating-point type has.

    >>> bits(ml_dtypes.float4_e2m1fn), bits(ml_dtypes.bfloat16)
    (4, 16)
    """
    return int(ml_dtypes.finfo(dtype).bits)  # type: ignore[no-untyped-call]
