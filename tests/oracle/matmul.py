"""Matrix products of the systolic array: K tiles of chains joined in the accumulator, PSUM."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oracle.chain import Float32Array, add, canonical, chain, to_float32

Rounding = Literal["nearest", "zero", "stochastic"]

MATMUL_TILE = 128
MATMUL_MX_TILE = 512
MX_BLOCK = 32
SCALE_NAN = 255
SCALE_BIAS = 127


def tiles(length: int, tile: int) -> list[slice]:
    """Cut K into tiles, in order, the last one shorter."""
    return [slice(start, min(start + tile, length)) for start in range(0, length, tile)]


def to_bfloat16(
    values: Float32Array, rounding: Rounding, draws: npt.NDArray[np.uint32] | None = None
) -> Float32Array:
    """Round float32 values to bfloat16, returned as float32.

    Neighbouring bfloat16 magnitudes are neighbouring upper halves of the float32 code, and the
    lower half is the distance from the smaller one in units of 2^-16 of their gap, whatever the
    exponent. The value after the largest finite one is infinity.
    """
    code = values.view(np.uint32).astype(np.uint64)
    sign, magnitude = code & 0x80000000, code & 0x7FFFFFFF
    low, upper = magnitude & 0xFFFF, magnitude >> 16
    if rounding == "nearest":
        up = (low > 0x8000) | ((low == 0x8000) & (upper & 1 == 1))
    elif rounding == "zero":
        up = np.zeros(values.shape, dtype=bool)
    else:
        if draws is None:
            raise ValueError("stochastic rounding needs draws")
        up = (low << 16) + draws >= 1 << 32
    finite = magnitude < 0x7F800000
    rounded = sign | ((upper + (up & finite)) << 16)
    result = np.where(finite, rounded, code).astype(np.uint32).view(np.float32)
    return canonical(result)


def draws_shape(
    a: npt.NDArray[Any], b: npt.NDArray[Any], tile: int = MATMUL_TILE
) -> tuple[int, ...]:
    """Shape the block of draws of a stochastic bfloat16 result: [tiles, *batch, M, N]."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (len(tiles(a.shape[-1], tile)), *batch, a.shape[-2], b.shape[-1])


def matmul(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    *,
    c: npt.NDArray[Any] | None = None,
    bfloat16: bool = False,
    rounding: Rounding = "nearest",
    draws: npt.NDArray[np.uint32] | None = None,
    tile: int = MATMUL_TILE,
    skip: npt.NDArray[np.bool_] | None = None,
) -> Float32Array:
    """Multiply `a` [..., M, K] by `b` [..., K, N], as float32 whatever the result format is.

    `draws` has the shape `draws_shape` gives; `skip` is that of `chain`.
    """
    a32, b32 = to_float32(a), to_float32(b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    accumulator = None if c is None else to_float32(c)
    for index, part in enumerate(tiles(a.shape[-1], tile)):
        result = chain(
            a32[..., part], b32[..., part, :], None if skip is None else skip[..., part, :]
        )
        accumulator = result if accumulator is None else add(accumulator, result)
        if bfloat16:
            accumulator = to_bfloat16(
                accumulator, rounding, None if draws is None else draws[index]
            )
    if accumulator is None:
        return np.zeros((*batch, a.shape[-2], b.shape[-1]), dtype=np.float32)
    if a.shape[-1] == 0:
        # No tile: c itself, rounded once when the result is bfloat16.
        return to_bfloat16(accumulator, "nearest") if bfloat16 else canonical(accumulator)
    return accumulator


def dequantize(
    elements: npt.NDArray[Any], scales: npt.NDArray[np.uint8], axis: int
) -> Float32Array:
    """Multiply elements by 2^(byte - 127): exact in float32, or infinite; byte 255 means NaN."""
    exponents = np.repeat(scales, MX_BLOCK, axis=axis).astype(np.int32) - SCALE_BIAS
    with np.errstate(all="ignore"):
        values: Float32Array = np.ldexp(elements.astype(np.float64), exponents).astype(np.float32)
    values[exponents == SCALE_NAN - SCALE_BIAS] = np.nan
    return canonical(values)


def matmul_mx(
    a: tuple[npt.NDArray[Any], npt.NDArray[np.uint8]],
    b: tuple[npt.NDArray[Any], npt.NDArray[np.uint8]],
    *,
    c: npt.NDArray[Any] | None = None,
    bfloat16: bool = False,
    rounding: Rounding = "nearest",
    draws: npt.NDArray[np.uint32] | None = None,
) -> Float32Array:
    """Multiply (elements, scales) pairs blocked along K, in tiles of 512."""
    return matmul(
        dequantize(*a, -1),
        dequantize(*b, -2),
        c=c,
        bfloat16=bfloat16,
        rounding=rounding,
        draws=draws,
        tile=MATMUL_MX_TILE,
    )
