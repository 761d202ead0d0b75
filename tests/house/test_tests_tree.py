"""Folders of tests are called as packages are, and hold tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import tests_tree
from support.trees import RULES, plant

SOUND = {
    "python/trn3/machine/core.py": "",
    "python/trn3/nki/isa/copy.py": "",
    "python/trn3/nki/values/axes.py": "",
    "python/trn3/_trn3/machine.pyi": "",
    "tests/conftest.py": "",
    "tests/machine/test_core.py": "from trn3 import machine",
    "tests/nki/isa/test_copy.py": "",
    "tests/nki/values/test_axes.py": "",
    "tests/nki/data/case.yaml": "",
    "tests/bindings/test_core.py": "from trn3._trn3.machine import core",
    "tests/support/core.py": "\n" * 600,
}


def keys(root: Path) -> list[str]:
    """Return what the check finds in a tree."""
    return [finding.key for finding in tests_tree.find(root, RULES)]


def test_a_sound_tree_passes(tmp_path: Path) -> None:
    """Packages have folders, helpers stand among helpers, data may stand anywhere."""
    assert keys(plant(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"python/trn3/system/base.py": ""}, "tests/system is missing"),
        ({"python/trn3/nki/lint/rules.py": ""}, "tests/nki/lint is missing"),
        ({"tests/sweeps/test_grid.py": ""}, "tests/sweeps mirrors nothing"),
        ({"tests/nki/audit/test_views.py": ""}, "tests/nki/audit mirrors nothing"),
        ({"tests/machine/profiles.py": ""}, "tests/machine/profiles.py helps"),
        ({"tests/machine/test_long.py": "\n" * 601}, "tests/machine/test_long.py is long"),
    ],
)
def test_what_is_out_of_place_is_found(tmp_path: Path, more: dict[str, str], key: str) -> None:
    """A package without tests, tests of no package, a helper among tests, a file too long."""
    assert keys(plant(tmp_path, SOUND | more)) == [key]


@pytest.mark.parametrize(
    "use",
    [
        "import trn3._trn3.machine",
        "from trn3 import _trn3",
        "from trn3._trn3.machine import core",
        "def f():\n    from trn3._trn3 import machine",
        'import importlib\nx = importlib.import_module("trn3._trn3")',
    ],
)
def test_the_compiled_modules_are_for_their_own_tests(tmp_path: Path, use: str) -> None:
    """However they are imported; helpers may not either."""
    root = plant(tmp_path, SOUND | {"tests/support/core.py": use})
    assert keys(root) == ["tests/support/core.py -> trn3._trn3"]


def test_a_folder_that_is_gone_needs_no_reason(tmp_path: Path) -> None:
    """A reason stays no longer than what it is for."""
    files = {name: text for name, text in SOUND.items() if "bindings" not in name}
    assert keys(plant(tmp_path, files)) == ["excuse tests/bindings"]
