"""Every page works, from top to bottom: its programs, its commands, and what they print."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import ROOT, PageRun, pages, runnable, unknown_blocks
from trn3 import nki


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Give a folder whose name fits a line of a terminal with what a page prints behind it."""
    with tempfile.TemporaryDirectory(prefix="page") as folder:
        yield Path(folder).resolve()


@pytest.mark.parametrize("page", [page for page in pages() if runnable(page)], ids=name_of)
def test_a_page_works_from_top_to_bottom(
    page: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name == "torch.md":
        pytest.importorskip("torch")
    monkeypatch.chdir(short_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.syspath_prepend(short_path)
    run = PageRun(short_path)
    try:
        run.follow(page)
    finally:
        nki.uninstall()
        for name in [each for each in sys.modules if (short_path / f"{each}.py").exists()]:
            del sys.modules[name]
    overlooked = {token.map[0] + 1 for token in runnable(page) if token.map} - set(run.followed)
    assert not overlooked


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    """Else commands would stand in it that nobody runs."""
    assert unknown_blocks(page) == []
