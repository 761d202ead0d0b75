"""Checkpoints: what they keep, when they are refused, and that a killed sweep goes on."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import trn3
from support import sweeps as functions
from support.checks import TESTS, error
from trn3.studies.sweep import SweepCheckpointError

PYTHON = Path(trn3.__file__).parents[1]
HERE = str(Path(__file__).parent)


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
        with error(SweepCheckpointError, "point 1", "other parameters"):
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


def test_sweep_cut_off_is_said_and_its_last_points_run_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of the files in mid-sweep is what a kill leaves; the log may end anywhere."""
    log, killed = tmp_path / "log", tmp_path / "killed"
    copies: dict[int, tuple[bytes, bytes]] = {}

    def copy(done: int, total: int | None) -> None:
        copies[done] = log.read_bytes(), Path(f"{log}-wal").read_bytes()

    run = functools.partial(trn3.sweep, recorded(tmp_path), {"x": [5, 6, 7]}, workers=0)
    run(checkpoint=log, progress=copy)
    assert not Path(f"{log}-wal").exists()
    base, ahead = copies[3]
    resumed = []
    for cut in [*range(0, len(ahead), 331), len(ahead)]:
        killed.write_bytes(base)
        Path(f"{killed}-wal").write_bytes(ahead[:cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING, "trn3.sweep"):
            result = run(checkpoint=killed)
        assert result.values == [5, 6, 7]
        resumed.append(sum(point.is_resumed for point in result))
        assert "was cut off" in result.notes[0]
        assert f"its {resumed[-1]} finished points" in result.notes[0]
        assert result.notes[0] in caplog.text
        assert run(checkpoint=killed).notes == ()
    assert resumed == sorted(resumed)
    assert set(resumed) == {0, 1, 2, 3}


def test_damage_anywhere_is_told_or_does_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run = functools.partial(
        trn3.sweep, functions.square, {"x": [1, 2, 3]}, checkpoint=log, workers=0
    )
    run()
    whole = log.read_bytes()
    told = 0
    used = [place for place, byte in enumerate(whole) if byte]
    for place in (*used[::3], *range(0, len(whole), 997)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        log.write_bytes(damaged)
        refusal, values = None, None
        try:
            values = run().values
        except SweepCheckpointError as error_:
            refusal = str(error_)
        if refusal is None:
            assert values == [1, 4, 9]
        else:
            assert str(log) in refusal
            assert log.read_bytes() == damaged
            told += 1
    assert told > len(used) // 4
    for length in range(1, len(whole), 511):
        log.write_bytes(whole[:length])
        with error(SweepCheckpointError, str(log)):
            run()
        assert log.read_bytes() == whole[:length]


def test_damage_of_a_point_names_the_point(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run = functools.partial(
        trn3.sweep, functions.square, {"x": [70001, 70002, 70003]}, checkpoint=log, workers=0
    )
    run()
    whole = log.read_bytes()
    for index, text in enumerate((b'{"x":70001}', b'{"x":70002}', b'{"x":70003}')):
        for part in (text, str((70001 + index) ** 2).encode()):
            start = whole.index(part)
            for place in range(start, start + len(part)):
                damaged = bytearray(whole)
                damaged[place] ^= 0x11
                log.write_bytes(damaged)
                with error(SweepCheckpointError, str(log), f"point {index}", "checksum"):
                    run()
                assert log.read_bytes() == damaged
    header = whole.index(b"support.sweeps.square")
    log.write_bytes(whole[:header] + b"t" + whole[header + 1 :])
    with error(SweepCheckpointError, str(log), "checksum"):
        run()


@pytest.mark.parametrize("text", ["precious", "precious\n" * 100, "{}\n", "\x00"])
def test_other_files_are_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text(text, encoding="ascii")
    with error(SweepCheckpointError, "thesis.txt"):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=path, workers=0)
    assert path.read_text(encoding="ascii") == text
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA application_id = 7", ("something else",)),
        ("PRAGMA user_version = 3", ("version 3", "reads version 2")),
        ("CREATE TABLE more (x)", ("tables",)),
        ("CREATE VIEW more AS SELECT * FROM records", ("tables",)),
        (
            "CREATE TRIGGER more AFTER INSERT ON records BEGIN SELECT load_extension('x'); END",
            ("tables",),
        ),
        ("DROP TABLE records", ("tables",)),
        ("DELETE FROM records WHERE point < 0", ("name",)),
        ("UPDATE records SET record = '{}' WHERE point < 0", ("header", "checksum")),
        ("UPDATE records SET record = '{}' WHERE point = 0", ("point 0", "checksum")),
        ("UPDATE records SET record = x'00ff' WHERE point = 0", ("point 0", "checksum")),
        ("UPDATE records SET point = 5 WHERE point = 0", ("point 5", "checksum")),
    ],
)
def test_databases_that_are_no_checkpoint_are_left_alone(
    tmp_path: Path, statement: str, words: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    run = functools.partial(trn3.sweep, functions.square, {"x": [1]}, checkpoint=log, workers=0)
    run()
    with contextlib.closing(sqlite3.connect(log)) as database:
        database.execute(statement)
        database.commit()
    before = log.read_bytes()
    with error(SweepCheckpointError, str(log), *words):
        run()
    assert log.read_bytes() == before


def test_forged_values_run_no_code_and_end_in_an_error(tmp_path: Path) -> None:
    """Rows whose checksums match, with values that nothing here has written."""
    log = tmp_path / "log"
    run = functools.partial(trn3.sweep, functions.square, {"x": [1]}, checkpoint=log, workers=0)
    run()
    whole = log.read_bytes()
    for value in (
        "[" * 100_000,
        '{"$":"unheard of"}',
        '{"$":"dataclass","class":"os.system","fields":{"command":"true"}}',
        '{"$":"array","dtype":"O","shape":[1],"base64":""}',
        "no JSON",
    ):
        log.write_bytes(whole)
        with contextlib.closing(sqlite3.connect(log)) as database:
            find = "SELECT record FROM records WHERE point = 0"
            ((record,),) = database.execute(find).fetchall()
            forged = record.replace('"value":1', f'"value":{value}')
            assert forged != record
            row = forged, zlib.crc32(f"0 {forged}".encode())
            database.execute("UPDATE records SET record = ?, crc32 = ? WHERE point = 0", row)
            database.commit()
        with error(SweepCheckpointError, str(log), "point 0 cannot be read"):
            run()


#: As trn3 0.1.0 wrote it.
VERSION_1 = """\
{"crc32":"bc42a452","record":{"format":"trn3.sweep","format_version":1,"function":{"name":"sweep\
_support.square"},"version":null,"axes":{"x":{"length":1,"digest":"4355a46b19d348dc2f57c046f8ef6\
3d4"}}}}
{"crc32":"6e9a81c8","record":{"point":0,"digest":"5041bf1f713df204784353e82f6a4a53","parameters"\
:{"x":1},"attempts":1,"seconds":1.8929999896499794e-06,"value":1}}
"""


def test_checkpoints_of_the_first_release_are_refused_by_their_version(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(VERSION_1, encoding="ascii")
    with error(SweepCheckpointError, str(log), "version 1 (trn3 0.1.0)", "reads version 2"):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=log, workers=0)
    assert log.read_text(encoding="ascii") == VERSION_1


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with error(SweepCheckpointError, str(path), "regular file"):
            trn3.sweep(functions.square, {"x": [1]}, checkpoint=path, workers=0)
    with error(IsADirectoryError, str(tmp_path)):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=tmp_path, workers=0)


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
        (functions.make_plan, ("value of point 0", "support.sweeps.Plan", "value_types=[Plan]")),
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
    with error(SweepCheckpointError, "point 0", "Plan", "value_types"):
        run(value_types=[])


