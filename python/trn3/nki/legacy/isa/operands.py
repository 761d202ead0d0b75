"""What instructions do with operands that are numbers or columns."""

from __future__ import annotations

from typing import Any

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.dtypes import float32
from trn3.nki.isa._call import op_name
from trn3.nki.language.tiles import number
from trn3.nki.legacy.issuing import error
from trn3.nki.legacy.lowering import as_mask
from trn3.nki.legacy.tensors import Tensor, require
from trn3.nki.memory import new_tensor


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


def wide(column: NkiTensor, op: Any) -> NkiTensor:
    """Return a column of the type that arithmetic wants: float32."""
    name = op_name(op)
    if column.dtype == float32 or name.startswith("bitwise") or name.endswith("shift"):
        return column
    wide = new_tensor(column.shape, float32)
    isa.tensor_copy(wide, column)
    return wide


def require_unmasked(name: str, mask: Any, tile: Tensor) -> None:
    """Refuse a mask that leaves anything out.

    Raises
    ------
    NotImplementedError
        For such a mask.
    """
    if as_mask(mask, tile.shape) is not True:
        message = f"nisa.{name} mask; allowed: none. Mask what is made of the result"
        raise error(NotImplementedError, message)
