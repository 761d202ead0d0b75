"""Crates depend on the crates below them."""

from __future__ import annotations

from pathlib import Path

from house import crate_arrows
from support.trees import RULES, plant, plant_crates


def test_a_dependency_upwards_is_found(tmp_path: Path) -> None:
    """Downwards is free; a crate needs a row."""
    root = plant_crates(tmp_path, {}, ground=["roof"], wall=["ground"], roof=[], attic=[])
    found = [finding.key for finding in crate_arrows.find(root, RULES)]
    assert found == ["attic", "ground -> roof"]


def test_tests_may_use_any_crate(tmp_path: Path) -> None:
    """What only tests compile makes no arrow."""
    root = plant_crates(tmp_path, {}, ground=[], roof=["ground"])
    manifest = root / "rust" / "ground" / "Cargo.toml"
    text = manifest.read_text() + '\n[dev-dependencies]\nroof = { path = "../roof" }\n'
    plant(root, {"rust/ground/Cargo.toml": text})
    assert crate_arrows.find(root, RULES) == []
