"""What a long run shows on a terminal, and that it shows nothing elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

#: A run that takes longer than the patience, prints in between and says how far it is.
LONG = """
import sys, time
from trn3.cli import progress
progress.PATIENCE_SECONDS = 0.05
with progress.working("planning [b]x\\x1b[31m") as update:
    time.sleep(0.3)
    print("a result")
    update("2/5 done", 2, 5)
    time.sleep(0.3)
print("the end")
"""


def on_a_terminal(code: str) -> tuple[str, str]:
    """Return what a program writes to a pipe, and to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # Linux says so that the other end is closed.
                break
            if not part:
                break
            seen += part
        output = process.stdout.read() if process.stdout is not None else b""
        assert process.wait() == 0
    os.close(ours)
    return output.decode(), seen.decode()


def test_a_terminal_sees_what_goes_on_and_a_pipe_the_results() -> None:
    output, seen = on_a_terminal(LONG)
    assert output == "a result\nthe end\n"
    assert "planning [b]x\\x1b[31m" in seen
    assert "2/5 done" in seen
    assert "0:00:00" in seen
    assert "a result" not in seen


def test_a_fast_run_shows_nothing() -> None:
    assert on_a_terminal(LONG.replace("0.05", "60"))[1] == ""


def test_no_terminal_sees_anything(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-c", LONG], check=True)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("a result\nthe end\n", "")


def test_every_command_that_may_take_long_shows_that_it_works() -> None:
    """Those that run kernels, search, or go over tables of any length."""
    import trn3.cli

    folder = Path(trn3.cli.__file__).parent
    long = (
        "profile", "diff", "optimize", "record", "report", "plan", "plan_training", "nccom_test",
        "validate", "probe", "trace", "quantize",
    )  # fmt: skip
    texts = {name: (folder / f"{name}.py").read_text() for name in long}
    silent = [
        name for name, text in texts.items()
        if "with working(" not in text and "with progress_on_stderr(" not in text
    ]  # fmt: skip
    assert not silent
