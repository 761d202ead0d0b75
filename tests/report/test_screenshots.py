"""How a report looks: small pictures of it are kept, and what is drawn is near them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import trn3
from support import synthetic_report
from support.browser import Browser

SCRIPTS = Path(trn3.__file__).parent / "report" / "web"
KEPT = Path(__file__).parent / "screenshots"
# Of the picture: fonts differ between machines, but where is text and where are bars does not.
BLOCK = 16
MEAN_DIFFERENCE, FAR, FAR_SHARE = 4.0, 48, 0.02

#: What is done before a picture is taken.
SHOW = "; document.querySelector('[data-goto={}]').click()"
VIEWS = {
    "whole_light": "",
    "whole_dark": "",
    "selected_light": "trn3report.zoom(0, 2e7); trn3report.select({instruction: 50})"
    + SHOW.format("memory"),
    "roofline_dark": "trn3report.select({line: 'attention.py:6'})" + SHOW.format("roofline"),
    "tables_light": "trn3report.select({instruction: 50})" + SHOW.format("tables"),
}


def blocks(png: bytes) -> NDArray[np.uint8]:
    """Return the mean colour of each block of a picture."""
    image = pytest.importorskip("matplotlib.image")
    pixels = np.asarray(image.imread(io.BytesIO(png), format="png"))[:, :, :3] * 255
    rows, columns = pixels.shape[0] // BLOCK, pixels.shape[1] // BLOCK
    cut = pixels[: rows * BLOCK, : columns * BLOCK]
    mean = cut.reshape(rows, BLOCK, columns, BLOCK, 3).mean(axis=(1, 3))
    return mean.round().astype(np.uint8)  # type: ignore[no-any-return]


def take(browser: Browser, page: Path, view: str, width: int, height: int) -> bytes:
    browser.resize(width, height, dark=view.endswith("dark"))
    browser.open(page)
    browser.run(VIEWS[view])
    browser.await_frame()
    browser.await_frame()
    return browser.screenshot()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("screenshots") / "attention.html"
    path.write_text(synthetic_report.page(1400, SCRIPTS), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
@pytest.mark.parametrize("view", VIEWS)
def test_it_looks_as_it_did(
    browser: Browser, page: Path, view: str, width: int, height: int
) -> None:
    """New pictures are looked at first, then kept: ``blocks(take(...))`` as VIEW_WIDTH.png."""
    kept = blocks_kept(view, width)
    seen = blocks(take(browser, page, view, width, height))
    assert seen.shape == kept.shape
    difference = np.abs(seen.astype(int) - kept.astype(int)).max(axis=2)
    assert difference.mean() < MEAN_DIFFERENCE
    assert (difference > FAR).mean() < FAR_SHARE


def blocks_kept(view: str, width: int) -> NDArray[np.uint8]:
    image = pytest.importorskip("matplotlib.image")
    pixels = np.asarray(image.imread(KEPT / f"{view}_{width}.png"))[:, :, :3] * 255
    return pixels.round().astype(np.uint8)
