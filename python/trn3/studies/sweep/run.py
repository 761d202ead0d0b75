"""`trn3.sweep`: a function at every point of a grid."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trn3.studies.sweep.engine import SweepRun, Workplace
from trn3.studies.sweep.executors import Futures, InProcess
from trn3.studies.sweep.grid import (
    Grid,
    GridLike,
    ListedGrid,
    ProductGrid,
    check_arguments,
    check_point,
    make_grid,
)
from trn3.studies.sweep.identity import header_of
from trn3.studies.sweep.journal import Journal
from trn3.studies.sweep.points import BrokenExecutorError, SweepResult
from trn3.studies.sweep.processes import Processes, available_cores
from trn3.studies.sweep.progress import ProgressFunction, make_progress
from trn3.studies.sweep.values import ValueCodec
from trn3.studies.sweep.worker import IS_WORKER

_LOG = logging.getLogger("trn3.sweep")
#: More would run out of processes or of file descriptors before they ran out of cores.
MAX_WORKERS = 4096


def sweep(
    fn: Callable[..., Any],
    grid: GridLike,
    executor: Any = None,
    *,
    workers: int | None = None,
    in_flight: int | None = None,
    retries: int = 0,
    max_crashes: int = 3,
    checkpoint: str | os.PathLike[str] | None = None,
    version: str | int | None = None,
    value_types: Iterable[type] = (),
    progress: bool | ProgressFunction | None = None,
) -> SweepResult:
    """Call a function at every point of a grid, on many processes, and keep every result.

    One point that fails does not lose the others: its error stands in the result. A process that
    dies is replaced and its point runs again. The result never depends on which point was finished
    first.

    Parameters
    ----------
    fn
        Called with one keyword argument for each parameter. Other processes must be able to import
        it: a function of a module, or a `functools.partial` of one to bind constants.
    grid
        A mapping of names to sequences: every combination, the last name varying fastest (an empty
        mapping has one point, without parameters). A sequence of pairs of a name and a sequence
        means the same. Or an iterable of mappings, each a point; it is read as points are needed.
    executor
        None for processes of this machine, or an executor: of `concurrent.futures`, a
        ``distributed.Client`` or its ``get_executor()``. It stays open.
    workers
        How many processes of this machine; 0 runs the points in this process. By default one for
        each core that this process may use, and 0 inside the worker of another sweep and in
        processes that may not have children (those of Dask).
    in_flight
        How many points an executor is given at a time, by default two for each of its workers.
    retries
        How many more times a point that raised an exception is called.
    max_crashes
        After how many deaths of the process that ran it a point counts as failed, with the error
        ``WorkerDiedError``. A point whose process died runs again when all others are finished,
        alone. (Dask runs a point again by itself before it reports a death: its setting
        ``distributed.scheduler.allowed-failures``.)
    checkpoint
        A file that gets every finished point at once. If it is there, its points are not run again,
        except those that failed.
    version
        Stored in the checkpoint beside the name of the function and the grid; change it when the
        function changes, and an old checkpoint is refused.
    value_types
        Dataclasses, named tuples and enumerations among values and parameters that the checkpoint
        may hold, beside None, booleans, numbers, texts, bytes, lists, tuples, dictionaries, NumPy
        scalars and arrays.
    progress
        None for a bar on stderr if that is a terminal and the sweep takes over two seconds, True
        for one at once, False for none; or a function called with the number of finished points and
        the number of all (None if unknown).

    Returns
    -------
    SweepResult
        The points in the order of the grid.

    Raises
    ------
    TypeError, ValueError
        If an argument is no such thing, or the function cannot be sent to other processes.
    SweepCheckpointError
        If the checkpoint is damaged, of another sweep, in use, or cannot hold a value.
    WorkerStartError
        If processes end before they could run a point.
    BrokenExecutorError
        If the executor given runs nothing any more; its ``result`` has the finished points.
    KeyboardInterrupt
        As it comes: points in flight are stopped, the checkpoint is whole. What an executor has
        begun it may run to its end.

    Examples
    --------
    >>> import trn3
    >>> result = trn3.sweep(pow, {"base": [2, 3], "exp": [1, 2, 3]}, workers=2)
    >>> result.values
    [2, 4, 8, 3, 9, 27]
    >>> result[{"base": 3, "exp": 2}].value
    9
    >>> failed = trn3.sweep(divmod, [{"x": 1}], workers=0)
    >>> failed.errors[0].error.type
    'TypeError'
    """
    if not _is_callable(fn):
        message = (
            f"fn is {fn!r}, must be a function of one keyword argument for each axis of the grid"
        )
        raise TypeError(message)
    points = make_grid(grid)
    _check_names(fn, points)
    _check_count("retries", retries, 0)
    _check_count("max_crashes", max_crashes, 1)
    codec = ValueCodec(value_types)
    shown = make_progress(progress)
    workplace = _choose_workplace(fn, executor, workers, in_flight)
    log: Journal | None = None
    run: SweepRun | None = None
    is_whole = False
    try:
        if checkpoint is not None:
            log = Journal(checkpoint, header_of(fn, version, points, codec), codec)
            _check_listed(log, points)
            for note in log.notes:
                _LOG.warning(note)
        run = SweepRun(points, workplace, retries, max_crashes, log, shown)
        run.run()
        is_whole = True
    except BaseException as error:
        finished = run.done if run else 0
        if isinstance(error, BrokenExecutorError) and run:
            error.result = SweepResult(points, run.finished, log.notes if log else ())
        if log is not None and run:
            error.add_note(
                f"{finished} finished points are in {log.path}; the same call goes on from there"
            )
        raise
    finally:
        # Processes first: nothing must outlive a checkpoint that cannot be closed.
        try:
            workplace.close(cancel=not is_whole)
        finally:
            if log is not None:
                log.close()
    return SweepResult(points, run.finished, log.notes if log else ())


def default_workers() -> int:
    """Return how many processes a sweep uses if nobody says."""
    is_nested = IS_WORKER in os.environ or multiprocessing.current_process().daemon
    return 0 if is_nested else available_cores()


def _choose_workplace(
    fn: Callable[..., Any], executor: Any, workers: int | None, in_flight: int | None
) -> Workplace:
    """Return what runs the points."""
    if executor is not None:
        if workers is not None:
            message = "workers is for processes of this machine and executor for others; give one"
            raise ValueError(message)
        if in_flight is not None:
            _check_count("in_flight", in_flight, 1)
        return Futures(fn, executor, in_flight)
    if in_flight is not None:
        message = "in_flight goes with an executor; a local worker process has one point at a time"
        raise ValueError(message)
    count = default_workers() if workers is None else workers
    _check_count("workers", count, 0, MAX_WORKERS)
    if count == 0:
        return InProcess(fn)
    if multiprocessing.current_process().daemon:
        message = (
            f"workers is {count}, but this process (a Dask worker's, or another daemonic one) may "
            "not start processes; pass workers=0 to run in it"
        )
        raise ValueError(message)
    return Processes(fn, count)


def _check_names(fn: Callable[..., Any], grid: Grid) -> None:
    if isinstance(grid, ProductGrid):
        check_arguments(fn, grid.names)
        bound = fn.keywords if isinstance(fn, functools.partial) else {}
        twice = [name for name in grid.names if name in bound]
        if twice:
            message = (
                f"{', '.join(twice)} is an axis of the grid and bound by {fn!r}; leave one out"
            )
            raise ValueError(message)
    elif isinstance(grid.source, Sequence):
        # What can be known to be wrong is said before hours of work.
        for index, point in enumerate(grid.source):
            check_point(index, point)


def _check_listed(log: Journal, grid: Grid) -> None:
    """Refuse a checkpoint of other points at once, if the points are there to be looked at."""
    if isinstance(grid, ListedGrid) and isinstance(grid.source, Sequence):
        log.check_end(len(grid.source))
        for index in log.records:
            log.resumed(index, dict(grid.source[index]))


def _is_callable(fn: object) -> bool:
    return callable(fn)


def _check_count(name: str, value: object, least: int, most: int | None = None) -> None:
    limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"{name} is {value!r}, must be a whole number {limits}"
        raise TypeError(message)
    if value < least or (most is not None and value > most):
        message = f"{name} is {value}, must be a whole number {limits}"
        raise ValueError(message)
