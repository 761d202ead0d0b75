"""MX blocks: scale rules, quantization, dequantization, x4 packing, the SBUF layout.

`quantize_block` and `dequantize_element` are the definition, in exact rationals. `quantize_codes`
states the same over whole arrays in NumPy integers for exhaustive runs; the tests of the oracle
compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from oracle.formats import (
    E2M1,
    E4M3FN,
    E5M2,
    E8M0,
    FLOAT32,
    Format,
    Value,
    decode,
    floor_log2,
    power_of_two,
)
from oracle.rounding import Rounding, cast_codes, round_value

ScaleRule = Literal["trn3", "ocp", "rceil"]
SCALE_RULES: tuple[ScaleRule, ...] = ("trn3", "ocp", "rceil")

BLOCK = 32
ELEMENT_FORMATS = (E4M3FN, E5M2, E2M1)
# Exponent of each format's largest binade.
EMAX = {E4M3FN: 8, E5M2: 15, E2M1: 2}
DEFAULT_RULE: dict[Format, ScaleRule] = {E4M3FN: "trn3", E5M2: "trn3", E2M1: "ocp"}
NAN_SCALE = 255
SCALE_BIAS = 127


def scale_exponent(amax: Fraction, target: Format, rule: ScaleRule) -> int:
    """Return the exponent E of the scale of a finite block whose largest magnitude is amax."""
    if amax == 0:
        return -127
    if rule == "trn3":
        exponent = floor_log2(amax) - (EMAX[target] - 1)
    elif rule == "ocp":
        exponent = floor_log2(amax) - EMAX[target]
    else:
        exponent = floor_log2(amax / target.max_finite)
        if amax > target.max_finite * power_of_two(exponent):
            exponent += 1
    return min(max(exponent, -127), 127)


def quantize_block(
    block: Sequence[Value],
    target: Format,
    rule: ScaleRule,
    rounding: Rounding = "nearest",
    draws: Sequence[int] | None = None,
) -> tuple[list[int], int]:
    """Return the element codes and the scale byte of one block."""
    if any(value.kind != "finite" for value in block):
        return [target.nan_code if target.has_nan else 0] * len(block), NAN_SCALE
    exponent = scale_exponent(max(value.magnitude for value in block), target, rule)
    codes = []
    for value, draw in zip(block, draws or [0] * len(block), strict=True):
        scaled = Value(value.sign, "finite", value.magnitude * power_of_two(-exponent))
        codes.append(round_value(scaled, target, rounding, "saturate", draw=draw))
    return codes, exponent + SCALE_BIAS


def quantize_array(
    codes: npt.NDArray[Any],
    source: Format,
    target: Format,
    axis: int = -1,
    *,
    rule: ScaleRule | None = None,
    rounding: Rounding = "nearest",
    draws: npt.NDArray[np.uint32] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`quantize_block` along an axis of an array of source codes: element codes and scale bytes."""
    rows = blocks_last(codes, axis)
    all_draws = blocks_last(
        draws if draws is not None else np.zeros(codes.shape, dtype=np.uint32), axis
    )
    elements = np.zeros(rows.shape, dtype=np.int64)
    scales = np.zeros(rows.shape[:-1], dtype=np.int64)
    for index in np.ndindex(*rows.shape[:-1]):
        block = [decode(source, int(code)) for code in rows[index]]
        block_draws = [int(draw) for draw in all_draws[index]]
        elements[index], scales[index] = quantize_block(
            block, target, rule or DEFAULT_RULE[target], rounding, block_draws
        )
    return blocks_back(elements, axis, codes.ndim), np.moveaxis(scales, -1, axis % codes.ndim)


