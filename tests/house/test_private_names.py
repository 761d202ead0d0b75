"""Private names stay in their room."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import private_names
from support.trees import RULES, plant

OWNER = """
class Chip:
    def __init__(self):
        self._links = []
    def _count(self): ...
def _helper(): ...
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from trn3.machine.core import _helper", "trn3.machine.core._helper"),
        ("from trn3.machine import core\ncore._helper()", "._helper"),
        ("from trn3.machine import _tables", "trn3.machine._tables"),
        ("from trn3.machine._tables import rows", "trn3.machine._tables"),
        ("def draw(chip):\n    return chip._links", "._links"),
        ("def draw(chip):\n    return getattr(chip, '_count')()", "._count"),
        ("class Own(Chip):\n    def draw(self):\n        return self._links", "._links"),
    ],
)
def test_a_private_name_of_another_room_is_found(tmp_path: Path, text: str, found: str) -> None:
    """As an import, as an attribute of a module or an object, and by inheritance."""
    files = {
        "python/trn3/machine/core.py": OWNER,
        "python/trn3/machine/_tables.py": "rows = []",
        "python/trn3/planner/plans.py": text,
    }
    keys = [finding.key for finding in private_names.find(plant(tmp_path, files), RULES)]
    assert keys == [f"trn3.planner.plans uses {found}"]


@pytest.mark.parametrize(
    "text",
    [
        "from trn3.machine.core import _helper\nfrom trn3.machine import _tables",
        "def draw(chip):\n    return chip._links",
        "from trn3 import _trn3",
        "import os\nos._exit(0)",
        "class Own:\n    def __init__(self):\n        self._mine = _ = 1\n    x = __name__",
    ],
)
def test_ones_own_private_names_are_free(tmp_path: Path, text: str) -> None:
    """In the folder and below it; what other libraries call private is not ours to judge."""
    files = {
        "python/trn3/machine/core.py": OWNER,
        "python/trn3/machine/_tables.py": "rows = []",
        "python/trn3/machine/deep/plans.py": text,
    }
    assert private_names.find(plant(tmp_path, files), RULES) == []


def test_a_module_below_the_top_is_a_room_of_its_own(tmp_path: Path) -> None:
    """What it calls private is not for its neighbours."""
    files = {
        "python/trn3/flows.py": "class Flow:\n    def __init__(self):\n        self._file = None",
        "python/trn3/traffic.py": "def of(flow):\n    return flow._file",
    }
    keys = [finding.key for finding in private_names.find(plant(tmp_path, files), RULES)]
    assert keys == ["trn3.traffic uses ._file"]


def test_names_that_libraries_offer_are_excused(tmp_path: Path) -> None:
    """A name that is private by its form only stands in the rules."""
    files = {
        "python/trn3/a/one.py": "def _fields(): ...",
        "python/trn3/b/two.py": "def names(row):\n    return row._fields",
    }
    root = plant(tmp_path, files)
    rules = {**RULES, "private_names": {"_fields": "fields of a named tuple"}}
    assert len(private_names.find(root, RULES)) == 1
    assert private_names.find(root, rules) == []
