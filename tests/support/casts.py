"""What the tests of casts share: dtype arguments, draws, and a call compared with the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oracle.arrays import assert_same_bits, bits
from oracle.formats import TFLOAT32, Format, format_of
from oracle.rounding import Overflow, Rounding, cast_codes
from trn3 import numerics


def dtype_argument(target: Format) -> Any:
    """Return what names a format in a call: a NumPy dtype, or the marker of TF32."""
    return numerics.tfloat32 if target is TFLOAT32 else np.dtype(target.dtype)


def draws_for(shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[np.uint32]:
    """Return random draws, a good part of them at both ends of the range."""
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, 1 << 32, shape, dtype=np.uint32)
    kind = generator.integers(0, 8, shape)
    return np.where(kind == 0, np.uint32(0), np.where(kind == 1, np.uint32(0xFFFFFFFF), draws))


def check_cast(
    x: npt.NDArray[Any],
    target: Format,
    rounding: Rounding = "nearest",
    overflow: Overflow = "ieee",
    draws: npt.NDArray[np.uint32] | None = None,
) -> npt.NDArray[Any]:
    """Cast, compare every bit with the oracle, and return the result."""
    if rounding == "stochastic" and draws is None:
        draws = draws_for(x.shape)
    got = numerics.cast(x, dtype_argument(target), rounding=rounding, overflow=overflow, rng=draws)
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.dtype(target.dtype)
    assert got.shape == x.shape
    assert got.flags.c_contiguous
    source = format_of(x.dtype)
    expected = cast_codes(bits(x), source, target, rounding, overflow=overflow, draws=draws)
    assert_same_bits(got, expected, x)
    return got
