"""Instructions that choose elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.isa.operands import column, plain, unsigned
from trn3.nki.dialects.legacy.issuing import flush
from trn3.nki.dialects.legacy.language import reductions
from trn3.nki.dialects.legacy.lowering import Mask, as_mask, cut
from trn3.nki.dialects.legacy.masking import neutral, stored_where, without
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.dialects.legacy.waiting import WaitingTile
from trn3.nki.isa import constants
from trn3.nki.isa.constants import reduce_cmd
from trn3.nki.language.creation import new_tensor
from trn3.nki.language.tiles import converted, in_sbuf
from trn3.nki.values.element_types import DType, float32, int32, uint16, uint32
from trn3.nki.values.memory_regions import sbuf
from trn3.nki.values.operators import op_name


def _searched(name: str, data: Any, mask: Any) -> tuple[NkiTensor, Mask]:
    """Return the elements to search, the lowest number where a mask leaves them out."""
    tile = require(f"nisa.{name}", "data", data)
    truth = as_mask(mask, tile.shape)
    return without(tile, truth, neutral(f"nisa.{name}", "maximum", tile.dtype)).view, truth


def nc_find_index8(
    *, data: Any, vals: Any, mask: Any = None, dtype: Any = None, name: str | None = None, **_: Any
) -> Tensor:
    """Return the places of eight values in each partition; masked elements hold none of them."""
    tile, truth = _searched("nc_find_index8", data, mask)
    values = require("nisa.nc_find_index8", "vals", vals).view

    def run(dst: NkiTensor) -> None:
        if truth is not False:
            isa.nc_find_index8(dst, tile, values, name)

    left = None if truth is not False else False
    return WaitingTile((tile.shape[0], 8), dtype or uint32, sbuf, run, mask=left)


def nc_match_replace8(
    *, data: Any, vals: Any, imm: float, dst_idx: Any = None, mask: Any = None, dtype: Any = None,
    name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a copy of a tile with one occurrence of each of eight values replaced.

    `dst_idx` receives their places.
    """
    tile, truth = _searched("nc_match_replace8", data, mask)
    values = require("nisa.nc_match_replace8", "vals", vals).view
    places = plain(dst_idx, "dst_idx")

    def run(dst: NkiTensor) -> None:
        if truth is not False:
            isa.nc_match_replace8(dst, tile, values, imm, places, name)

    left = None if truth is True else truth
    made = WaitingTile(tile.shape, dtype or tile.dtype, sbuf, run, mask=left)
    if places is not None:
        flush()
    return made


def tensor_partition_reduce(
    op: Any, data: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None, **_: Any
) -> Tensor:
    """Return a tile reduced over its partitions: (1, ...); masked elements do not take part."""
    tile = require("nisa.tensor_partition_reduce", "data", data)
    truth = as_mask(mask, tile.shape)
    if truth is not True:
        tile = without(tile, truth, neutral("nisa.tensor_partition_reduce", op, tile.dtype))
    view = in_sbuf(tile.view)

    def run(dst: NkiTensor) -> None:
        isa.tensor_partition_reduce(dst, op_name(op), view, name)

    left = False if truth is False else None
    return WaitingTile((1, *tile.shape[1:]), dtype or tile.dtype, sbuf, run, mask=left)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Return a tile with elements zeroed at random."""
    return reductions.dropout(data, prob, dtype, mask)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None,
    *, mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return elements that the index lists of groups of 16 partitions pick."""
    source, places = require("nisa", "src_buffer", src_buffer), require("nisa", "index", index)
    group = 16
    listed = places.size // places.shape[0] * group
    count = listed if num_valid_indices is None else int(num_valid_indices)
    shape = (source.shape[0], count * int(num_elem_per_idx))
    truth = as_mask(mask, shape)
    views = in_sbuf(source.view), in_sbuf(converted(places.view, uint16))

    def run(dst: NkiTensor) -> None:
        isa.local_gather(dst, *views, num_elem_per_idx, num_valid_indices, name)

    left = None if truth is True else truth
    return WaitingTile(shape, source.dtype, sbuf, run, mask=left)


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, mask: Any = None, dtype: Any = None,
    reverse_pred: bool = False, name: str | None = None, **_: Any,
) -> None:  # fmt: skip
    """Copy a tile or a number into `dst` where a predicate holds."""
    del dtype  # that of dst
    target = require("nisa.tensor_copy_predicated", "dst", dst)
    condition = require("nisa.tensor_copy_predicated", "predicate", predicate)
    source = plain(src, "src")
    if isinstance(source, NkiTensor) and source.dtype != target.dtype:
        source = converted(source, target.dtype)
    truth = as_mask(mask, condition.shape)
    if truth is not True:
        # What takes no part is what the predicate leaves.
        condition = without(condition, truth, 1 if reverse_pred else 0)
    isa.tensor_copy_predicated(target.view, source, unsigned(condition.view), reverse_pred, name)


