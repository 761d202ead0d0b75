"""The page on fabrics says what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trn3 import facts, systems

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fabric.md"


@pytest.mark.parametrize(
    ("row", "system", "group"),
    [
        ("Gen2, all 144", "gen2", "*"),
        ("Gen2, a rack of 72", "gen2", "1"),
        ("Gen2, a server of 4", "gen2", "0/7"),
        ("Trn2 instance", "trn2_instance", "*"),
        ("Trn2 UltraServer", "trn2_ultraserver", "*"),
        ("NVL72", "gb300_nvl72", "*"),
    ],
)
def test_the_table_of_bounds(row: str, system: str, group: str) -> None:
    [line] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row} |")]
    _, _, bound, binding, _ = (cell.strip() for cell in line.split("|"))
    number, _, formula = bound.partition(" = ")
    found = systems.load(system).bound(group=group)
    assert f"{found.per_chip / 1e9:.4g}" == number
    if formula:
        value = eval(formula.replace("x", "*"), {})
        assert value == pytest.approx(found.per_chip / 1e9)
    assert binding.startswith(found.binding.level)


def test_the_table_of_systems() -> None:
    rows = re.findall(r"^\| (`.+?) \| ([\d,]+) \| \((.+?)\) \|", PAGE.read_text(), re.MULTILINE)
    named = 0
    for names, chips, parts in rows:
        for name in re.findall(r"`(\w+)`", names):
            system = getattr(systems, name)()
            assert len(system) == int(chips.replace(",", ""))
            assert ", ".join(system.id_parts) == parts
            named += 1
    assert named == 12


def test_the_file_of_ones_own(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.+?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "my_rack.toml"
    path.write_text(text)
    system = systems.load(path)
    assert (len(system), system.ranks) == (16, 64)
    assert system.bound().binding.level in {"inside", "between"}


def figures(table: object) -> Iterator[dict[str, Any]]:
    """Find all figures of a table of a spec file."""
    if isinstance(table, dict):
        if {"value", "unit", "source"} <= set(table):
            yield table
        for entry in table.values():
            yield from figures(entry)
    elif isinstance(table, list):
        for entry in table:
            yield from figures(entry)


@pytest.mark.parametrize("name", facts.names())
def test_figures_of_fabrics_have_sources_that_hold(name: str) -> None:
    for figure in figures(facts.load(name).parts.get("fabric", {})):
        assert figure["source"], figure
        derived = re.match(r"derived: ([\d*/+.]+)", figure["source"])
        if derived:
            assert eval(derived[1], {}) == pytest.approx(figure["value"]), figure


def test_all_to_all_reaches_its_cut_on_all_systems() -> None:
    for name in ("trn1", "trn2", "trn2_ultraserver", "gen1", "gen2", "nvl72", "h100"):
        assert systems.load(name).bound().is_by_cut, name
    assert not systems.trn3_gen2().bound(group="0").is_by_cut
