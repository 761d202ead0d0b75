"""The machine's time, and what comes out of it at that time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trn3.endpoint.live_server import LiveServerProtocol
from trn3.endpoint.metrics import Metrics
from trn3.endpoint.options import MAX_SPEED
from trn3.endpoint.questions import Question
from trn3.text import time as time_text

#: Turns of the event loop in which requests that have come are taken, before time goes on at
#: `MAX_SPEED`: one reads them, one wakes the connection, one starts the handler; and one to spare.
_TURNS: Final = 4
#: Seconds for which clients are not looked after while late simulation is caught up.
_SLICE: Final = 0.005
#: Seconds of lateness that are worth a word.
_LATE: Final = 1.0
#: Pieces that wait for a slow client before they are joined, besides one for each answer.
_MOST_PIECES: Final = 1024


class LiveChoice:
    """One of the answers to a question, as far as it has come."""

    __slots__ = ("ended", "first", "index", "last", "number", "tokens")

    def __init__(self, index: int, number: int, arrival: float) -> None:
        self.index = index
        self.number = number
        self.tokens = 0
        self.first: float | None = None
        self.last = arrival
        self.ended = False


class LiveAnswer:
    """All that a client waits for after one request.

    Parameters
    ----------
    question
        What was asked.
    arrival
        When it arrived, in simulated seconds.
    """

    __slots__ = ("_due", "_waiter", "arrival", "choices", "open", "question")

    def __init__(self, question: Question, arrival: float) -> None:
        self.question = question
        self.arrival = arrival
        self.choices: list[LiveChoice] = []
        #: Answers that have not ended.
        self.open = 0
        self._due: list[tuple[int, int, bool]] = []
        self._waiter: asyncio.Future[None] | None = None

    @property
    def tokens(self) -> int:
        """Tokens that have come out."""
        return sum(choice.tokens for choice in self.choices)

    def times(self) -> dict[str, float | None]:
        """Return when it arrived, began and ended, in simulated seconds."""
        firsts = [choice.first for choice in self.choices if choice.first is not None]
        return {
            "arrival": self.arrival,
            "first_token": min(firsts, default=None),
            "end": max((choice.last for choice in self.choices), default=self.arrival),
        }

    def give(self, index: int, tokens: int, ended: bool) -> None:
        """Add a piece for the client, and wake who waits for it."""
        self._due.append((index, tokens, ended))
        if len(self._due) > _MOST_PIECES + len(self.choices):
            self._due = _joined(self._due)
        self.wake()

    def wake(self) -> None:
        """Let `take` look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[tuple[int, int, bool]]:
        """Return the pieces that are due, at least one: which answer, its tokens, its end."""
        while not self._due:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        due, self._due = self._due, []
        return due


