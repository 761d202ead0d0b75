"""What every collective does with its arguments before its rank meets the others."""

from __future__ import annotations

import functools
import math
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import (
    NkiInstruction,
    NkiTensor,
    NkiValidationError,
    VirtualRegister,
    isa,
)
from trn3.nki.ranks.context import context
from trn3.nki.ranks.moving import RECV_COUNTS, Arrays, exchange, raw, read
from trn3.nki.ranks.world import Call, Group
from trn3.nki.values.arrays import element_bytes
from trn3.nki.values.element_types import canonicalise
from trn3.nki.values.memory_regions import is_hbm, is_sbuf
from trn3.nki.values.operators import op_name

if TYPE_CHECKING:
    from trn3.nki.ranks.fabric import Fabric

__all__ = [
    "Arrays",
    "CollectiveCall",
    "Tensors",
    "flat",
    "formats_of",
    "is_number",
    "raw",
    "size_of",
    "words",
]

#: Tensors of one argument; one alone counts as a list of one.
Tensors: TypeAlias = Sequence[NkiTensor] | NkiTensor
#: From the sources of each rank, by index, to its results; None where one stays as it is.
Move: TypeAlias = "Callable[[list[Arrays], Fabric], Sequence[Sequence[NDArray[Any] | None]]]"
#: All groups, and this rank's own.
Groups: TypeAlias = tuple[tuple[Group, ...], Group]

_REDUCTIONS: Final = ("add", "maximum", "minimum")
_PRIORITIES: Final = range(4)
#: Channels of a ring that has all ranks of the launch, and of any other.
_CHANNELS: Final = (4, 2)
#: Keywords of older versions, which change nothing.
_OLDER: Final = {"num_channels"}


