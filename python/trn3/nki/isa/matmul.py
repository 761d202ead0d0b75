"""TensorE: products of SBUF tiles into PSUM, and transposes through the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from trn3._trn3.machine import NkiInstruction, NkiTensor, NkiValidationError, isa
from trn3.nki.isa.constants import engine as engines, matmul_perf_mode as perf_modes
from trn3.nki.isa.spellings import enum_name
from trn3.nki.ranks.context import core

__all__ = ["nc_matmul", "nc_matmul_mx", "nc_matmul_sparse", "nc_transpose"]

_Tile: TypeAlias = tuple[tuple[int, int], tuple[int, int]]

#: What nearly every product is given, whose name needs no search.
_ORDINARY: Final = perf_modes.none


def _tile(
    instruction: str, position: Sequence[int] | None, size: Sequence[int] | None
) -> _Tile | None:
    if not position and not size:
        return None
    if not position or not size:
        missing, given = (
            ("tile_size", "tile_position") if position else ("tile_position", "tile_size")
        )
        message = (
            f"{core().line()}: {instruction} {missing} is missing; {given} came, both or neither"
        )
        raise NkiValidationError(message)
    if len(position) != 2 or len(size) != 2:
        message = (
            f"{core().line()}: {instruction} tile_position is {tuple(position)}, tile_size "
            f"{tuple(size)}; allowed: a row and a column each"
        )
        raise NkiValidationError(message)
    return (position[0], position[1]), (size[0], size[1])


def nc_matmul(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    perf_mode: perf_modes | str | None = perf_modes.none,
    name: str | None = None,
) -> NkiInstruction:
    """Multiply two tiles on TensorE.

    ``dst[m, n] (+)=`` the sum over k of ``stationary[k, m] * moving[k, n]``.

    Each output element is one chain of fused float32 steps, ``s = fma(a_k, b_k, s)``, over the
    partitions in ascending order; with ``double_row`` the two halves of a partition follow one
    another (**choice**). The chain's result joins PSUM by one float32 addition (**choice**), which
    a bfloat16 `dst` then rounds once. Float32 operands take the same chain (**choice**).

    Parameters
    ----------
    dst : tensor, [M, N]
        In PSUM; float32, or from gen4 on also bfloat16. Before gen4 within one bank.
    stationary : tensor, [K, M]
        In SBUF; K and M at most 128. float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32 or
        float32, from gen4 on also float8_e4m3fn. With ``double_row`` [K / 2, 2, M].
    moving : tensor, [K, N]
        In SBUF; N at most 512, on gen4 4096 for a float32 and 8192 for a bfloat16 `dst`. Any of the
        types of `stationary`, but float32 and tfloat32 only with each other, and float8_e4m3 never
        with float8_e4m3fn. Free axes are flattened. With ``double_row`` [K / 2, 2, N].
    is_stationary_onezero, is_moving_onezero : bool, optional
        Says that a float32 operand holds zeros and ones alone: half the passes, the same values.
    is_transpose : bool, optional
        From gen3 on: moves the bits of `stationary` into ``dst[m, k]``; `moving` is an identity
        matrix, `dst` has the type of `stationary`. fp8 elements arrive in 16 bits whose upper byte
        is zero: `dst` has a 16-bit type, or fp8 elements two bytes apart. On gen2 a label alone.
    accumulate : bool, optional
        False overwrites, True adds, None adds where an earlier matmul wrote since the allocation of
        `dst`, element by element, and overwrites elsewhere. True where none wrote is a finding.
    tile_position, tile_size : (row, column), optional
        A part of the array: both or neither. Sizes are 32, 64 or 128 (32 rows from gen3 on),
        positions multiples of them. Operands lie on the partitions of its rows, `dst` on those of
        its columns. Tiles that do not overlap run side by side.
    perf_mode : nki.isa.matmul_perf_mode or its name, optional
        ``double_row`` (gen3 on): two fp8 rows in each cell.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks one of the rules above.

    Notes
    -----
    Cost: ``max(min(64, M), N)`` cycles, times 4 for float32, 2 with a onezero hint (public
    documentation; the hints: estimate); a load of M / 4 cycles, hidden behind the matmul before.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def product(a, b):
    ...     tiles = [nl.ndarray(x.shape, x.dtype) for x in (a, b)]
    ...     for tile, x in zip(tiles, (a, b)):
    ...         nisa.dma_copy(tile, x)
    ...     result = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    ...     nisa.nc_matmul(result, *tiles)
    ...     copy = nl.ndarray(result.shape, nl.float32)
    ...     nisa.tensor_copy(copy, result)
    ...     out = nl.ndarray(result.shape, nl.float32, buffer=nl.shared_hbm)
    ...     nisa.dma_copy(out, copy)
    ...     return out
    >>> product(np.eye(2, dtype=np.float32), np.array([[1, 2], [3, 4]], np.float32)).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    is_double_row = (
        perf_mode is not _ORDINARY
        and perf_mode is not None
        and enum_name(perf_mode, perf_modes, "perf_mode") == "double_row"
    )
    tile = _tile("nc_matmul", tile_position, tile_size) if tile_position or tile_size else None
    return isa.nc_matmul(
        core(), dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose,
        accumulate, tile, is_double_row, name
    )  # fmt: skip


