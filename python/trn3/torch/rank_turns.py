"""Programs of several ranks, a thread each, of which one runs at a time until all meet."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch

from trn3.graph import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RankSeat", "current_seat", "take_turns"]

_SEAT: ContextVar[RankSeat | None] = ContextVar("seat", default=None)


def current_seat() -> RankSeat | None:
    """Return the seat of the rank that runs; None outside of `trn3.torch.run_on_ranks`."""
    return _SEAT.get()


class _Abandoned(BaseException):
    """Ends a rank that nobody waits for any more."""


class RankSeat:
    """One rank's place in a run.

    Attributes
    ----------
    rank : int
    backends : list
        What compiles for this rank alone: what torch captured for one rank is not another one's.
    """

    def __init__(self, rank: int, step: Callable[[int], Any]) -> None:
        self.rank = rank
        self.backends: list[Any] = []
        self.call: Any = None
        self.taken: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        self._is_abandoned = False
        self._step = step
        self._random = torch.get_rng_state()
        self._turn, self._pause = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"rank {rank}", daemon=True)

    def start(self) -> None:
        """Make the rank's thread, which waits for its turn."""
        self._thread.start()

    def meet(self, call: Any) -> Any:
        """Bring something to all other ranks; what the rank takes comes back."""
        if not self._is_abandoned:
            self.call = call
            self._pause.release()
            self._turn.acquire()
        if self._is_abandoned:
            raise _Abandoned
        return self.taken

    def go_on(self) -> None:
        """Let the rank run until it meets others or ends, with random numbers of its own."""
        torch.set_rng_state(self._random)
        self._turn.release()
        self._pause.acquire()
        self._random = torch.get_rng_state()

    def abandon(self) -> None:
        """End the rank."""
        self._is_abandoned = True
        if not self.has_ended:
            self._turn.release()
            self._thread.join()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._is_abandoned:
                _SEAT.set(self)
                self.result = self._step(self.rank)
        except BaseException as error:
            self.error = error
        finally:
            self.has_ended = True
            self._pause.release()


def take_turns(
    step: Callable[[int], Any], ranks: int, exchange: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    """Run a function of the rank on all ranks.

    Parameters
    ----------
    step : callable
        Of a rank; it calls ``current_seat().meet``.
    ranks : int
    exchange : callable
        Of what all ranks brought to a meeting, what each takes.

    Returns
    -------
    list
        What `step` gave, by rank.

    Raises
    ------
    GraphError
        If a rank waits for others that do not come.

    Examples
    --------
    >>> def step(rank):
    ...     return current_seat().meet(rank + 1)
    >>> take_turns(step, 3, lambda brought: [sum(brought)] * 3)
    [6, 6, 6]
    """
    random = torch.get_rng_state()
    seats = [RankSeat(rank, step) for rank in range(ranks)]
    started = []
    try:
        for seat in seats:
            seat.start()
            started.append(seat)
        while True:
            for seat in seats:
                if not seat.has_ended:
                    seat.go_on()
                if seat.error is not None:
                    if ranks > 1:
                        seat.error.add_note(f"on rank {seat.rank} of {ranks}")
                    raise seat.error
            ended = [seat for seat in seats if seat.has_ended]
            if len(ended) == ranks:
                return [seat.result for seat in seats]
            if ended:
                waiting = next(seat for seat in seats if not seat.has_ended)
                who = f"rank {waiting.rank} waits in vain in {waiting.call}"
                raise GraphError(f"{who}: rank {ended[0].rank} has ended; all ranks have to come")
            for seat, taken in zip(seats, exchange([seat.call for seat in seats]), strict=True):
                seat.taken = taken
    finally:
        for seat in started:
            seat.abandon()
        torch.set_rng_state(random)
