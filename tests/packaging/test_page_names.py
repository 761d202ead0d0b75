"""What pages call by its name or path is there, under its present name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from trn3._moved import PUBLIC, renamed

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = "rust|python|tests|scripts|docs|examples|benches"
#: Names of other programs that look like ours: components of SST, the driver of claims.
OTHERS = {"trn3.ComputeArray", "trn3.Tile", "trn3.internal"}


def lacks(name: str) -> str:
    """Return the part of a dotted name that is not there, or the whole if it is of the past."""
    if name not in PUBLIC and renamed(name) not in {None, *PUBLIC.values()}:
        return name
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(thing, part):
                return part
            thing = getattr(thing, part)
        return ""
    return name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_paths_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(trn3(?:\.\w+)+)", text)) - OTHERS:
        assert not lacks(name), name
    for path in re.findall(
        r"`((?:rust|python|tests|scripts|docs|examples|benches)/[\w./-]+)`", text
    ):
        assert (ROOT / path).exists(), path
    for link in re.findall(r"\]\(([\w./-]+\.\w+)\)", text):
        assert (page.parent / link).exists(), link


def test_a_name_of_the_past_is_found() -> None:
    assert lacks("trn3.nki.isa.memset") == ""
    assert lacks("trn3.nki.isa.memsat") == "memsat"
    assert lacks("trn3.chakra.codec") == "trn3.chakra.codec"


def test_the_changelog_has_each_heading_once() -> None:
    """Entries of branches that meet belong under the headings that are there."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for release in text.split("\n## ")[1:]:
        headings = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert len(headings) == len(set(headings)), headings
        entries = re.findall(r"^- (.+)$", release, re.MULTILINE)
        assert len(entries) == len(set(entries))
