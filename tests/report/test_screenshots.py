"""How a report looks: small pictures of it are kept, and what is drawn is near them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from support import synthetic_report
from support.browser import Browser
from trn3.report.charts import axis, bars, curves, line, stack, stacks
from trn3.report.markup import Cell, Markup, entries, listed, number, paragraphs, table
from trn3.report.shell import ReportPage, ReportPane

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
    "kinds_light": "",
    "kinds_dark": "document.querySelector('[data-goto=errors]').click()",
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


def of_another_kind() -> str:
    """Return a page with each kind of drawing, of figures that nobody computes."""
    parts = [(f"part {at}", 2.0**-at, f"{2.0**-at:.3g} ms") for at in range(8)]
    bank = [("weights", 12.0, "12 GiB"), ("kv cache", 9.0, "9 GiB")]
    rows: list[list[Cell]] = [[name, number(value, text)] for name, value, text in parts]
    where = [
        stacks("Where time goes", [stack("a step", "1.99 ms", parts)]),
        stacks("What a bank holds", [stack("a bank", "21 of 36 GiB", bank, limit=36.0)]),
        bars("Times the first", ["b", "c"], [
            (f"figure {at}", [(2.0 ** (at - 2), f"{2.0 ** (at - 2):g}"), (None, "")])
            for at in range(5)
        ], base=1.0, is_log=True),
    ]  # fmt: skip
    steps = [(at / 4 - 5, 10.0 ** -abs(at / 8 - 2.5), "") for at in range(40)]
    marks = [(at - 5.0, 0.01 * (at + 1), "") for at in range(10)]
    errors = curves(
        "Errors", axis("error", unit=" %"), axis("part of values", is_log=True),
        [line("stepped", steps, is_marked=False, is_step=True), line("marked", marks)],
    )  # fmt: skip
    shown = table("parts", "Parts of a step", ("part", "time"), rows)
    panes = [
        ReportPane("where", "Where", shown, where),
        ReportPane("errors", "Errors", paragraphs(["An error is a difference."]), [errors]),
        ReportPane("settings", "Settings", Markup(entries([("chips", 8)]) + listed("Said", ["a"]))),
    ]
    figures = [
        ("machine", "8 x trainium3"),
        ("a step", "1.99 ms (1.5 ms to 2.5 ms)"),
        ("MFU", "50%"),
    ]
    return ReportPage("plan", "A model on a system", "It fits.", figures, panes).html()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("screenshots")
    run, kinds = folder / "attention.html", folder / "kinds.html"
    run.write_text(synthetic_report.page(1400), encoding="utf-8")
    kinds.write_text(of_another_kind(), encoding="utf-8")
    return {view: kinds if view.startswith("kinds") else run for view in VIEWS}


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
@pytest.mark.parametrize("view", VIEWS)
def test_it_looks_as_it_did(
    browser: Browser, pages: dict[str, Path], view: str, width: int, height: int
) -> None:
    """New pictures are looked at first, then kept: ``blocks(take(...))`` as VIEW_WIDTH.png."""
    kept = blocks_kept(view, width)
    seen = blocks(take(browser, pages[view], view, width, height))
    assert seen.shape == kept.shape
    difference = np.abs(seen.astype(int) - kept.astype(int)).max(axis=2)
    assert difference.mean() < MEAN_DIFFERENCE
    assert (difference > FAR).mean() < FAR_SHARE


def blocks_kept(view: str, width: int) -> NDArray[np.uint8]:
    image = pytest.importorskip("matplotlib.image")
    pixels = np.asarray(image.imread(KEPT / f"{view}_{width}.png"))[:, :, :3] * 255
    return pixels.round().astype(np.uint8)