class CollectiveCall:
    """One rank's call of a collective.

    Parameters
    ----------
    operation : str
        As `nki.collectives` spells it.
    priority : int or None
        0 to 3.
    others : dict
        Further keywords of the call.
    """

    def __init__(self, operation: str, priority: Any, others: dict[str, Any]) -> None:
        self._operation = operation
        self._priority = priority
        self.running = context()
        world = self.running.world
        if world is None:  # every launch makes one
            message = f"{operation}: the running kernel has no ranks"
            raise RuntimeError(message)
        self._world = world
        unknown = sorted(set(others) - _OLDER)
        if unknown:
            message = f"{operation}() got an unexpected keyword argument {unknown[0]!r}"
            raise TypeError(message)
        if priority is not None:
            if not isinstance(priority, int) or priority not in _PRIORITIES:
                self.refuse("priority", f"is {priority!r}", "None or 0 to 3")
            if self.running.figures.generation < 4:
                self.refuse("priority", f"is {priority}", "None before gen4")

    @property
    def size(self) -> int:
        """Ranks of the launch."""
        return self._world.size

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self.running.rank

    def refuse(self, argument: str, got: str, allowed: str) -> NoReturn:
        """Raise an error of the hardware's rules."""
        line = self.running.core.line()
        message = f"{line}: {self._operation} {argument} {got}; allowed: {allowed}"
        raise NkiValidationError(message)

    def _wrong(self, argument: str, got: str, allowed: str) -> NoReturn:
        line = self.running.core.line()
        message = f"{line}: {self._operation} {argument} {got}; allowed: {allowed}"
        raise ValueError(message)

    def operands(
        self,
        srcs: Any,
        dsts: Any,
        *,
        on_chip: bool = True,
        several: bool = True,
        one_type: bool = True,
        per_channel: int = 1,
    ) -> tuple[list[NkiTensor], list[NkiTensor]]:
        """Return both arguments as lists that fit each other.

        Parameters
        ----------
        on_chip
            Whether SBUF will do.
        several
            Whether HBM will do for more than one tensor.
        one_type
            Whether a source and its result must have one element type.
        per_channel
            How many tensors in SBUF there may be.
        """
        sources, results = self._list("srcs", srcs), self._list("dsts", dsts)
        if len(sources) != len(results):
            counts = f"have {len(sources)} and {len(results)} tensors"
            self.refuse("srcs and dsts", counts, "as many of each")
        everything = sources + results
        is_chip = is_sbuf(sources[0])
        for tensor in everything:
            if not is_sbuf(tensor) and not is_hbm(tensor):
                self.refuse("operand", f"{tensor.describe()} is in psum", "hbm or sbuf")
            if is_sbuf(tensor) and not on_chip:
                self.refuse("operand", f"{tensor.describe()} is in sbuf", "hbm")
            if is_sbuf(tensor) != is_chip:
                self.refuse("srcs and dsts", "are partly in hbm, partly in sbuf", "one of them")
        if is_chip and len(sources) > per_channel:
            self.refuse("srcs", f"has {len(sources)} tensors in sbuf", "several in hbm alone")
        if not several and len(sources) > 1:
            self.refuse("srcs", f"has {len(sources)} tensors", "one")
        for source, result in zip(sources, results, strict=True):
            if one_type and source.dtype_name != result.dtype_name:
                got = f"has dtype {source.dtype_name}, dsts {result.dtype_name}"
                self.refuse("srcs", got, "both need the same")
        return sources, results

    def _list(self, argument: str, given: Any) -> list[NkiTensor]:
        tensors = [given] if isinstance(given, NkiTensor) else given
        if not isinstance(tensors, (list, tuple)) or not tensors:
            self.refuse(argument, f"is {given!r}", "a list of tensors")
        for tensor in tensors:
            if not isinstance(tensor, NkiTensor):
                self.refuse(argument, f"has a {type(tensor).__name__}", "a list of tensors")
        return list(tensors)

    def given(self, argument: str, *spellings: Any) -> Any:
        """Return the one of an argument's spellings that was given."""
        found = [value for value in spellings if value is not None]
        if len(found) != 1:
            message = f"{self._operation}() needs {argument} once; it came {len(found)} times"
            raise TypeError(message)
        return found[0]

    def reduction(self, op: Any, srcs: list[NkiTensor], dsts: list[NkiTensor]) -> str:
        """Return an operator's name."""
        name = op_name(op)
        if name not in _REDUCTIONS:
            self.refuse("op", f"is {name}", ", ".join(f"nl.{each}" for each in _REDUCTIONS))
        for source, result in zip(srcs, dsts, strict=True):
            one, other = canonicalise(source.dtype_name), canonicalise(result.dtype_name)
            for dtype in (one, other):
                if dtype.is_packed or dtype.name in {"bool", "float8_e8m0fnu"}:
                    self.refuse("srcs or dsts", f"has dtype {dtype.name}", "numbers to add")
            if one.name != other.name and (one.is_integer or other.is_integer):
                got = f"has dtype {one.name}, dsts {other.name}"
                self.refuse("srcs", got, "one type, or two floating-point ones")
        return name

    def dimension(self, dim: Any, allowed: tuple[int, ...]) -> int:
        """Return a dimension that may be joined or split."""
        if not isinstance(dim, int) or dim not in allowed:
            texts = " or ".join(map(str, allowed))
            self.refuse("collective_dim", f"is {dim!r}", f"{texts} in this memory")
        return dim

    def same_elements(self, src: NkiTensor, dst: NkiTensor, times: int, over: int) -> None:
        """Refuse a result that has not so many times its source's elements."""
        wanted = src.size * times // over
        if dst.size != wanted:
            got = f"has shape {dst.shape}, {dst.size} elements"
            self.refuse("dsts", got, f"{wanted} for srcs of shape {src.shape}")

    def divides(self, src: NkiTensor, n: int) -> None:
        """Refuse a source whose first dimension the ranks do not divide."""
        if src.shape[0] % n:
            got = f"has length {src.shape[0]} along dimension 0"
            self.refuse("srcs", got, f"a multiple of {n}, the ranks of a list")

    def group(self, replica_group: Any) -> Groups:
        """Return all groups, and the one that this rank is in."""
        given = getattr(replica_group, "groups", None)
        if given is None or isinstance(replica_group, type):
            line = self.running.core.line()
            message = (
                f"{line}: {self._operation} replica_group is of type "
                f"{type(replica_group).__name__}; allowed: a ReplicaGroup"
            )
            raise TypeError(message)
        groups = tuple(map(tuple, given))
        most = _largest(groups)
        if most >= self.size:
            hint = "" if self.size > 1 else "; trn3.nki.simulate_ranks runs a kernel on several"
            self._wrong(
                "replica_group", f"has rank {most}", f"the launch's {self.size} ranks, from 0{hint}"
            )
        own = next((group for group in groups if self.rank in group), None)
        if own is None:
            self._wrong("replica_group", f"has no list with rank {self.rank}", "one that has it")
        return groups, own

    def pairs(self, given: Any) -> tuple[tuple[int, int], ...]:
        """Return who sends to whom."""
        pairs = []
        for pair in given:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                self._wrong("source_target_pairs", f"has {pair!r}", "(source, target)")
            for rank in pair:
                if not is_number(rank) or rank >= self.size:
                    allowed = f"the launch's {self.size} ranks, from 0"
                    self._wrong("source_target_pairs", f"has rank {rank!r}", allowed)
            pairs.append((operator.index(pair[0]), operator.index(pair[1])))
        for side in (0, 1):
            ranks = [pair[side] for pair in pairs]
            if len(set(ranks)) != len(ranks):
                self._wrong("source_target_pairs", f"is {pairs}", "each rank once on each side")
        return tuple(pairs)

    def channels(self, ids: Any, group: Group, *by_channel: Any) -> tuple[int, ...]:
        """Return the channels, of which each argument has a list."""
        channels = tuple(ids) if isinstance(ids, (list, tuple, range)) else (ids,)
        most = _CHANNELS[0] if len(group) == self.size else _CHANNELS[1]
        fine = all(is_number(each) and each < most for each in channels)
        if not fine or not channels or len(set(channels)) != len(channels):
            self.refuse("channel_ids", f"is {ids!r}", f"different numbers from 0 to {most - 1}")
        for lists in by_channel:
            if not isinstance(lists, (list, tuple)) or len(lists) != len(channels):
                got = f"has {len(lists) if isinstance(lists, (list, tuple)) else 'no'} lists"
                self.refuse("srcs or dsts by channel", got, f"{len(channels)}, one a channel")
        return channels

    def register(self, value: int) -> VirtualRegister:
        """Return a register that holds a number."""
        register = VirtualRegister()
        isa.register_move(self.running.core, register, value, None)
        return register

    def reduce(
        self,
        srcs: list[NkiTensor],
        dsts: list[NkiTensor],
        groups: Groups,
        reduction: str,
        name: str | None,
    ) -> NkiInstruction | None:
        """Meet the other ranks in a collective that reduces."""
        formats = formats_of(srcs, dsts)

        def move(inputs: list[Arrays], fabric: Any) -> list[Arrays]:
            outputs: list[Arrays] = fabric.reduce(
                self._operation, inputs, reduction, groups[1], formats
            )
            return outputs

        agreed = f"{words(srcs)} by {reduction}"
        return self.meet(srcs, dsts, groups, agreed, size_of(srcs), move, name)

    def meet(
        self,
        srcs: list[NkiTensor],
        dsts: list[NkiTensor],
        groups: Groups,
        agreed: str,
        size: float,
        move: Move,
        name: str | None,
        pairs: tuple[tuple[int, int], ...] = (),
    ) -> NkiInstruction | None:
        """Bring the rank to the others."""

        def moving(fabric: Fabric, lane: Sequence[Call]) -> None:
            inputs = [[read(call, i) for i in range(len(call.srcs))] for call in lane]
            known = [[each for each in own if each is not None] for own in inputs]
            if any(len(own) < len(whole) for own, whole in zip(known, inputs, strict=True)):
                for call in lane:
                    call.arrival.forget()
                return
            for call, outputs in zip(lane, move(known, fabric), strict=True):
                for place, output in enumerate(outputs):
                    if output is not None:
                        call.arrival.write(place, element_bytes(output))

        return self._meet(
            srcs, dsts, groups, f"{agreed} to {words(dsts)}", size, moving, name, pairs
        )

    def _meet(
        self,
        srcs: list[NkiTensor],
        dsts: list[NkiTensor],
        groups: Groups,
        agreed: str,
        size: float,
        move: Any,
        name: str | None,
        pairs: tuple[tuple[int, int], ...] = (),
    ) -> NkiInstruction | None:
        core = self.running.core
        arrival = isa.collective(core, self._operation, srcs, dsts, self._priority, name)
        if self._priority is not None:
            agreed += f" at priority {self._priority}"
        moved = int(size_of(srcs)), int(size_of(dsts))
        call = Call(
            self._operation, *groups, agreed, size, pairs, srcs, dsts, core, arrival, move,
            self.rank, moved,
        )  # fmt: skip
        return self._world.meet(call)

    def ring(
        self,
        srcs: list[NkiTensor],
        dsts: list[NkiTensor],
        groups: Groups,
        channels: tuple[int, ...],
        name: str | None,
        others: Sequence[NkiTensor] = (),
        reduction: str | None = None,
    ) -> NkiInstruction | None:
        """Send sources, or what they and others reduce to, to the next index of each list."""
        pairs, own = _ring(groups[0]), _ring((groups[1],))
        formats = [_format(src, dst) for src, dst in zip(srcs, dsts, strict=True)]

        def move(inputs: list[Arrays], fabric: Fabric) -> list[Arrays]:
            if reduction is not None:
                count = len(srcs)
                inputs = [
                    fabric.combine([given[:count], given[count:]], reduction, formats)
                    for given in inputs
                ]
            return fabric.permute(raw(inputs), own, groups[1])

        agreed = f"{words(srcs)} in channels {channels}" + (f" by {reduction}" if reduction else "")
        size = sum(dst.size * dst.itemsize for dst in dsts)
        return self.meet([*srcs, *others], dsts, groups, agreed, size, move, name, pairs)

    def variable(
        self,
        srcs: Any,
        dsts: Any,
        replica_group: Any,
        metadata: Any,
        is_known: bool,
        has_displacements: bool,
        name: str | None,
    ) -> NkiInstruction | None:
        """Move chunks of any lengths, as the metadata of each rank says."""
        sources, results = self.operands(srcs, dsts, on_chip=False, several=False)
        groups = self.group(replica_group)
        n = len(groups[1])
        to_all = self._operation == "all_gather_v"
        self._check_strict(groups[0], n, to_all)
        counts = self._metadata(metadata, n, 4 if has_displacements else 3)
        if results[0].size < n:
            self.refuse("dsts", f"has {results[0].size} elements", f"{n} or more")

        def move(fabric: Fabric, lane: Sequence[Call]) -> float:
            return exchange(fabric, lane, groups[1], to_all, is_known, has_displacements)

        agreed = f"{sources[0].dtype_name} with recv_counts_known={is_known}"
        agreed += f" has_rdispls={has_displacements}"
        written = [] if is_known else [counts]
        return self._meet(
            [sources[0], metadata], [results[0], *written], groups, agreed, 0.0, move, name
        )

    def _check_strict(self, groups: tuple[Group, ...], n: int, to_all: bool) -> None:
        """Refuse what the hardware does not do, where the environment asks for that."""
        if os.environ.get("TRN3_NKI_STRICT") != "1":
            return
        logical = self.running.logical
        if logical is None:
            self.refuse("", "runs on one core", "kernel[2], under TRN3_NKI_STRICT=1")
        if to_all and n != 4:
            got = f"has lists of {n} ranks"
            self.refuse("replica_group", got, "4 ranks, under TRN3_NKI_STRICT=1")
        if to_all:
            return
        fabric = self._world.fabric(self.running.core)
        for group in groups:
            missing = fabric.left_out(group)
            if missing:
                each = fabric.ranks_per_chip
                got = f"has a list {list(group)} without ranks {missing} of its devices"
                allowed = f"whole devices, {each} ranks each, under TRN3_NKI_STRICT=1"
                self.refuse("replica_group", got, allowed)

    def _metadata(self, metadata: Any, n: int, rows: int) -> NkiTensor:
        """Return the row of receive counts."""
        wanted = (rows, n)
        allowed = f"uint32 of shape {wanted} in hbm or {(1, *wanted)} in sbuf"
        if not isinstance(metadata, NkiTensor):
            self.refuse("metadata_tensor", f"is of type {type(metadata).__name__}", allowed)
        shape = tuple(metadata.shape)
        fits = shape == wanted if is_hbm(metadata) else shape == (1, *wanted) and is_sbuf(metadata)
        if metadata.dtype_name != "uint32" or not fits:
            got = f"is {metadata.describe()} of shape {shape} and dtype {metadata.dtype_name}"
            self.refuse("metadata_tensor", got, allowed)
        row = slice(RECV_COUNTS, RECV_COUNTS + 1)
        return metadata[row] if is_hbm(metadata) else metadata[:, row]