class Pace:
    """Lets a machine's time run, and hands out what it makes when it is due.

    Parameters
    ----------
    machine
        What is simulated.
    speed
        Simulated seconds in a second, or `MAX_SPEED`.
    queue
        Answers that may be open.
    metrics
        Where everything is counted.
    notice
        Takes a line for the person who started all this.
    fail
        Is called once if the simulation fails.
    """

    def __init__(
        self,
        machine: LiveServerProtocol,
        speed: float,
        queue: int,
        metrics: Metrics,
        notice: Callable[[str], object],
        fail: Callable[[Exception], object],
    ) -> None:
        self._machine = machine
        self._speed = speed
        self._queue = queue
        self._metrics = metrics
        self._notice = notice
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._began = (self._loop.time(), machine.now)
        self._live: dict[int, tuple[LiveAnswer, LiveChoice]] = {}
        self._handle: asyncio.Handle | None = None
        self._is_behind = False
        self._has_told = False
        self._is_closed = False

    def ask(self, question: Question) -> LiveAnswer:
        """Submit a question: all of its answers, or none.

        Raises
        ------
        OverflowError
            If too many answers are open, or the machine's queue is full.
        ValueError
            If the machine can never serve it.
        ConnectionError
            If time stands still for ever.
        """
        if len(self._live) + question.answers > self._queue:
            message = f"{len(self._live)} answers are open; allowed: {self._queue}"
            raise OverflowError(message)
        answer = LiveAnswer(question, self._arrival())
        if self._is_closed:
            message = "the endpoint ends"
            raise ConnectionAbortedError(message)
        try:
            for prompt in question.prompts:
                for _ in range(question.n):
                    number = self._machine.submit(
                        answer.arrival, prompt, question.output, question.priority
                    )
                    choice = LiveChoice(len(answer.choices), number, answer.arrival)
                    answer.choices.append(choice)
                    answer.open += 1
                    self._live[number] = (answer, choice)
        except BaseException:
            self._cancel(answer, answer.arrival)
            raise
        self._metrics.prompted += question.prompt_tokens * question.n
        self._schedule()
        return answer

    def drop(self, answer: LiveAnswer) -> None:
        """Cancel what of an answer has not come, as its client went away."""
        if not answer.open or self._is_closed:
            return
        at = self._arrival()
        if not self._is_closed:
            self._metrics.aborted += self._cancel(answer, at)
            self._schedule()

    def close(self) -> None:
        """Stop time."""
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()

    def _cancel(self, answer: LiveAnswer, at: float) -> int:
        open_choices = [choice for choice in answer.choices if not choice.ended]
        for choice in open_choices:
            choice.ended = True
            del self._live[choice.number]
            self._machine.cancel(choice.number, at)
        answer.open = 0
        return len(open_choices)

    def _now(self) -> float:
        """Return the simulated time that it should be."""
        if self._speed == MAX_SPEED:
            return self._machine.now
        began, start = self._began
        return start + (self._loop.time() - began) * self._speed

    def _arrival(self) -> float:
        """Return the simulated time of what happens now, up to which all else has happened.

        That is earlier than it should be where the simulation is behind.
        """
        if self._speed != MAX_SPEED and not self._is_behind:
            self._catch_up()
        return self._machine.now if self._is_behind else max(self._now(), self._machine.now)

    def _catch_up(self) -> None:
        """Simulate up to now, or as far as a moment allows."""
        now = self._now()
        stop = self._loop.time() + _SLICE
        while not self._is_closed and (due := self._machine.next_event()) is not None:
            if due > now:
                break
            self._hand_out(due)
            if self._loop.time() > stop:
                self._is_behind = True
                self._say_late((now - due) / self._speed)
                return
        self._is_behind = False

    def _hand_out(self, until: float) -> None:
        try:
            events = self._machine.advance(until)
        except Exception as error:  # whatever it is, nobody will be served any more
            self.close()
            self._fail(error)
            return
        for number, at, tokens, is_last in events:
            # A request may be cancelled while it is served.
            if (live := self._live.get(number)) is None:
                continue
            answer, choice = live
            if tokens:
                if choice.first is None:
                    choice.first = at
                    self._metrics.first_token.add(at - answer.arrival)
                else:
                    self._metrics.next_token.add(at - choice.last)
                choice.tokens += tokens
                self._metrics.generated += tokens
                choice.last = at
            if is_last:
                choice.ended = True
                answer.open -= 1
                del self._live[number]
                self._metrics.ended[answer.question.ending] += 1
                self._metrics.request.add(at - answer.arrival)
            answer.give(choice.index, tokens, is_last)

    def _schedule(self) -> None:
        if self._is_closed or (due := self._machine.next_event()) is None:
            return
        if self._speed == MAX_SPEED:
            if self._handle is None:
                self._handle = self._loop.call_soon(self._turn, _TURNS)
            return
        if self._handle is not None:
            self._handle.cancel()
        began, start = self._began
        self._handle = self._loop.call_at(began + (due - start) / self._speed, self._tick)

    def _turn(self, left: int) -> None:
        """Wait for turns of the event loop, then let time jump to the next event."""
        if left:
            self._handle = self._loop.call_soon(self._turn, left - 1)
            return
        self._tick()

    def _tick(self) -> None:
        self._handle = None
        if self._speed != MAX_SPEED:
            self._catch_up()
        elif (due := self._machine.next_event()) is not None:
            self._hand_out(due)
        self._schedule()

    def _say_late(self, seconds: float) -> None:
        if seconds > _LATE and not self._has_told:
            self._has_told = True
            self._notice(
                f"answers come {time_text(seconds)} late: clients measure that too; a lower speed, "
                "or fewer requests, would keep pace"
            )


def _joined(pieces: Sequence[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Return one piece for each answer of which there are some.

    >>> _joined([(0, 1, False), (1, 1, False), (0, 2, True)])
    [(0, 3, True), (1, 1, False)]
    """
    joined: dict[int, tuple[int, bool]] = {}
    for index, tokens, is_last in pieces:
        before, was_last = joined.get(index, (0, False))
        joined[index] = (before + tokens, was_last or is_last)
    return [(index, tokens, is_last) for index, (tokens, is_last) in joined.items()]
