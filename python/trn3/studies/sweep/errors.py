"""What goes wrong in a sweep before it has a result; `SweepError` and its kin carry one."""

from __future__ import annotations


class SweepCheckpointError(ValueError):
    """A checkpoint is damaged, in use, of another sweep, or cannot hold a value."""


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
