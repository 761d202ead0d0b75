"""Points on processes of this machine.

Each process is the only one of a `concurrent.futures.ProcessPoolExecutor` of its own. So when a
process dies, it is known which point it ran, and no other point or process is touched; an executor
of many processes ends all of them when one dies, and cannot say which point did it.

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
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from trn3.studies.sweep.errors import LostPointError, UnloadableFunctionError
from trn3.studies.sweep.grid import Parameters, describe
from trn3.studies.sweep.points import WorkerStartError
from trn3.studies.sweep.tasks import PointError
from trn3.studies.sweep.worker import answer, find_problem, start

#: Workers killed one after the other while they start, none having come up in between.
MAX_FAILED_STARTS = 3
#: How long a worker without work may take to end before it is killed.
GOODBYE_SECONDS = 5.0
#: Descriptors that a worker takes here: three pipes and what tells of its end, and some to spare.
FILES_PER_WORKER = 8
#: Descriptors left to everything else when the limit of open files is raised.
OTHER_FILES = 512


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


class OneProcessContext(SpawnContext):
    """Starts processes, and keeps the last one: an executor does not say how its process ended."""

    process: SpawnProcess | None = None

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Make a process."""
        self.process = SpawnProcess(*args, **kwargs)
        return self.process


class Worker:
    """A process, and the executor of it alone."""

    def __init__(self, function: bytes, threads: int) -> None:
        self._context = OneProcessContext()
        self.executor = ProcessPoolExecutor(
            1, mp_context=self._context, initializer=start, initargs=(function, threads)
        )
        self.is_idle = True
        self.problem: Future[PointError | None]

    def start(self) -> None:
        """Start the process."""
        self.problem = self.executor.submit(find_problem)

    @property
    def was_ready(self) -> bool:
        """Whether the process has come up, even if it has died since."""
        return self.problem.done() and self.problem.exception() is None

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        process = self._context.process
        return process is not None and process.is_alive()

    def kill(self) -> None:
        """Kill the process."""
        process = self._context.process
        if process is not None and process.pid is not None:
            process.kill()

    def end(self) -> int:
        """End the process once it has no work; return its exit code."""
        process = self._context.process
        self.executor.shutdown(wait=False, cancel_futures=True)
        if process is None or process.pid is None:
            return 0
        process.join(GOODBYE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode or 0


class Answer:
    """The future of a point: done also when its process has died."""

    def __init__(self, pool: Processes, worker: Worker, message: bytes) -> None:
        self._pool, self._worker = pool, worker
        self._answer = worker.executor.submit(answer, message)
        worker.is_idle = False

    def add_done_callback(self, function: Callable[[Any], object]) -> None:
        """Have a function called when it is done."""
        self._answer.add_done_callback(function)

    def done(self) -> bool:
        """Whether there is an answer, or nobody who could give one."""
        return self._answer.done() or not self._worker.is_alive

    def result(self) -> Any:
        """Return the outcome, once it is done."""
        return self._pool.result(self._worker, self._answer)


class Processes:
    """An executor of one function on local processes; one that dies is replaced."""

    def __init__(self, fn: Callable[..., Any], workers: int) -> None:
        self._name = describe(fn)
        self._function = pickle_function(fn, "pass workers=0 to run in this process")
        self._threads = max(1, available_cores() // workers)
        self._workers: list[Worker] = []
        self._failed_starts = 0
        _allow_open_files(FILES_PER_WORKER * workers)

    def submit(self, call: object, fn: object, parameters: Parameters, token: object) -> Answer:
        """Give a point to a worker without one, started if need be; workers have the function."""
        del call, fn, token
        message = pickle.dumps(parameters, protocol=pickle.HIGHEST_PROTOCOL)
        while True:
            worker = next((each for each in self._workers if each.is_idle), None)
            if worker is None:
                with _interrupts_held_back():
                    worker = Worker(self._function, self._threads)
                    self._workers.append(worker)
                    worker.start()
            try:
                return Answer(self, worker, message)
            except BrokenExecutor:
                self._retire(worker)

    def result(self, worker: Worker, future: Future[bytes]) -> Any:
        """Return what a worker has answered.

        Raises
        ------
        LostPointError
            If the worker has died.
        WorkerStartError, UnloadableFunctionError
            If no other will do better.
        """
        try:
            message = future.result(timeout=0)
        except (BrokenExecutor, TimeoutError):
            ended = self._retire(worker)
            raise LostPointError(ended if worker.was_ready else None) from None
        worker.is_idle = True
        self._failed_starts = 0
        problem = worker.problem.result()
        if problem is not None:
            refusal = (
                f"{self._name} cannot be loaded in a worker process ({problem}); define it in a "
                "module or in a script that is a file, not at a prompt, or pass workers=0 to run "
                "in this process"
            )
            raise UnloadableFunctionError(refusal)
        return pickle.loads(message)

    def close(self, *, kill: bool) -> None:
        """End all processes."""
        workers, self._workers = self._workers, []
        for worker in workers if kill else ():
            worker.kill()
        for worker in workers:
            worker.end()

    def _retire(self, worker: Worker) -> str:
        """Let go of a worker that has ended, and say how it did."""
        self._workers.remove(worker)
        code = worker.end()
        ended = describe_exit(code)
        if not worker.was_ready:
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
