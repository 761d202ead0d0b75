"""Functions that combine with what others hold: HBM in place, other program instances."""

from __future__ import annotations

import itertools
from typing import Any

from trn3.nki import isa
from trn3.nki.dialects.legacy.indexing import Access
from trn3.nki.dialects.legacy.issuing import error, flush, line
from trn3.nki.dialects.legacy.language.elementwise import binary, copy
from trn3.nki.dialects.legacy.lowering import Stretched, as_mask, cut
from trn3.nki.dialects.legacy.pieces import Box
from trn3.nki.dialects.legacy.views import Tensor, View, require
from trn3.nki.language.creation import fill, new_tensor
from trn3.nki.language.loop_marks import end_loops
from trn3.nki.language.tiles import converted, in_sbuf, number
from trn3.nki.ranks.context import Context, context
from trn3.nki.values.memory_regions import is_hbm
from trn3.nki.values.operators import op_name


def atomic_rmw(dst: Any, value: Any, op: Any, *, mask: Any = None, **_: Any) -> None:
    """Combine a tile, or a number, with elements of a tensor in HBM: ``dst = dst op value``.

    Rows that an index tile picks are combined one after the other: one picked twice, twice. Sums
    are of DMA; for other operators the elements are loaded, combined and stored (**choice**).

    Parameters
    ----------
    dst : tensor in HBM
    value : tile or number
    op : operator of `nki.language`
        That VectorE has for two tiles.
    mask : index comparison, optional
        Elements elsewhere keep what they hold.
    """
    target = require("nl.atomic_rmw", "dst", dst, on_chip=False)
    if not is_hbm(target.buffer):
        message = f"nl.atomic_rmw dst lies in {target.buffer}; allowed: HBM"
        raise error(ValueError, message)
    name = op_name(op)
    flush()
    constant = number(value)
    if constant is None:
        source = require("nl.atomic_rmw", "value", value)
        tile = in_sbuf(source.view)
        source = View(tile if tile.dtype == target.dtype else converted(tile, target.dtype))
    else:
        filled = new_tensor(target.shape, target.dtype)
        fill(filled, constant)
        source = View(filled)
    if source.ndim != target.ndim and source.size == target.size:
        source = source.reshape(target.shape)
    stretched = Stretched(source, target.shape)
    picks = isinstance(target, Access) and target.picks_rows
    for box in cut(target.shape, as_mask(mask, target.shape), [target, stretched]):
        for part in _rows(box) if picks else (box,):
            there, own = target.resolve(part), stretched.resolve(part)
            if name == "add":
                isa.dma_compute(there, [there, own], "add")
                continue
            shape = [each.stop - each.start for each in part]
            held, moved = (new_tensor(shape, target.dtype) for _ in range(2))
            isa.dma_copy(held, there)
            isa.dma_copy(moved, own)
            isa.tensor_tensor(held, held, moved, name)
            isa.dma_copy(there, held)


def _rows(box: Box) -> list[Box]:
    return [(slice(row, row + 1), *box[1:]) for row in range(box[0].start, box[0].stop)]


def all_reduce(
    x: Any, op: Any, program_axes: Any, loop_axes: Any = (), dtype: Any = None, mask: Any = None,
    **_: Any,
) -> Tensor:  # fmt: skip
    """Reduce a tile over program instances; each of them gets the result.

    Parameters
    ----------
    x : tile
    op : operator of `nki.language`
    program_axes : int or tuple of int
        Axes of the launch grid whose instances take part, in ascending order. They are to run on
        one core.
    loop_axes : optional
        None: iterations of a loop are reduced by `loop_reduce`.
    dtype, optional
        Element type of the result; x's by default.
    mask : index comparison, optional
        Elsewhere the result is left as it comes.

    Raises
    ------
    NotImplementedError
        Over instances on several cores, and over loops.
    DeadlockError
        If one of the instances never calls it.
    """
    tile = require("nl.all_reduce", "x", x)
    given = program_axes if isinstance(program_axes, (tuple, list)) else (program_axes,)
    axes = tuple(int(axis) for axis in given)
    running = context()
    if any(not 0 <= axis < len(running.grid) for axis in axes):
        message = (
            f"nl.all_reduce program_axes is {axes}; allowed: axes of the launch grid {running.grid}"
        )
        raise error(ValueError, message)
    if loop_axes:
        message = "nl.all_reduce loop_axes; allowed: none. nl.loop_reduce reduces over loops"
        raise error(NotImplementedError, message)
    parts = _parts(running, tile, axes)
    total: Tensor = parts[0]
    for part in parts[1:]:
        total = View(binary(op_name(op), total, part, tile.dtype, None).view)
    return copy(total, dtype=dtype, mask=mask)


def _parts(running: Context, tile: Tensor, axes: tuple[int, ...]) -> list[Tensor]:
    """Return the tiles of all instances along some axes, this one's among them."""
    lengths = [running.grid[axis] for axis in axes]
    members = []
    for place in itertools.product(*map(range, lengths)):
        ids = list(running.program_ids)
        for axis, index in zip(axes, place, strict=True):
            ids[axis] = index
        members.append(tuple(ids))
    own = View(copy(tile).view)
    if len(members) == 1:
        return [own]
    turns = running.turns
    if turns is None or not set(members) <= turns.board["members"]:
        message = f"nl.all_reduce over program axes {axes}, whose instances run on several cores"
        raise error(NotImplementedError, f"{message}; allowed: a launch grid without nl.nc there")
    calls = turns.board.setdefault(("calls", running.program_ids), itertools.count())
    meeting = turns.board.setdefault((axes, members[0], next(calls)), {})
    meeting[running.program_ids] = own
    place_of = line()

    def where() -> str:
        missing = ", ".join(str(ids) for ids in members if ids not in meeting)
        return f"{place_of}: nl.all_reduce of program {running.program_ids} waits for {missing}"

    # Others run on the core meanwhile, in loops of their own; those of this one begin anew.
    end_loops(running)
    turns.wait(running.instance, lambda: len(meeting) == len(members), where)
    return [meeting[ids] for ids in members]
