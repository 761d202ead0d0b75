"""``trn3 lint``: tables, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
