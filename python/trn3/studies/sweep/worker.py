"""What runs in a local worker process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from trn3.studies.sweep.tasks import describe_error, failed, run_point

#: Set in workers: a sweep inside one uses no processes of its own unless asked to.
IS_WORKER = "TRN3_SWEEP_WORKER"


def serve(pipe: Connection[Any, Any], function: bytes, threads: int) -> None:
    """Say None, or why there is no function; then answer parameters with outcomes to the end.

    Ctrl-C reaches every process of a terminal; workers ignore it, and the process that started
    them ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A child that a point forks may outlive this process, of whose death the pipe's end tells.
    os.register_at_fork(after_in_child=pipe.close)
    os.environ[IS_WORKER] = "1"
    # Workers that each use every core would only get in each other's way.
    if "TRN3_NUM_THREADS" not in os.environ:
        import trn3

        trn3.set_num_threads(threads)
    with contextlib.suppress(EOFError, OSError):  # nobody is there any more
        try:
            fn = pickle.loads(function)
        except BaseException as error:
            pipe.send(describe_error(error))
            return
        pipe.send(None)
        while True:
            pipe.send_bytes(_answer(fn, pipe.recv_bytes()))


def _answer(fn: Callable[..., Any], message: bytes) -> bytes:
    try:
        parameters = pickle.loads(message)
    except Exception as error:
        return pickle.dumps(failed(error))
    outcome = run_point(fn, parameters)
    try:
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps(failed(error, outcome.seconds))


def _end_with_parent() -> None:
    """End at once when the parent does, however it ends: a killed sweep leaves no workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
