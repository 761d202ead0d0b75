"""The points of a sweep: a product of axes, or any iterable of points."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

#: One point's keyword arguments.
Parameters: TypeAlias = dict[str, Any]
#: What `trn3.sweep` takes as a grid.
GridLike: TypeAlias = (
    Mapping[str, Sequence[Any]] | Iterable[tuple[str, Sequence[Any]]] | Iterable[Mapping[str, Any]]
)


class ProductGrid:
    """Every combination of the values of its axes; the last axis varies fastest.

    Points are computed when asked for, so a long product takes no memory.

    >>> grid = ProductGrid({"rows": [1, 2], "columns": "a b".split()})
    >>> list(grid)[1], grid.point(2), grid.size
    ({'rows': 1, 'columns': 'b'}, {'rows': 2, 'columns': 'a'}, 4)
    """

    def __init__(self, axes: Mapping[str, Sequence[Any]]) -> None:
        self.axes = dict(axes)
        self._size = math.prod(len(values) for values in self.axes.values())

    @property
    def size(self) -> int:
        """How many points there are."""
        return self._size

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.axes)

    def __iter__(self) -> Iterator[Parameters]:
        return (self.point(index) for index in range(self._size))

    def point(self, index: int) -> Parameters:
        """Return the point at an index."""
        chosen: list[Any] = []
        for values in reversed(self.axes.values()):
            index, place = divmod(index, len(values))
            chosen.append(values[place])
        return dict(zip(self.axes, reversed(chosen), strict=True))


class ListedGrid:
    """Points as an iterable gives them, once; those that have come are kept."""

    def __init__(self, points: Iterable[Mapping[str, Any]]) -> None:
        self.source = points
        self._passed: list[Parameters] = []
        self._names: dict[str, None] = {}

    @property
    def size(self) -> int | None:
        """How many points there are, if the iterable knows."""
        return len(self.source) if isinstance(self.source, Sequence) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that have come so far."""
        return tuple(self._names)

    def __iter__(self) -> Iterator[Parameters]:
        for index, point in enumerate(self.source):
            checked = check_point(index, point)
            self._passed.append(checked)
            self._names.update(dict.fromkeys(checked))
            yield checked

    def point(self, index: int) -> Parameters:
        """Return a point that has come."""
        return self._passed[index]


#: Points in their order, made one at a time.
Grid: TypeAlias = ProductGrid | ListedGrid


def make_grid(grid: object) -> Grid:
    """Check what was given as a grid.

    Raises
    ------
    TypeError, ValueError
        If it is no grid; the message names the axis or the point.
    """
    if isinstance(grid, Mapping):
        return ProductGrid(_check_axes(list(grid.items())))
    if isinstance(grid, str | bytes) or not isinstance(grid, Iterable):
        message = (
            f"grid is {_shown(grid)}, must be a mapping of axis names to sequences such as "
            '{"batch": [1, 8]}, or an iterable of mappings such as [{"batch": 1}, {"batch": 8}]'
        )
        raise TypeError(message)
    if isinstance(grid, Sequence) and grid and all(_is_pair(item) for item in grid):
        return ProductGrid(_check_axes(list(grid)))
    return ListedGrid(grid)


def check_point(index: int, point: object) -> Parameters:
    """Return a point of an iterable as a dictionary of its own."""
    if not isinstance(point, Mapping):
        message = (
            f"point {index} of the grid is {_shown(point)}, must be a mapping of names to values"
        )
        raise TypeError(message)
    for name in point:
        _check_name(name, f"point {index} of the grid has the name")
    return dict(point)


def check_arguments(fn: Callable[..., object], names: Sequence[str]) -> None:
    """Refuse names that the function does not take, and a lack of those it needs."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none; their points will tell
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "no arguments"
        message = (
            f"{describe(fn)} cannot be called with the axes of the grid ({', '.join(names)}): "
            f"{error}. It takes {takes}; bind constants with functools.partial"
        )
        raise TypeError(message) from None


def describe(fn: object) -> str:
    """Return how messages call a function."""
    if isinstance(fn, functools.partial):
        return f"a partial of {describe(fn.func)}"
    name = getattr(fn, "__qualname__", None)
    if name is None:
        return f"{_shown(fn)}"
    module = getattr(fn, "__module__", None)
    return f"{module}.{name}" if module and module != "builtins" else str(name)


def _check_axes(items: Sequence[tuple[object, object]]) -> dict[str, Sequence[Any]]:
    axes: dict[str, Sequence[Any]] = {}
    for name, values in items:
        text = _check_name(name, "grid has an axis of the name")
        if text in axes:
            message = f"grid has two axes of the name {text!r}; give all values in one"
            raise ValueError(message)
        axes[text] = _check_values(text, values)
    return axes


def _check_name(name: object, what: str) -> str:
    if not isinstance(name, str):
        message = f"{what} {_shown(name)}, must be a text: it is an argument's name"
        raise TypeError(message)
    if not name:
        message = f"{what} '', must be an argument's name"
        raise ValueError(message)
    return name


def _check_values(name: str, values: Any) -> Sequence[Any]:
    nearest = f"{{{name!r}: [{_shown(values)}]}}"
    if isinstance(values, str | bytes):
        message = (
            f"axis {name!r} is the text {_shown(values)}, must be a sequence; for one "
            f"value: {nearest}"
        )
        raise TypeError(message)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            message = f"axis {name!r} is an array of shape {values.shape}, must have one dimension"
            raise ValueError(message)
        return values  # type: ignore[return-value]
    if isinstance(values, Mapping | set | frozenset):
        message = (
            f"axis {name!r} is a {type(values).__name__}, must be a sequence: the order of points "
            f"comes from it; for instance sorted({name})"
        )
        raise TypeError(message)
    if isinstance(values, Iterator):
        message = (
            f"axis {name!r} is an iterator, which can be passed once only; give list(...) of it"
        )
        raise TypeError(message)
    if hasattr(values, "__len__") and hasattr(values, "__getitem__"):
        # A data frame's column is indexed by its labels.
        return values if isinstance(values, Sequence) else list(values)
    message = f"axis {name!r} is {_shown(values)}, must be a sequence; for one value: {nearest}"
    raise TypeError(message)


def _is_pair(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _shown(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
