"""The documentation as a site: its sections, its search, and how pictures stand in pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import trn3
from support.browser import browser, missing
from support.documents import ROOT
from support.sandbox import run

DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
SECTIONS = ["Tutorial", "How to", "Reference", "Explanation"]
FOLDERS = {"Tutorial": "tutorial", "How to": "how-to", "Reference": "reference"}
PAGE = """# Numbers

Every zyzzogeton is here.

```{picture} numbers.ladders
:alt: Stripes for the numbers of four formats

All of them.
```

It rounds up where $\\lfloor x \\rfloor < 2^{32}$.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build two pages with the settings of the documentation."""
    pytest.importorskip("sphinx_design", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"
    source.mkdir()
    (source / "index.md").write_text("# Site\n\n```{toctree}\nnumbers\n```\n", encoding="utf-8")
    (source / "numbers.md").write_text(PAGE, encoding="utf-8")
    build(source, folder / "html")
    return folder / "html"


def build(source: Path, target: Path) -> None:
    options: list[str | Path] = ["-W", "-q", "-c", DOCS, "-d", target.parent / "doctrees"]
    path = str(Path(trn3.__file__).parents[1])
    run([sys.executable, "-m", "sphinx", *options, source, target], cwd=ROOT, PYTHONPATH=path)


def captions() -> dict[str, list[str]]:
    found = re.findall(r"```\{toctree\}\n:hidden:\n:caption: (.*)\n\n((?:\S.*\n)*?)```", INDEX)
    return {caption: entries.split() for caption, entries in found}


def test_there_are_four_sections_and_none_is_long() -> None:
    assert list(captions()) == SECTIONS
    assert all(len(entries) <= 6 for entries in captions().values())
    for caption, folder in FOLDERS.items():
        assert all(entry.startswith((f"{folder}/", "notebooks/")) for entry in captions()[caption])


def test_no_page_is_an_orphan() -> None:
    """Sphinx warns of pages that are in no table of contents, unless they say that they want it."""
    orphan = re.compile(r"^:?orphan:", re.MULTILINE)
    pages = [*DOCS.rglob("*.md")]
    assert not [page for page in pages if orphan.search(page.read_text(encoding="utf-8"))]


def test_the_first_page_shows_all_ways_in() -> None:
    cards = re.findall(r"\{card\} (.*)\n:link: /(.*)\n", INDEX)
    assert [title for title, _ in cards] == [
        "You write kernels", "You study numerics", "You plan systems", "You write simulators",
    ]  # fmt: skip
    assert all((DOCS / f"{link}.md").exists() for _, link in cards)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^- \*\*you (.*)\*\*: \[docs/(.*)\.md\]", readme, re.MULTILINE) == [
        (title.removeprefix("You "), link) for title, link in cards
    ]
    (program,) = re.findall(r"```python\n(.*?)```", INDEX, re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 10


def test_pictures_stand_in_pages_once_for_light_and_once_for_dark(site: Path) -> None:
    page = (site / "numbers.html").read_text(encoding="utf-8")
    images = re.findall(r"<img [^>]*>", page)
    shown = [image for image in images if "numbers.ladders" in image]
    assert [re.search("only-(light|dark)", image)[1] for image in shown] == ["light", "dark"]  # type: ignore[index]
    for image in shown:
        assert 'alt="Stripes for the numbers of four formats"' in image
        source = re.search(r'src="([^"]*)"', image)
        assert source
        assert (site / source[1]).is_file()
    assert "All of them." in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```{picture} numbers.none\n:alt: nothing\n```", "picture 'numbers.none': there is none"),
        ("```{picture} numbers.ladders\n```", "needs an alt text"),
    ],
)
def test_a_picture_that_cannot_be_shown_fails_the_build(
    text: str, message: str, tmp_path: Path
) -> None:
    pytest.importorskip("sphinx_design", reason="the extra `docs` is not installed")
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# Site\n\n{text}\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=message):
        build(source, tmp_path / "html")


def test_nothing_is_fetched(site: Path) -> None:
    """Pages work without a network: formulas are drawn by the browser itself."""
    pages = [(site / name).read_text(encoding="utf-8") for name in ("numbers.html", "search.html")]
    assert "<math " in pages[0]
    for page in pages:
        assert not re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="(?:https?:)?//', page)


def test_search_works_without_a_server(site: Path) -> None:
    if missing():
        pytest.skip(missing())
    with browser() as window:
        window.driver.get((site / "search.html").as_uri() + "?q=zyzzogeton")
        window.driver.implicitly_wait(10)
        (found,) = window.driver.find_elements("css selector", "ul.search li a")
        assert found.text == "Numbers"
        assert found.get_attribute("href").startswith((site / "numbers.html").as_uri())
