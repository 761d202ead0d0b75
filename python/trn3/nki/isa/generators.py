"""Random numbers of VectorE and GpSimdE, and the state of their generators.

Both are `trn3.numerics.Xorwow`, one generator for each partition, on VectorE of gen4 four of them;
before gen4 VectorE's generator is undocumented, Xorwow is this model's (**choice**). An instruction
takes the generators of all partitions ahead, those outside its tile too (**choice**).
"""

from __future__ import annotations

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import engine as engines
from trn3.nki.ranks.context import core

__all__ = ["rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed"]


def rng(
    dst: NkiTensor, engine: engines = engines.vector, name: str | None = None
) -> NkiInstruction:
    """Fill a tile with random bits; types of 8 and 16 bits keep the low ones of each draw.

    Parameters
    ----------
    dst : tensor, [P, ...]
        Of an integer type; in SBUF or PSUM, for ``gpsimd`` in SBUF.
    engine : nki.isa.engine, optional
        ``vector``, or ``gpsimd`` from gen3 on.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: N cycles, on VectorE of gen4 N / 4 (estimate).
    """
    return isa.rng(core(), dst, engine, name)


def rand2(
    dst: NkiTensor,
    min: float | NkiTensor,
    max: float | NkiTensor,
    name: str | None = None,
) -> NkiInstruction:
    """Fill a tile with uniform random numbers from `min` to `max` (gen4).

    ``min + (max - min) * ((draw >> 8) * 2**-24)`` in float32, then cast (**choice**).

    Parameters
    ----------
    dst : tensor, [P, ...]
        In SBUF or PSUM, of an unpacked type.
    min, max : float or tensor, [P, 1]
        `min` below `max`.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: ``max(64, N / 4)`` cycles (public documentation: four numbers a cycle).
    """
    return isa.rand2(core(), dst, min, max, name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed VectorE's generators from one word, as `trn3.numerics.Xorwow.seed` does (**choice**).

    Parameters
    ----------
    src_seeds : tensor, [1, 1]
        In SBUF or PSUM, of 32 bits.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 64 cycles (estimate).
    """
    return isa.set_rng_seed(core(), src_seeds, name)


def rand_set_state(
    src_seeds: NkiTensor, engine: engines = engines.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Set the state of generators, one partition of the tile each.

    Parameters
    ----------
    src_seeds : tensor, uint32
        In SBUF: [P, 6] for ``gpsimd``, [P, 24] for ``vector``; words as in
        `trn3.numerics.Xorwow.state` (**choice**).
    engine : nki.isa.engine, optional
        ``gpsimd`` from gen3 on, ``vector`` on gen4.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.
    ValueError
        If the first five words of a generator are all zero.

    Notes
    -----
    Cost: 64 cycles (estimate).
    """
    return isa.rand_set_state(core(), src_seeds, engine, name)


def rand_get_state(
    dst: NkiTensor, engine: engines = engines.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Store the state of generators, one partition of the tile each.

    Parameters
    ----------
    dst : tensor, uint32
        [P, 6] in SBUF for ``gpsimd``, [P, 24] in SBUF or PSUM for ``vector``.
    engine : nki.isa.engine, optional
        ``gpsimd`` from gen3 on, ``vector`` on gen4.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NkiValidationError
        If a rule above is broken.

    Notes
    -----
    Cost: 64 cycles (estimate).
    """
    return isa.rand_get_state(core(), dst, engine, name)
