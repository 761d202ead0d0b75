"""Many protobuf messages of one shape, encoded side by side, column by column.

A message is a list of pieces; a piece writes some bytes of each row, or none. Whole numbers take as
many bytes as the largest of their column needs: the format allows longer numbers than necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.integer[Any]]

VARINT, FIXED64, LENGTH = 0, 1, 2


class Piece(Protocol):
    """Some bytes of each row of a message."""

    lengths: Numbers

    def put(self, out: Bytes, at: NDArray[np.int64]) -> None:
        """Write row i to `out` from place `at[i]`."""


def varint(value: int) -> bytes:
    """Return a whole number as a varint.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """Return what stands before a field's value."""
    return varint(number << 3 | wire_type)


def field(number: int, value: int | str | bytes) -> bytes:
    """Return one field: a whole number, a text, or a message already encoded.

    >>> field(1, 150).hex(), field(2, "testing").hex()
    ('089601', '120774657374696e67')
    """
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return tag(number, LENGTH) + varint(len(raw)) + raw


def _varints(values: Numbers) -> Bytes:
    """Return varints of one width, one row each."""
    values = values.astype(np.uint64)
    width = max(-(-int(values.max(initial=0)).bit_length() // 7), 1)
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    out = (values[:, None] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    out[:, :-1] |= 0x80
    return out


class Fixed:
    """A piece of one width in the rows it stands in: all, or those where `where` is set."""

    def __init__(self, matrix: Bytes, where: NDArray[np.bool_] | None = None) -> None:
        self.matrix = matrix
        self.rows = None if where is None else np.flatnonzero(where)
        present = np.ones(len(matrix), np.int64) if where is None else where.astype(np.int64)
        self.lengths = matrix.shape[1] * present

    def put(self, out: Bytes, at: NDArray[np.int64]) -> None:
        """Write row i to `out` from place `at[i]`."""
        matrix, place = self.matrix, at
        if self.rows is not None:
            matrix, place = matrix[self.rows], at[self.rows]
        for i in range(matrix.shape[1]):
            out[place + i] = matrix[:, i]


class Repeated64:
    """A repeated fixed64 field: `values[i]` stands in row `owners[i]`; owners never fall."""

    def __init__(self, number: int, owners: Numbers, values: Numbers, count: int) -> None:
        prefix = np.frombuffer(tag(number, FIXED64), np.uint8)
        raw = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(-1, 8)
        self.matrix = np.hstack([np.tile(prefix, (len(values), 1)), raw])
        self.owners = owners
        counts = np.bincount(owners, minlength=count)
        before = np.cumsum(counts) - counts
        self.ranks = np.arange(len(owners)) - before[owners]
        self.lengths = counts * self.matrix.shape[1]

    def put(self, out: Bytes, at: NDArray[np.int64]) -> None:
        """Write row i to `out` from place `at[i]`."""
        place = at[self.owners] + self.ranks * self.matrix.shape[1]
        for i in range(self.matrix.shape[1]):
            out[place + i] = self.matrix[:, i]


def constant(raw: bytes, count: int) -> Fixed:
    """Return a piece that is the same in all rows."""
    return Fixed(np.tile(np.frombuffer(raw, np.uint8), (count, 1)))


def numbers(
    number: int, values: Numbers, *, prefix: bytes = b"", where: NDArray[np.bool_] | None = None
) -> Fixed:
    """Return a field of whole numbers, behind the bytes of `prefix`."""
    head = np.frombuffer(prefix + tag(number, VARINT), np.uint8)
    return Fixed(np.hstack([np.tile(head, (len(values), 1)), _varints(values)]), where)


def doubles(number: int, values: NDArray[np.float64]) -> Fixed:
    """Return a field of doubles."""
    head = np.frombuffer(tag(number, FIXED64), np.uint8)
    raw = np.ascontiguousarray(values.astype("<f8")).view(np.uint8).reshape(-1, 8)
    return Fixed(np.hstack([np.tile(head, (len(values), 1)), raw]))


def nested(number: int, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a field that is a message of these pieces, of which there is one."""
    lengths = np.sum([piece.lengths for piece in pieces], axis=0)
    head = np.tile(np.frombuffer(tag(number, LENGTH), np.uint8), (len(lengths), 1))
    return [Fixed(np.hstack([head, _varints(lengths)])), *pieces]


def numbers_inside(
    number: int,
    prefix: bytes,
    inner: int,
    values: Numbers,
    where: NDArray[np.bool_] | None = None,
) -> Fixed:
    """Return a field that is a message: the bytes of `prefix`, then field `inner` of `values`."""
    inside = numbers(inner, values, prefix=prefix).matrix
    head = np.frombuffer(tag(number, LENGTH) + varint(inside.shape[1]), np.uint8)
    return Fixed(np.hstack([np.tile(head, (len(values), 1)), inside]), where)


def encode(pieces: Sequence[Piece]) -> bytes:
    """Return all rows, one behind the other."""
    everywhere = [p.matrix for p in pieces if isinstance(p, Fixed) and p.rows is None]
    if len(everywhere) == len(pieces):
        return np.hstack(everywhere).tobytes()
    lengths = np.sum([piece.lengths for piece in pieces], axis=0)
    at = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for piece in pieces:
        piece.put(out, at)
        at = at + piece.lengths
    return out.tobytes()