def select_reduce(
    *, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None,
    reduce_cmd: Any = reduce_cmd.idle, reduce_op: Any = "maximum", reverse_pred: bool = False,
    mask: Any = None, dtype: Any = None, name: str | None = None, **_: Any,
) -> None:  # fmt: skip
    """Choose by a predicate into `dst`, and reduce each partition into `reduce_res`."""
    del dtype  # that of dst
    target = require("nisa.select_reduce", "dst", dst)
    condition = require("nisa.select_reduce", "predicate", predicate)
    chosen = require("nisa.select_reduce", "on_true", on_true)
    truth = as_mask(mask, target.shape)
    if truth is False:
        return
    if truth is not True:
        lowest = neutral("nisa.select_reduce", reduce_op, chosen.dtype)
        chosen = without(chosen, truth, lowest)
        condition = without(condition, truth, 0 if reverse_pred else 1)
    where = target.view if truth is True else new_tensor(target.shape, target.dtype)
    isa.select_reduce(
        where, unsigned(condition.view), chosen.view, plain(on_false, "on_false"),
        plain(reduce_res, "reduce_res"), reduce_cmd, reduce_op, reverse_pred, name,
    )  # fmt: skip
    if truth is not True:
        stored_where(target.view, where, np.asarray(truth), cut(target.shape, truth, []))


def range_select(
    *, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any,
    reduce_cmd: Any = reduce_cmd.idle, reduce_res: Any = None, reduce_op: Any = "maximum",
    range_start: int = 0, on_false_value: float = -3.4028234663852886e38, dtype: Any = None,
    mask: Any = None, name: str | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    """Return a tile whose elements lie between bounds by their place; others are filled."""
    tile = require("nisa.range_select", "on_true_tile", on_true_tile)
    left = as_mask(mask, tile.shape)
    tile = without(tile, left, float("-inf"))
    view = tile.view
    low, high = (column(bound, tile.shape[0]) for bound in (bound0, bound1))
    total = plain(reduce_res, "reduce_res")
    command = reduce_cmd
    if total is None:
        # The instruction always reduces; here into running values that nothing reads.
        command = constants.reduce_cmd.reset_reduce

    def run(dst: NkiTensor) -> None:
        if left is False:
            return
        isa.range_select(
            dst, view, comp_op0, comp_op1, low, high, command, total, reduce_op,
            int(range_start), on_false_value, name,
        )  # fmt: skip

    rest = None if left is True else left
    made = WaitingTile(tile.shape, dtype or tile.dtype, sbuf, run, mask=rest)
    if total is not None:
        flush()
    return made


def sequence_bounds(
    *, segment_ids: Any, mask: Any = None, dtype: Any = None, name: str | None = None, **_: Any
) -> Tensor:
    """Return starts and ends of segments: (1, 2, n); masked elements are padding."""
    tile = require("nisa.sequence_bounds", "segment_ids", segment_ids)
    truth = as_mask(mask, tile.shape)
    view = in_sbuf(without(tile, truth, 0).view)
    if view.dtype not in (int32, float32):
        view = converted(view, int32 if view.dtype.is_integer else float32)
    wanted: DType = dtype or view.dtype

    def run(dst: NkiTensor) -> None:
        isa.sequence_bounds(dst, view, name)

    left: Any = None
    if truth is not True:
        left = truth if isinstance(truth, bool) else np.asarray(truth).reshape((1, 1, -1))
    return WaitingTile((1, 2, tile.shape[-1]), wanted, sbuf, run, mask=left)


__all__ = [
    "dropout", "local_gather", "nc_find_index8", "nc_match_replace8", "range_select",
    "select_reduce", "sequence_bounds", "tensor_copy_predicated", "tensor_partition_reduce",
]  # fmt: skip
