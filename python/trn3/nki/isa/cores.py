"""What the cores of a logical core do together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from trn3._trn3.machine import NkiTensor
from trn3.nki.isa.constants import dma_engine as dma_engines, engine as engines

__all__ = ["core_barrier", "sendrecv"]


def core_barrier(
    data: NkiTensor,
    cores: Sequence[int],
    engine: engines = engines.gpsimd,
    name: str | None = None,
) -> None:
    """Wait until every core of a list has come here; with one core, nothing.

    Parameters
    ----------
    data : tensor
        Whose accesses are ordered.
    cores : sequence of int
        ``(0,)``. Several cores are not modelled yet.
    engine : nki.isa.engine, optional
        The engine that waits.
    name : str, optional
        Label in profiles.

    Raises
    ------
    NotImplementedError
        For more than one core.
    """
    del data, engine, name
    if tuple(cores) != (0,):
        message = f"nki.isa.core_barrier of cores {tuple(cores)}: LNC=2 is not modelled yet"
        raise NotImplementedError(message)


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: int,
    dma_engine: dma_engines = dma_engines.dma,
    name: str | None = None,
) -> NoReturn:
    """Exchange tiles with the other core of a logical core: not modelled yet.

    Raises
    ------
    NotImplementedError
        Always.
    """
    del src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine, name
    message = "nki.isa.sendrecv: LNC=2 is not modelled yet"
    raise NotImplementedError(message)
