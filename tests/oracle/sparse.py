"""Structured sparsity group by group: prune, expand, tags, and the product that skips zeros.

A column is the list of numbers along the contraction axis; every function here treats one column
after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from oracle.chain import Float32Array, to_float32
from oracle.matmul import Rounding, matmul

Pattern = Literal["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"]

PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
POSITIONS_PER_TAG = 4
POSITION_BITS = 4

Column = npt.NDArray[Any]


def pattern_numbers(pattern: str) -> tuple[int, int]:
    """(M, N) of "M:N": at most M nonzeros in a group of N."""
    kept, group = pattern.split(":")
    return int(kept), int(group)


def is_zero(value: Any) -> bool:
    """Whether a stored number counts as nothing; -0.0 does and NaN does not."""
    return bool(float(value) == 0.0)


def groups(column: Column, group: int) -> list[Column]:
    """Cut a column into its groups."""
    return [column[start : start + group] for start in range(0, len(column), group)]


def kept_positions(group: Column, keep: int) -> list[int]:
    """Find the positions of the `keep` largest magnitudes, in ascending order.

    Ties go to the lower index, and NaN counts as largest.
    """

    def order(position: int) -> tuple[bool, float, int]:
        magnitude = abs(float(group[position]))
        is_number = magnitude == magnitude
        return (is_number, -magnitude if is_number else 0.0, position)

    return sorted(sorted(range(len(group)), key=order)[:keep])


def prune_column(column: Column, pattern: str) -> Column:
    """Make all but the largest of each group zero."""
    keep, size = pattern_numbers(pattern)
    pruned = np.zeros_like(column)
    for number, group in enumerate(groups(column, size)):
        for position in kept_positions(group, keep):
            pruned[number * size + position] = group[position]
    return pruned


def nonzero_positions(group: Column) -> list[int]:
    """Where a group holds something."""
    return [position for position, value in enumerate(group) if not is_zero(value)]


def first_offender(w: npt.NDArray[Any], pattern: str, axis: int) -> tuple[int, ...] | None:
    """Find the first group, in C order of the array of groups, with more than M nonzeros."""
    keep, size = pattern_numbers(pattern)
    shape = list(w.shape)
    shape[axis] //= size
    for index in np.ndindex(*shape):
        places: list[Any] = list(index)
        places[axis] = slice(index[axis] * size, (index[axis] + 1) * size)
        if len(nonzero_positions(w[tuple(places)])) > keep:
            return index
    return None


def expand_column(values: Column, indices: npt.NDArray[np.uint8], pattern: str) -> Column:
    """Put stored values at their positions; slots that hold zero are ignored."""
    keep, size = pattern_numbers(pattern)
    dense = np.zeros(len(values) // keep * size, dtype=values.dtype)
    for slot, (value, position) in enumerate(zip(values, indices, strict=True)):
        if not is_zero(value):
            dense[slot // keep * size + int(position)] = value
    return dense


def tags_column(indices: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16]:
    """Four consecutive 4-bit positions in a uint16, the first in the low bits, zeros at the end."""
    tags = np.zeros(-(-len(indices) // POSITIONS_PER_TAG), dtype=np.uint16)
    for slot, position in enumerate(indices):
        shift = slot % POSITIONS_PER_TAG * POSITION_BITS
        tags[slot // POSITIONS_PER_TAG] |= np.uint16(int(position) << shift)
    return tags


def along(
    function: Callable[[Column], Column], array: npt.NDArray[Any], axis: int
) -> npt.NDArray[Any]:
    """Apply `function` to each column of a 2-D array; the length along `axis` may change.

    `np.apply_along_axis` does this for NumPy's own dtypes, and makes objects of the others.
    """
    columns = np.moveaxis(array, axis, -1)
    return np.moveaxis(np.stack([function(column) for column in columns]), -1, axis)


def prune(w: npt.NDArray[Any], pattern: str, axis: int = -2) -> npt.NDArray[Any]:
    """`prune_column` over a 2-D array."""
    return along(lambda column: prune_column(column, pattern), w, axis)


def tags(indices: npt.NDArray[np.uint8], axis: int = -2) -> npt.NDArray[Any]:
    """`tags_column` over a 2-D array."""
    return along(tags_column, indices, axis)


def to_dense(
    values: npt.NDArray[Any], indices: npt.NDArray[np.uint8], pattern: str, axis: int = -2
) -> npt.NDArray[Any]:
    """`expand_column` over a 2-D array."""
    columns = zip(np.moveaxis(values, axis, -1), np.moveaxis(indices, axis, -1), strict=True)
    return np.moveaxis(np.stack([expand_column(*column, pattern) for column in columns]), -1, axis)


def stored_bytes(values: npt.NDArray[Any], pattern: str) -> int:
    """Count the bytes of the values, and of the indices at ceil(log2 N) bits each, rounded up."""
    _, size = pattern_numbers(pattern)
    bits = values.size * (size - 1).bit_length()
    return values.nbytes + -(-bits // 8)


def matmul_sparse(
    a: npt.NDArray[Any],
    dense: npt.NDArray[Any],
    *,
    c: npt.NDArray[Any] | None = None,
    bfloat16: bool = False,
    rounding: Rounding = "nearest",
    draws: npt.NDArray[np.uint32] | None = None,
) -> Float32Array:
    """Multiply `a` [..., M, K] by the dense form [K, N] of a sparse array.

    Every zero of the sparse operand is left out of the chain.
    """
    skip = to_float32(dense) == 0
    return matmul(a, dense, c=c, bfloat16=bfloat16, rounding=rounding, draws=draws, skip=skip)
