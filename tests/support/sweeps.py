"""Functions that sweeps run in other processes, which import them from here."""

from __future__ import annotations

import enum
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import trn3


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Inner:
    bits: Any
    pair: Pair


@dataclass(frozen=True)
class Plan:
    seconds: float
    inner: Inner
    colour: Colour


def add(x: int, y: int) -> int:
    return 10 * x + y


def square(x: int) -> int:
    return x * x


def slow_square(x: int, seconds: float = 0.05) -> int:
    time.sleep(seconds)
    return x * x


def later_first(x: int, count: int) -> int:
    """Finish the last points first, as far as they run side by side."""
    time.sleep(0.03 * (count - x))
    return x


def fail_on_odd(x: int) -> int:
    if x % 2:
        message = f"{x} is odd"
        raise ValueError(message)
    return x


def fail_first(x: int, folder: str) -> int:
    """Raise at the first call for each x."""
    mark = Path(folder) / str(x)
    if not mark.exists():
        mark.touch()
        message = "not yet"
        raise OSError(message)
    return x


def die_on(x: int, victim: int) -> int:
    if x == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return x


def die_once(x: int, victim: int, folder: str) -> int:
    mark = Path(folder) / "died"
    if x == victim and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return x


def leave(x: int) -> int:
    if x == 1:
        raise SystemExit(3)
    return x


def interrupt_itself(x: int) -> int:
    """Raise what Ctrl-C raises, of the function's own accord."""
    if x == 1:
        message = "of its own"
        raise KeyboardInterrupt(message)
    return x


def vanish(x: int, status: int = 7) -> int:
    os._exit(status)


def leave_a_child(x: int, folder: str) -> int:
    """Die, leaving a child that holds what it inherited open."""
    if os.fork() == 0:
        try:
            wait_until((Path(folder) / "go").exists)
        finally:
            os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def die_while_sending(x: int, victim: int) -> Any:
    """Die when half of a result is in the pipe."""
    if x == victim:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return SlowlyPickled()
    return x


class SlowlyPickled:
    def __reduce__(self) -> Any:
        time.sleep(60)
        return int, ()


def report_pid(x: int, folder: str, seconds: float) -> int:
    """Leave the process's number where the test finds it."""
    (Path(folder) / f"{os.getpid()}.pid").touch()
    time.sleep(seconds)
    return x


def record_call(x: int, folder: str) -> int:
    """Leave a mark of every call."""
    with (Path(folder) / "calls").open("a") as file:
        file.write(f"{x}\n")
    if x == 2 and not (Path(folder) / "repaired").exists():
        message = "two"
        raise ValueError(message)
    return x


def nested(x: int) -> list[int]:
    return trn3.sweep(square, {"x": [x, x + 1]}).values


def nested_processes(x: int) -> list[int]:
    return trn3.sweep(square, {"x": [x, x + 1]}, workers=1).values


def get_thread(x: int) -> int:
    return threading.get_ident()


def get_pid(x: int) -> int:
    return os.getpid()


def make_plan(x: int) -> Plan:
    return Plan(x / 3, Inner(np.arange(x, dtype=np.float32), Pair(-0.0, float(x))), Colour.RED)


def give_lock(x: int) -> Any:
    return threading.Lock()


def give_set(x: int) -> set[int]:
    return {x}


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended but that nobody has waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    """Wait until a function returns something true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.01)


@contextmanager
def killer(folder: Path) -> Iterator[list[int]]:
    """Kill the first worker process that leaves its number in the folder."""
    killed: list[int] = []

    def kill() -> None:
        wait_until(lambda: list(folder.glob("*.pid")))
        pid = int(next(folder.glob("*.pid")).stem)
        killed.append(pid)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        thread.join()
