"""What the endpoint asks of the simulated machine behind it."""

from __future__ import annotations

from typing import Protocol


class LiveServerProtocol(Protocol):
    """A served model whose requests arrive while it is simulated; one thread at a time.

    All times are simulated seconds. `trn3.planner.live` makes one.
    """

    @property
    def now(self) -> float:
        """How far it is simulated."""
        ...

    @property
    def model(self) -> str:
        """The name of the model."""
        ...

    @property
    def longest_context(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        ...

    def submit(self, at: float, prompt: list[int] | int, output: int, priority: int = 0) -> int:
        """Take a request and return its number.

        Parameters
        ----------
        at
            When it arrives; not before `now`.
        prompt
            Identifiers of tokens, of which a cache of prefixes may know the first, or a count.
        output
            Tokens of the answer.
        priority
            Lower is served first, where the scheduler looks at it.

        Raises
        ------
        OverflowError
            If the queue is full.
        ValueError
            If the machine can never serve it.
        """
        ...

    def cancel(self, number: int, at: float) -> None:
        """Forget a request whose client went away."""
        ...

    def advance(self, until: float) -> list[tuple[int, float, int, bool]]:
        """Simulate up to a time and return what came out, in order of time.

        Each entry is a request's number, when, how many tokens, and whether these are its last.
        """
        ...

    def next_event(self) -> float | None:
        """Return when something happens next if nothing else arrives; None if nothing will."""
        ...

    def state(self) -> dict[str, float]:
        """Return ``running``, ``waiting``, ``kv_cache_usage`` and counts since the start."""
        ...