@functools.lru_cache(maxsize=256)
def _largest(groups: tuple[Group, ...]) -> int:
    return max(rank for group in groups for rank in group)


@functools.lru_cache(maxsize=256)
def _ring(groups: tuple[Group, ...]) -> tuple[tuple[int, int], ...]:
    """Return who sends to whom around the ring of each group."""
    return tuple(
        (rank, group[(i + 1) % len(group)]) for group in groups for i, rank in enumerate(group)
    )


def is_number(value: Any) -> bool:
    """Return whether a value is a whole number from 0."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 0)


def _format(src: NkiTensor, dst: NkiTensor) -> str | None:
    """Return the format that sums are rounded to; None for that of the source."""
    is_same = src.dtype_name == dst.dtype_name and dst.dtype_name != "tfloat32"
    return None if is_same else dst.dtype_name


def formats_of(srcs: Sequence[NkiTensor], dsts: Sequence[NkiTensor]) -> list[str | None]:
    """Return the format that each sum is rounded to."""
    return [_format(src, dst) for src, dst in zip(srcs, dsts, strict=True)]


def words(tensors: Sequence[NkiTensor]) -> str:
    """Return shapes and types, for errors."""
    return ", ".join(f"{math.prod(each.shape)} {each.dtype_name}" for each in tensors)


def flat(lists: Iterable[Tensors]) -> list[NkiTensor]:
    """Return the tensors of all channels, one after another."""
    found: list[NkiTensor] = []
    for each in lists:
        found.extend([each] if isinstance(each, NkiTensor) else each)
    return found


def size_of(tensors: Sequence[NkiTensor]) -> float:
    """Return the bytes of tensors."""
    return float(sum(tensor.size * tensor.itemsize for tensor in tensors))
