"""How much is Python has a limit, and each room a reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from house import __main__ as house, code_lines
from support.trees import RULES, plant

FILES = {
    "python/trn3/machine/core.py": '"""One core."""\n\n# Why.\nx = [\n    1,\n]\n"""An x."""\n',
    "python/trn3/nki/isa/copy.py": "def copy():\n    '''Move.'''\n    return 1\n",
}


def test_docstrings_comments_and_blanks_are_no_code(tmp_path: Path) -> None:
    """Rooms with a reason of their own count by themselves."""
    root = plant(tmp_path, FILES)
    counted = {"machine": 3, "nki.isa": 2}
    assert {k: v for k, v in code_lines.by_room(root, RULES).items() if v} == counted


@pytest.mark.parametrize(
    ("text", "keys"),
    [("", []), ("y = 2\n", ["python"])],
)
def test_the_limit_holds(tmp_path: Path, text: str, keys: list[str]) -> None:
    """Five lines are allowed, six are not."""
    root = plant(tmp_path, FILES | {"python/trn3/machine/more.py": text})
    rules = {**RULES, "python_lines": {"limit": 5, "why": {"trn3": "", "machine": "", "nki": ""}}}
    assert [finding.key for finding in code_lines.find(root, rules)] == keys


def test_a_room_without_a_reason_is_found(tmp_path: Path) -> None:
    """And a reason whose room is gone."""
    root = plant(tmp_path, {"python/trn3/machine/core.py": "", "python/trn3/cli/app.py": ""})
    keys = [finding.key for finding in code_lines.find(root, RULES)]
    assert keys == ["why cli", "why nki.isa"]


def test_the_page_has_every_room() -> None:
    """Its numbers may be old by a tenth, or two hundred lines."""
    rules = tomllib.loads((house.HERE / "house.toml").read_text(encoding="utf-8"))
    text = (house.ROOT / code_lines.PAGE).read_text(encoding="utf-8")
    table = text.partition(code_lines.BEGIN)[2].partition(code_lines.END)[0]
    rows = re.findall(r"^\| `([\w.]+)` \| ([\d,]+) \| (.+) \|$", table, re.MULTILINE)
    rooms = code_lines.by_room(house.ROOT, rules)
    advice = "run: PYTHONPATH=scripts python -m house --settle"
    assert {name: why for name, _, why in rows} == rules["python_lines"]["why"], advice
    for name, lines, _ in rows:
        shown = int(lines.replace(",", ""))
        assert shown == pytest.approx(rooms[name], rel=0.1, abs=200), f"{name}: {advice}"
