"""A machine of fixed steps behind an endpoint, on a thread or in a process of its own.

As a program, ``python -m support.live_machine OPTIONS``, it serves one with `trn3.endpoint.run`;
the options are JSON: those of `EndpointOptions`, and of the machine below ``"machine"``.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trn3
from trn3.endpoint import MAX_SPEED, Endpoint, EndpointOptions, LiveServerProtocol, run, speed_of


class FakeLiveServer:
    """Steps of a fixed time, in each of which every running request gets a token."""

    def __init__(
        self,
        *,
        step: float = 0.01,
        batch: int = 256,
        queue: int = 4096,
        context: int = 4096,
        fails_at: float = math.inf,
    ) -> None:
        self.now = 0.0
        self.model = "fake/model"
        self.longest_context = context
        self.step = step
        self.batch = batch
        self.queue = queue
        self.fails_at = fails_at
        self.waiting: deque[int] = deque()
        self.running: dict[int, int] = {}
        self.asked: dict[int, tuple[float, list[int] | int, int, int]] = {}
        self.cancelled: list[int] = []
        self._step_end = 0.0

    def submit(self, at: float, prompt: list[int] | int, output: int, priority: int = 0) -> int:
        assert at >= self.now
        length = prompt if isinstance(prompt, int) else len(prompt)
        if length + output > self.longest_context:
            raise ValueError("too long for the cache")
        if len(self.waiting) >= self.queue:
            raise OverflowError(f"{self.queue} requests wait")
        if not self.waiting and not self.running:
            self._step_end = at + self.step
        number = len(self.asked)
        self.asked[number] = (at, prompt, output, priority)
        self.waiting.append(number)
        return number

    def cancel(self, number: int, at: float) -> None:
        assert at >= self.now
        self.cancelled.append(number)
        if number in self.running:
            del self.running[number]
        else:
            self.waiting.remove(number)

    def advance(self, until: float) -> list[tuple[int, float, int, bool]]:
        assert until >= self.now
        out = []
        while (end := self.next_event()) is not None and end <= until:
            if end > self.fails_at:
                raise RuntimeError("a fake failure")
            while self.waiting and len(self.running) < self.batch:
                number = self.waiting.popleft()
                self.running[number] = self.asked[number][2]
            for number in list(self.running):
                left = self.running[number] = self.running[number] - 1
                out.append((number, end, 1, left == 0))
                if not left:
                    del self.running[number]
            self._step_end = end + self.step
            self.now = end
        self.now = max(self.now, until)
        return out

    def next_event(self) -> float | None:
        return self._step_end if self.waiting or self.running else None

    def state(self) -> dict[str, float]:
        return {
            "running": len(self.running),
            "waiting": len(self.waiting),
            "kv_cache_usage": len(self.running) / self.batch,
            "preemptions": 0,
            "prefix_cache_queries": 0,
            "prefix_cache_hits": 0,
        }


@dataclass
class Served:
    """An endpoint that listens."""

    url: str
    #: The machine behind it, if it is a fake.
    machine: FakeLiveServer
    notices: list[str] = field(default_factory=list)


@contextmanager
def served(machine: LiveServerProtocol | None = None, **options: object) -> Iterator[Served]:
    """Serve on a thread while this lasts, a fake machine if there is no other."""
    fake = FakeLiveServer()
    notices: list[str] = []
    chosen = EndpointOptions(**{"speed": MAX_SPEED, **options})  # type: ignore[arg-type]
    endpoint = Endpoint(machine or fake, chosen, notices.append)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with endpoint:
            started.set()
            await stop.wait()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert started.wait(10)
        behind = machine if isinstance(machine, FakeLiveServer) else fake
        yield Served(endpoint.url, behind, notices)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def environment() -> dict[str, str]:
    """Return the variables with which other processes find trn3 and this module."""
    folders = [Path(trn3.__file__).parents[1], Path(__file__).parents[1]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


@contextmanager
def serving(**options: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve in a process of its own while this lasts: the process, and its address."""

    def prepare() -> None:
        # The program honours what it inherits: nohup, or a shell's background, ignores some.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-m", "support.live_machine", json.dumps(options)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,  # noqa: PLW1509 - the tests start it before any thread
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + process.stderr.read()  # type: ignore[union-attr]
        yield process, line.removeprefix("listening on ").strip()
    finally:
        process.kill()
        process.communicate()


def serve(options: dict[str, object]) -> int:
    machine = FakeLiveServer(**options.pop("machine", {}))  # type: ignore[arg-type]
    if "speed" in options:
        options["speed"] = speed_of(str(options["speed"]))
    return run(machine, EndpointOptions(**options))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(serve(json.loads(sys.argv[1])))
