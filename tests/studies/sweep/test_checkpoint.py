"""Checkpoints: what they keep, when they are refused, and that a killed sweep goes on."""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sweep_support as functions
import trn3
from support.checks import TESTS, error
from trn3.studies.sweep import SweepCheckpointError

PYTHON = Path(trn3.__file__).parents[1]


def recorded(tmp_path: Path) -> functools.partial[int]:
    return functools.partial(functions.record_call, folder=str(tmp_path))


def calls(tmp_path: Path) -> Counter[int]:
    return Counter(map(int, (tmp_path / "calls").read_text().split()))


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_runs_only_what_failed(tmp_path: Path, workers: int) -> None:
    run = functools.partial(
        trn3.sweep,
        recorded(tmp_path),
        {"x": range(5)},
        checkpoint=tmp_path / "log",
        workers=workers,
    )
    first = run()
    assert first.values == [0, 1, None, 3, 4]
    (tmp_path / "repaired").touch()
    second = run()
    assert second.values == [0, 1, 2, 3, 4]
    assert [point.is_resumed for point in second] == [True, True, False, True, True]
    assert "4 from the checkpoint" in repr(second)
    shown: list[Any] = []
    third = run(progress=lambda done, total: shown.append((done, total)))
    assert third.values == second.values
    assert [point.seconds for point in third] == [point.seconds for point in second]
    assert shown == [(5, 5)]
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}


def test_iterables_resume_and_may_have_grown(tmp_path: Path) -> None:
    def points(count: int) -> Any:
        return ({"x": 10 + x} for x in range(count))

    log = tmp_path / "log"
    trn3.sweep(recorded(tmp_path), points(3), checkpoint=log, workers=0)
    longer = trn3.sweep(recorded(tmp_path), list(points(5)), checkpoint=log, workers=0)
    assert longer.values == [10, 11, 12, 13, 14]
    assert set(calls(tmp_path).values()) == {1}
    for shorter in (list(points(4)), points(4)):
        with error(SweepCheckpointError, "point 4", "4 points"):
            trn3.sweep(recorded(tmp_path), shorter, checkpoint=log, workers=0)
    other = [{"x": 10}, {"x": 99}, *points(5)]
    for source in (other, iter(other)):
        with error(SweepCheckpointError, "point 1", "other parameters", "line 3"):
            trn3.sweep(recorded(tmp_path), source, checkpoint=log, workers=0)


def square_again(x: int) -> int:
    return x * x


