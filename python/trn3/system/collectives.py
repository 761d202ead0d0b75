"""What `trn3.collectives` does, as methods of systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from trn3._trn3 import system as _core

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from trn3.collectives import Cost, Overlapping, Result, Span
    from trn3.system.base import System


class CollectiveMethods:
    """Collectives on all ranks of a system, on one rank a chip, or on groups.

    Each method is the function of that name in `trn3.collectives` with this system; what they take
    and raise is described there.
    """

    @cached_property
    def _collectives(self) -> _core.Collectives:
        # What it has counted stays with the system, so that the next call of a group is quick.
        return _core.Collectives(self._here._fabric)

    @property
    def _here(self) -> System:
        return cast("System", self)

    def all_reduce(self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any) -> Result:
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
        from trn3 import collectives

        return collectives.all_reduce(arrays, self._here, group, **options)

    def reduce_scatter(
        self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> Result:
        """Reduce; rank i keeps part i: `trn3.collectives.reduce_scatter`."""
        from trn3 import collectives

        return collectives.reduce_scatter(arrays, self._here, group, **options)

    def all_gather(self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any) -> Result:
        """Give every rank the arrays of all: `trn3.collectives.all_gather`."""
        from trn3 import collectives

        return collectives.all_gather(arrays, self._here, group, **options)

    def all_gather_v(
        self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any
    ) -> Result:
        """Give every rank arrays of any lengths: `trn3.collectives.all_gather_v`."""
        from trn3 import collectives

        return collectives.all_gather_v(arrays, self._here, group, **options)

    def all_to_all(self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any) -> Result:
        """Send part j of every array to rank j: `trn3.collectives.all_to_all`."""
        from trn3 import collectives

        return collectives.all_to_all(arrays, self._here, group, **options)

    def all_to_all_v(
        self, arrays: Iterable[ArrayLike], counts: ArrayLike, group: Any = None, **options: Any
    ) -> Result:
        """Send any counts from each to each: `trn3.collectives.all_to_all_v`."""
        from trn3 import collectives

        return collectives.all_to_all_v(arrays, counts, self._here, group, **options)

    def permute(
        self,
        arrays: Iterable[ArrayLike],
        pairs: Iterable[tuple[Any, Any]],
        group: Any = None,
        **options: Any,
    ) -> Result:
        """Send each source's array to its target: `trn3.collectives.permute`."""
        from trn3 import collectives

        return collectives.permute(arrays, pairs, self._here, group, **options)

    def collective_permute(
        self,
        arrays: Iterable[ArrayLike],
        pairs: Iterable[tuple[Any, Any]],
        group: Any = None,
        **options: Any,
    ) -> Result:
        """Do the same as `permute`."""
        return self.permute(arrays, pairs, group, **options)

    def broadcast(self, arrays: Iterable[ArrayLike], group: Any = None, **options: Any) -> Result:
        """Give every rank the root's array: `trn3.collectives.broadcast`."""
        from trn3 import collectives

        return collectives.broadcast(arrays, self._here, group, **options)

    def collective_time(
        self,
        operation: str,
        bytes: float,  # noqa: A002 -- the field's word
        group: Any = None,
        **options: Any,
    ) -> Cost:
        """Time a collective without data: `trn3.collectives.time`."""
        from trn3 import collectives

        return collectives.time(operation, bytes, self._here, group, **options)

    def overlap(self, running: Iterable[Overlapping | Mapping[str, Any]]) -> tuple[Span, ...]:
        """Time collectives that run at the same time: `trn3.collectives.overlap`."""
        from trn3 import collectives

        return collectives.overlap(running, self._here)


class ClusterCollectiveMethods(CollectiveMethods):
    """The same for a cluster that is small enough to be one system."""

    @cached_property
    def _joined(self) -> System:
        return cast("Any", self).system()  # type: ignore[no-any-return]

    @property
    def _here(self) -> System:
        return self._joined

    def collective_time(
        self,
        operation: str,
        bytes: float,  # noqa: A002 -- the field's word
        group: Any = None,
        **options: Any,
    ) -> Cost:
        """Time a collective without data, of any number of chips: `trn3.collectives.time`.

        Examples
        --------
        >>> from trn3 import Cluster, UltraServer
        >>> cost = Cluster(UltraServer.trn2(), 15625).collective_time("all_reduce", 1e9)
        >>> cost.ranks, cost.algorithm
        (4000000, 'hierarchical')
        """
        from trn3 import collectives

        return collectives.time(operation, bytes, cast("Any", self), group, **options)
