"""What the cores of a logical core do together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trn3._trn3.machine import NkiInstruction, NkiTensor, isa
from trn3.nki.isa.constants import dma_engine as dma_engines, engine as engines
from trn3.nki.isa.spellings import engine_name, enum_name
from trn3.nki.ranks.context import context, core
from trn3.nki.ranks.logical import LogicalCore

__all__ = ["core_barrier", "sendrecv"]


def core_barrier(
    data: NkiTensor,
    cores: Sequence[int],
    engine: engines = engines.gpsimd,
    name: str | None = None,
) -> NkiInstruction | None:
    """Wait until every core of a list has come here; with one core, nothing.

    What a core wrote to HBM before the barrier, the other one reads after it. Without one in
    between, use of the same bytes by both, one writing, is a finding (a race).

    Parameters
    ----------
    data : tensor
        In HBM or SBUF. Its uses before the barrier come first, its uses after it wait.
    cores : sequence of int
        ``(0, 1)``; ``(0,)`` waits for nobody.
    engine : nki.isa.engine, optional
        The engine that waits; instructions of others that do not use `data` go on.
    name : str, optional
        Label in profiles.

    Returns
    -------
    NkiInstruction or None
        None where nothing is waited for.

    Raises
    ------
    NkiValidationError
        If the machine has no such instruction (gen2), or `data` is in PSUM.
    ValueError
        If `cores` are not those of the launch.
    DeadlockError
        If the other core does not come here; names both cores' lines.

    Notes
    -----
    Cost: `engine` of each core is held for 1 us (estimate) from when the later one is there.

    Examples
    --------
    Each core writes half of a tensor, and reads the other one's:

    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def swap(x):
    ...     scratch = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     own = nl.program_id(0)
    ...     nisa.dma_copy(scratch[own], x[own])
    ...     nisa.core_barrier(scratch, (0, 1))
    ...     nisa.dma_copy(out[own], scratch[1 - own])
    ...     return out
    >>> swap[2](np.array([[1.0], [2.0]], np.float32)).tolist()
    [[2.0], [1.0]]
    """
    wanted = tuple(cores)
    if len(wanted) == 1 and wanted[0] in (0, 1):
        return None
    running = context()
    logical = running.logical
    have = tuple(range(1 if logical is None else len(logical.cores)))
    if logical is None or tuple(sorted(wanted)) != have:
        message = (
            f"{running.core.line()}: core_barrier cores is {wanted}; the kernel runs on "
            f"{_words(have)}, allowed: {have} or one core alone"
        )
        raise ValueError(message)
    arrival = isa.core_barrier(core(), data, engine=engine_name(engine), name=name)
    return logical.meet(running.core.number, ("core_barrier",), arrival)


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engines = dma_engines.dma,
    name: str | None = None,
    use_gpsimd_dma: bool | None = None,
) -> NkiInstruction | None:
    """Exchange tiles with the other core: its `dst` gets this core's `src`, and the reverse.

    Both cores call it. Both tiles are read before either is written, so that `src` and `dst` may
    be parts of one tile.

    Parameters
    ----------
    src, dst : tensor
        In SBUF, of one shape and element type, on both cores.
    send_to_rank, recv_from_rank : int
        The other core's number, ``1 - nl.program_id(0)``.
    pipe_id : int
        Calls with one number pair up in order; those with another are independent of them.
    dma_engine : nki.isa.dma_engine, optional
        ``dma``: the DMA engines. ``gpsimd_dma``: GpSimdE's own, for at most 256 elements a
        partition.
    name : str, optional
        Label in profiles.
    use_gpsimd_dma : bool, optional
        Older spelling of `dma_engine`.

    Returns
    -------
    NkiInstruction or None
        None where the core went on before the exchange, because the other core is at another pipe;
        `dst` counts as unwritten until then.

    Raises
    ------
    NkiValidationError
        If the machine has no such instruction (gen2), a tile is not in SBUF, the tiles differ in
        shape or type, or are too long for `dma_engine`.
    ValueError
        If the kernel runs on one core, or a rank is not the other core.
    DeadlockError
        If the other core does not come here; names both cores' lines.

    Notes
    -----
    Cost: the exchange starts when both cores are ready; each core's DMA moves its own tile out
    (``gpsimd_dma``: 153 GB/s after 150 cycles, estimate), and it ends on both cores with the later.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.isa as nisa
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def swap(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     own = nl.program_id(0)
    ...     mine = nl.load(x[own:own + 1])
    ...     theirs = nl.ndarray(mine.shape, mine.dtype)
    ...     peer = 1 - own
    ...     nisa.sendrecv(mine, theirs, send_to_rank=peer, recv_from_rank=peer, pipe_id=0)
    ...     nl.store(out[own:own + 1], theirs)
    ...     return out
    >>> swap[2](np.array([[1.0], [2.0]], np.float32)).tolist()
    [[2.0], [1.0]]
    """
    running = context()
    logical = running.logical
    if logical is None:
        message = (
            f"{running.core.line()}: sendrecv in a kernel that runs on one core; allowed: in "
            "kernel[2](...)"
        )
        raise ValueError(message)
    _check_ranks(logical, running.core.number, send_to_rank, recv_from_rank)
    given: Any = pipe_id
    if not isinstance(given, int):
        message = f"{running.core.line()}: sendrecv pipe_id is {pipe_id!r}; allowed: int"
        raise TypeError(message)
    mover = enum_name(dma_engine, dma_engines, "dma_engine")
    if use_gpsimd_dma is not None:
        mover = "gpsimd_dma" if use_gpsimd_dma else "dma"
    arrival = isa.sendrecv(core(), src, dst, dma_engine=mover, name=name)
    return logical.meet(running.core.number, ("sendrecv", pipe_id), arrival)


def _check_ranks(logical: LogicalCore, own: int, send_to: Any, recv_from: Any) -> None:
    peer = 1 - own
    for argument, rank in (("send_to_rank", send_to), ("recv_from_rank", recv_from)):
        if rank != peer:
            message = (
                f"{logical.cores[own].line()}: sendrecv {argument} is {rank!r} on core {own}; "
                f"allowed: {peer}, the other core{logical.whereabouts(peer)}"
            )
            raise ValueError(message)


def _words(cores: tuple[int, ...]) -> str:
    return "one core" if len(cores) == 1 else f"cores {cores}"
