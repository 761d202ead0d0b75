"""Points on executors that the caller gives, and in this very process.

An executor is anything whose ``submit(fn, *args)`` returns a future with ``add_done_callback``,
``done``, ``result`` and ``cancel``: those of `concurrent.futures`, a ``distributed.Client``, and
what its ``get_executor()`` gives.
"""

from __future__ import annotations

import queue
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from typing import Any

from trn3.studies.sweep.points import BrokenExecutorError
from trn3.studies.sweep.processes import available_cores, pickle_function
from trn3.studies.sweep.tasks import Event, PointOutcome, Task, failed, run_point, run_token

#: Tasks in flight for each worker of an executor: one runs, one is there when it ends. **(choice)**
IN_FLIGHT_PER_WORKER = 2


class InProcess:
    """Runs points of one function here, each when it is waited for."""

    capacity = 1

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        """Take the task."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> Sequence[Event]:
        """Run what there is."""
        del seconds
        tasks, self._tasks = self._tasks, []
        return [Event(task, run_point(self._fn, task.parameters)) for task in tasks]

    def close(self, *, cancel: bool) -> None:
        """Do nothing."""


class Futures:
    """The points that an executor has; it stays open for its owner.

    Raises
    ------
    TypeError
        If it is no executor, or the function cannot be sent to it.
    """

    def __init__(self, fn: Callable[..., Any], executor: Any, in_flight: int | None) -> None:
        check_executor(executor)
        self._fn, self._executor = fn, executor
        self._is_dask = _root_module(executor) == "distributed"
        if self._is_dask:
            _check_dask(fn, executor)
        elif isinstance(executor, ProcessPoolExecutor):
            pickle_function(fn, "use threads: concurrent.futures.ThreadPoolExecutor")
        #: Twice the workers there were at the start, or what the caller said.
        self.capacity = in_flight or IN_FLIGHT_PER_WORKER * _workers_of(executor)
        self._futures: dict[str, tuple[Task, Any]] = {}
        self._refused: list[Event] = []
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._run = secrets.token_hex(8)
        self._submitted = 0

    def submit(self, task: Task) -> None:
        """Submit the task under a token of its own; at most `capacity` are in flight."""
        self._submitted += 1
        token = f"{self._run}-{self._submitted}"
        try:
            future = self._executor.submit(run_token, self._fn, task.parameters, token)
        except Exception as error:
            if self._is_closed(error):
                raise self._broken(error) from error
            # Parameters that cannot be sent, for instance.
            self._refused.append(Event(task, failed(error)))
            return
        self._futures[token] = task, future
        future.add_done_callback(lambda _: self._done.put(token))

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what has become of tasks as soon as there is news, or nothing after a while."""
        if self._refused:
            events, self._refused = self._refused, []
            return events
        tokens = []
        try:
            tokens.append(self._done.get(timeout=seconds))
            while True:
                tokens.append(self._done.get_nowait())
        except queue.Empty:
            pass
        if not tokens:
            # Callbacks of a client whose loop has stopped never come, nor of a worker process whose
            # death is hidden by a child of its.
            tokens = [token for token, (_, future) in self._futures.items() if future.done()]
        return [
            self._event(*self._futures.pop(token)) for token in tokens if token in self._futures
        ]

    def close(self, *, cancel: bool) -> None:
        """Leave the executor to its owner, without what is in flight, if so."""
        for _, future in self._futures.values() if cancel else ():
            future.cancel()

    def _event(self, task: Task, future: Any) -> Event:
        try:
            outcome = future.result()
        except BrokenExecutor as error:
            raise self._broken(error) from error
        except CancelledError:
            return Event(task)
        except Exception as error:
            if self._is_dask:
                from distributed.client import FutureCancelledError
                from distributed.scheduler import KilledWorker

                if isinstance(error, FutureCancelledError):
                    return Event(task)
                if isinstance(error, KilledWorker):
                    return Event(task, death=str(error), crashes=error.allowed_failures + 1)
            return Event(task, failed(error))
        assert isinstance(outcome, PointOutcome)
        return Event(task, outcome)

    def _is_closed(self, error: Exception) -> bool:
        if self._is_dask:
            client = getattr(self._executor, "_client", self._executor)
            return client.status != "running" or isinstance(error, RuntimeError)
        return isinstance(error, RuntimeError | CancelledError)

    def _broken(self, error: BaseException) -> BrokenExecutorError:
        advice = "without executor=, the sweep replaces processes that die"
        if self._is_dask:
            advice = "start a cluster again"
        message = (
            f"{self._executor!r} runs nothing any more ({type(error).__name__}: {error}); {advice}"
        )
        return BrokenExecutorError(message)


def check_executor(executor: Any) -> None:
    """Refuse what is no executor."""
    if isinstance(executor, str):
        message = (
            f"executor is the text {executor!r}, must be an executor; for a Dask scheduler at an "
            "address: executor=distributed.Client(address)"
        )
        raise TypeError(message)
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        message = (
            f"executor is {executor!r}, must have a method submit(fn, *args) that returns a "
            "future: a "
            "concurrent.futures executor or a distributed.Client; None uses local processes"
        )
        raise TypeError(message)


def _check_dask(fn: Callable[..., Any], executor: Any) -> None:
    if getattr(executor, "asynchronous", False):
        message = "executor is an asynchronous distributed.Client; make it with asynchronous=False"
        raise TypeError(message)
    from distributed.protocol.pickle import dumps

    try:
        dumps(fn)  # type: ignore[no-untyped-call]
    except Exception as error:
        message = (
            f"{fn!r} cannot be sent to Dask workers ({type(error).__name__}: {error}); define it "
            "at the top level of a module that workers can import"
        )
        raise TypeError(message) from error


def _workers_of(executor: Any) -> int:
    """Return how many points an executor runs at a time, as far as it tells."""
    client = getattr(executor, "_client", executor)
    if _root_module(client) == "distributed":
        threads: dict[str, int] = client.nthreads()
        return max(1, sum(threads.values()))
    workers = getattr(executor, "_max_workers", None)
    return workers if isinstance(workers, int) and workers > 0 else available_cores()


def _root_module(thing: object) -> str:
    return type(thing).__module__.partition(".")[0]
