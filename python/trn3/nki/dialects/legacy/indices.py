"""Index expressions of the legacy dialect: `arange`, `mgrid`, loop variables, masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import machine
from trn3.nki.language.loop_marks import is_traced, marked
from trn3.nki.values.axes import par_dim

__all__ = [
    "AffineRange",
    "Index",
    "IndexComparison",
    "LoopIndex",
    "LoopRange",
    "StaticRange",
    "affine",
    "arange",
    "mgrid",
    "par_dim",
]

_GRID_NAMES: Final = "pxyzw"


class IndexComparison(NamedTuple):
    """One comparison that a mask was made of: ``difference operator 0``."""

    difference: NDArray[np.int64]
    operator: str


class Index(np.ndarray[Any, Any]):
    """Whole numbers, or truths about them, along the axes of a tile.

    An array of NumPy in every way; comparisons remember what they compared, so that an engine can
    evaluate them.
    """

    #: What a mask was made of; None where that is not known.
    comparisons: tuple[IndexComparison, ...] | None = None

    def __array_finalize__(self, obj: Any) -> None:
        self.comparisons = None

    def _compare(self, other: Any, function: Callable[..., Any], operator: str) -> Any:
        plain = self.view(np.ndarray)
        other = other.view(np.ndarray) if isinstance(other, Index) else other
        truth = function(plain, other)
        if not isinstance(truth, np.ndarray):
            return truth
        made = truth.view(Index)
        if plain.dtype.kind == "i" and np.asarray(other).dtype.kind in "iu":
            made.comparisons = (IndexComparison(plain - np.asarray(other), operator),)
        return made

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, np.less, "less")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, np.less_equal, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, np.greater, "greater")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, np.greater_equal, "greater_equal")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, np.equal, "equal")

    def __ne__(self, other: object) -> Any:
        return self._compare(other, np.not_equal, "not_equal")

    __hash__ = None

    def __and__(self, other: Any) -> Any:
        return _both(self, other)

    def __rand__(self, other: Any) -> Any:
        return _both(self, other)


def _both(one: Index, other: Any) -> Any:
    right = other.view(np.ndarray) if isinstance(other, np.ndarray) else other
    made = np.bitwise_and(one.view(np.ndarray), right).view(Index)
    if isinstance(other, Index) and one.comparisons and other.comparisons:
        made.comparisons = one.comparisons + other.comparisons
    elif isinstance(other, (bool, np.bool_)) and other and one.comparisons:
        made.comparisons = one.comparisons
    return made


def arange(*bounds: int) -> Index:
    """Return whole numbers as an index expression: ``arange(stop)`` or ``arange(start, stop)``.

    Axes are added as in NumPy, ``nl.arange(128)[:, None]`` for partitions.

    Examples
    --------
    >>> (arange(3)[:, None] * 4 + arange(2)[None, :]).tolist()
    [[0, 1], [4, 5], [8, 9]]
    """
    return np.arange(*(int(bound) for bound in bounds), dtype=np.int64).view(Index)


class IndexGrid(tuple[Index, ...]):
    """The index expressions of `mgrid`, by position or as ``.p .x .y .z .w`` in order."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Index:
        place = _GRID_NAMES.find(name) if len(name) == 1 else -1
        if not 0 <= place < len(self):
            message = (
                f"mgrid of {len(self)} axes has no {name!r}; allowed: {_GRID_NAMES[: len(self)]}"
            )
            raise AttributeError(message)
        return self[place]


class _Mgrid:
    def __getitem__(self, key: Any) -> IndexGrid:
        slices = key if isinstance(key, tuple) else (key,)
        made: list[Any] = []
        for axis, part in enumerate(slices):
            if not isinstance(part, slice) or part.stop is None:
                message = f"mgrid[{part!r}]; allowed: slices with a stop, mgrid[0:128, 0:512]"
                raise TypeError(message)
            numbers = arange(part.start or 0, part.stop, part.step or 1)
            shape = [1] * len(slices)
            shape[axis] = len(numbers)
            made.append(numbers.reshape(shape))
        return IndexGrid(made)


#: ``mgrid[0:P, 0:F]``: one index expression for each axis. Each is of length 1 along the others'
#: axes (**choice**), so that one used alone has its own axis only.
mgrid: Final = _Mgrid()


class LoopIndex(int):
    """The variable of a loop; a whole number that knows whether its loop has just begun."""

    is_first: bool

    def __new__(cls, value: int, *, is_first: bool) -> Self:
        """Return a whole number of a loop."""
        made = super().__new__(cls, value)
        made.is_first = is_first
        return made


class LoopRange:
    """What a loop runs over: whole numbers in order; as an index, a slice."""

    _kind = "sequential_range"

    def __init__(self, *bounds: int, **_hints: Any) -> None:
        self._range = range(*(int(bound) for bound in bounds))

    def __iter__(self) -> Iterator[LoopIndex]:
        for value in marked(self._range, self._kind) if is_traced() else self._range:
            yield LoopIndex(value, is_first=value == self._range.start)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, place: int) -> int:
        return self._range[place]

    def as_slice(self) -> slice:
        """Return the slice of the same numbers."""
        return slice(self._range.start, self._range.stop, self._range.step)

    def __repr__(self) -> str:
        return f"{self._range!r} of a loop"


class AffineRange(LoopRange):
    """What a loop runs over whose iterations do not depend on each other."""

    _kind = "affine_range"


class StaticRange(LoopRange):
    """What an unrolled loop runs over."""

    _kind = "static_range"


def affine(numbers: NDArray[Any]) -> tuple[int, list[int]] | None:
    """Return the first number and the steps along each axis, or None if there are no such steps.

    Examples
    --------
    >>> affine(arange(3)[:, None] * 4 + arange(2)[None, :] + 7)
    (7, [4, 1])
    >>> affine(arange(4) // 2) is None
    True
    """
    return machine.even_steps(np.asarray(numbers.view(np.ndarray), np.int64, order="C"))
