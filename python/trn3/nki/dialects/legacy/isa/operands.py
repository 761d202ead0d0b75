"""What instructions do with operands that are numbers or columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dialects.legacy.issuing import error
from trn3.nki.dialects.legacy.lowering import as_mask
from trn3.nki.dialects.legacy.views import Tensor, require
from trn3.nki.language.creation import new_tensor
from trn3.nki.language.tiles import converted, in_sbuf, number
from trn3.nki.values.element_types import float32, uint8, uint16, uint32
from trn3.nki.values.memory_regions import is_psum
from trn3.nki.values.operators import op_name


def plain(value: Any, argument: str) -> Any:
    """Return an operand that is a number, or a tile of one column, as the machine takes it."""
    if value is None:
        return None
    constant = number(value)
    return constant if constant is not None else require("nisa", argument, value).view


def _is_column(value: Any, tile: Tensor) -> bool:
    return value.size == value.shape[0] and value.shape[0] in (1, tile.shape[0])


def as_column(value: Any, tile: Tensor, argument: str) -> tuple[list[Tensor], float | None]:
    """Return a tile operand for `compute`, or a number."""
    constant = number(value)
    if value is None or constant is not None:
        return [], constant
    operand = require("nisa", argument, value)
    if not _is_column(operand, tile):
        message = (
            f"nisa {argument} has shape {operand.shape}; allowed: a number, or a tile "
            f"({tile.shape[0]}, 1)"
        )
        raise error(ValueError, message)
    if operand.ndim != tile.ndim:
        operand = operand.reshape((operand.shape[0], *(1,) * (tile.ndim - 1)))
    return [operand], None


def one_column(view: NkiTensor) -> NkiTensor:
    """Return the first element of each partition: what stretching repeated."""
    while view.ndim > 2:
        view = view[..., 0]
    return view[:, 0:1]


def apart(one: NkiTensor, other: NkiTensor) -> NkiTensor:
    """Return the second operand where VectorE can read it beside the first: not both in PSUM."""
    return in_sbuf(other) if is_psum(one) and is_psum(other) else other


def wide(column: NkiTensor, op: Any) -> NkiTensor:
    """Return a column of the type that arithmetic wants: float32."""
    name = op_name(op)
    if column.dtype == float32 or name.startswith("bitwise") or name.endswith("shift"):
        return column
    wide = new_tensor(column.shape, float32)
    isa.tensor_copy(wide, column)
    return wide


def column(value: Any, partitions: int) -> NkiTensor:
    """Return an operand of one float32 column; a number fills one."""
    constant = number(value)
    if constant is None:
        tile = in_sbuf(require("nisa", "bound", value).view)
        return tile if tile.dtype == float32 else converted(tile, float32)
    made = new_tensor((partitions, 1), float32)
    isa.memset(made, constant)
    return made


def unsigned(predicate: NkiTensor) -> NkiTensor:
    """Return a predicate of a type that engines test: others are compared with 0."""
    if predicate.dtype in (uint8, uint16, uint32):
        return predicate
    made = new_tensor(predicate.shape, uint8)
    isa.tensor_scalar(made, predicate, "not_equal", 0)
    return made


def require_prefixes(name: str, mask: Any, shape: tuple[int, ...]) -> None:
    """Refuse a mask over running results that leaves out what comes before others in a row.

    Raises
    ------
    NotImplementedError
        For such a mask.
    """
    truth = as_mask(mask, shape)
    if isinstance(truth, bool):
        return
    rows = np.asarray(truth).reshape((shape[0], -1))
    if (rows[:, 1:] & ~rows[:, :-1]).any():
        message = f"nisa.{name} mask leaves out the start or the middle of a row; allowed: its end"
        raise error(NotImplementedError, message)
