"""One call of the function, wherever it runs, and what becomes of it."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import Any, NamedTuple

from trn3.studies.sweep.grid import Parameters


@dataclass(frozen=True, slots=True)
class PointError:
    """Why a point has no value.

    Attributes
    ----------
    type
        The exception's class with its module, without it for built-in ones: ``"ValueError"``.
    message
        The exception's text.
    traceback
        The whole traceback as Python prints it, from the function of the sweep on. Empty if the
        point's process died.
    """

    type: str
    message: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class PointOutcome(NamedTuple):
    """What one call gave: a value, or an error; and how many seconds it took."""

    value: Any
    error: PointError | None
    seconds: float


@dataclass(slots=True)
class Finished:
    """What is known of a point when it is finished."""

    outcome: PointOutcome
    attempts: int
    is_resumed: bool = False


@dataclass(slots=True, eq=False)
class Task:
    """A point on its way: how often it ran, raised, killed its worker, or was lost."""

    index: int
    parameters: Parameters
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a task that was submitted.

    One of three: an `outcome`; a `death`, the text that says how its worker died, which counts as
    `crashes` of the task; or neither, when the task was lost and is to be submitted again.
    """

    task: Task
    outcome: PointOutcome | None = None
    death: str | None = None
    crashes: int = 1


def run_point(fn: Callable[..., Any], parameters: Parameters) -> PointOutcome:
    """Call the function and catch what it raises.

    ``SystemExit`` is an error of the point: a function that gives up must not end a worker. So is
    ``KeyboardInterrupt`` wherever it cannot be the Ctrl-C of whoever called the sweep.
    """
    is_here = threading.current_thread() is threading.main_thread() and parent_process() is None
    caught = (Exception, SystemExit) if is_here else BaseException
    started = time.perf_counter()
    try:
        value = fn(**parameters)
    except caught as error:
        return failed(error, time.perf_counter() - started, skip=1)
    return PointOutcome(value, None, time.perf_counter() - started)


def run_token(fn: Callable[..., Any], parameters: Parameters, token: str) -> PointOutcome:
    """Call the function; `token` differs for each call, so that no scheduler takes two for one."""
    del token
    return run_point(fn, parameters)


def failed(error: BaseException, seconds: float = 0.0, skip: int = 0) -> PointOutcome:
    """Return the outcome of a call that raised, or that could not be made."""
    return PointOutcome(None, describe_error(error, skip), seconds)


def describe_error(error: BaseException, skip: int = 0) -> PointError:
    """Return an exception as texts, without the first `skip` frames of its traceback."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    place = error.__traceback__
    for _ in range(skip):
        place = place.tb_next if place else None
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its text cannot be made: {type(broken).__name__})"
    text = "".join(traceback.format_exception(kind, error, place))
    return PointError(name, message, text)
