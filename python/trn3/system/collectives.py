"""What `trn3.collectives` does, as methods of systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trn3 import collectives
from trn3.collectives.answers import CollectiveCost, CollectiveResult, CollectiveSpan, Overlapping
from trn3.collectives.engine import CollectiveSystem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class CollectiveMethods:
    """Collectives on all ranks of a system, on one rank a chip, or on groups.

    Each method is the function of that name in `trn3.collectives` with this system; what they take
    and raise is described there.
    """

    def all_reduce(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Reduce the arrays of all ranks, for every rank: `trn3.collectives.all_reduce`.

        Examples
        --------
        >>> import numpy as np
        >>> from trn3 import systems
        >>> arrays = [np.full(2, chip, np.float32) for chip in range(144)]
        >>> result = systems.trn3_gen2().all_reduce(arrays, op="max")
        >>> result.outputs[7].tolist()
        [143.0, 143.0]
        """
        return collectives.all_reduce(arrays, self, group, **options)

    def reduce_scatter(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Reduce; rank i keeps part i: `trn3.collectives.reduce_scatter`."""
        return collectives.reduce_scatter(arrays, self, group, **options)

    def all_gather(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Give every rank the arrays of all: `trn3.collectives.all_gather`."""
        return collectives.all_gather(arrays, self, group, **options)

    def all_gather_v(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Give every rank arrays of any lengths: `trn3.collectives.all_gather_v`."""
        return collectives.all_gather_v(arrays, self, group, **options)

    def all_to_all(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Send part j of every array to rank j: `trn3.collectives.all_to_all`."""
        return collectives.all_to_all(arrays, self, group, **options)

    def all_to_all_v(
        self: CollectiveSystem,
        arrays: Iterable[ArrayLike],
        counts: ArrayLike,
        group: Any = None,
        **options: Any,
    ) -> CollectiveResult:
        """Send any counts from each to each: `trn3.collectives.all_to_all_v`."""
        return collectives.all_to_all_v(arrays, counts, self, group, **options)

    def permute(
        self: CollectiveSystem,
        arrays: Iterable[ArrayLike],
        pairs: Iterable[tuple[Any, Any]],
        group: Any = None,
        **options: Any,
    ) -> CollectiveResult:
        """Send each source's array to its target: `trn3.collectives.permute`."""
        return collectives.permute(arrays, pairs, self, group, **options)

    def collective_permute(
        self: CollectiveSystem,
        arrays: Iterable[ArrayLike],
        pairs: Iterable[tuple[Any, Any]],
        group: Any = None,
        **options: Any,
    ) -> CollectiveResult:
        """Do the same as `permute`."""
        return collectives.permute(arrays, pairs, self, group, **options)

    def broadcast(
        self: CollectiveSystem, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> CollectiveResult:
        """Give every rank the root's array: `trn3.collectives.broadcast`."""
        return collectives.broadcast(arrays, self, group, **options)

    def collective_time(
        self: CollectiveSystem,
        operation: str,
        bytes: float,  # noqa: A002 -- the field's word
        group: Any = None,
        **options: Any,
    ) -> CollectiveCost:
        """Time a collective without data: `trn3.collectives.time`.

        Examples
        --------
        >>> from trn3 import Cluster, UltraServer
        >>> cost = Cluster(UltraServer.trn2(), 15625).collective_time("all_reduce", 1e9)
        >>> cost.ranks, cost.algorithm
        (4000000, 'hierarchical')
        """
        return collectives.time(operation, bytes, self, group, **options)

    def overlap(
        self: CollectiveSystem, running: Iterable[Overlapping | Mapping[str, Any]]
    ) -> tuple[CollectiveSpan, ...]:
        """Time collectives that run at the same time: `trn3.collectives.overlap`."""
        return collectives.overlap(running, self)
