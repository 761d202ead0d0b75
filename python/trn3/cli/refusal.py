"""What a subcommand raises when it will not do what was asked for."""

from __future__ import annotations

from collections.abc import Sequence


class RefusedError(Exception):
    """What was asked for cannot be done; the text says why, `details` are lines that follow it."""

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = details