@pytest.mark.parametrize(
    ("fn", "grid", "arguments", "words"),
    [
        (square_again, {"x": [1, 2]}, {}, ("function", "square_again", "square")),
        (functions.square, {"x": [1, 3]}, {}, ("values of x",)),
        (functions.square, {"x": [1, 2, 3]}, {}, ("values of x",)),
        (functions.square, {"x": [1.0, 2]}, {}, ("values of x",)),
        (functions.square, [{"x": 1}, {"x": 2}], {}, ("axes",)),
        (functions.square, {"x": [1, 2]}, {"version": 2}, ("version", "2", "None")),
        (functions.add, {"x": [1], "y": [2]}, {}, ("function", "add")),
    ],
)
def test_checkpoint_of_another_sweep_is_refused(
    tmp_path: Path, fn: Any, grid: Any, arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    trn3.sweep(functions.square, {"x": [1, 2]}, checkpoint=log, workers=0)
    before = log.read_bytes()
    with error(SweepCheckpointError, str(log), "another sweep", "path", *words):
        trn3.sweep(fn, grid, checkpoint=log, workers=0, **arguments)
    assert log.read_bytes() == before


def test_what_a_partial_binds_tells_it_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    grid = {"x": [1]}
    trn3.sweep(functools.partial(functions.add, y=1), grid, checkpoint=log, workers=0)
    with error(SweepCheckpointError, "function", "bound"):
        trn3.sweep(functools.partial(functions.add, y=2), grid, checkpoint=log, workers=0)


def test_functions_without_a_name_need_a_version(tmp_path: Path) -> None:
    class Adder:
        def __call__(self, x: int) -> int:
            return x + 1

    for fn in (lambda x: x + 1, Adder(), Adder().__call__):
        with error(SweepCheckpointError, "version"):
            trn3.sweep(fn, {"x": [1]}, checkpoint=tmp_path / "log", workers=0)
        (tmp_path / "log").unlink(missing_ok=True)
        again: Any = {"checkpoint": tmp_path / "log", "workers": 0, "version": "a"}
        assert trn3.sweep(fn, {"x": [1]}, **again).values == [2]
        assert trn3.sweep(fn, {"x": [1]}, **again)[0].is_resumed
        (tmp_path / "log").unlink()


def test_last_line_cut_off_is_said_and_runs_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "log"
    run = functools.partial(
        trn3.sweep, recorded(tmp_path), {"x": [5, 6, 7]}, checkpoint=log, workers=0
    )
    run()
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in [*range(1, len(lines[-1]), 7), len(lines[-1])]:
        log.write_bytes(whole[:-cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING, "trn3.sweep"):
            result = run()
        assert result.values == [5, 6, 7]
        assert [point.is_resumed for point in result] == [True, True, False]
        # Seconds differ from run to run.
        assert log.read_bytes().splitlines(keepends=True)[:-1] == lines[:-1]
        is_torn = cut < len(lines[-1])
        assert len(result.notes) == is_torn
        if is_torn:
            assert "line 4 is cut off" in result.notes[0]
            assert result.notes[0] in caplog.text
    for cut in range(0, len(lines[0]), 7):
        log.write_bytes(lines[0][:cut])
        assert run().values == [5, 6, 7]


def test_damage_elsewhere_names_file_and_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run = functools.partial(
        trn3.sweep, functions.square, {"x": [1, 2, 3]}, checkpoint=log, workers=0
    )
    run()
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = 0
    for number, line in enumerate(lines, start=1):
        for place in range(0, len(line) - 1, 3):
            damaged = bytearray(whole)
            damaged[start + place] ^= 0x11
            log.write_bytes(damaged)
            with error(SweepCheckpointError, str(log), f"line {number}"):
                run()
            assert log.read_bytes() == damaged
        start += len(line)
    for place in (0, 1, 2):
        log.write_bytes(b"".join([*lines[:place], b"\n", *lines[place:]]))
        with error(SweepCheckpointError, str(log), f"line {place + 1}"):
            run()


@pytest.mark.parametrize("text", ["precious", "precious\n", "{}\n", '{"crc32":"', "\x00"])
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text(text, encoding="ascii")
    if text == '{"crc32":"':  # the beginning of a checkpoint's first line
        assert trn3.sweep(functions.square, {"x": [1]}, checkpoint=path, workers=0).notes
        return
    with error(SweepCheckpointError, "thesis.txt", "line 1"):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=path, workers=0)
    assert path.read_text(encoding="ascii") == text


def test_checkpoint_in_use_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def inner(x: int) -> int:
        with error(SweepCheckpointError, "log", "in use"):
            trn3.sweep(functions.square, {"x": [1]}, checkpoint=log, workers=0)
        return x

    arguments: Any = {"checkpoint": log, "workers": 0, "version": 1}
    assert trn3.sweep(inner, {"x": [1]}, **arguments).raise_errors().values == [1]


def test_values_that_cannot_be_stored_are_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for fn, words in (
        (functions.give_set, ("value of point 0", "builtins.set", "tuple")),
        (functions.make_plan, ("value of point 0", "sweep_support.Plan", "value_types=[Plan]")),
    ):
        log.unlink(missing_ok=True)
        with error(SweepCheckpointError, str(log), *words):
            trn3.sweep(fn, {"x": [1]}, checkpoint=log, workers=0)
    with error(SweepCheckpointError, "axis", "x", "object"):
        trn3.sweep(functions.square, {"x": [object()]}, checkpoint=log, workers=0)


def test_dataclasses_survive_when_named(tmp_path: Path) -> None:
    types = [functions.Plan, functions.Inner, functions.Pair, functions.Colour]
    run = functools.partial(
        trn3.sweep,
        functions.make_plan,
        {"x": [1, 3]},
        checkpoint=tmp_path / "log",
        value_types=types,
        workers=0,
    )
    run()
    for point, expected in zip(
        run(), (functions.make_plan(1), functions.make_plan(3)), strict=True
    ):
        assert point.is_resumed
        got = point.value
        assert (got.seconds, got.colour, got.inner.pair) == (
            expected.seconds,
            expected.colour,
            expected.inner.pair,
        )
        assert type(got.inner.pair) is functions.Pair
        assert got.inner.bits.tobytes() == expected.inner.bits.tobytes()
        assert got.inner.bits.dtype == expected.inner.bits.dtype
    with error(SweepCheckpointError, "line 2", "Plan", "value_types"):
        run(value_types=[])


def test_lines_are_json(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trn3.sweep(functions.fail_on_odd, {"x": [1, 2]}, checkpoint=log, workers=0, version="1.0")
    header, failed, point = (json.loads(line)["record"] for line in log.read_text().splitlines())
    assert header["function"] == {"name": "sweep_support.fail_on_odd"}
    assert header["version"] == "1.0"
    assert failed["error"]["message"] == "1 is odd"
    assert (point["parameters"], point["value"]) == ({"x": 2}, 2)


def test_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with error(FileNotFoundError, "nowhere"):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=tmp_path / "nowhere" / "log")


def test_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    write, written = os.write, 0

    def short(file: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written == 4:
            return write(file, data[:20])
        if written == 5:
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", short)
    with error(OSError, "No space left on device"):
        trn3.sweep(functions.square, {"x": range(9)}, checkpoint=log, workers=0)
    result = trn3.sweep(functions.square, {"x": range(9)}, checkpoint=log, workers=0)
    assert [point.is_resumed for point in result] == [True] * 2 + [False] * 7
    assert result.notes == ()


DRIVER = """
import functools, sys, trn3
from sweep_support import record_call
def slow(x, folder):
    import time
    time.sleep(0.02)
    return record_call(x, folder)
if __name__ == "__main__":
    fn = functools.partial(slow, folder=sys.argv[1])
    result = trn3.sweep(fn, {"x": range(100, 180)}, workers=2, checkpoint=sys.argv[1] + "/log")
    print(result.values == list(range(100, 180)), sum(point.is_resumed for point in result))
"""


def test_killed_driver_resumes_where_it_was(tmp_path: Path) -> None:
    script, log = tmp_path / "study.py", tmp_path / "log"
    script.write_text(DRIVER, encoding="ascii")
    command = [sys.executable, str(script), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{PYTHON}{os.pathsep}{TESTS}"}
    for count in (10, 40):
        with subprocess.Popen(command, env=environment) as driver:
            functions.wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") > count)  # noqa: B023
            driver.send_signal(signal.SIGKILL)
        assert driver.returncode == -signal.SIGKILL
    finished = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    is_right, resumed = finished.stdout.split()
    assert is_right == "True"
    assert 40 <= int(resumed) < 80
    # Only what was in flight when the driver died, two at a time, may have run twice.
    assert sum(calls(tmp_path).values()) <= 80 + 4
