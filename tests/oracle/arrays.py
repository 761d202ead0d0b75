"""Arrays for tests: codes and dtypes, values where rounding decides, many memory layouts."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oracle.formats import FLOAT32, Format, Value, decode, encode
from oracle.rounding import first_float32_pattern, neighbours

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the codes of an array, as unsigned integers of the same width."""
    native = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return native.view(UNSIGNED[native.dtype.itemsize])


def from_bits(codes: Any, target: Format) -> npt.NDArray[Any]:
    """Return an array of the format's dtype with the given codes."""
    unsigned = UNSIGNED[np.dtype(target.dtype).itemsize]
    return np.array(codes).astype(unsigned).view(target.dtype)


def all_codes(source: Format) -> npt.NDArray[Any]:
    """Every code of a format of at most 16 bits, in order."""
    return from_bits(np.arange(1 << source.storage_bits), source)


def assert_same_bits(
    got: npt.NDArray[Any], expected_codes: npt.NDArray[Any], inputs: npt.NDArray[Any]
) -> None:
    """Compare codes, and show the first inputs on which they differ."""
    got_codes = bits(got).astype(np.int64)
    assert got_codes.shape == expected_codes.shape
    differs = np.flatnonzero(
        got_codes.ravel() != np.asarray(expected_codes, dtype=np.int64).ravel()
    )
    if differs.size:
        source = np.broadcast_to(bits(inputs), got_codes.shape).ravel()
        wanted, given = np.asarray(expected_codes).ravel(), got_codes.ravel()
        lines = [
            f"  input {int(source[i]):#x}: expected {int(wanted[i]):#x}, got {int(given[i]):#x}"
            for i in differs[:8]
        ]
        raise AssertionError(
            "\n".join([f"{differs.size} of {got_codes.size} elements differ", *lines])
        )


def float32_specials() -> npt.NDArray[np.float32]:
    """Zeros, infinities, NaNs of both signs with payloads, and the ends of the float32 range."""
    positive = [
        0x00000000,  # zero
        0x00000001,  # smallest subnormal
        0x007FFFFF,  # largest subnormal
        0x00800000,  # smallest normal
        0x3F800000,  # one
        0x7F7FFFFF,  # largest finite
        0x7F800000,  # infinity
        0x7F800001,  # signalling NaN, lowest payload bit
        0x7FA00000,  # signalling NaN, highest payload bit
        0x7FC00000,  # the canonical NaN
        0x7FC12345,  # quiet NaN with a payload
        0x7FFFFFFF,  # NaN, every bit set
    ]
    codes = np.array(positive, dtype=np.uint32)
    return np.concatenate([codes, codes | np.uint32(0x80000000)]).view(np.float32)


def edge_values(target: Format, limit: int = 300) -> npt.NDArray[np.float32]:
    """float32 values on which rounding to `target` turns, and their neighbours.

    They are the target's values and the midpoints between them: all of a small format, and of a
    large one about `limit` around zero, the smallest normal number, the ends of the range, and
    spread between.
    """
    count = (target.max_finite_code >> target.padding) + 1
    if count <= limit:
        numbers = np.arange(count)
    else:
        normal = 1 << target.mantissa_bits
        spread = np.linspace(0, count - 1, limit // 2).astype(np.int64)
        close = [place + np.arange(-limit // 16, limit // 16) for place in (0, normal, count - 1)]
        numbers = np.unique(np.clip(np.concatenate([spread, *close]), 0, count - 1))
    points: set[Fraction] = set()
    for number in numbers:
        value = decode(target, int(number) << target.padding).magnitude
        _, above = neighbours(value, target)
        quarter = (above - value) / 4
        points.update((value, value + quarter, value + 2 * quarter, value + 3 * quarter, above))
    largest = FLOAT32.max_finite_code
    patterns: set[int] = set()
    for point in points:
        pattern = min(first_float32_pattern(point, above=False), largest)
        patterns.update(min(max(pattern + offset, 0), largest) for offset in (-1, 0, 1))
    codes = np.array(sorted(patterns), dtype=np.uint32)
    return np.concatenate([codes, codes | np.uint32(0x80000000)]).view(np.float32)


def strided_float32(count: int, offset: int = 0) -> npt.NDArray[np.float32]:
    """About `count` float32 patterns over the whole range, an odd step apart to vary low bits."""
    step = ((1 << 32) // count) | 1
    return (
        ((np.arange(count, dtype=np.uint64) * step + offset) & 0xFFFFFFFF)
        .astype(np.uint32)
        .view(np.float32)
    )


def exact_float32(value: Fraction) -> np.float32:
    """Return the float32 equal to a rational; `ValueError` if there is none."""
    code = encode(FLOAT32, Value(int(value < 0), "finite", abs(value)))
    return np.uint32(code).view(np.float32)


def layouts(array: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Return the same values in every kind of memory an array may come in."""
    yield "contiguous", array.copy()
    yield "fortran", np.asfortranarray(array)
    doubled = np.zeros(tuple(2 * length for length in array.shape), dtype=array.dtype)
    every_second = doubled[tuple(slice(None, None, 2) for _ in array.shape)]
    every_second[...] = array
    yield "strided", every_second
    reverse = tuple(slice(None, None, -1) for _ in array.shape)
    yield "negative strides", array[reverse].copy()[reverse]
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), dtype=array.dtype)
    wide[..., 1:-2] = array
    yield "row slice", wide[..., 1:-2]
    yield "transposed", array.T.copy().T
    frozen = array.copy()
    frozen.setflags(write=False)
    yield "read-only", frozen
    if array.dtype.itemsize > 1:
        memory = np.zeros(array.nbytes + 1, dtype=np.uint8)
        unaligned = memory[1:].view(array.dtype).reshape(array.shape)
        unaligned[...] = array
        assert not unaligned.flags.aligned
        yield "unaligned", unaligned
    if array.dtype.kind == "f" and array.dtype.itemsize > 1 and array.dtype.isbuiltin == 1:
        yield "big-endian", array.astype(array.dtype.newbyteorder(">"))
