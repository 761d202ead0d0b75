"""The loop that a local worker process runs."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection, wait
from typing import Any

from trn3.studies.sweep.tasks import Outcome, describe_error, run_point

#: Set in workers: a sweep inside one uses no processes of its own unless asked to.
IS_WORKER = "TRN3_SWEEP_WORKER"


def serve(connection: Connection[Any, Any], function: bytes, threads: int) -> None:
    """Say ready, or why not, then answer each point's parameters with its outcome.

    Ctrl-C reaches every process of a terminal; workers ignore it, and the process that started
    them ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ[IS_WORKER] = "1"
    _limit_threads(threads)
    try:
        fn = pickle.loads(function)
    except BaseException as error:
        connection.send(describe_error(error))
        return
    connection.send(None)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        if not message:
            return
        try:
            connection.send_bytes(_answer(fn, message))
        except OSError:  # nobody is there to read it
            return


def _answer(fn: Any, message: bytes) -> bytes:
    try:
        parameters = pickle.loads(message)
    except Exception as error:
        return pickle.dumps(Outcome(None, describe_error(error), 0.0))
    outcome = run_point(fn, parameters)
    try:
        return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps(Outcome(None, describe_error(error), outcome.seconds))


def _end_with_parent() -> None:
    """End at once when the parent does, however it ends: a killed sweep leaves no workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _limit_threads(threads: int) -> None:
    # Workers that each use every core would only get in each other's way.
    if "TRN3_NUM_THREADS" not in os.environ:
        import trn3

        trn3.set_num_threads(threads)
