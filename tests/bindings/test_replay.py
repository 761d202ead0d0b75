"""Calls that take long: other threads go on, and a signal ends them."""

from __future__ import annotations

import json
import signal
import threading
import time
from types import FrameType

import pytest

from trn3._trn3.machine import replay

STEPS = 20_000


def program(steps: int) -> str:
    """Return a program that copies four megabytes so often."""
    tile = {"space": "sbuf", "shape": [128, 8192], "dtype": "float32"}
    tensors = [
        {"name": name, "address": [0, place * 32768], **tile} for place, name in enumerate("ab")
    ]
    body = [{"op": "memset", "dst": "a", "value": 1.0}]
    body += [{"op": "tensor_copy", "dst": "b", "src": "a"}] * steps
    text = {"format": "trn3-program", "version": 1, "name": "long", "tensors": tensors}
    return json.dumps({**text, "steps": body})


class AlarmError(Exception):
    """What the handler raises."""


def raising(_number: int, _frame: FrameType | None) -> None:
    raise AlarmError


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_a_signal_ends_a_replay() -> None:
    text = program(STEPS)
    before = signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    start = time.monotonic()
    try:
        with pytest.raises(AlarmError):
            replay([text], "{}", [[]])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 30
    # Nothing of it is left for the next call.
    assert replay([program(1)], "{}", [[]])[0][1] > 0


def test_other_threads_go_on() -> None:
    """A replay holds no lock that Python needs."""
    count = 0
    done = threading.Event()

    def work() -> None:
        replay([program(60)], "{}", [[]])
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        count += 1
    thread.join()
    assert count > 5
