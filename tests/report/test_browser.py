"""A report in a browser: what a person and what a script does with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support import synthetic_report
from support.browser import Browser
from support.kernel_files import EXAMPLES, kernels_of
from trn3 import nki, report
from trn3.profile import Profile, ProfileData

# Room of the names of lanes and of the axis, in CSS pixels; see timeline_geometry.js.
GUTTER, LANES_TOP = 124, 46
# Replaces what is searched for.
ASK = """
const box = document.getElementById("query");
box.value = arguments[0];
box.dispatchEvent(new Event("input"));
"""


@pytest.fixture(scope="session")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("report") / "small.html"
    page.write_text(synthetic_report.page(700, compiled=True), encoding="utf-8")
    return page


def summary(browser: Browser) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(
        browser.run("return document.getElementById('trn3-summary').textContent")
    )
    return figures


def selection(browser: Browser) -> dict[str, Any]:
    chosen: dict[str, Any] = browser.run("return trn3report.selection()")
    return chosen


def test_from_the_slowest_line_to_its_instructions_and_back(
    browser: Browser, tmp_path: Path
) -> None:
    """In the report of an attention of 100,000 instructions, as `trn3 profile` writes it."""
    kernel = kernels_of("attention", EXAMPLES / "optimize")
    _, profile = nki.profile(kernel.attention, *kernel.inputs(tokens=18432).values(), values=False)
    page = tmp_path / "attention.html"
    page.write_text(report.page([profile]), encoding="utf-8")
    browser.open(page)
    figures = summary(browser)
    assert figures == json.loads(json.dumps(profile.figures()))
    assert figures["instructions"] >= 100_000
    assert figures["latency_us"] == profile.latency_us
    latency = browser.find("dl.key-figures dd")
    assert latency.get_attribute("title") == f"{profile.latency_us} us"
    value, unit = latency.text.split()
    assert unit == "ms"
    assert float(value) == pytest.approx(profile.latency_us / 1000, rel=1e-3)

    legend = browser.find("#inspector .legend").text.split("\n")
    assert set(legend) == {
        "matmul",
        "transpose",
        "element-wise",
        "reduction",
        "function",
        "DMA",
        "copy, set",
    }
    slowest = max(figures["lines"], key=lambda line: line["critical_us"])
    name = f"{slowest['file']}:{slowest['line']}"
    browser.find("section[data-pane=source] .controls button").click()
    assert selection(browser) == {
        "kind": "line", "line": name, "instruction": None, "tensor": None,
        "instructions": slowest["instructions"],
    }  # fmt: skip
    row = browser.find("tr[data-line][aria-selected=true]")
    assert row.get_attribute("data-line") == name
    assert row.is_displayed()

    browser.find("#inspector ol .link").click()
    chosen = selection(browser)
    assert chosen["kind"] == "instruction"
    assert chosen["line"] == name
    assert f"{Path(name).name}" in browser.find("#inspector").text
    assert (
        browser.find("table.virtual tr[aria-selected=true] td").text
        == f"{chosen['instruction']['row']:,}"
    )

    browser.find("#inspector dd .link").click()
    assert selection(browser)["kind"] == "line"
    assert selection(browser)["line"] == name


def test_all_text_is_there_without_a_click(browser: Browser, small_page: Path) -> None:
    assert browser.open(small_page) < 5
    panes = browser.run(
        "return [...document.querySelectorAll('section[data-pane]')]"
        ".map((pane) => [pane.dataset.pane, pane.innerText])"
    )
    texts = dict(panes)
    assert list(texts) == [
        "timeline",
        "source",
        "advice",
        "memory",
        "roofline",
        "tables",
        "settings",
    ]
    assert "nisa.nc_matmul(queries, keys)" in texts["source"]
    assert "1.65x" in texts["advice"]
    assert "issue line 6 first" in texts["advice"]
    assert "nc_transpose" in texts["tables"]
    assert "66.41 KiB of 256 KiB a partition at the peak" in texts["memory"]


def test_a_slice_gives_its_line_and_its_stack(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    made = synthetic_report.run_tiles(700)
    row = 50  # A transpose of the tensor engine: the first lane below the heading of its run.
    start, slot = int(made["start"][row]), int(made["slot"][row])
    browser.run("trn3report.zoom(arguments[0], arguments[1])", start - slot, start + 2 * slot)
    browser.await_frame()
    width = browser.run("return document.getElementById('stage').clientWidth")
    browser.click_at("#stage", GUTTER + (width - GUTTER) / 2, LANES_TOP + 20 + 8)
    assert selection(browser)["instruction"] == {"run": 0, "row": row}
    assert selection(browser)["line"] == "/home/me/attention.py:5"
    assert browser.find("tr[data-line][aria-selected=true]").get_attribute("data-number") == "5"
    text = browser.find("#inspector").text
    for part in (
        "nc_transpose",
        "Call stack",
        "attention.py:5 in attention",
        "Depends on",
        "Needed by",
    ):
        assert part in text


# How many pixels of what lies over the bars are not clear.
INKED = """
const cover = document.querySelectorAll("#stage canvas")[1];
const { width, height } = cover;
const copy = Object.assign(document.createElement("canvas"), { width, height });
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(cover, 0, 0);
const { data } = context.getImageData(0, 0, width, height);
return data.filter((value, place) => place % 4 === 3 && value > 0).length;
"""


def test_arrows_lead_both_ways_from_the_selection(browser: Browser, small_page: Path) -> None:
    """To all that an instruction comes after and that come after it, and say what bound."""
    browser.open(small_page)
    row = 51  # A matmul: of the transpose before it, and of the keys that were loaded.
    made = synthetic_report.run_tiles(700)
    start = int(made["start"][row])
    browser.run("trn3report.zoom(arguments[0], arguments[1])", start - 2_000_000, start + 2_000_000)
    browser.press("c")
    browser.await_frame()
    assert browser.run(INKED) == 0
    browser.run("trn3report.select({instruction: arguments[0]})", row)
    browser.await_frame()
    text = browser.find("#inspector").text.split("\n")
    before, after = text.index("→ Depends on (2)"), text.index("Needed by → (2)")
    assert text[before + 1 : before + 3] == [
        "nc_transpose #50 read after write: bound it",
        "dma_copy #49 read after write",
    ]
    later = row - 2 + synthetic_report.BUFFERS * len(synthetic_report.STEPS)
    found = set(text[after + 1 : after + 3])
    assert f"activation #{row + 1} read after write: bound it" in found
    assert any(line.startswith(f"dma_copy #{later} buffer reuse") for line in found)
    with_arrows = browser.run(INKED)
    browser.press("a")
    browser.await_frame()
    assert 0 < browser.run(INKED) < with_arrows
    table = browser.find("table.virtual tr[aria-selected=true]").text
    assert "read after write" in table


@nki.jit
def late(x: Any, group: Any, rounds: int) -> Any:
    """Work for so many rounds, and gather the rows of all ranks."""
    mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((2 * x.shape[0], x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(rounds):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=mine, src=tile)
    ncc.all_gather([mine], [rows], group, collective_dim=0)
    return rows


def test_ranks_meet(browser: Browser, tmp_path: Path) -> None:
    """Who came last to a meeting is shown, and one gets from each to the others."""
    group = ncc.ReplicaGroup([[0, 1]])
    x = np.ones((128, 64), np.float32)
    _, profiles = nki.profile_ranks(late, [(x, group, rounds) for rounds in (1, 9)])
    page = tmp_path / "ranks.html"
    page.write_text(report.page(profiles), encoding="utf-8")
    browser.open(page)
    assert "figures of rank 0" in browser.find("#figures").text
    layout = json.loads(browser.run("return document.getElementById('trn3-report').textContent"))
    [[one, other]] = layout["meetings"]
    browser.run("trn3report.select({instruction: arguments[0]})", one)
    browser.press("c")
    browser.await_frame()
    inspector = browser.find("#inspector").text
    assert "rank 0 · core 0" in inspector
    assert "bound by\nmeeting" in inspector
    assert f"rank 1 · core 0 · as-written #{other['row']} came last" in inspector
    with_arrows = browser.run(INKED)
    browser.press("a")
    browser.await_frame()
    assert browser.run(INKED) < with_arrows
    browser.run(
        "[...document.querySelectorAll('#inspector .link')]"
        ".find((link) => link.textContent.startsWith('rank 1')).click()"
    )
    assert selection(browser)["instruction"] == other
    assert "before the last" in browser.find("#inspector").text
    # Memory is that of the rank that is looked at.
    chosen = "section[data-pane=memory] select[aria-label='Core or level']"
    assert browser.run("return document.querySelector(arguments[0]).value", chosen) == "1"


def test_panes_share_one_selection(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    browser.run("trn3report.select({tensor: 'scores'})")
    chosen = selection(browser)
    assert chosen["tensor"]["name"] == "scores"
    assert chosen["line"] == "/home/me/attention.py:6"
    assert chosen["instructions"] == 2
    assert "scores 128×1024 float32" in browser.find("#inspector").text
    browser.run("trn3report.select({instruction: {run: 1, row: 9}})")
    assert selection(browser)["instruction"] == {"run": 1, "row": 9}
    browser.run("trn3report.select({line: 'attention.py:7'})")
    assert selection(browser)["instructions"] == 200
    browser.run("trn3report.select({})")
    assert selection(browser)["kind"] == "none"
    for wrong in ("{line: 'other.py:1'}", "{instruction: 700}", "{tensor: 'nobody'}"):
        with pytest.raises(Exception, match="select: no"):
            browser.run(f"trn3report.select({wrong})")
    with pytest.raises(Exception, match="must be two rising times"):
        browser.run("trn3report.zoom(5, 5)")
    browser.complaints()


def test_memory_and_tables_lead_to_instructions(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    browser.find("[data-goto=memory]").click()
    made = synthetic_report.run_tiles(700)
    end = int(made["start"][2])
    browser.run("trn3report.zoom(0, arguments[0])", end)
    browser.await_frame()
    # The first keys lie at the lowest address from the start on.
    height = browser.find("section[data-pane=memory] canvas").size["height"]
    browser.click_at("section[data-pane=memory] canvas", 62 + 20, height - 20 - 4)
    assert selection(browser)["tensor"] == {"run": 0, "row": 0, "name": "keys"}
    browser.find("[data-goto=tables]").click()
    browser.find("section[data-pane=tables] input").send_keys("nc_matmul attention.py:6")
    assert browser.find("section[data-pane=tables] .controls .wide").text == "100 rows"
    browser.find("table.virtual th:nth-child(5) button").click()
    browser.await_frame()
    last = browser.find("table.virtual tbody tr:nth-child(2)")
    rows = [row for row in range(700) if made["opcode"][row] == 1]
    latest = max(rows, key=lambda row: made["start"][row])
    assert last.get_attribute("data-instruction") == str(latest)
    last.click()
    assert selection(browser)["instruction"] == {"run": 0, "row": latest}


def test_search_finds_lines_instructions_and_tensors(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    browser.press("/")
    browser.press("nc_m")
    assert browser.find("#hits").text.split("\n")[:3] == [
        "instruction",
        "nc_matmul",
        "first of 200",
    ]
    browser.press("\ue007")
    assert selection(browser)["instruction"] == {"run": 0, "row": 2}
    assert browser.find("#found").text == "1 of 2"
    browser.press("\ue007")
    assert selection(browser)["line"] == "/home/me/attention.py:6"
    browser.run(ASK, "weights")
    assert "tensor" in browser.find("#hits").text
    browser.run(ASK, "no such")
    assert browser.find("#found").text == "nothing found"
    browser.press("\ue00c")


def test_keys_do_what_a_mouse_does(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    shown = "section[data-pane=timeline] .controls .wide"
    browser.await_frame()
    whole = browser.find(shown).text
    browser.press("+")
    browser.await_frame()
    assert browser.find(shown).text != whole
    browser.press("0")
    browser.await_frame()
    assert browser.find(shown).text == whole
    browser.press("h")
    slowest = max(summary(browser)["lines"], key=lambda line: line["critical_us"])
    assert selection(browser)["line"] == f"{slowest['file']}:{slowest['line']}"
    browser.run("trn3report.select({line: 'attention.py:6'})")
    browser.press("n")
    assert selection(browser)["instruction"] == {"run": 0, "row": 2}
    browser.press("n")
    assert selection(browser)["instruction"] == {"run": 0, "row": 9}
    browser.press("[")
    assert selection(browser)["instruction"] == {"run": 0, "row": 8}
    browser.press("]")
    assert selection(browser)["instruction"] == {"run": 0, "row": 9}
    browser.press("l")
    assert selection(browser)["line"] == "/home/me/attention.py:6"
    browser.press("\ue003")
    assert selection(browser)["kind"] == "instruction"
    browser.press("\ue00c")
    assert selection(browser)["kind"] == "none"
    browser.press("?")
    assert "next instruction of the line" in browser.find("dialog").text
    browser.press("?")
    assert not browser.find("dialog").is_displayed()


def test_two_clicks_measure(browser: Browser, small_page: Path) -> None:
    browser.open(small_page)
    browser.run("trn3report.zoom(0, 10000000)")
    browser.press("m")
    width = browser.run("return document.getElementById('stage').clientWidth") - GUTTER
    browser.click_at("#stage", GUTTER + width * 0.25, LANES_TOP + 40)
    browser.click_at("#stage", GUTTER + width * 0.75, LANES_TOP + 40)
    said = browser.find("section[data-pane=timeline] output").text
    value, unit = said.removeprefix("measured ").split()
    assert unit == "us"
    assert float(value) == pytest.approx(5, abs=0.03)
    browser.press("\ue00c")
    assert browser.find("section[data-pane=timeline] output").text == ""


def test_light_and_dark(browser: Browser, small_page: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.resize(1280, 800, dark=True)
    browser.open(small_page)
    assert browser.run(ground) == "rgb(15, 18, 21)"
    browser.find("#theme").click()
    assert browser.run(ground) == "rgb(244, 245, 247)"
    browser.press("d")
    assert browser.run(ground) == "rgb(15, 18, 21)"


def test_names_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=hacked=1>\x1b[31m\u202e"
    document = synthetic_report.document(70)
    document |= {"kernel": evil, "opcodes": [evil] * 6, "labels": [evil]}
    document["arch"]["name"] = evil
    document["sites"] = [(evil, line, evil) for _, line, _ in document["sites"]]
    document["recorded"] |= {"names": [evil] * 6, "sources": {evil: evil}}
    document["advice"]["advice"][0] |= {"line": f"{evil}:6", "text": evil}
    page = tmp_path / "evil.html"
    html = report.page([Profile(ProfileData.from_dict(document))])
    page.write_text(html, encoding="utf-8")
    browser.open(page)
    for wanted in ("{instruction: 9}", "{line: '6'}", "{tensor: {run: 0, row: 2}}"):
        browser.run(f"trn3report.select({wanted})")
        # A file is called by the last part of its path.
        assert "script><img src=x" in browser.find("#inspector").text
        assert "\x1b" not in browser.find("#inspector").text
        assert "\u202e" not in browser.find("#inspector").text
    browser.press("/")
    browser.press("onerror")
    assert "onerror" in browser.find("#hits").text
    assert browser.run("return [document.images.length, typeof hacked]") == [0, "undefined"]


def test_usable_at_1280_pixels(browser: Browser, small_page: Path) -> None:
    """Nothing of the shell stands outside the window, at a laptop's size and at a large one."""
    browser.open(small_page)
    for width, height in ((1280, 720), (1920, 1080)):
        browser.resize(width, height)
        browser.await_frame()
        assert browser.run(
            "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        ) == [width, height]
        cut = browser.run(
            "return [...document.querySelectorAll('header button, .controls > *, nav button')]"
            ".map((part) => [part.outerHTML, part.getBoundingClientRect()])"
            ".filter(([, box]) => box.width && (box.right > innerWidth || box.left < 0))"
        )
        assert cut == []
