"""Collectives of arrays of one shape: executed in the order of a schedule, and timed by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from trn3.collectives.answers import CollectiveResult
from trn3.collectives.arrays import (
    Numbers,
    Order,
    Rounding,
    as_arrays,
    check_same,
    checked_axis,
    join,
    run,
    split,
)
from trn3.collectives.engine import SystemLike, as_engine
from trn3.collectives.groups import GroupLike, parse

if TYPE_CHECKING:
    from trn3.numerics import Xorwow


def all_reduce(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    op: str = "add",
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    rng: Xorwow | int | None = None,
    order: Order = "schedule",
    out_dtype: DTypeLike | None = None,
) -> CollectiveResult:
    """Reduce the arrays of all ranks, for every rank.

    Parameters
    ----------
    arrays
        One for each rank of the group, of one shape and dtype: a float type of the hardware,
        float64 (which the hardware lacks) or whole numbers, which wrap. Of several groups: one
        after another, or a list for each.
    system
        A system of `trn3.systems`, or its name.
    group
        Ranks (whole numbers), chips (tuples or a pattern), or several lists of them, which work at
        the same time. None: all ranks, or one rank a chip, by the number of arrays.
    op : {"add", "max", "min"}
        ``"maximum"`` and ``"minimum"`` also do.
    algorithm : str
        ``"auto"``, the fastest by the model of time, or ``"ring"``, ``"kangaring"``, ``"mesh"``,
        ``"single_step_mesh"``, ``"rdh"``, ``"hierarchical"``.
    dtype
        Format in which data travels and partial results are kept; each addition is a float32
        addition whose result is rounded to it. None: that of the arrays.
    rounding : {"nearest", "zero", "stochastic"}
        How values are rounded to it.
    rng : Xorwow or int, optional
        Draws of stochastic rounding: a generator, or its seed.
    order : {"schedule", "index"}
        ``"index"``: add in ascending positions in float32 and round once, whatever the schedule.
    out_dtype
        Format of the results. None: that of the arrays.

    Returns
    -------
    CollectiveResult

    Raises
    ------
    ValueError
        If the group has ranks outside the system, groups overlap or differ in length, arrays differ
        or do not fit the group, or the algorithm is unknown or cannot do this group.
    trn3.system.UnreachableError
        If chips of the group cannot reach each other.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.arange(3), np.arange(3), np.arange(3)]
    >>> chips = [(0, 0, 0), (0, 1, 0), (1, 0, 0)]
    >>> result = collectives.all_reduce(arrays, system="gen2", group=chips)
    >>> result.outputs[2].tolist(), result.binding
    ([0, 3, 6], 'latency of 1 steps')
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    numbers = Numbers(op, dtype, rounding, rng, order, out_dtype)
    made, flat = run("all_reduce", where, given, ranks, algorithm, numbers, lambda size: size)
    return CollectiveResult(**made, outputs=tuple(out.reshape(given[0].shape) for out in flat))


def reduce_scatter(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    op: str = "add",
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    axis: int = 0,
    rng: Xorwow | int | None = None,
    order: Order = "schedule",
    out_dtype: DTypeLike | None = None,
) -> CollectiveResult:
    """Reduce the arrays of all ranks; rank i keeps part i of the result along an axis.

    The length of the axis must be a multiple of the number of ranks. Everything else is as in
    `all_reduce`.

    Raises
    ------
    ValueError
        As there, and if the ranks do not divide the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> result = collectives.reduce_scatter([np.array([1, 2]), np.array([3, 4])], "trn2", range(2))
    >>> [output.tolist() for output in result.outputs]
    [[4], [6]]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    check_same(given)
    axis = checked_axis(given[0], axis)
    moved = [split(array, ranks.size, axis) for array in given]
    numbers = Numbers(op, dtype, rounding, rng, order, out_dtype)
    made, flat = run("reduce_scatter", where, moved, ranks, algorithm, numbers, lambda size: size)
    return CollectiveResult(**made, outputs=tuple(out.reshape(moved[0].shape[1:]) for out in flat))


def all_gather(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    axis: int = 0,
    rng: Xorwow | int | None = None,
    out_dtype: DTypeLike | None = None,
) -> CollectiveResult:
    """Give every rank the arrays of all ranks, concatenated along an axis.

    Arrays may have any dtype; with `dtype` they are rounded to a format for the way. Everything
    else is as in `all_reduce`. The size in `CollectiveResult.bytes` is that of the concatenation.

    Raises
    ------
    ValueError
        As there, and if the arrays have no axis.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.array([[1, 2]]), np.array([[3, 4]])]
    >>> result = collectives.all_gather(arrays, "trn2", range(2), axis=1)
    >>> result.outputs[1].tolist()
    [[1, 2, 3, 4]]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    check_same(given)
    axis = checked_axis(given[0], axis)
    numbers = Numbers("add", dtype, rounding, rng, "schedule", out_dtype)
    made, flat = run(
        "all_gather", where, given, ranks, algorithm, numbers, lambda size: size * ranks.size
    )
    shape = (ranks.size, *given[0].shape)
    return CollectiveResult(**made, outputs=tuple(join(out.reshape(shape), axis) for out in flat))


