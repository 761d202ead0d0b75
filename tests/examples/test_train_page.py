"""The page about training, run as a reader would, and the recipes that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")
pytest.importorskip("jax.ffi", reason="this JAX has no jax.ffi, which mx_dot needs")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "train.md"


def test_programs_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(pairs) == 3
    for program, printed in pairs:
        exec(compile(program, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == printed


def test_every_recipe_is_named() -> None:
    table = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    found = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    assert found == {path.stem for path in (ROOT / "examples/train/recipes").glob("*.toml")}
