"""Random numbers on the core's own generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import ndarray
from trn3.nki.language.tiles import require_tile, result_like
from trn3.nki.ranks.context import current_figures
from trn3.nki.typing import DTypeLike
from trn3.nki.values.element_types import canonicalise, float32, uint32
from trn3.nki.values.memory_regions import Buffer, sbuf

# A draw's upper 24 bits are a float32 exactly.
_DROPPED_BITS = 8
_UNIT = 2.0**-24


def rand(
    shape: Sequence[SupportsIndex],
    dtype: DTypeLike = float32,
    buffer: Buffer = sbuf,
    name: str | None = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """Return a new tile of uniform random numbers from 0 to below 1.

    On gen4 by ``nki.isa.rand2``; before, 24 bits of ``nki.isa.rng`` scaled. VectorE's generator is
    seeded by `random_seed`.

    Parameters
    ----------
    shape : sequence of int
        Partitions first.
    dtype, optional
        A float type.
    buffer, name, address
        As of `nki.language.ndarray`.

    Raises
    ------
    TypeError
        If `dtype` is no float type.
    """
    wanted = canonicalise(dtype)
    if not wanted.is_float or wanted.is_packed:
        message = f"nl.rand dtype is {wanted}; allowed: unpacked float types"
        raise TypeError(message)
    result = ndarray(shape, wanted, buffer, name, address)
    if current_figures().generation >= 4:
        isa.rand2(result, 0.0, 1.0)
        return result
    draws = ndarray(shape, uint32)
    isa.rng(draws)
    isa.tensor_scalar(draws, draws, "right_shift", _DROPPED_BITS)
    isa.tensor_scalar(result, draws, "multiply", _UNIT)
    return result


def random_seed(seed: NkiTensor | int) -> None:
    """Seed VectorE's generator; equal seeds give equal sequences.

    Parameters
    ----------
    seed : tile of one 32-bit integer, in SBUF or PSUM; or int
        An int is set into a tile first (**choice**).
    """
    if isinstance(seed, int):
        tile = ndarray((1, 1), uint32)
        isa.memset(tile, seed)
        seed = tile
    isa.set_rng_seed(seed)


def dropout(x: NkiTensor, rate: float | NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x with elements zeroed at random; the others keep their value (**choice**).

    Parameters
    ----------
    x : tile
    rate : float, or tile [P, 1]
        Probability of a zero, from 0 to 1.
    dtype, optional
        Element type of the result; x's by default.
    """
    tile = require_tile("dropout", "x", x)
    result = result_like(tile, None, tile.dtype)
    isa.dropout(result, tile, rate)
    if dtype is None or canonicalise(dtype) == tile.dtype:
        return result
    final = ndarray(tile.shape, dtype)
    isa.tensor_copy(final, result)
    return final
