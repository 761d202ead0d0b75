"""Points on processes of this machine.

A process runs one point at a time and has a pipe of its own. So when one dies, whenever that is, it
is known which point it ran, and no other point or process is touched. Pools whose processes share
a pipe, that of the standard library and others, lose every point when one dies in the middle of its
answer; and they hand a point through three threads where a pipe needs none.

Processes are spawned, not forked: a fork of a process with threads (those of the numerics, of
NumPy) may hang.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context, resource_tracker
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from trn3.studies.sweep.grid import describe
from trn3.studies.sweep.points import WorkerStartError
from trn3.studies.sweep.tasks import Event, Task, failed
from trn3.studies.sweep.worker import serve

#: Workers killed one after the other while they start, none having come up in between.
MAX_FAILED_STARTS = 3
#: How long a worker without work may take to end before it is killed.
GOODBYE_SECONDS = 5.0
#: Descriptors that a worker takes here: its pipe and what tells of its end, and some to spare.
FILES_PER_WORKER = 4
#: Descriptors left to everything else when the limit of open files is raised.
OTHER_FILES = 512


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


class Worker:
    """A process, the pipe to it, and the task it runs."""

    def __init__(self, function: bytes, threads: int) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, function, threads))
        self.task: Task | None = None
        self.is_ready = False
        try:
            self.process.start()
        finally:
            # Else the end of the process would not end the pipe.
            theirs.close()

    def end(self) -> int:
        """End the process, which it does by itself once it has no work; return its exit code."""
        self.pipe.close()
        self.process.join(GOODBYE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode or 0


class Processes:
    """Runs points of one function on local processes; one that dies is replaced."""

    def __init__(self, fn: Callable[..., Any], workers: int) -> None:
        self.capacity = workers
        self._name = describe(fn)
        self._function = pickle_function(fn, "pass workers=0 to run in this process")
        self._threads = max(1, available_cores() // workers)
        self._workers: list[Worker] = []
        self._answers = DefaultSelector()
        self._refused: list[Event] = []
        self._failed_starts = 0
        _allow_open_files(FILES_PER_WORKER * workers)

    def submit(self, task: Task) -> None:
        """Give the task to a worker without one, started if need be."""
        try:
            message = pickle.dumps(task.parameters, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            self._refused.append(Event(task, failed(error)))
            return
        while True:
            worker = next((each for each in self._workers if each.task is None), None)
            if worker is None:
                with _interrupts_held_back():
                    worker = Worker(self._function, self._threads)
                    self._workers.append(worker)
                self._answers.register(worker.pipe, EVENT_READ, worker)
            try:
                worker.pipe.send_bytes(message)
            except OSError:
                self._retire(worker)
            else:
                worker.task = task
                return

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what has become of tasks as soon as there is news, or nothing after a while."""
        if self._refused:
            events, self._refused = self._refused, []
            return events
        ready = [key.data for key, _ in self._answers.select(seconds)]
        return [event for event in map(self._read, ready) if event is not None]

    def close(self, *, cancel: bool) -> None:
        """End all processes."""
        workers, self._workers = self._workers, []
        for worker in workers if cancel else ():
            worker.process.kill()
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.end()
        self._answers.close()

    def _read(self, worker: Worker) -> Event | None:
        """Take what a worker says, or that it says nothing any more."""
        task = worker.task
        try:
            message = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            ended = self._retire(worker)
            # A worker that never came up has not begun its point.
            return Event(task, death=ended if worker.is_ready else None) if task else None
        if not worker.is_ready:
            problem = pickle.loads(message)
            if problem is not None:
                refusal = (
                    f"{self._name} cannot be loaded in a worker process ({problem}); define it in "
                    "a module or in a script that is a file, not at a prompt, or pass workers=0 "
                    "to run in this process"
                )
                raise TypeError(refusal)
            worker.is_ready = True
            self._failed_starts = 0
            return None
        assert task is not None
        worker.task = None
        try:
            outcome = pickle.loads(message)
        except Exception as error:
            outcome = failed(error)
        return Event(task, outcome)

    def _retire(self, worker: Worker) -> str:
        """Let go of a worker that has ended, and say how it did."""
        self._answers.unregister(worker.pipe)
        self._workers.remove(worker)
        code = worker.end()
        ended = describe_exit(code)
        if not worker.is_ready:
            self._failed_starts += 1
            if code > 0 or self._failed_starts >= MAX_FAILED_STARTS:
                message = (
                    f"a worker process came to an end ({ended}) before it could run a point of "
                    f"{self._name}; its output is on stderr. Processes import the main script "
                    'anew: a script that sweeps must do so under `if __name__ == "__main__":`; or '
                    "pass workers=0 to run in this process"
                )
                raise WorkerStartError(message)
        return ended


def describe_exit(code: int) -> str:
    """Return how a process ended.

    >>> describe_exit(-9), describe_exit(3)
    ('killed by SIGKILL, as the system does when memory runs out', 'exit status 3')
    """
    if code >= 0:
        return f"exit status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


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


def _allow_open_files(count: int) -> None:
    """Raise the limit of open files, as far as this process may, if it has no place for these."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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
