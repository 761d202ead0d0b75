"""Rooms of Python know only the rooms below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import arrows
from house.table import Table
from support.trees import RULES, plant


def keys(root: Path, files: dict[str, str]) -> list[str]:
    """Return the findings in a tree of modules."""
    return [finding.key for finding in arrows.find(plant(root, files), RULES)]


@pytest.mark.parametrize(
    "text",
    [
        "from trn3.planner import plans",
        "from trn3.planner.plans import Plan",
        "import trn3.planner.plans",
        "from ..planner import plans",
        "def late():\n    from trn3.planner import plans",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trn3.planner import plans",
        "from importlib import import_module\nimport_module('trn3.planner.plans')",
        "import trn3\n\ndef late():\n    return trn3.Plan()",
        "from trn3 import Plan",
    ],
)
def test_an_arrow_up_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    """Imports in functions, for types, by name and through the package itself count."""
    files = {
        "python/trn3/__init__.py": "def late():\n    from trn3.planner.plans import Plan\n",
        "python/trn3/planner/plans.py": "class Plan: ...",
        "python/trn3/system/base.py": text,
    }
    assert keys(tmp_path, files) == ["trn3.system.base -> trn3.planner.plans"]


def test_arrows_down_and_within_a_room_are_free(tmp_path: Path) -> None:
    """What a room knows is known to the rooms above it too."""
    files = {
        "python/trn3/machine/core.py": "import json, numpy",
        "python/trn3/system/base.py": "from trn3.machine import core",
        "python/trn3/planner/plans.py": "from trn3 import system\nfrom trn3.machine import core",
        "python/trn3/planner/plots.py": "from trn3.planner import plans",
    }
    assert keys(tmp_path, files) == []


def test_a_door_is_known_by_its_public_modules(tmp_path: Path) -> None:
    """One door may not reach inside another."""
    files = {
        "python/trn3/nki/isa/dma.py": "",
        "python/trn3/nki/memory.py": "",
        "python/trn3/cli/run.py": "from trn3 import nki\nfrom trn3.nki import isa, memory",
    }
    assert keys(tmp_path, files) == ["trn3.cli.run -> trn3.nki.memory"]


def test_a_compiled_module_belongs_to_its_column(tmp_path: Path) -> None:
    """``_trn3.machine`` is for the room of that name and those that the rules name."""
    use = "from trn3 import _trn3\nfrom trn3._trn3 import machine"
    files = {
        "python/trn3/_trn3/__init__.pyi": "",
        "python/trn3/_trn3/machine.pyi": "",
        "python/trn3/machine/core.py": use,
        "python/trn3/nki/isa/dma.py": use,
        "python/trn3/planner/plans.py": use,
        "python/trn3/planner/hidden.py": "from trn3 import _trn3\n\nx = _trn3.machine.core()",
    }
    assert keys(tmp_path, files) == [
        "trn3.planner.hidden -> trn3._trn3.machine",
        "trn3.planner.plans -> trn3._trn3.machine",
    ]


def test_a_module_without_a_room_is_found(tmp_path: Path) -> None:
    """A new folder needs a row in the table."""
    assert keys(tmp_path, {"python/trn3/attic.py": ""}) == ["trn3.attic"]


def test_a_name_of_today_goes_with_its_folder(tmp_path: Path) -> None:
    """The list of folders that are still to move only shrinks."""
    rules = {**RULES, "python": {**RULES["python"], "today": {"attic": "machine", "gone": "nki"}}}
    root = plant(tmp_path, {"python/trn3/attic.py": ""})
    assert [finding.key for finding in arrows.find(root, rules)] == ["today gone"]


def test_a_table_has_no_circle_and_no_unknown_room() -> None:
    """The table itself is an order."""
    with pytest.raises(ValueError, match="cycle"):
        Table({"rooms": {"a": ["b"], "b": ["a"]}})
    with pytest.raises(ValueError, match="'b' as known and gives it no row"):
        Table({"rooms": {"a": ["b"]}})
