"""What a subcommand raises when it will not do what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class RefusedError(Exception):
    """What was asked for cannot be done; the text says why, `details` are lines that follow it."""

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = details


@contextmanager
def refusing(*kinds: type[Exception], naming: object = None) -> Iterator[None]:
    """Make errors of these kinds refusals, of what is `naming` if that is given."""
    try:
        yield
    except kinds as error:
        raise RefusedError(str(error) if naming is None else f"{naming}: {error}") from error


@contextmanager
def detailing(*kinds: type[Exception]) -> Iterator[None]:
    """Make errors of these kinds refusals, in which lines after the first are details."""
    try:
        yield
    except kinds as error:
        message, *details = str(error).splitlines() or [""]
        raise RefusedError(message, details) from error
