"""Points on processes of this machine.

One process runs one point at a time and has a pipe of its own. So when a process dies, it is known
which point it ran, and no other point or process is touched; the pool of the standard library ends
all its processes when one dies, and cannot say which point did it.

Processes are spawned, not forked: a fork of a process with threads (those of the numerics, of
NumPy) may hang.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from trn3.studies.sweep.errors import WorkerStartError
from trn3.studies.sweep.grid import describe
from trn3.studies.sweep.tasks import Event, Outcome, Task, describe_error
from trn3.studies.sweep.worker import serve

#: Workers killed one after the other while they start, none having come up in between.
MAX_FAILED_STARTS = 3
#: How long a worker without work may take to end before it is killed.
GOODBYE_SECONDS = 5.0


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


class Worker:
    """A process, the pipe to it, and the task it runs."""

    def __init__(self, function: bytes, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection: Connection[Any, Any]
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, function, threads), name="trn3-sweep"
        )
        try:
            self.process.start()
        except BaseException:
            self.connection.close()
            if self.process.pid is not None:
                self.process.kill()
                self.process.join()
            raise
        finally:
            # Else the end of the process would not end the pipe.
            theirs.close()
        self.is_ready = False
        self.task: Task | None = None

    def send(self, message: bytes) -> bool:
        """Send a message; return whether the process was there to take it."""
        try:
            self.connection.send_bytes(message)
        except OSError:
            return False
        return True

    def how_it_ended(self) -> str:
        """Wait for the end of the process and describe it."""
        self.process.join(GOODBYE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        return f"exit status {code}"

    def stop(self, *, kill: bool) -> None:
        """End the process."""
        if kill:
            self.process.kill()
        else:
            self.send(b"")
        self.connection.close()
        self.process.join(GOODBYE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


class Processes:
    """A backend of local processes; one that dies is replaced."""

    def __init__(self, fn: Callable[..., Any], workers: int) -> None:
        self._name = describe(fn)
        self._function = pickle_function(fn, "pass workers=0 to run in this process")
        self._threads = max(1, available_cores() // workers)
        self._capacity = workers
        self._workers: list[Worker] = []
        self._failed_starts = 0
        self._refused: list[Event] = []

    @property
    def capacity(self) -> int:
        """One task for each worker."""
        return self._capacity

    def submit(self, task: Task) -> None:
        """Give the task to a worker without one, started if need be."""
        try:
            message = pickle.dumps(task.parameters, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            outcome = Outcome(None, describe_error(error), 0.0)
            self._refused.append(Event(task, outcome))
            return
        while True:
            worker = next((each for each in self._workers if each.task is None), None)
            if worker is None:
                with _interrupts_held_back():
                    worker = Worker(self._function, self._threads)
                    self._workers.append(worker)
            if worker.send(message):
                worker.task = task
                return
            self._retire(worker)

    def wait(self, seconds: float) -> Sequence[Event]:
        """Collect answers and deaths."""
        if self._refused:
            events, self._refused = self._refused, []
            return events
        busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
        ready = wait(list(busy), seconds)
        # A child that a point forked may hold the pipe open after the worker has died.
        silent = [worker for worker in busy.values() if not ready and not worker.process.is_alive()]
        events = []
        for worker in [busy[place] for place in ready if isinstance(place, Connection)] + silent:
            event = self._read(worker)
            if event is not None:
                events.append(event)
        return events

    def close(self, *, cancel: bool) -> None:
        """End all processes."""
        workers, self._workers = self._workers, []
        if cancel:
            for worker in workers:
                worker.process.kill()
        else:
            for worker in workers:
                worker.send(b"")
        for worker in workers:
            worker.stop(kill=cancel)

    def _read(self, worker: Worker) -> Event | None:
        task = worker.task
        assert task is not None
        try:
            if not worker.is_ready:
                problem = worker.connection.recv()
                if problem is not None:
                    self._refuse_function(problem)
                worker.is_ready = True
                self._failed_starts = 0
                return None
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            ended = self._retire(worker)
            # A worker that never came up has not begun its point.
            return Event(task, death=ended) if worker.is_ready else Event(task)
        worker.task = None
        try:
            outcome = pickle.loads(message)
        except Exception as error:
            outcome = Outcome(None, describe_error(error), 0.0)
        return Event(task, outcome)

    def _retire(self, worker: Worker) -> str:
        """Let go of a worker that has ended, and say how it did."""
        ended = worker.how_it_ended()
        code = worker.process.exitcode or 0
        self._workers.remove(worker)
        worker.stop(kill=True)
        if not worker.is_ready:
            self._failed_starts += 1
            if code > 0 or self._failed_starts >= MAX_FAILED_STARTS:
                message = (
                    f"a worker process came to an end ({ended}) before it could run a point of "
                    f"{self._name}; its output "
                    "is on stderr. Processes import the main script anew: a script that sweeps "
                    "must do "
                    'so under `if __name__ == "__main__":`; or pass workers=0 to run in this '
                    "process"
                )
                raise WorkerStartError(message)
        return ended

    def _refuse_function(self, problem: Any) -> None:
        message = (
            f"{self._name} cannot be loaded in a worker process ({problem}); define it in a "
            "module or in "
            "a script that is a file, not at a prompt, or pass workers=0 to run in this process"
        )
        raise TypeError(message)


def pickle_function(fn: Callable[..., Any], otherwise: str) -> bytes:
    """Return the function pickled, or raise TypeError that names it and says what would work."""
    try:
        return pickle.dumps(fn, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        message = (
            f"{describe(fn)} cannot be sent to other processes ({type(error).__name__}: {error}); "
            f"define it with def at the top level of a module, or {otherwise}"
        )
        raise TypeError(message) from error


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait: a process that starts must not see it before it can ignore it.

    The process inherits what is held back, and lets go of it when it ignores the signal.
    """
    # Starting a process starts the resource tracker, once, and that lets go of the signal.
    resource_tracker.ensure_running()
    caught: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    # Another thread may take the signal all the same; Python then interrupts the main one.
    is_deferred = threading.current_thread() is threading.main_thread() and handler is not None
    if is_deferred:
        signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_deferred:
            signal.signal(signal.SIGINT, handler)
        if caught:
            signal.raise_signal(signal.SIGINT)
