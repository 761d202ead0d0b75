"""What a sweep raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trn3.studies.sweep.result import SweepResult


class SweepError(RuntimeError):
    """Some points of a sweep failed; `result` has all of them, also those that did not."""

    def __init__(self, message: str, result: SweepResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class BrokenExecutorError(SweepError):
    """The executor given runs nothing any more; `result` has the points that it finished."""


class WorkerStartError(SweepError):
    """The worker processes end before they could run a single point."""


class UnloadableFunctionError(TypeError):
    """Worker processes cannot load the function, though it could be pickled."""


class LostPointError(Exception):
    """The process that a point was given to has died.

    Attributes
    ----------
    death
        How it died; None if that was before it could begin the point.
    """

    def __init__(self, death: str | None) -> None:
        super().__init__(death)
        self.death = death


class WorkerDiedError(SweepError):
    """A point killed the process that ran it; as the type of a point's error, its name only."""


class SweepCheckpointError(ValueError):
    """A checkpoint is damaged, in use, of another sweep, or cannot hold a value."""