def test_points_can_be_read_with_sqlite(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trn3.sweep(functions.fail_on_odd, {"x": [1, 2]}, checkpoint=log, workers=0, version="1.0")
    with contextlib.closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT point, record FROM records ORDER BY point").fetchall()
    assert [point for point, _ in rows] == [-1, 0, 1]
    header, failed, point = (json.loads(record) for _, record in rows)
    assert header["function"] == {"name": "support.sweeps.fail_on_odd"}
    assert header["version"] == "1.0"
    assert failed["error"]["message"] == "1 is odd"
    assert (point["parameters"], point["value"]) == ({"x": 2}, 2)


def test_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with error(FileNotFoundError, "nowhere"):
        trn3.sweep(functions.square, {"x": [1]}, checkpoint=tmp_path / "nowhere" / "log")


def leave_much(x: int) -> bytes:
    return bytes([x]) * 100_000


LIMITED = """
import resource, signal, sys, trn3
from test_checkpoint import leave_much
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
trn3.sweep(leave_much, {"x": range(20)}, checkpoint=sys.argv[1], workers=0)
"""


def test_full_disk_leaves_whole_points(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PYTHON), str(TESTS), HERE])}
    full = subprocess.run(
        [sys.executable, "-c", LIMITED, str(log)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert full.returncode == 1
    lines = full.stderr.strip().splitlines()
    assert any(line.startswith("OSError: ") and str(log) in line for line in lines)
    before = sys.path[:]
    sys.path.insert(0, HERE)
    try:
        from test_checkpoint import leave_much as same  # type: ignore[import-not-found]
    finally:
        sys.path[:] = before
    result = trn3.sweep(same, {"x": range(20)}, checkpoint=log, workers=0)
    assert result.values == [leave_much(x) for x in range(20)]
    done = sum(point.is_resumed for point in result)
    assert 1 <= done < 20
    assert f"{done} finished points are in" in full.stderr


DRIVER = """
import functools, sys, trn3
from support.sweeps import record_call
def slow(x, folder):
    import time
    time.sleep(0.02)
    return record_call(x, folder)
if __name__ == "__main__":
    fn = functools.partial(slow, folder=sys.argv[1])
    result = trn3.sweep(fn, {"x": range(100, 180)}, workers=2, checkpoint=sys.argv[1] + "/log")
    print(result.values == list(range(100, 180)), sum(point.is_resumed for point in result))
"""


def is_recorded(tmp_path: Path, count: int) -> bool:
    """Return whether so many points are recorded: all that were called but two at most."""
    return (tmp_path / "calls").exists() and len(calls(tmp_path)) >= count + 2


def test_killed_driver_resumes_where_it_was(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(DRIVER, encoding="ascii")
    command = [sys.executable, str(script), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{PYTHON}{os.pathsep}{TESTS}"}
    for count in (10, 40):
        with subprocess.Popen(command, env=environment) as driver:
            functions.wait_until(lambda: is_recorded(tmp_path, count))  # noqa: B023
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
