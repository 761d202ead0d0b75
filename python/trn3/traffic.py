"""Traffic patterns: who sends how much to whom.

A pattern names chips of a system; `trn3.system.System.bound` says how fast it can be.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from trn3.system.links import ChipLike

__all__ = [
    "Traffic",
    "all_to_all",
    "expert_dispatch",
    "from_matrix",
    "permutation",
    "ring",
    "uniform",
]

_NAMES = ("all_to_all", "alltoall", "all-to-all", "uniform")


class NumberedChips(Protocol):
    """Chips that have numbers: a system."""

    @property
    def num_chips(self) -> int:
        """Number of chips."""

    def index(self, chip: ChipLike) -> int:
        """Return the number of a chip."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes from chip to chip.

    Attributes
    ----------
    name : str
        What it is called.
    chips : tuple
        The chips that take part.
    bytes_per_chip : float or None
        What each of them sends to others, on average; None for a pattern without sizes.
    matrix : ndarray of float64, or None
        Bytes from the chip of the row to that of the column, in the order of `chips`; None for
        uniform all-to-all, in which each sends equal parts to every other one.
    """

    name: str
    chips: tuple[ChipLike, ...]
    bytes_per_chip: float | None = None
    matrix: NDArray[np.float64] | None = field(default=None, repr=False)

    def on(self, system: NumberedChips) -> NDArray[np.float64]:
        """Return the matrix over all chips of a system.

        Raises
        ------
        ValueError
            If the system lacks one of the chips, or one stands twice.
        """
        places = np.array([system.index(chip) for chip in self.chips], dtype=np.intp)
        if len(np.unique(places)) != len(places):
            message = f"chips of {self.name} stand twice"
            raise ValueError(message)
        count = len(places)
        own = self.matrix
        if own is None:
            size = 1.0 if self.bytes_per_chip is None else self.bytes_per_chip
            own = np.full((count, count), size / max(count - 1, 1))
            np.fill_diagonal(own, 0)
        whole = np.zeros((system.num_chips, system.num_chips))
        whole[np.ix_(places, places)] = own
        return whole


def all_to_all(chips: Iterable[ChipLike], bytes_per_chip: float | None = None) -> Traffic:
    """Each chip sends equal parts to every other one, and nothing to itself.

    Parameters
    ----------
    chips
        The chips that take part: `System.chips`, `System.group`, or a list of ids.
    bytes_per_chip
        What each sends in all, for times.

    Raises
    ------
    ValueError
        If there are fewer than two, or the size is negative.

    Examples
    --------
    >>> from trn3 import systems, traffic
    >>> rack = systems.trn3_gen2().group("0")
    >>> bound = systems.trn3_gen2().bound(traffic.all_to_all(rack))
    >>> round(bound.per_chip / 1e9, 1)
    334.1
    """
    members = tuple(chips)
    if len(members) < 2:
        message = f"chips: {len(members)} of them; all-to-all needs at least 2"
        raise ValueError(message)
    name = f"all-to-all of {len(members)} chips"
    return Traffic(name, members, _size("bytes_per_chip", bytes_per_chip))


uniform = all_to_all


def ring(
    chips: Iterable[ChipLike], bytes_per_chip: float | None = None, *, both_ways: bool = False
) -> Traffic:
    """Each chip sends to the next one of the list, the last one to the first.

    Parameters
    ----------
    chips
        In the order of the ring.
    bytes_per_chip
        What each sends in all, for times.
    both_ways
        Whether each also sends to the one before; half of the bytes go each way then.

    Raises
    ------
    ValueError
        If there are fewer than two, or the size is negative.
    """
    members = tuple(chips)
    if len(members) < 2:
        message = f"chips: {len(members)} of them; a ring needs at least 2"
        raise ValueError(message)
    size = _size("bytes_per_chip", bytes_per_chip)
    matrix = np.roll(np.eye(len(members)), 1, axis=1)
    if both_ways:
        matrix = (matrix + matrix.T) / 2
    return _scaled(f"ring of {len(members)} chips", members, size, matrix)


def permutation(
    targets: Mapping[Any, ChipLike] | Sequence[tuple[ChipLike, ChipLike]],
    bytes_per_chip: float | None = None,
) -> Traffic:
    """Each chip that is named sends to one other.

    Parameters
    ----------
    targets
        For each sender the chip it sends to: a mapping, or pairs.
    bytes_per_chip
        What each sends, for times.

    Raises
    ------
    ValueError
        If it is empty, a chip sends or receives twice, or the size is negative.
    """
    pairs = list(targets.items()) if isinstance(targets, Mapping) else [tuple(p) for p in targets]
    if not pairs:
        message = "targets is empty; a permutation needs at least one sender"
        raise ValueError(message)
    for what, side in (("sends", [a for a, _ in pairs]), ("receives", [b for _, b in pairs])):
        twice = [chip for at, chip in enumerate(side) if chip in side[:at]]
        if twice:
            message = f"targets: chip {twice[0]!r} {what} twice; in a permutation each does once"
            raise ValueError(message)
    members = tuple(dict.fromkeys(chip for pair in pairs for chip in pair))
    place = {chip: at for at, chip in enumerate(members)}
    matrix = np.zeros((len(members), len(members)))
    matrix[[place[a] for a, _ in pairs], [place[b] for _, b in pairs]] = 1
    size = _size("bytes_per_chip", bytes_per_chip)
    return _scaled(f"permutation of {len(pairs)} senders", members, size, matrix)


def expert_dispatch(
    chips: Iterable[ChipLike],
    *,
    tokens: int,
    width: int,
    top_k: int,
    bytes_per_value: float = 1.0,
) -> Traffic:
    """Tokens of a mixture of experts on their way to the experts, which are spread over all chips.

    Each of a chip's tokens goes to `top_k` other chips, evenly chosen **(choice)**: none stays, and
    two experts of a token are never on one chip, so that this is the most that can move.

    Parameters
    ----------
    chips
        The chips that hold the experts.
    tokens
        Tokens a chip.
    width
        Values a token.
    top_k
        Experts a token.
    bytes_per_value
        1 for FP8, 2 for BF16, 33/32 for MXFP8 with its scales.

    Raises
    ------
    ValueError
        If a number is not positive, or there are fewer than two chips.

    Examples
    --------
    >>> from trn3 import systems, traffic
    >>> gen2 = systems.trn3_gen2()
    >>> dispatch = traffic.expert_dispatch(gen2.chips, tokens=4096, width=7168, top_k=8)
    >>> f"{gen2.bound(dispatch).time * 1e3:.2f} ms"
    '0.92 ms'
    """
    for name, value in (("tokens", tokens), ("width", width), ("top_k", top_k)):
        if operator.index(value) < 1:
            message = f"{name} is {value}; must be at least 1"
            raise ValueError(message)
    if not bytes_per_value > 0:
        message = f"bytes_per_value is {bytes_per_value}; must be positive"
        raise ValueError(message)
    pattern = all_to_all(chips, tokens * width * top_k * bytes_per_value)
    name = f"dispatch of {tokens} tokens to {top_k} experts among {len(pattern.chips)} chips"
    return Traffic(name, pattern.chips, pattern.bytes_per_chip)


def from_matrix(matrix: ArrayLike, chips: Iterable[ChipLike] | None = None) -> Traffic:
    """Any bytes from chip to chip.

    Parameters
    ----------
    matrix
        Bytes from the chip of the row to that of the column; the diagonal takes no link.
    chips
        The chips of rows and columns; chips 0, 1, 2, ... of the system by default.

    Raises
    ------
    ValueError
        If the matrix is not square, has a negative or infinite entry, or not one row a chip.
    """
    bytes_ = np.array(matrix, dtype=np.float64)
    if bytes_.ndim != 2 or bytes_.shape[0] != bytes_.shape[1]:
        message = f"the traffic matrix has shape {bytes_.shape}; needed: (n, n)"
        raise ValueError(message)
    if not (np.isfinite(bytes_) & (bytes_ >= 0)).all():
        at = tuple(int(i) for i in np.argwhere(~(np.isfinite(bytes_) & (bytes_ >= 0)))[0])
        message = f"traffic{list(at)} is {bytes_[at]} bytes; allowed: finite, 0 or more"
        raise ValueError(message)
    members = tuple(range(len(bytes_))) if chips is None else tuple(chips)
    if len(members) != len(bytes_):
        message = f"the traffic matrix has {len(bytes_)} rows for {len(members)} chips"
        raise ValueError(message)
    sent = bytes_.sum(axis=1) - np.diag(bytes_)
    mean = float(sent.sum() / max((sent > 0).sum(), 1))
    bytes_.flags.writeable = False
    return Traffic(f"matrix of {len(members)} chips", members, mean, bytes_)


def as_traffic(
    asked: str | Traffic | ArrayLike,
    chips: tuple[Any, ...],
    group: tuple[Any, ...] | None,
) -> Traffic:
    """Return what was asked for as a traffic; a name means all `chips`, or the `group`."""
    if isinstance(asked, str):
        name = asked.lower()
        if name == "ring":
            return ring(chips if group is None else group)
        if name in _NAMES:
            return all_to_all(chips if group is None else group)
        message = f"traffic {asked!r} is unknown; allowed: all_to_all, ring, a Traffic, a matrix"
        raise ValueError(message)
    if group is not None:
        message = (
            "group has a meaning only with the name of a traffic; give the chips to the traffic"
        )
        raise ValueError(message)
    if isinstance(asked, Traffic):
        return asked
    found = from_matrix(asked)
    if len(found.chips) != len(chips):
        count, rows = len(chips), len(found.chips)
        message = f"the traffic matrix has shape ({rows}, {rows}); needed: ({count}, {count})"
        raise ValueError(message)
    return found


def _size(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if not (np.isfinite(value) and value > 0):
        message = f"{name} is {value}; must be positive"
        raise ValueError(message)
    return float(value)


def _scaled(
    name: str, chips: tuple[Any, ...], size: float | None, matrix: NDArray[np.float64]
) -> Traffic:
    whole = matrix * (1.0 if size is None else size)
    whole.flags.writeable = False
    return Traffic(name, chips, size, whole)
