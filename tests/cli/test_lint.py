"""``trn3 lint``: tables, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

Refused = Callable[..., str]
Run = Callable[..., Any]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"
KERNELS = """\
import nki
import nki.language as nl

@nki.jit
def first(x, y=None):
    return x if y is None else y

@nki.jit
def second(x):
    return nl.divide(x, x)
"""


def test_lint_of_a_portable_file_is_clean(run: Run) -> None:
    outcome = run("lint", FOLDER / "matmul.py")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("5 kernels searched: nothing")


def test_lint_shows_place_rule_and_remedy(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    outcome = run("lint", path)
    assert outcome.code == 1
    for part in [f"{path}:6:17", "TRN3-P001", "`==` or `!=`", f"{path}:10:12", "TRN3-P018"]:
        assert part in outcome.stdout
    assert "2 kernels searched: 2 refused, 0 may be refused" in outcome.stdout
    assert run("lint", f"{path}:second").stdout.count("TRN3-P") == 1


def test_lint_json_holds_every_field(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    outcome = run("lint", f"{path}:first", "--json")
    assert outcome.code == 1
    document = json.loads(outcome.stdout)
    assert document["kernels"] == ["first"]
    (finding,) = document["findings"]
    assert (finding["file"], finding["line"], finding["column"]) == (str(path), 6, 17)
    assert (finding["rule"], finding["severity"]) == ("TRN3-P001", "error")


def test_lint_refuses_what_holds_no_kernel(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    assert "there is no such file" in refused("lint", path)
    path.write_text("x = 1\n")
    assert "there is no kernel in it" in refused("lint", path)
    assert "no kernel 'y'" in refused("lint", f"{path}:y")
    path.write_text("x = 1 +\n")
    assert f"{path}:1: SyntaxError" in refused("lint", path)
    path.write_bytes(b"x = 1\0\n")
    assert refused("lint", path).startswith(f"{path}: SyntaxError: source code string cannot")


def test_lines_may_allow_what_they_mean_to_break(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    meant = "if y is None else y  # trn3: allow TRN3-P001, TRN3-P018"
    path.write_text(KERNELS.replace("if y is None else y", meant))
    outcome = run("lint", f"{path}:first")
    assert (outcome.code, outcome.stdout) == (
        0,
        "1 kernel searched: nothing that compilers are known to refuse, 1 allowed by its line\n",
    )
    document = json.loads(run("lint", path, "--json").stdout)
    assert [each["rule"] for each in document["allowed"]] == ["TRN3-P001"]
    assert [each["rule"] for each in document["findings"]] == ["TRN3-P018"]
    path.write_text(KERNELS.replace("if y is None else y", meant.replace("P001", "P002")))
    assert run("lint", f"{path}:first").code == 1


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_pass(run: Run, path: Path) -> None:
    outcome = run("lint", path)
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.stdout
    assert outcome.stdout.count("allowed") == (path.stem == "sparse_mlp")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_places_keep_their_numbers_on_narrow_terminals(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    folder = tmp_path / "a_folder_with_quite_a_long_name"
    folder.mkdir()
    path = folder / "kernels.py"
    path.write_text(KERNELS)
    monkeypatch.setattr("trn3.cli.lint.output", lambda: Console(width=width, highlight=False))
    lines = run("lint", path).stdout.splitlines()
    assert all(len(line) <= width for line in lines)
    for place in ("kernels.py:6:17", "kernels.py:10:12"):
        assert sum(place in line for line in lines) == 1
    assert "…" not in "".join(lines)
