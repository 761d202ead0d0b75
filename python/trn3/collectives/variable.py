"""Collectives of arrays of any lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trn3.collectives.answers import CollectiveResult
from trn3.collectives.arrays import (
    Asked,
    as_arrays,
    as_table,
    bytes_of,
    check_dtype,
    described,
)
from trn3.collectives.engine import SystemLike, as_engine
from trn3.collectives.groups import GroupLike, parse


def all_gather_v(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
) -> CollectiveResult:
    """Give every rank the arrays of all ranks, of any lengths, one after another.

    Arrays are flat or flattened; algorithms are ``"direct"`` and ``"ring"``.

    Raises
    ------
    ValueError
        As `all_reduce`; there can be one group only.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.arange(2), np.arange(0), np.arange(3)]
    >>> result = collectives.all_gather_v(arrays, "gen2", range(3))
    >>> result.outputs[1].tolist()
    [0, 1, 0, 1, 2]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    check_dtype(given)
    asked = Asked("all_gather_v", algorithm, ranks.lists, ranks.ranks_per_chip)
    facts = where.core.cost_v(asked, [float(array.nbytes) for array in given], False)
    asked = Asked("all_gather_v", facts["form"], ranks.lists, ranks.ranks_per_chip)
    flat = where.core.all_gather_v(
        asked, given[0].dtype.itemsize, [bytes_of(array) for array in given]
    )
    dtype = given[0].dtype.newbyteorder("=")
    outputs = tuple(buffer.view(dtype) for buffer in flat)
    return CollectiveResult(**described(facts, ranks.size), outputs=outputs)


@dataclass(frozen=True, slots=True)
class AskedCounts:
    """What goes from each rank to each and where, by sender, as the core takes it."""

    counts: Sequence[int]
    send_displacements: Sequence[int]
    receive_displacements: Sequence[int]


def all_to_all_v(
    arrays: Iterable[ArrayLike],
    counts: ArrayLike,
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
    *,
    send_displacements: ArrayLike | None = None,
    recv_displacements: ArrayLike | None = None,
    destinations: Iterable[ArrayLike] | None = None,
) -> CollectiveResult:
    """Send any number of elements from each rank to each other.

    Parameters
    ----------
    arrays
        One for each rank, flat or flattened, of one dtype and any lengths.
    counts : [n, n]
        ``counts[i, j]`` elements go from rank i to rank j.
    send_displacements : [n, n], optional
        Where they begin in i's array. By default they follow each other.
    recv_displacements : [n, n], optional
        ``recv_displacements[j, i]``: where those of i begin in j's result. By default they follow
        each other.
    destinations
        What results hold before; needed where displacements leave gaps, else zeros.

    Raises
    ------
    ValueError
        As `all_reduce`; if counts have another shape, are negative, or reach beyond an array; there
        can be one group only.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.array([1, 2, 3]), np.array([4])]
    >>> result = collectives.all_to_all_v(arrays, [[1, 2], [0, 1]], "gen2", range(2))
    >>> [output.tolist() for output in result.outputs]
    [[1], [2, 3, 4]]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    check_dtype(given)
    n = ranks.size
    table = as_table("counts", counts, n)
    start = np.zeros((n, n), np.int64)
    send = start + np.cumsum(table, axis=1) - table
    if send_displacements is not None:
        send = as_table("send_displacements", send_displacements, n)
    receive = np.cumsum(table.T, axis=1) - table.T
    if recv_displacements is not None:
        receive = as_table("recv_displacements", recv_displacements, n)
    dtype = given[0].dtype.newbyteorder("=")
    if destinations is None:
        lengths = np.maximum((receive + table.T).max(axis=1, initial=0), table.sum(axis=0))
        held = [np.zeros(int(length), dtype) for length in lengths]
    else:
        held = [np.asarray(array) for array in destinations]
        if len(held) != n:
            message = f"destinations has {len(held)} entries; the group has {n} ranks"
            raise ValueError(message)
        check_dtype([given[0], *held])
    sizes = (table * given[0].dtype.itemsize).astype(float)
    asked = Asked("all_to_all_v", algorithm, ranks.lists, ranks.ranks_per_chip)
    facts = where.core.cost_v(asked, sizes.ravel().tolist(), False)
    asked = Asked("all_to_all_v", facts["form"], ranks.lists, ranks.ranks_per_chip)
    flat = where.core.all_to_all_v(
        asked,
        dtype.itemsize,
        AskedCounts(*(each.ravel().tolist() for each in (table, send, receive.T))),
        [bytes_of(array) for array in given],
        [bytes_of(array) for array in held],
    )
    outputs = tuple(buffer.view(dtype) for buffer in flat)
    return CollectiveResult(**described(facts, n), outputs=outputs)