def nc_matmul_mx(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile_position: Sequence[int] | None = None,
    tile_size: Sequence[int] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Multiply two block-scaled tiles on TensorE (gen4).

    ``dst[m, n] (+)=`` the sum over partitions p and lanes q of ``stationary[p, m][q] * 2**(
    stationary_scale - 127) * moving[p, n][q] * 2**(moving_scale - 127)``: one chain over the exact
    products of element and scale, partitions ascending and in each the lanes 0 to 3 (**choice**).
    Scale byte 255 is NaN (**choice**).

    Parameters
    ----------
    dst : tensor, [M, N]
        In PSUM, float32 or bfloat16.
    stationary : tensor, [P, M]
        In SBUF, float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4; P a multiple of 32 up to 128,
        M even and at most 128.
    moving : tensor, [P, N]
        Likewise; the types of the two may differ. N at most 4096, or 8192 for a bfloat16 `dst`.
    stationary_scale, moving_scale : tensor
        float8_e8m0fnu or uint8 in SBUF. For P = 32 [4, F]; else [P, F], of which the rows 0 to 3 of
        each quadrant count: row r of quadrant q scales the eight data partitions from 32 q + 8 r.
        A view that starts at partition 4, 8 or 12 of a quadrant has that many partitions fewer.
    tile_position, tile_size : (row, column), optional
        Rows of the array, both or neither; the column size is 128.
    accumulate : bool, optional
        As for `nc_matmul`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks one of the rules above, or before gen4.

    Notes
    -----
    Cost: ``max(min(64, M), N)`` cycles for a contraction four times as deep (estimate: the
    documents give four times the throughput of bfloat16).
    """
    tile = _tile("nc_matmul_mx", tile_position, tile_size)
    return isa.nc_matmul_mx(
        core(), dst, stationary, moving, stationary_scale, moving_scale, tile, accumulate, name
    )


def nc_matmul_sparse(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    tags: NkiTensor,
    pattern: str,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Multiply by a compressed stationary tile on TensorE (gen3 on).

    This instruction is trn3's own: the hardware's array has the mode, the vendor's public
    instruction set does not show it.

    A pattern ``"M:N"`` keeps at most M of each N rows of the contraction; its ratio is N / M.
    Partition p of `moving` holds the dense rows ``ratio * p`` to ``ratio * p + ratio - 1``, so that
    the N dense rows of a group lie on the M partitions whose stationary rows are its slots
    (**choice**). Values are those of `trn3.numerics.matmul_sparse`: places that are not kept, and
    slots whose value is zero, contribute nothing.

    Parameters
    ----------
    dst : tensor, [M, N]
        In PSUM; float32, or on gen4 also bfloat16.
    stationary : tensor, [P, M]
        In SBUF: the kept values, P a multiple of the pattern's kept places. float16, bfloat16 or
        tfloat32, on gen3 also float8_e4m3 and float8_e5m2.
    moving : tensor, [P, ratio, N]
        In SBUF: every dense row; types as `stationary`, tfloat32 only with itself.
    tags : tensor, [P, ceil(M / 4)], uint16
        In SBUF: bits 4 (m % 4) of ``tags[p, m // 4]`` are the position in its group of slot p of
        column m (**choice**).
    pattern : str
        ``"4:16"``, ``"4:12"``, ``"4:8"``; on gen4 also ``"2:8"``, ``"2:4"``, ``"1:4"``, ``"1:2"``.
    accumulate : bool, optional
        As for `nc_matmul`.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If an operand breaks one of the rules above.
    ValueError
        If a position lies outside its group, or one comes twice with nonzero values.

    Notes
    -----
    Cost: that of `nc_matmul` for the compressed contraction (**choice**).
    """
    return isa.nc_matmul_sparse(
        core(), dst, stationary, moving, tags, str(pattern), accumulate, name
    )


def nc_transpose(
    dst: NkiTensor,
    data: NkiTensor,
    engine: engines | Any = engines.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Exchange partitions and free axis: ``dst[f, p] = data[p, f]``, free axes flattened.

    Bits are moved, but on gen2's TensorE: there data passes as a product with an identity, so that
    NaN and infinities spread over their row of `dst`.

    Parameters
    ----------
    dst : tensor, [F, P]
        In PSUM for TensorE, in SBUF or PSUM for VectorE; of the type of `data`. Elements of one
        byte through TensorE: gen3 moves them in 16 bits whose upper byte is zero, so that `dst` has
        a 16-bit type, or the data's two bytes apart; gen4 also leaves them as they are, in a `dst`
        of the data's type (the public documentation names 16 bits for gen3 alone).
    data : tensor, [P, F]
        In SBUF, up to 128 x 128, for TensorE; in SBUF or PSUM, up to 32 x 32, for VectorE.
    engine : nki.isa.engine, optional
        ``tensor`` or ``vector``; ``unknown`` means ``tensor`` where `dst` is in PSUM, else
        ``vector`` (public documentation: chosen by the memory of `dst`).
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction

    Raises
    ------
    NkiValidationError
        If the tile is too large for the engine, or an operand breaks another rule.

    Notes
    -----
    Cost: TensorE ``max(P, min(64, F))`` cycles, for 4-byte types times 4 on gen2 and 2 from gen3
    on; on gen4 transposes hold the array half as long (estimate). VectorE ``max(64, F)``.
    """
    return isa.nc_transpose(core(), dst, data, engine, name)
