"""Local processes: order, errors, deaths, interrupts, nesting."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import trn3
from support import sweeps as functions
from support.checks import TESTS, error, run_python
from trn3.studies.sweep import SweepError, WorkerStartError

PYTHON = Path(trn3.__file__).parents[1]


def test_order_is_that_of_the_grid_not_of_completion() -> None:
    finished: list[int] = []
    fn = functools.partial(functions.later_first, count=4)
    result = trn3.sweep(
        fn, {"x": range(4)}, workers=2, progress=lambda done, total: finished.append(done)
    )
    assert result.values == [0, 1, 2, 3]
    assert [point.index for point in result] == [0, 1, 2, 3]
    assert finished[-1] == 4
    assert all(point.attempts == 1 and point.seconds > 0 for point in result)


def test_workers_are_other_processes_and_end() -> None:
    pids = set(trn3.sweep(functions.get_pid, {"x": range(6)}, workers=2).values)
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2
    assert not any(functions.is_alive(pid) for pid in pids)
    assert trn3.sweep(functions.get_pid, {"x": [1]}, workers=0).values == [os.getpid()]


@pytest.mark.parametrize("workers", [0, 2])
def test_failed_points_do_not_lose_the_rest(workers: int) -> None:
    result = trn3.sweep(functions.fail_on_odd, {"x": range(5)}, workers=workers)
    assert result.values == [0, None, 2, None, 4]
    assert [point.index for point in result.errors] == [1, 3]
    problem = result.errors[0].error
    assert problem is not None
    assert (problem.type, problem.message) == ("ValueError", "1 is odd")
    assert problem.traceback.startswith("Traceback")
    assert "fail_on_odd" in problem.traceback
    assert "run_point" not in problem.traceback
    with pytest.raises(
        SweepError, match=r"2 of 5 points failed\n  x=1: ValueError: 1 is odd"
    ) as raised:
        result.raise_errors()
    assert raised.value.result is result
    assert "fail_on_odd" in raised.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_sys_exit_is_an_error_of_its_point(workers: int) -> None:
    result = trn3.sweep(functions.leave, {"x": range(3)}, workers=workers)
    assert result.values == [0, None, 2]
    assert str(result[1].error) == "SystemExit: 3"


def test_retries(tmp_path: Path) -> None:
    fn = functools.partial(functions.fail_first, folder=str(tmp_path))
    result = trn3.sweep(fn, {"x": range(3)}, workers=1, retries=1)
    assert (result.values, [point.attempts for point in result]) == ([0, 1, 2], [2, 2, 2])
    failing = trn3.sweep(functions.fail_on_odd, {"x": [1]}, workers=0, retries=2)
    assert failing[0].attempts == 3


def test_values_that_cannot_be_sent_fail_their_point_only() -> None:
    result = trn3.sweep(functions.give_lock, {"x": [1]}, workers=1)
    assert "pickle" in str(result[0].error)
    # Neither can parameters.
    result = trn3.sweep(functions.square, [{"x": 2}, {"x": functions.give_lock(0)}], workers=1)
    assert result.values == [4, None]


def test_point_that_kills_its_worker_is_blamed_alone() -> None:
    fn = functools.partial(functions.die_on, victim=2)
    result = trn3.sweep(fn, {"x": range(6)}, workers=2, max_crashes=2)
    assert result.values == [0, 1, None, 3, 4, 5]
    problem = result[2].error
    assert problem is not None
    assert problem.type == "WorkerDiedError"
    assert "2 times" in problem.message
    assert "SIGKILL" in problem.message
    assert [point.attempts for point in result] == [1, 1, 2, 1, 1, 1]


@pytest.mark.parametrize("status", [7, 0])
def test_exit_status_of_a_dead_worker_is_told(status: int) -> None:
    fn = functools.partial(functions.vanish, status=status)
    result = trn3.sweep(fn, {"x": [0]}, workers=1, max_crashes=1)
    assert f"once (exit status {status})" in str(result[0].error)


def test_keyboard_interrupt_of_the_function_is_its_points_error() -> None:
    result = trn3.sweep(functions.interrupt_itself, {"x": range(3)}, workers=2)
    assert result.values == [0, None, 2]
    assert str(result[1].error) == "KeyboardInterrupt: of its own"
    assert result[1].attempts == 1
    # In this process it may be somebody's Ctrl-C.
    with pytest.raises(KeyboardInterrupt):
        trn3.sweep(functions.interrupt_itself, {"x": range(3)}, workers=0)


def test_worker_whose_child_outlives_it_is_known_to_be_dead(tmp_path: Path) -> None:
    fn = functools.partial(functions.leave_a_child, folder=str(tmp_path))
    try:
        result = trn3.sweep(fn, {"x": [0]}, workers=1, max_crashes=1)
    finally:
        (tmp_path / "go").touch()
    assert "SIGKILL" in str(result[0].error)


def test_worker_that_dies_while_it_sends_is_blamed_alone() -> None:
    fn = functools.partial(functions.die_while_sending, victim=1)
    result = trn3.sweep(fn, {"x": range(20)}, workers=2, max_crashes=1)
    assert [point.index for point in result.errors] == [1]
    assert "SIGKILL" in str(result[1].error)


def test_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    fn = functools.partial(functions.report_pid, folder=str(tmp_path), seconds=0.1)
    with functions.killer(tmp_path) as killed:
        result = trn3.sweep(fn, {"x": range(8)}, workers=2)
    assert len(killed) == 1
    assert result.values == list(range(8))
    assert sum(point.attempts for point in result) == 9


def test_nested_sweeps_run_in_their_worker_unless_told_otherwise() -> None:
    assert trn3.sweep(functions.nested, {"x": [1, 2]}, workers=2).values == [[1, 4], [4, 9]]
    assert trn3.sweep(functions.nested_processes, {"x": [3]}, workers=1).values == [[9, 16]]


@pytest.mark.parametrize("executor", [None, "processes"])
def test_functions_that_cannot_be_sent_are_named(executor: str | None) -> None:
    from concurrent.futures import ProcessPoolExecutor

    made = ProcessPoolExecutor(1) if executor else None
    for fn in (lambda x: x, functools.partial(functions.add, y=functions.give_lock(0))):
        with error(TypeError, "cannot", "sent", "module"):
            trn3.sweep(fn, {"x": [1]} if made is None else [{"x": 1}], executor=made)
    with error(TypeError, "test_functions_that_cannot_be_sent_are_named"):
        trn3.sweep(lambda x: x, {"x": [1]}, executor=made)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"workers": -1}, ValueError, ("workers", "-1", "0")),
        ({"workers": 1.0}, TypeError, ("workers", "1.0")),
        ({"workers": True}, TypeError, ("workers", "True")),
        ({"retries": -1}, ValueError, ("retries",)),
        ({"max_crashes": 0}, ValueError, ("max_crashes", "1")),
        ({"in_flight": 3}, ValueError, ("in_flight", "executor")),
        ({"progress": "bar"}, TypeError, ("progress", "bar")),
        ({"executor": "tcp://127.0.0.1:8786"}, TypeError, ("executor", "distributed.Client")),
        ({"executor": 4}, TypeError, ("executor", "submit")),
        ({"value_types": [int]}, TypeError, ("value_types", "dataclasses")),
    ],
)
def test_arguments_refused(
    arguments: dict[str, Any], kind: type[Exception], words: tuple[str, ...]
) -> None:
    with error(kind, *words):
        trn3.sweep(functions.square, {"x": [1]}, **arguments)
    with error(TypeError, "fn", "4"):
        trn3.sweep(4, {"x": [1]})  # type: ignore[arg-type]


def script(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", code, *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{PYTHON}{os.pathsep}{TESTS}"}

UNGUARDED = """
import trn3
from support.sweeps import square
print(trn3.sweep(square, {"x": [1]}, workers=2).values)
"""


def test_scripts_without_a_guard_are_told(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(UNGUARDED, encoding="ascii")
    command = [sys.executable, str(path)]
    finished = subprocess.run(
        command, check=False, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert finished.returncode == 1
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{WorkerStartError.__module__}.WorkerStartError")
    assert '__name__ == "__main__"' in last


PROMPT = """
import trn3
def local(x):
    return x
