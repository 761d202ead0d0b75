"""Figures of the hardware stand in the spec files and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import figures
from support.trees import RULES, plant, plant_crates

SPECS = """
[core.clock_tensor]
default = 2.4
unit = "GHz"
[core.sbuf_partition]
default = 224
unit = "KiB"
[core.hbm_bandwidth]
default = 4.9
unit = "TB/s"
sources = [{ value = 4.9152, source = "derived" }]
[core.partitions]
default = 128
unit = "count"
"""


def keys(root: Path) -> list[str]:
    """Return what is found in a tree."""
    return [finding.key for finding in figures.find(root, RULES)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CLOCK = 2.4e9", "2400000000"),
        ("CLOCK = 2_400_000_000", "2400000000"),
        ("def size():\n    return 224 * 1024", "229376"),
        ("SIZE = 7 << 15", "229376"),
        ("RATE = {'hbm': 4.9152}", "4.9152"),
        ("RATE = 4900 * 10 ** 9 * 1.0 + 4.9e12", "4900000000000"),
    ],
)
def test_a_figure_in_python_is_found(tmp_path: Path, text: str, number: str) -> None:
    """However it is spelt."""
    plant_crates(tmp_path, {}, ground=[])
    plant(tmp_path, {"specs/core.toml": SPECS, "python/trn3/plans.py": text})
    assert keys(tmp_path) == [f"python/trn3/plans.py {number}"]


@pytest.mark.parametrize(
    "text", ["const CLOCK: f64 = 2.4e9;", "fn f() -> u64 { (2_400 * 1_000_000u64) }"]
)
def test_a_figure_in_rust_is_found(tmp_path: Path, text: str) -> None:
    """Suffixes and products are read."""
    plant_crates(tmp_path, {"ground/src/plans.rs": text}, ground=[])
    plant(tmp_path, {"specs/core.toml": SPECS, "python/trn3/plans.py": ""})
    assert keys(tmp_path) == ["rust/ground/src/plans.rs 2400000000"]


def test_a_figure_in_data_is_found(tmp_path: Path) -> None:
    """In the text of a formula too; not in a comment."""
    plant_crates(tmp_path, {}, ground=[])
    text = 'peak = "128 * 2.4e9"\n# 4.9152\n'
    files = {"specs/core.toml": SPECS, "python/trn3/a.toml": text, "python/trn3/a.py": ""}
    assert keys(plant(tmp_path, files)) == ["python/trn3/a.toml 2400000000"]


def test_comments_docstrings_tests_and_common_numbers_are_free(tmp_path: Path) -> None:
    """Prose may speak of figures; 128 and 2.4 alone say nothing."""
    rust = "//! At 2.4e9.\nconst N: u32 = 128;\n#[cfg(test)]\nmod tests { const C: f64 = 2.4e9; }"
    plant_crates(tmp_path, {"ground/src/lib.rs": rust}, ground=[])
    python = '"""At 2.4e9, 229376 bytes."""\nN = 128  # 2.4e9\nX = 2.4\nY = 1 << 20\n'
    plant(tmp_path, {"specs/core.toml": SPECS, "python/trn3/plans.py": python})
    assert keys(tmp_path) == []


def test_an_excuse_holds_and_an_idle_one_is_found(tmp_path: Path) -> None:
    """By number, or by file and number."""
    plant_crates(tmp_path, {}, ground=[])
    text = "A, B, C = 2.4e9, 229376, 4.9152"
    plant(tmp_path, {"specs/core.toml": SPECS, "python/trn3/plans.py": text})
    excuses = {"229376": "a", "python/trn3/plans.py 2400000000": "b", "17.5": "gone"}
    rules = {**RULES, "figures": {**RULES["figures"], "excuses": excuses}}
    found = [finding.key for finding in figures.find(tmp_path, rules)]
    assert found == ["excuse 17.5", "python/trn3/plans.py 4.9152"]
