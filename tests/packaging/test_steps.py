"""Steps of `make`: one after another, and in lanes beside each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from steps import Runner, StepError
from support.commands import ROOT


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path, tmp_path / "logs")


def step(runner: Runner, name: str, code: str, *, required: bool = False) -> bool:
    """Run some Python as a step, and return whether it succeeded."""
    command = [sys.executable, "-c", code]
    return runner.run(name, command, environment=os.environ, required=required).ok


def test_a_step_says_how_it_ended(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert step(runner, "First One", "print('heard')")
    assert not step(runner, "second", "raise SystemExit('wrong')")
    assert (runner.logs / "first-one.log").read_text().endswith("heard\n")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("  First One ")
    assert first.endswith(" s  ok")
    assert any("wrong" in line for line in rest)
    assert [result.ok for result in runner.results] == [True, False]


def test_lanes_run_beside_each_other(runner: Runner) -> None:
    """Each waits for the other to have begun, which one after the other could never."""
    wait = (
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "end = time.monotonic() + 60\n"
        "while not pathlib.Path(sys.argv[2]).exists():\n"
        "    assert time.monotonic() < end\n"
        "    time.sleep(.01)\n"
    )
    here, there = str(runner.root / "here"), str(runner.root / "there")

    def lane(name: str, *files: str) -> None:
        runner.run(name, [sys.executable, "-c", wait, *files], environment=os.environ)

    runner.lanes(lambda: lane("one", here, there), lambda: lane("other", there, here))
    assert sorted(result.name for result in runner.results if result.ok) == ["one", "other"]


def test_lines_of_lanes_are_whole(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    def lane(letter: str) -> None:
        for number in range(4):
            step(runner, letter * (number + 1), "")
            runner.note(f"note {letter}{number}", "said")

    runner.lanes(lambda: lane("x"), lambda: lane("y"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16
    assert all(line.endswith((" s  ok", "said")) for line in lines)


def test_a_lane_that_fails_ends_the_others(runner: Runner) -> None:
    """What runs beside it is killed, what would follow does not begin, and it is told once."""
    reached = threading.Event()

    def long() -> None:
        step(runner, "long", "import time; time.sleep(600)")
        reached.set()

    begin = time.monotonic()
    with pytest.raises(StepError, match=r"^needed$"):
        runner.lanes(long, lambda: step(runner, "needed", "raise SystemExit(1)", required=True))
    assert time.monotonic() - begin < 300
    assert not reached.is_set()
    assert [result.name for result in runner.results] == ["needed"]
    assert step(runner, "afterwards", "")


def test_an_interrupt_ends_lanes(tmp_path: Path) -> None:
    """Control-C reaches the steps and the runner at once, and no other step begins."""
    program = (
        "import os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "from steps import Runner\n"
        f"runner = Runner(Path({str(tmp_path)!r}), Path({str(tmp_path)!r}) / 'logs')\n"
        "def lane(name):\n"
        "    def run():\n"
        "        for turn in range(9):\n"
        "            command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "            runner.run(f'{name} {turn}', command, environment=os.environ)\n"
        "    return run\n"
        "def interrupt():\n"
        "    while len(list(runner.logs.glob('*.log'))) < 2: time.sleep(.01)\n"
        "    time.sleep(.5)\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        "try:\n"
        "    runner.lanes(lane('one'), lane('other'))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', len(list(runner.logs.glob('*.log'))))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("interrupted")
