"""The pages for maintainers say what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import networkx as nx

from house import __main__ as house, drill, picture
from support.trees import RULES, plant, plant_crates

SETTLE = "run: PYTHONPATH=scripts python -m house --settle"


def test_the_picture_is_that_of_the_code() -> None:
    """Who moves a wall draws it."""
    rules = tomllib.loads((house.HERE / "house.toml").read_text(encoding="utf-8"))
    drawn = (house.ROOT / picture.PAGE).read_text(encoding="utf-8")
    assert drawn == picture.draw(house.ROOT, rules), SETTLE


def test_the_picture_has_what_is_there_and_what_is_allowed(tmp_path: Path) -> None:
    """A new arrow shows; one that the table forbids, or that others say already, does not."""
    files = {
        "python/trn3/machine/core.py": "from trn3 import planner",
        "python/trn3/system/base.py": "from trn3 import machine",
        "python/trn3/planner/plans.py": "from trn3 import machine, system",
    }
    root = plant(plant_crates(tmp_path, {}, ground=[], wall=["ground"]), files)
    graph = picture.room_graph(root, RULES)
    assert sorted(graph.edges) == [
        ("planner", "machine"), ("planner", "system"), ("system", "machine"),
    ]  # fmt: skip
    assert sorted(nx.transitive_reduction(graph).edges) == [
        ("planner", "system"), ("system", "machine"),
    ]  # fmt: skip
    drawn = picture.draw(root, RULES)
    assert re.findall(r">(\w+)</text>", drawn) == ["ground", "wall", "machine", "planner", "system"]
    assert drawn.count("<path") == 3


def test_the_drill_is_true() -> None:
    """At least ten changes, each of one file that exists and holds what is said."""
    assert len(drill.changes(house.ROOT)) >= 10
    assert drill.misses(house.ROOT) == []
    page = (house.ROOT / drill.FOLDER / "drill.md").read_text(encoding="utf-8")
    assert page == drill.page(house.ROOT), SETTLE


def test_a_drill_that_is_not_true_is_found(tmp_path: Path) -> None:
    """A file that is gone, and one that lacks what is said of it."""
    entries = "".join(
        f'[[change]]\nwhat = "w"\nfile = "{file}"\nholds = "x = 1"\ndo = "d"\n'
        for file in ("gone.toml", "there.toml", "other.toml")
    )
    files = {
        "docs/maintainers/drill.toml": entries,
        "docs/maintainers/drill.md": f"# Drill\n{drill.BEGIN}{drill.END}",
        "there.toml": "x = 1",
        "other.toml": "x = 2",
    }
    root = plant(tmp_path, files)
    assert drill.misses(root) == [
        "gone.toml is gone (w)", "other.toml does not hold 'x = 1' (w)",
    ]  # fmt: skip
    assert "| w | `there.toml` | d |" in drill.page(root)
