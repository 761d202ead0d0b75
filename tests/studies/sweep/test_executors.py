"""Executors that the caller gives, of the standard library."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import trn3
from support import sweeps as functions
from support.checks import error
from trn3.studies.sweep import BrokenExecutorError


def test_threads() -> None:
    with ThreadPoolExecutor(3) as executor:
        fn = functools.partial(functions.later_first, count=6)
        assert trn3.sweep(fn, {"x": range(6)}, executor).values == list(range(6))
        assert trn3.sweep(lambda x: x + 1, {"x": [1, 2]}, executor=executor).values == [2, 3]
        result = trn3.sweep(functions.fail_on_odd, {"x": range(4)}, executor, retries=1)
        assert result.values == [0, None, 2, None]
        assert [point.attempts for point in result] == [1, 2, 1, 2]
        # The executor belongs to the caller.
        assert executor.submit(int, "3").result() == 3


def test_keyboard_interrupt_of_the_function_is_its_points_error() -> None:
    """Ctrl-C reaches the main thread alone, so in another one it is the function's own."""
    with ThreadPoolExecutor(1) as executor:
        result = trn3.sweep(functions.interrupt_itself, {"x": range(3)}, executor)
    assert result.values == [0, None, 2]
    assert str(result[1].error) == "KeyboardInterrupt: of its own"


def test_points_in_flight_are_bounded() -> None:
    lock, now, most = threading.Lock(), 0, 0

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            future = super().submit(fn, *args, **kwargs)
            future.add_done_callback(leave)
            return future

    def leave(_: Future[Any]) -> None:
        nonlocal now
        with lock:
            now -= 1

    for given, expected in ((None, 4), (3, 3)):
        most = 0
        with Counting(2) as executor:
            trn3.sweep(functions.square, {"x": range(200)}, executor, in_flight=given)
        assert most == expected


def test_processes_of_the_standard_library() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        assert trn3.sweep(functions.square, {"x": range(5)}, executor).values == [0, 1, 4, 9, 16]


def test_broken_executor_gives_what_is_finished() -> None:
    fn = functools.partial(functions.die_on, victim=3)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        with pytest.raises(
            BrokenExecutorError, match=r"BrokenProcessPool.*without executor="
        ) as broken:
            trn3.sweep(fn, {"x": range(100)}, executor, in_flight=1)
        assert broken.value.result is not None
        assert broken.value.result.values == [0, 1, 2]


def test_closed_executor_is_told() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with error(BrokenExecutorError, "shutdown"):
        trn3.sweep(functions.square, {"x": [1]}, executor)


def test_executor_and_workers_exclude_each_other() -> None:
    with ThreadPoolExecutor(1) as executor, error(ValueError, "workers", "executor"):
        trn3.sweep(functions.square, {"x": [1]}, executor, workers=2)