def all_to_all(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    axis: int = 0,
    rng: Xorwow | int | None = None,
    out_dtype: DTypeLike | None = None,
) -> CollectiveResult:
    """Split every rank's array along an axis; part j goes to rank j, which joins what it gets.

    Algorithms: ``"direct"`` (everything at once) and ``"pairwise"`` (one partner a step).

    Raises
    ------
    ValueError
        As `all_reduce`, and if the ranks do not divide the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
    >>> [out.tolist() for out in collectives.all_to_all(arrays, "trn2", [0, 1]).outputs]
    [[[1, 2], [5, 6]], [[3, 4], [7, 8]]]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    check_same(given)
    axis = checked_axis(given[0], axis)
    moved = [split(array, ranks.size, axis) for array in given]
    numbers = Numbers("add", dtype, rounding, rng, "schedule", out_dtype)
    made, flat = run("all_to_all", where, moved, ranks, algorithm, numbers, lambda size: size)
    return CollectiveResult(
        **made, outputs=tuple(join(out.reshape(moved[0].shape), axis) for out in flat)
    )


def permute(
    arrays: Iterable[ArrayLike],
    pairs: Iterable[tuple[Any, Any]],
    system: SystemLike | None = None,
    group: GroupLike = None,
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    destinations: Iterable[ArrayLike] | None = None,
    rng: Xorwow | int | None = None,
) -> CollectiveResult:
    """Send each source's array to its target.

    Parameters
    ----------
    pairs
        ``(source, target)``: ranks as the group has them, or chips where a chip is one rank. Each
        may send once and receive once.
    algorithm : str
        ``"direct"``, or ``"ring"``, which also makes sure that the pairs are one ring through all
        ranks, as switched systems need of permutes that run as rings.
    destinations
        What ranks hold that receive nothing; their own arrays by default **(choice)**.

    Raises
    ------
    ValueError
        As `all_reduce`; and if a pair names a rank outside the group, one sends or receives twice,
        or the pairs are no ring where they must be.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> ring = [(rank, (rank + 1) % 4) for rank in range(4)]
    >>> result = collectives.permute([np.array(rank) for rank in range(4)], ring, "gen2", range(4))
    >>> [int(output) for output in result.outputs]
    [3, 0, 1, 2]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    if len(ranks.lists) != 1:
        message = (
            f"group has {len(ranks.lists)} lists; a permutation has one, and its pairs may stay "
            "within parts of it"
        )
        raise ValueError(message)
    placed = tuple(
        (ranks.position("pairs", source), ranks.position("pairs", target))
        for source, target in pairs
    )
    numbers = Numbers("add", dtype, rounding, rng)
    made, flat = run(
        "permute", where, given, ranks, algorithm, numbers, lambda size: size, pairs=placed
    )
    held = given if destinations is None else [np.asarray(array) for array in destinations]
    if len(held) != len(given):
        message = f"destinations has {len(held)} entries; the group has {len(given)} ranks"
        raise ValueError(message)
    check_same([given[0], *held])
    targets = {target for _, target in placed}
    outputs = tuple(
        out.reshape(given[0].shape) if i in targets else held[i].copy()
        for i, out in enumerate(flat)
    )
    return CollectiveResult(**made, outputs=outputs)


collective_permute = permute


def broadcast(
    arrays: Iterable[ArrayLike],
    system: SystemLike | None = None,
    group: GroupLike = None,
    root: Any = None,
    algorithm: str = "auto",
    dtype: DTypeLike | None = None,
    rounding: Rounding = "nearest",
    *,
    rng: Xorwow | int | None = None,
    out_dtype: DTypeLike | None = None,
) -> CollectiveResult:
    """Give every rank the array of the root.

    Parameters
    ----------
    root
        A rank of the group, or a chip where a chip is one rank. None: the first of each group.
    algorithm : str
        ``"binomial"`` (a tree) or ``"chain"`` (pieces that follow each other).

    Raises
    ------
    ValueError
        As `all_reduce`; and if the root is not in the group.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import collectives
    >>> arrays = [np.array([rank]) for rank in range(8)]
    >>> result = collectives.broadcast(arrays, "gen2", range(8), root=5)
    >>> [int(output[0]) for output in result.outputs]
    [5, 5, 5, 5, 5, 5, 5, 5]
    """
    where = as_engine(system)
    given, ranks = as_arrays(arrays, lambda count: parse(where, group, count))
    place = 0 if root is None else ranks.position("root", root)
    if root is not None and len(ranks.lists) > 1:
        message = f"root is {root!r} and group has {len(ranks.lists)} lists; allowed there: None"
        raise ValueError(message)
    numbers = Numbers("add", dtype, rounding, rng, "schedule", out_dtype)
    made, flat = run(
        "broadcast", where, given, ranks, algorithm, numbers, lambda size: size, root=place
    )
    return CollectiveResult(**made, outputs=tuple(out.reshape(given[0].shape) for out in flat))
