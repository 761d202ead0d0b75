"""Results: access, tables, files; and progress."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich.console

import trn3
from support import sweeps as functions
from support.checks import error
from support.figures import texts_of
from trn3.studies.sweep import SweepResult
from trn3.studies.sweep.progress import Bar, Silent, make_progress


def sized(a: int, b: int, name: str) -> dict[str, Any]:
    return {"size": a * b + len(name), "text": name}


def test_pictures_have_a_line_for_each_choice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    names = ["x", "a_rather_long_name_of_something" * 3]
    grid: dict[str, Any] = {"a": [1, 2, 4, 8], "b": [3, 5], "name": names}
    result = trn3.sweep(sized, grid, workers=0)
    figure: Any = result.plot()
    written = texts_of(figure)
    assert {"a", "value.size", "b 3, name x"} <= set(written)
    lines = figure.axes[0].lines
    assert [line.get_xdata().tolist() for line in lines] == [[1, 2, 4, 8]] * 4
    assert lines[0].get_ydata().tolist() == [4, 7, 13, 25]
    by_name = result.plot(x="name", y="size")
    labels = [tick.get_text() for tick in by_name.axes[0].get_xticklabels()]
    assert [label.replace("\n", "") for label in labels] == names
    assert texts_of(by_name)
    assert result.plot(tmp_path / "sweep.svg") == tmp_path / "sweep.svg"
    with error(ValueError, "x is 'c'", "a, b, name"):
        result.plot(x="c")
    with error(ValueError, "y is 'text'", "value.size, seconds"):
        result.plot(y="text")
    many = trn3.sweep(pow, {"base": list(range(1, 60)), "exp": [1, 2]}, workers=0)
    assert "and 29 more" in texts_of(many.plot(x="exp"))


def mixed(x: Any) -> Any:
    if isinstance(x, str) and x == "bad":
        message = "no, [bold]never[/bold]"
        raise ValueError(message)
    return x


def run(fn: Any, grid: Any) -> SweepResult:
    return trn3.sweep(fn, grid, workers=0)


def test_access() -> None:
    result = run(functions.add, {"x": [1, 2, 3], "y": [5, 6]})
    assert [point.value for point in result] == result.values == [15, 16, 25, 26, 35, 36]
    assert (result[1].parameters, result[-1].value) == ({"x": 1, "y": 6}, 36)
    assert result[{"x": 2, "y": 6}].value == 26
    assert result.select(y=5).values == [15, 25, 35]
    assert result[2:4].values == [25, 26]
    assert result[2:4][0].index == 2
    assert result.names == ("x", "y")
    assert len(result) == 6
    with error(KeyError, "2", "x"):
        result[{"x": 2}]
    with error(KeyError, "0", "x"):
        result[{"x": 9}]
    with error(KeyError, "z", "x", "y"):
        result.select(z=1)
    with pytest.raises(IndexError):
        result[6]


def test_parameters_may_be_arrays() -> None:
    arrays = [np.arange(2), np.arange(3)]
    result = run(mixed, [{"x": array} for array in arrays])
    assert result.select(x=np.arange(3))[0].index == 1


def test_rows_have_one_form() -> None:
    result = run(mixed, {"x": [1.5, "bad", {"a": 1, "b": [2, 3]}, functions.Pair(1.0, 2.0)]})
    rows = result.to_rows()
    columns = ["x", "value", "value.a", "value.b", "value.low", "value.high"]
    assert [list(row) for row in rows] == [[*columns, "error", "seconds", "attempts"]] * 4
    assert [row["value"] for row in rows] == [1.5, None, None, None]
    assert [row["value.b"] for row in rows] == [None, None, [2, 3], None]
    assert [row["value.high"] for row in rows] == [None, None, None, 2.0]
    assert rows[1]["error"] == "ValueError: no, [bold]never[/bold]"


def taken(value: int, error: int, seconds: int) -> int:
    return value + error + seconds


def test_columns_never_collide_with_parameters() -> None:
    row = run(taken, {"value": [1], "error": [2], "seconds": [3]}).to_rows()[0]
    assert (row["value"], row["error"], row["seconds"]) == (1, 2, 3)
    assert (row["result.value"], row["result.error"]) == (6, None)


def test_csv(tmp_path: Path) -> None:
    values = [1, 0.1, math.inf, "a,b\n", "bad", np.float32(0.5), [1, 2], True]
    result = run(mixed, {"x": values})
    text = result.to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes().decode() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["value"] for row in rows] == [
        "1",
        "0.1",
        "inf",
        "a,b\n",
        "",
        "0.5",
        "[1, 2]",
        "True",
    ]
    assert run(mixed, {"x": []}).to_csv() == "x,value,error,seconds,attempts\n"


def test_json(tmp_path: Path) -> None:
    plan = functions.make_plan(2)
    values = [1, math.nan, -math.inf, "bad", np.arange(2), plan, (1, 2j), {3: None}, {4}]
    result = run(mixed, {"x": values})
    text = result.to_json(tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text(), parse_constant=pytest.fail)
    assert json.loads(text) == document
    assert document["names"] == ["x"]
    assert [point["value"] for point in document["points"]] == [
        1,
        "NaN",
        "-Infinity",
        None,
        [0, 1],
        {
            "seconds": 2 / 3,
            "inner": {"bits": [0.0, 1.0], "pair": {"low": -0.0, "high": 2.0}},
            "colour": "RED",
        },
        [1, [0.0, 2.0]],
        {"3": None},
        "{4}",
    ]
    assert document["points"][3]["error"]["type"] == "ValueError"


def test_pandas() -> None:
    pytest.importorskip("pandas", reason="the extra `dataframe` is not installed")
    frame = run(functions.add, {"x": [1, 2], "y": [3]}).to_pandas()
    assert frame["value"].tolist() == [13, 23]
    assert list(frame.columns) == ["x", "y", "value", "error", "seconds", "attempts"]


def test_pandas_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with error(ImportError, "to_pandas", "pandas", "dataframe"):
        run(functions.square, {"x": [1]}).to_pandas()


def test_repr_and_table() -> None:
    result = run(mixed, {"x": [*range(30), "bad"]})
    assert repr(result).startswith("<SweepResult: 31 points of x, 1 failed; ")
    console = rich.console.Console(width=100, record=True, file=io.StringIO())
    console.print(result)
    console.print(result[29:])
    console.print(run(mixed, {"x": []}))
    text = console.export_text()
    assert "and 11 more" in text
    assert "no, [bold]never[/bold]" in text


def test_progress_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert type(make_progress(None)) is Silent
    assert type(make_progress(False)) is Silent
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(make_progress(None), Bar)
    with make_progress(None) as patient:
        patient.update(1, 0, 4)
    assert capsys.readouterr() == ("", "")
    with make_progress(True) as shown:
        shown.update(1, 1, 4)
    written = capsys.readouterr()
    assert written.out == ""
    assert "sweeping" in written.err
    assert "1/4" in written.err
    assert "1 failed" in written.err


def test_progress_function() -> None:
    seen = []
    grid = ({"x": x} for x in range(3))
    trn3.sweep(functions.square, grid, workers=0, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, None), (2, None), (3, None)]