try:
    trn3.sweep(local, {"x": [1]}, workers=1)
except TypeError as error:
    print(error)
print(trn3.sweep(local, {"x": [1]}, workers=0).values)
"""


def test_functions_of_a_prompt_are_named() -> None:
    finished = run_python(PROMPT)
    assert finished.returncode == 0, finished.stderr
    message, values = finished.stdout.splitlines()
    assert "local" in message
    assert "workers=0" in message
    assert values == "[1]"


INTERRUPTED = """
import sys, functools, trn3
from support.sweeps import report_pid
fn = functools.partial(report_pid, folder=sys.argv[1], seconds=float(sys.argv[2]))
if __name__ == "__main__":
    try:
        trn3.sweep(fn, {"x": range(1000)}, workers=2, checkpoint=sys.argv[3])
    except KeyboardInterrupt as error:
        print(error.__notes__[0], flush=True)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_end_of_the_driver_ends_its_workers(tmp_path: Path, stop: signal.Signals) -> None:
    """Ctrl-C as a terminal sends it, to the whole group; or the driver is killed."""
    command = script(INTERRUPTED, str(tmp_path), "60", str(tmp_path / "log"))
    with subprocess.Popen(
        command, env=ENVIRONMENT, text=True, stdout=-1, stderr=-1, start_new_session=True
    ) as driver:
        functions.wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
        if stop == signal.SIGINT:
            os.killpg(driver.pid, stop)
        else:
            driver.send_signal(stop)
        out, problems = driver.communicate(timeout=20)
    functions.wait_until(lambda: not any(functions.is_alive(pid) for pid in pids))
    if stop == signal.SIGINT:
        assert (driver.returncode, problems) == (0, "")
        assert out.startswith("0 finished points are in")
        trn3.sweep(  # the checkpoint is whole, and nobody holds it
            functools.partial(functions.report_pid, folder=str(tmp_path), seconds=60.0),
            {"x": []},
            checkpoint=tmp_path / "other",
        )


STARTING = """
import sys, trn3
from support.sweeps import square
import trn3.studies.sweep
try:
    print(flush=True)
    trn3.sweep(square, {"x": range(10**9)}, workers=3)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("delay", [0.01, 0.03, 0.1, 0.2])
def test_interrupt_while_workers_start_is_quiet_and_leaves_none(delay: float) -> None:
    command = script(STARTING)
    with subprocess.Popen(
        command, env=ENVIRONMENT, text=True, stdout=-1, stderr=-1, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        time.sleep(delay)
        os.killpg(driver.pid, signal.SIGINT)
        out, problems = driver.communicate(timeout=20)
    assert (out, problems) == ("interrupted\n", "")
    functions.wait_until(lambda: not living_members(driver.pid))


def living_members(group: int) -> list[int]:
    """Return the processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found
