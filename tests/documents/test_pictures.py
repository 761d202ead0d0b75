"""Every page about something that one looks at has a picture, which the build makes."""

from __future__ import annotations

import re
import shutil
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from support.documents import ROOT

pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from pictures.cache import drawn, function_of

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "pictures" not in path.parts)
DIRECTIVE = re.compile(r"^`{3}\{(picture|live-report)\} (\S+)\n((?::\w+: .*\n)*)", re.MULTILINE)
PICTURE = re.compile(r"^`{3}\{(?:picture|live-report|image)\}", re.MULTILINE)
WITHOUT: dict[str, str] = tomllib.loads((DOCS / "pictures" / "without.toml").read_text())["pages"]
#: The only picture in the repository, drawn by `python -m house --settle`.
KEPT = {DOCS / "maintainers" / "architecture.svg"}


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_a_picture_or_is_about_nothing_to_see(page: Path) -> None:
    excused = [pattern for pattern in WITHOUT if fnmatch(name_of(page), pattern)]
    assert bool(PICTURE.search(page.read_text(encoding="utf-8"))) != bool(excused), excused


@pytest.mark.parametrize("pattern", WITHOUT)
def test_what_is_excused_is_there(pattern: str) -> None:
    assert any(fnmatch(name_of(page), pattern) for page in PAGES)
    assert WITHOUT[pattern]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_have_functions_and_alt_texts(page: Path) -> None:
    """An alt text says what is to be seen, which its name does not."""
    text = page.read_text(encoding="utf-8")
    found = DIRECTIVE.findall(text)
    assert len(found) == len(re.findall(r"^`{3}\{(?:picture|live-report)\}", text, re.MULTILINE))
    for _, name, options in found:
        assert callable(function_of(name))
        alt = re.search(r"^:alt: (.*)$", options, re.MULTILINE)
        assert alt, name
        assert len(alt[1].split()) >= 4, name


def test_no_picture_is_in_the_repository() -> None:
    """What is drawn from code would else be what the code was."""
    kinds = {".gif", ".jpeg", ".jpg", ".pdf", ".png", ".svg", ".webp"}
    there = {path for path in DOCS.rglob("*") if path.suffix in kinds}
    assert {path for path in there if "_build" not in path.parts} == KEPT


@pytest.mark.parametrize("name", ["kernels.attention_lanes", "numbers.ladders"])
def test_a_picture_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    first, again = (drawn(name, "light", tmp_path / each) for each in ("first", "again"))
    assert first.name == again.name
    assert first.read_bytes() == again.read_bytes()
    dark = drawn(name, "dark", tmp_path / "first")
    assert dark.read_bytes() != first.read_bytes()


def test_what_is_drawn_is_kept(tmp_path: Path) -> None:
    """Until something that it was drawn from changes: then the old one goes."""
    path = drawn("numbers.ladders", "light", tmp_path)
    path.write_text("kept", encoding="utf-8")
    assert drawn("numbers.ladders", "light", tmp_path) == path
    assert path.read_text(encoding="utf-8") == "kept"
    old = tmp_path / "numbers.ladders-light-0123456789abcdef.svg"
    shutil.move(path, old)
    assert drawn("numbers.ladders", "light", tmp_path) == path
    assert not old.exists()
    assert path.read_text(encoding="utf-8") != "kept"


@pytest.mark.parametrize("name", ["numbers.none", "nothing.at_all", "numbers"])
def test_a_picture_that_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"picture '{name}': there is none"):
        drawn(name, "light", tmp_path)
