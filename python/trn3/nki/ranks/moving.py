"""Values of collectives: read from the sources of all ranks, moved, written to their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiValidationError, SkippedValueError
from trn3.nki.ranks.world import Call, Group
from trn3.nki.values.arrays import element_bytes
from trn3.nki.values.element_types import canonicalise

if TYPE_CHECKING:
    from trn3.nki.ranks.fabric import Fabric

__all__ = ["RECV_COUNTS", "Arrays", "exchange", "raw", "read"]

Arrays: TypeAlias = list[NDArray[Any]]
#: Rows of the metadata of `all_to_all_v` and `all_gather_v`.
_SEND_COUNTS, _SEND_DISPLS, RECV_COUNTS, _RECV_DISPLS = range(4)


def exchange(
    fabric: Fabric,
    lane: Sequence[Call],
    group: Group,
    to_all: bool,
    is_known: bool,
    has_displacements: bool,
) -> float:
    """Move chunks of any lengths; return the seconds that it takes."""
    n = len(group)
    tables = []
    for call in lane:
        table = read(call, 1)
        if table is None:
            message = f"{call.arrival.line}: {call.operation} needs metadata that was skipped"
            raise SkippedValueError(message)
        tables.append(table.reshape(-1, n).astype(np.int64))
    counts = np.stack([table[_SEND_COUNTS] for table in tables])
    send = np.stack([table[_SEND_DISPLS] for table in tables])
    if to_all:
        counts, send = np.repeat(counts[:, :1], n, axis=1), np.repeat(send[:, :1], n, axis=1)
    starts = [
        _starts(call, table, n, has_displacements) for call, table in zip(lane, tables, strict=True)
    ]
    for i, call in enumerate(lane):
        _check_fits(call, counts[i], send[i], call.srcs[0].size, "srcs", "send")
        each = call.dsts[0].size if has_displacements else call.dsts[0].size // n
        places = starts[i] if has_displacements else np.zeros(n, np.int64)
        _check_fits(call, counts[:, i], places, each, "dsts", "recv")
        if is_known and (tables[i][RECV_COUNTS] != counts[:, i]).any():
            message = (
                f"{call.arrival.line}: {call.operation} recv_counts of rank {group[i]} are "
                f"{tables[i][RECV_COUNTS].tolist()}; the ranks send {counts[:, i].tolist()}"
            )
            raise ValueError(message)
    sources = [read(call, 0) for call in lane]
    known = all(source is not None for source in sources)
    flats = [
        np.zeros(call.srcs[0].size, f"u{call.srcs[0].itemsize}")
        if source is None
        else raw([[source.reshape(-1)]])[0][0]
        for call, source in zip(lane, sources, strict=True)
    ]
    if to_all:
        chunks = [flat[send[i, 0] : send[i, 0] + counts[i, 0]] for i, flat in enumerate(flats)]
        received, seconds = fabric.all_gather_v(chunks, group)
    else:
        received, seconds = fabric.all_to_all_v(flats, counts, send, group)
    for i, call in enumerate(lane):
        sent, got = (int(each.sum()) * call.dsts[0].itemsize for each in (counts[i], counts[:, i]))
        call.moved = sent // n if to_all else sent, got
        dst = call.dsts[0].reshape(call.dsts[0].size)
        first = 0
        if not known:
            call.arrival.forget()
        for sender in range(n):
            count, start = int(counts[sender, i]), int(starts[i][sender])
            if known and count:
                chunk = received[i][first : first + count]
                call.machine.write_bytes(dst[start : start + count], element_bytes(chunk))
            first += count
        if not is_known:
            call.arrival.write(1, element_bytes(counts[:, i].astype(np.uint32)))
    return seconds


def _starts(call: Call, table: NDArray[Any], n: int, has_displacements: bool) -> NDArray[Any]:
    if has_displacements:
        return np.asarray(table[_RECV_DISPLS])
    return np.arange(n) * (call.dsts[0].size // n)


def _check_fits(
    call: Call, counts: NDArray[Any], starts: NDArray[Any], size: int, operand: str, way: str
) -> None:
    for other, (count, start) in enumerate(zip(counts.tolist(), starts.tolist(), strict=True)):
        if count and start + count > size:
            message = (
                f"{call.arrival.line}: {call.operation} {way}_counts[{other}] is {count} from "
                f"element {start}; {operand} has {size} there"
            )
            raise NkiValidationError(message)


def read(call: Call, place: int) -> NDArray[Any] | None:
    """Return a source's elements; None where values are skipped."""
    content = call.arrival.read(place)
    if content is None:
        return None
    tensor = call.srcs[place]
    dtype = canonicalise(tensor.dtype_name)
    return content.view("u1" if dtype.name == "bool" else dtype.dtype).reshape(tensor.shape)


def raw(inputs: list[Arrays]) -> list[Arrays]:
    """Return arrays as bit patterns, which only move."""
    return [[array.view(f"u{array.dtype.itemsize}") for array in arrays] for arrays in inputs]
