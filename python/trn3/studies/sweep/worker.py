"""What runs in a local worker process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from trn3.studies.sweep.tasks import PointError, PointOutcome, describe_error, run_point

#: Set in workers: a sweep inside one uses no processes of its own unless asked to.
IS_WORKER = "TRN3_SWEEP_WORKER"
#: What `start` loaded in this process: the function, or why there is none.
_LOADED: list[Callable[..., Any] | PointError] = []


def start(function: bytes, threads: int) -> None:
    """Make this process a worker of one function.

    Ctrl-C reaches every process of a terminal; workers ignore it, and the process that started
    them ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ[IS_WORKER] = "1"
    # Workers that each use every core would only get in each other's way.
    if "TRN3_NUM_THREADS" not in os.environ:
        import trn3

        trn3.set_num_threads(threads)
    try:
        _LOADED[:] = [pickle.loads(function)]
    except BaseException as error:
        _LOADED[:] = [describe_error(error)]


def find_problem() -> PointError | None:
    """Return why the function could not be loaded; the first task of every worker."""
    (loaded,) = _LOADED
    return loaded if isinstance(loaded, PointError) else None


def answer(message: bytes) -> bytes:
    """Call the function with pickled parameters; return the pickled outcome.

    Both are made here and not by the executor, for which what cannot be loaded is a dead process.
    """
    (loaded,) = _LOADED
    if isinstance(loaded, PointError):
        return pickle.dumps(PointOutcome(None, loaded, 0.0))
    try:
        parameters = pickle.loads(message)
    except Exception as error:
        return pickle.dumps(PointOutcome(None, describe_error(error), 0.0))
    outcome = run_point(loaded, parameters)
    try:
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps(PointOutcome(None, describe_error(error), outcome.seconds))


def _end_with_parent() -> None:
    """End at once when the parent does, however it ends: a killed sweep leaves no workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
