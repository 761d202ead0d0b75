"""What connects the ranks of a launch: a system, whose own collectives move and time their data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from numpy.typing import NDArray

from trn3 import collectives, systems

if TYPE_CHECKING:
    from trn3.collectives import SystemLike
    from trn3.system.base import System

__all__ = ["Fabric"]

Arrays = list[NDArray[Any]]

#: Systems of the machines, by generation.
_SYSTEMS: Final = {2: "trn1", 3: "trn2", 4: "trn3"}
_PERMUTES: Final = frozenset(
    {
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
    }
)


class Fabric:
    """A system with the ranks of a launch on it.

    Parameters
    ----------
    system
        A system of `trn3.systems`, or its name.
    size : int
        How many ranks there are.
    ranks_per_chip : int, optional
        How many of them a chip has, one after the other; by default all that it can.

    Raises
    ------
    ValueError
        If the system has no room for them.
    """

    __slots__ = ("_known", "_ranks_per_chip", "_system", "size")

    def __init__(self, system: SystemLike, size: int, ranks_per_chip: int | None = None) -> None:
        from trn3.systems import as_system

        found: System = as_system(system)
        most = found.ranks_per_chip
        wanted = most if ranks_per_chip is None else ranks_per_chip
        if not 1 <= wanted <= most:
            message = f"ranks_per_chip is {wanted}; a chip of {found.name} has 1 to {most} ranks"
            raise ValueError(message)
        if size > wanted * found.num_chips:
            message = (
                f"{size} ranks, {wanted} a chip, on {found.name}, which has {found.num_chips} "
                f"chips; allowed: at most {wanted * found.num_chips}"
            )
            raise ValueError(message)
        self._system = found
        self._ranks_per_chip = wanted
        self.size = size
        self._known: dict[Any, float] = {}

    @property
    def ranks_per_chip(self) -> int:
        """Ranks that a chip has, one after the other."""
        return self._ranks_per_chip

    def left_out(self, group: Sequence[int]) -> list[int]:
        """Return the ranks that share a chip with some of a group and are not in it."""
        each, ranks = self._ranks_per_chip, set(group)
        chips = sorted({rank // each for rank in ranks})
        return [
            rank
            for chip in chips
            for rank in range(chip * each, (chip + 1) * each)
            if rank not in ranks
        ]

    @classmethod
    def of_machine(cls, name: str, generation: int, lnc: int, size: int) -> Fabric:
        """Return the system that cores of a machine are part of.

        A description of one's own counts as the documented machine of its generation.

        Raises
        ------
        ValueError
            If it has no room for the ranks.
        """
        found = name if name in _SYSTEMS.values() else _SYSTEMS[generation]
        return cls(systems.load(found, lnc=lnc), size)

    def seconds(
        self,
        operation: str,
        size: float,
        groups: Sequence[Sequence[int]],
        pairs: Sequence[tuple[int, int]] = (),
    ) -> float:
        """Return how long a collective takes that all groups run at the same time.

        Parameters
        ----------
        operation : str
            As `nki.collectives` spells it.
        size : float
            Bytes, as `trn3.collectives.time` counts them.
        groups : sequence of sequences of int
            Ranks.
        pairs : sequence of (int, int)
            Who sends to whom, in permutations.
        """
        key = (operation, size, tuple(map(tuple, groups)), tuple(pairs))
        if key not in self._known:
            self._known[key] = self._time(operation, size, groups, pairs)
        return self._known[key]

    def _time(
        self,
        operation: str,
        size: float,
        groups: Sequence[Sequence[int]],
        pairs: Sequence[tuple[int, int]],
    ) -> float:
        if operation not in _PERMUTES:
            placed = [self._places(group) for group in groups]
            return collectives.time(operation, size, self._system, placed).time
        away = [(source, target) for source, target in pairs if source != target]
        if not away:
            return 0.0
        ranks = sorted({rank for pair in away for rank in pair})
        moved = [(self._place(source), self._place(target)) for source, target in away]
        return collectives.time(
            "permute", size, self._system, self._places(ranks), pairs=moved
        ).time

    def reduce(
        self,
        operation: Literal["all_reduce", "reduce_scatter"],
        inputs: Sequence[Arrays],
        op: str,
        group: Sequence[int],
        formats: Sequence[str | None],
    ) -> list[Arrays]:
        """Reduce the arrays of all ranks, in ascending positions in float32, rounded once.

        Parameters
        ----------
        operation : {"all_reduce", "reduce_scatter"}
            Whether each rank keeps everything, or rank i part i along the first axis.
        formats : sequence of str or None
            Of the results; None: that of the arrays.
        """
        run = getattr(collectives, operation)
        wanted = iter(formats)
        return self._each(
            inputs,
            lambda arrays: (
                run(
                    arrays,
                    self._system,
                    self._places(group),
                    op,
                    order="index",
                    out_dtype=next(wanted),
                ).outputs
            ),
        )

    def combine(self, pair: Sequence[Arrays], op: str, formats: Sequence[str | None]) -> Arrays:
        """Reduce two lists of arrays that one rank holds, as `reduce` does those of two ranks."""
        wanted = iter(formats)
        return self._each(
            pair,
            lambda arrays: (
                collectives.all_reduce(
                    arrays, self._system, range(2), op, order="index", out_dtype=next(wanted)
                ).outputs
            ),
        )[0]

    def all_gather(self, inputs: Sequence[Arrays], axis: int, group: Sequence[int]) -> list[Arrays]:
        """Give each rank the arrays of all, joined along an axis."""
        return self._each(
            inputs,
            lambda arrays: (
                collectives.all_gather(arrays, self._system, self._places(group), axis=axis).outputs
            ),
        )

    def all_to_all(self, inputs: Sequence[Arrays], group: Sequence[int]) -> list[Arrays]:
        """Send part j of each array along the first axis to rank j."""
        return self._each(
            inputs,
            lambda arrays: (
                collectives.all_to_all(arrays, self._system, self._places(group)).outputs
            ),
        )

    def permute(
        self,
        inputs: Sequence[Arrays],
        pairs: Iterable[tuple[int, int]],
        group: Sequence[int],
    ) -> list[Arrays]:
        """Send each source's arrays to its target; others keep their own."""
        moved = [(self._place(source), self._place(target)) for source, target in pairs]
        return self._each(
            inputs,
            lambda arrays: (
                collectives.permute(arrays, moved, self._system, self._places(group)).outputs
            ),
        )

    def all_to_all_v(
        self,
        inputs: Arrays,
        counts: NDArray[Any],
        send: NDArray[Any],
        group: Sequence[int],
    ) -> tuple[Arrays, float]:
        """Send counts of elements from each to each; return what each gets end to end, and when."""
        result = collectives.all_to_all_v(
            inputs, counts, self._system, self._places(group), send_displacements=send
        )
        return list(result.outputs), result.time

    def all_gather_v(self, inputs: Arrays, group: Sequence[int]) -> tuple[Arrays, float]:
        """Give each the arrays of all, end to end; return them and the seconds it takes."""
        result = collectives.all_gather_v(inputs, self._system, self._places(group))
        return list(result.outputs), result.time

    def _place(self, rank: int) -> int:
        """Return which rank of the system a rank of the launch is."""
        chip, own = divmod(rank, self._ranks_per_chip)
        return chip * self._system.ranks_per_chip + own

    def _places(self, ranks: Sequence[int]) -> list[int]:
        return [self._place(rank) for rank in ranks]

    @staticmethod
    def _each(inputs: Sequence[Arrays], run: Any) -> list[Arrays]:
        """Run a collective on each of the arrays that ranks give in one call."""
        outputs: list[Arrays] = [[] for _ in inputs]
        for arrays in zip(*inputs, strict=True):
            for own, output in zip(outputs, run(list(arrays)), strict=True):
                own.append(output)
        return outputs
