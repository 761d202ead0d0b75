"""Instructions that choose elements."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dtypes import uint32
from trn3.nki.isa import constants
from trn3.nki.isa.constants import reduce_cmd
from trn3.nki.language.tiles import in_sbuf
from trn3.nki.legacy.isa.operands import plain, require_unmasked
from trn3.nki.legacy.issuing import flush
from trn3.nki.legacy.language import reductions
from trn3.nki.legacy.lowering import as_mask
from trn3.nki.legacy.tensors import Result, Tensor, require
from trn3.nki.memory import sbuf


def nc_find_index8(*, data: Any, vals: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return the places of eight values in each partition."""
    tile, values = require("nisa", "data", data).view, require("nisa", "vals", vals).view

    def run(dst: NkiTensor) -> None:
        isa.nc_find_index8(dst, tile, values)

    return Result((tile.shape[0], 8), dtype or uint32, sbuf, run)


def nc_match_replace8(
    *, data: Any, vals: Any, imm: float, dst_idx: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """Return a copy of a tile with one occurrence of each of eight values replaced."""
    tile, values = require("nisa", "data", data).view, require("nisa", "vals", vals).view
    places = plain(dst_idx, "dst_idx")

    def run(dst: NkiTensor) -> None:
        isa.nc_match_replace8(dst, tile, values, imm, places)

    made = Result(tile.shape, dtype or tile.dtype, sbuf, run)
    if places is not None:
        flush()
    return made


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """Return a tile reduced over its partitions: (1, ...)."""
    tile = require("nisa.tensor_partition_reduce", "data", data)
    require_unmasked("tensor_partition_reduce", mask, tile)
    view = in_sbuf(tile.view)

    def run(dst: NkiTensor) -> None:
        isa.tensor_partition_reduce(dst, op, view)

    return Result((1, *tile.shape[1:]), dtype or tile.dtype, sbuf, run)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return a tile with elements zeroed at random."""
    return reductions.dropout(data, prob, dtype, mask)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None,
    *, mask: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return elements that the index lists of groups of 16 partitions pick."""
    source, places = require("nisa", "src_buffer", src_buffer), require("nisa", "index", index)
    require_unmasked("local_gather", mask, source)
    group = 16
    listed = places.size // places.shape[0] * group
    count = listed if num_valid_indices is None else int(num_valid_indices)
    views = source.view, places.view
    shape = (source.shape[0], count * int(num_elem_per_idx))

    def run(dst: NkiTensor) -> None:
        isa.local_gather(dst, *views, num_elem_per_idx, num_valid_indices)

    return Result(shape, source.dtype, sbuf, run)


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, mask: Any = None, reverse_pred: bool = False, **_: Any
) -> None:
    """Copy a tile or a number into `dst` where a predicate holds."""
    target = require("nisa.tensor_copy_predicated", "dst", dst)
    condition = require("nisa.tensor_copy_predicated", "predicate", predicate)
    require_unmasked("tensor_copy_predicated", mask, target)
    source = plain(src, "src")
    isa.tensor_copy_predicated(target.view, source, condition.view, reverse_pred)


def select_reduce(
    *, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle, reduce_op: Any = "maximum", reverse_pred: bool = False,
    mask: Any = None, **_: Any,
) -> None:  # fmt: skip
    """Choose by a predicate into `dst`, and reduce each partition into `reduce_res`."""
    target = require("nisa.select_reduce", "dst", dst)
    require_unmasked("select_reduce", mask, target)
    isa.select_reduce(
        target.view, plain(predicate, "predicate"), plain(on_true, "on_true"),
        plain(on_false, "on_false"), plain(reduce_res, "reduce_res"), reduce_cmd, reduce_op,
        reverse_pred,
    )  # fmt: skip


def range_select(
    *, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any,
    reduce_cmd: Any = reduce_cmd.idle, reduce_res: Any = None, reduce_op: Any = "maximum",
    range_start: int = 0, on_false_value: float = -3.4028234663852886e38, dtype: Any = None,
    mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile whose elements lie between bounds by their place; others are filled."""
    tile = require("nisa.range_select", "on_true_tile", on_true_tile)
    left = as_mask(mask, tile.shape)
    view, low, high = tile.view, plain(bound0, "bound0"), plain(bound1, "bound1")
    total = plain(reduce_res, "reduce_res")
    command = reduce_cmd
    if total is None:
        # The instruction always reduces; here into running values that nothing reads.
        command = constants.reduce_cmd.reset_reduce

    def run(dst: NkiTensor) -> None:
        if left is False:
            return
        isa.range_select(
            dst, view, comp_op0, comp_op1, low, high, command, total, reduce_op, range_start,
            on_false_value, name,
        )  # fmt: skip

    rest = None if left is True else left
    made = Result(tile.shape, dtype or tile.dtype, sbuf, run, mask=rest)
    if total is not None:
        flush()
    return made


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Return starts and ends of segments: (1, 2, n)."""
    tile = require("nisa.sequence_bounds", "segment_ids", segment_ids)
    view = tile.view

    def run(dst: NkiTensor) -> None:
        isa.sequence_bounds(dst, view)

    return Result((1, 2, tile.shape[-1]), dtype or tile.dtype, sbuf, run)