def quantize_codes(
    codes: npt.NDArray[Any],
    source: Format,
    target: Format,
    axis: int = -1,
    *,
    rule: ScaleRule | None = None,
    rounding: Rounding = "nearest",
    draws: npt.NDArray[np.uint32] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Do as `quantize_array`, in NumPy integers: bit lengths, and significands compared."""
    rule = rule or DEFAULT_RULE[target]
    rows = blocks_last(codes, axis).astype(np.int64)
    magnitude = rows & ~np.int64(source.sign_mask)
    bad = (magnitude >= source.infinity_code).any(axis=-1)
    largest = np.where(bad, 0, magnitude.max(axis=-1, initial=0))
    field_exponent = largest >> source.mantissa_bits
    mantissa = largest & ((1 << source.mantissa_bits) - 1)
    significand = mantissa + np.where(
        field_exponent > 0, np.int64(1 << source.mantissa_bits), np.int64(0)
    )
    length = np.frexp(significand.astype(np.float64))[1].astype(np.int64)
    floor = np.maximum(field_exponent, 1) - source.bias - source.mantissa_bits + length - 1
    if rule == "trn3":
        exponent = floor - (EMAX[target] - 1)
    elif rule == "ocp":
        exponent = floor - EMAX[target]
    else:
        # Both significands with 30 fraction bits: a larger one needs one binade more.
        block_fraction = significand << np.clip(31 - length, 0, 31)
        limit = target.max_finite / power_of_two(EMAX[target]) * (1 << 30)
        exponent = floor - EMAX[target] + (block_fraction > int(limit))
    exponent = np.where(largest == 0, np.int64(-127), np.clip(exponent, -127, 127))
    all_draws = None if draws is None else blocks_last(draws, axis)
    elements = cast_codes(
        rows,
        source,
        target,
        rounding,
        overflow="saturate",
        draws=all_draws,
        divisor_log2=np.expand_dims(exponent, -1),
    )
    elements = np.where(
        np.expand_dims(bad, -1), np.int64(target.nan_code if target.has_nan else 0), elements
    )
    scales = np.where(bad, np.int64(NAN_SCALE), exponent + SCALE_BIAS)
    return blocks_back(elements, axis, codes.ndim), np.moveaxis(scales, -1, axis % codes.ndim)


def dequantize_element(code: int, scale: int, source: Format, target: Format = FLOAT32) -> int:
    """One element times its scale, exact, then rounded once to the target."""
    element = decode(source, code)
    if scale == NAN_SCALE:
        return target.nan_code
    factor = decode(E8M0, scale).magnitude
    return round_value(Value(element.sign, element.kind, element.magnitude * factor), target)


def dequantize_array(
    elements: npt.NDArray[Any],
    scales: npt.NDArray[Any],
    source: Format,
    axis: int = -1,
    target: Format = FLOAT32,
) -> npt.NDArray[np.int64]:
    """`dequantize_element` of every element of an array blocked along an axis."""
    result = np.zeros(elements.shape, dtype=np.int64)
    for index in np.ndindex(*elements.shape):
        place = list(index)
        place[axis] //= BLOCK
        result[index] = dequantize_element(
            int(elements[index]), int(scales[tuple(place)]), source, target
        )
    return result


def blocks_last(array: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return the array with `axis` moved last and cut into blocks: shape (..., blocks, 32)."""
    moved = np.moveaxis(array, axis, -1)
    return moved.reshape(*moved.shape[:-1], moved.shape[-1] // BLOCK, BLOCK)


def blocks_back(blocks: npt.NDArray[Any], axis: int, ndim: int) -> npt.NDArray[Any]:
    """Return the inverse of `blocks_last`."""
    flat = blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * BLOCK)
    return np.moveaxis(flat, -1, axis % ndim)


def pack_x4(codes: npt.NDArray[Any], source: Format) -> npt.NDArray[Any]:
    """Four consecutive codes of the last axis in one integer, the first in the low bits."""
    bits = source.storage_bits
    packed = np.zeros((*codes.shape[:-1], codes.shape[-1] // 4), dtype=np.int64)
    for lane in range(4):
        packed |= codes[..., lane::4].astype(np.int64) << (bits * lane)
    return packed.astype(np.uint16 if bits == 4 else np.uint32)


def trn3_layout(codes: npt.NDArray[Any], source: Format) -> npt.NDArray[Any]:
    """Return the data tile of a [K, F] array: k = 32 b + 4 i + j on partition 8 b + i, lane j."""
    k_length, free = codes.shape
    bits = source.storage_bits
    data = np.zeros((k_length // 4, free), dtype=np.int64)
    for k in range(k_length):
        block, within = divmod(k, 32)
        i, j = divmod(within, 4)
        data[8 * block + i] |= codes[k].astype(np.int64) << (bits * j)
    return data.astype(np.uint16 if bits == 4 else np.uint32)


def trn3_scale_row(block: int) -> int:
    """Return the row of the scale tile that holds a block: the first four of each quadrant."""
    return 32 * (block // 4) + block % 4
