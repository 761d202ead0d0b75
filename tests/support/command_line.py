"""Fixtures that run the command, in this process or in its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import checkpoints
from trn3.__main__ import main


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of the command left behind."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command in this process."""

    def run_command(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def refused(run: Callable[..., Outcome]) -> Callable[..., str]:
    """Run the command, check that it refuses as it should, and return its one line."""

    def run_refused(*arguments: object) -> str:
        outcome = run(*arguments)
        assert outcome.code == 2
        assert outcome.stdout == ""
        assert outcome.stderr.startswith("trn3: error: ")
        assert outcome.stderr.count("\n") == 1
        assert outcome.stderr.endswith("\n")
        return outcome.stderr.removeprefix("trn3: error: ").rstrip("\n")

    return run_refused


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[str]]:
    """Start the command in a process of its own, which signals reach as they reach a terminal's."""

    def start(
        *arguments: object, preexec_fn: Callable[[], None] | None = None, **options: object
    ) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "trn3", *map(str, arguments)]

        def prepare() -> None:
            # The program honours what it inherits: nohup, or a shell's background, ignores some.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            if preexec_fn is not None:
                preexec_fn()

        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,  # noqa: PLW1509 - the tests start it before any thread
            **options,
        )

    return start


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a small sound checkpoint."""
    return checkpoints.write(
        tmp_path / "model.safetensors", checkpoints.some_tensors(), {"format": "pt"}
    )
