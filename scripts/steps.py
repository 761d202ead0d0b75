"""Run commands as named steps: one line each, the full output in ``build/logs``.

Steps that need nothing of each other stand in lanes, which run beside each other.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

TAIL_LINES = 40
PERCENT = re.compile(r"\[ *(\d+)%\]")


@dataclass(frozen=True, slots=True)
class Result:
    """How one step ended: its output is in ``log``, ``detail`` is a few words for the summary."""

    name: str
    ok: bool
    seconds: float
    log: Path
    detail: str = ""

    @property
    def output(self) -> str:
        """Return everything the step printed."""
        return self.log.read_text(errors="replace")


class StepError(Exception):
    """A step that the following ones need has failed; it has been reported already."""


@dataclass
class Runner:
    """Runs steps, one after another or in lanes, and remembers how each ended."""

    root: Path
    logs: Path
    results: list[Result] = field(default_factory=list)
    # One step at a time writes its line and its explanation.
    _writing: threading.RLock = field(default_factory=threading.RLock, repr=False)
    # What a lane that fails kills; a step that it would miss does not begin.
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set, repr=False)
    _starting: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _in_lanes: bool = False
    _stopping: bool = False

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        terminal = sys.stdout.isatty() and "CI" not in os.environ
        self._moving = terminal and os.environ.get("TERM") != "dumb"
        self._colour = self._moving and "NO_COLOR" not in os.environ
        self._width = 0

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        required: bool = False,
        show: bool = False,
    ) -> Result:
        """Run `command` as step `name`.

        With `required` a failure raises `StepError`. With `show` the output goes to the terminal as
        it comes, instead of to the log.
        """
        log = self.logs / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".log")
        words = [str(word) for word in command]
        start = time.monotonic()
        with log.open("wb") as sink:
            sink.write(f"$ {' '.join(words)}\n".encode())
            sink.flush()
            if not self._in_lanes:
                self._begin(name)
                if show:
                    self._end_line()
            status = self._wait(name, words, environment, None if show else sink, log, start)
        result = Result(name, status == 0, time.monotonic() - start, log)
        # What is killed because another step failed has nothing to say.
        if self._stopping:
            raise StepError(name)
        with self._writing:
            if self._in_lanes:
                self._begin(name)
            if not show:
                self._finish(result)
            if not result.ok:
                self._explain(result, status, show=show)
            self.results.append(result)
        if required and not result.ok:
            raise StepError(name)
        return result

    def lanes(self, *lanes: Callable[[], None]) -> None:
        """Run steps that need nothing of each other beside each other, a function a lane.

        The line of a step comes when it is done. When a lane raises, steps of others are killed and
        no other begins; what it raised is raised here.
        """
        errors: list[BaseException] = []

        def run(lane: Callable[[], None]) -> None:
            try:
                lane()
            except BaseException as error:
                errors.append(error)
                self._stop()

        threads = [threading.Thread(target=run, args=(lane,)) for lane in lanes]
        self._in_lanes = True
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            # The terminal sent the interrupt to the steps too: let them end by themselves first.
            with self._starting:
                self._stopping = True
            deadline = time.monotonic() + 10
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            self._stop()
            raise
        finally:
            for thread in threads:
                thread.join()
            self._in_lanes = self._stopping = False
        if errors:
            raise errors[0]

    def note(self, name: str, text: str) -> None:
        """Print the line of a step that had nothing to do."""
        with self._writing:
            self._begin(name)
            print(text, flush=True)
            self._width = 0

    def paint(self, text: str, colour: int) -> str:
        """Return `text` in an ANSI colour if the terminal shows colours."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text

    def _launch(
        self, words: list[str], environment: Mapping[str, str], sink: BinaryIO | None, log: Path
    ) -> subprocess.Popen[bytes] | None:
        try:
            return subprocess.Popen(
                words,
                cwd=self.root,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT if sink is not None else None,
            )
        except OSError as error:
            with log.open("a") as text:
                text.write(f"{words[0]}: {error.strerror}\n")
            return None

    def _wait(
        self,
        name: str,
        words: list[str],
        environment: Mapping[str, str],
        sink: BinaryIO | None,
        log: Path,
        start: float,
    ) -> int:
        with self._starting:
            if self._stopping:
                raise StepError(name)
            process = self._launch(words, environment, sink, log)
            if process is not None:
                self._running.add(process)
        if process is None:
            return 127
        stop = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(name, log, start, stop), daemon=True)
        if self._moving and sink is not None and not self._in_lanes:
            ticker.start()
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal sent the interrupt to the child too: let it end by itself first.
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        finally:
            with self._starting:
                self._running.discard(process)
            stop.set()
            if ticker.is_alive():
                ticker.join()

    def _stop(self) -> None:
        with self._starting:
            self._stopping = True
            for process in self._running.copy():
                process.kill()

    def _tick(self, name: str, log: Path, start: float, stop: threading.Event) -> None:
        while not stop.wait(0.5):
            with log.open("rb") as source:
                source.seek(max(0, log.stat().st_size - 4096))
                percents = PERCENT.findall(source.read().decode(errors="replace"))
            done = f" {percents[-1]}%" if percents else ""
            line = f"  {name:<28}{time.monotonic() - start:7.0f} s{done}"
            print(f"\r{line:<{self._width}}", end="", flush=True)
            self._width = max(self._width, len(line))

    def _begin(self, name: str) -> None:
        # Without a moving line the name comes at once, so that a log shows what is under way.
        line = f"  {name:<28}"
        print(line, end="", flush=True)
        self._width = len(line)

    def _end_line(self) -> None:
        print(flush=True)
        self._width = 0

    def _finish(self, result: Result) -> None:
        word = self.paint("ok", 32) if result.ok else self.paint("FAILED", 31)
        if self._moving:
            print(f"\r{'':<{self._width}}\r  {result.name:<28}", end="")
        print(f"{result.seconds:7.1f} s  {word}", flush=True)
        self._width = 0

    def _explain(self, result: Result, status: int, *, show: bool) -> None:
        columns = shutil.get_terminal_size().columns if self._moving else 120
        if not show:
            print(f"    {'-' * (columns - 8)}")
            for line in result.output.splitlines()[-TAIL_LINES:]:
                print(f"    {line}")
            print(f"    {'-' * (columns - 8)}")
        where = "" if show else f"; the whole output: {result.log.relative_to(self.root)}"
        print(f"    {result.name}: exit status {status}{where}", flush=True)
