"""Element types and casts on the NumPy side, for code around kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3 import numerics
from trn3.nki.values import element_types
from trn3.nki.values.element_types import DType, canonicalise

__all__ = [
    "bfloat16",
    "finfo",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "is_float_type",
    "sizeinbytes",
    "static_cast",
]

bfloat16 = ml_dtypes.bfloat16
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
float8_e4m3fn_x4 = element_types.float8_e4m3fn_x4.dtype
float8_e5m2_x4 = element_types.float8_e5m2_x4.dtype
float4_e2m1fn_x4 = element_types.float4_e2m1fn_x4.dtype

_PACK = 4
_ELEMENTS: dict[DType, Any] = {
    element_types.float8_e4m3fn_x4: ml_dtypes.float8_e4m3fn,
    element_types.float8_e5m2_x4: ml_dtypes.float8_e5m2,
    element_types.float4_e2m1fn_x4: ml_dtypes.float4_e2m1fn,
}


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        return canonicalise(dtype).dtype
    except TypeError:
        return np.dtype(dtype)  # type: ignore[no-any-return]


def sizeinbytes(dtype: Any) -> int:
    """Return the bytes of one element; of a packed type, of four.

    >>> sizeinbytes("bfloat16"), sizeinbytes(float4_e2m1fn_x4)
    (2, 2)
    """
    return _dtype(dtype).itemsize


def is_float_type(dtype: Any) -> bool:
    """Return whether a type is a floating-point one; packed ones and block scales are.

    >>> is_float_type(float8_e4m3fn_x4), is_float_type(np.int8)
    (True, False)
    """
    try:
        return canonicalise(dtype).is_float
    except TypeError:
        return bool(np.dtype(dtype).kind == "f")


def finfo(dtype: Any) -> Any:
    """Return the limits of a float type, as `ml_dtypes.finfo`; of a packed type, its elements'."""
    known = canonicalise(dtype)
    return ml_dtypes.finfo(  # type: ignore[no-untyped-call]
        _ELEMENTS.get(known, known.dtype)
    )


def static_cast(x: Any, dtype: Any) -> NDArray[Any]:
    """Return an array's values in another type, rounded to nearest even.

    Packing divides the last axis by 4, unpacking multiplies it; element 0 lies in the lowest bits.

    Parameters
    ----------
    x : array
        Of any element type of the hardware, or float64 or a 64-bit integer.
    dtype
        Any spelling of an element type.

    Returns
    -------
    array
        Fresh. Magnitudes beyond the largest value of a packed type saturate (**choice**), and so
        do floats to integers, as in the engines; NaN becomes 0 there.

    Raises
    ------
    ValueError
        If a last axis to be packed is no multiple of 4.
    TypeError
        If `dtype` means no type.

    Examples
    --------
    >>> packed = static_cast(np.array([[1.0, -2.0, 0.5, 6.0]], np.float32), float4_e2m1fn_x4)
    >>> packed.shape, hex(packed.view(np.uint16)[0, 0])
    ((1, 1), '0x71c2')
    >>> static_cast(packed, np.float32).tolist()
    [[1.0, -2.0, 0.5, 6.0]]
    """
    array = np.asarray(x)
    source = _packed(array.dtype)
    target = _packed(dtype)
    if source is not None and source == target:
        return array.copy()
    if source is not None:
        array = _unpack(array, source)
    if target is not None:
        return _pack(array, target)
    wanted = _dtype(dtype)
    if array.dtype.kind == "f" and array.dtype.itemsize == 8 and wanted.itemsize < 4:
        array = array.astype(np.float32)
    if wanted.kind in "iu" and array.dtype.kind not in "iub":
        limits = np.iinfo(wanted)
        wide = np.nan_to_num(np.rint(array.astype(np.float64)), nan=0.0)
        clipped: NDArray[Any] = np.clip(wide, limits.min, limits.max).astype(wanted)
        return clipped
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(wanted)


def _packed(dtype: Any) -> DType | None:
    try:
        known = canonicalise(dtype)
    except TypeError:
        return None
    return known if known.is_packed else None


def _unpack(array: NDArray[Any], packed: DType) -> NDArray[np.float32]:
    element = _ELEMENTS[packed]
    if packed is element_types.float4_e2m1fn_x4:
        words = np.ascontiguousarray(array).view(np.uint16)[..., np.newaxis]
        nibbles = (words >> np.arange(0, 16, 4, dtype=np.uint16)) & 0xF
        parts = nibbles.astype(np.uint8).view(element)
    else:
        parts = np.ascontiguousarray(array)[..., np.newaxis].view(element)
    shape = (*array.shape[:-1], array.shape[-1] * _PACK)
    unpacked: NDArray[np.float32] = parts.astype(np.float32).reshape(shape)
    return unpacked


def _pack(array: NDArray[Any], packed: DType) -> NDArray[Any]:
    if array.ndim == 0 or array.shape[-1] % _PACK:
        message = (
            f"x has shape {array.shape}; allowed for {packed}: a last axis that is a multiple of 4"
        )
        raise ValueError(message)
    values = np.ascontiguousarray(array, np.float32)
    parts = numerics.cast(values, _ELEMENTS[packed], overflow="saturate")
    shape = (*array.shape[:-1], array.shape[-1] // _PACK)
    if packed is not element_types.float4_e2m1fn_x4:
        return parts.view(packed.dtype).reshape(shape)
    nibbles = parts.view(np.uint8).astype(np.uint16).reshape(*shape, _PACK)
    shifted = nibbles << np.arange(0, 16, 4, dtype=np.uint16)
    words: NDArray[np.uint16] = np.bitwise_or.reduce(shifted, axis=-1).astype(np.uint16)
    return words.view(packed.dtype)
