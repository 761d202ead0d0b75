"""Reports of plans and the like, and lists of runs, in a browser: what a person does with them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trn3
from support.browser import Browser
from support.profiles import by_hand
from trn3.report.run_server import RunServer
from trn3.report.saved_runs import RunFolder

READY = "const done = arguments[0]; trn3report.ready.then(() => done(''), (no) => done(`${no}`));"
COPIED = """
const done = arguments[0];
navigator.clipboard.writeText = async (text) => { done(text); };
document.querySelector("section[data-pane=operators] .controls button").click();
"""


@pytest.fixture(scope="session")
def plan_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("kinds") / "plan.html"
    trn3.plan("llama-3-8b", "gen2", input_tokens=512, output_tokens=64).to_html(page)
    return page


def cells(browser: Browser, pane: str, column: int) -> list[str]:
    """Return what a column of a pane's table shows, hidden rows left out."""
    script = (
        "return [...document.querySelectorAll(`section[data-pane=${arguments[0]}] tbody tr`)]"
        ".filter((row) => !row.hidden).map((row) => row.cells[arguments[1]].textContent)"
    )
    shown: list[str] = browser.run(script, pane, column)
    return shown


def test_tables_are_sorted_filtered_and_copied(browser: Browser, plan_page: Path) -> None:
    browser.open(plan_page)
    pane = "section[data-pane=operators]"
    names = cells(browser, "operators", 1)
    browser.find(f"{pane} th:nth-child(6) button").click()
    script = (
        "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
        ".map((row) => Number(row.cells[5].dataset.value))"
    )
    times = browser.run(script, pane)
    assert times == sorted(times, reverse=True)
    assert browser.find(f"{pane} th:nth-child(6)").get_attribute("aria-sort") == "descending"
    browser.find(f"{pane} input").send_keys("mlp token")
    left = cells(browser, "operators", 1)
    assert 0 < len(left) < len(names)
    assert all("mlp" in name for name in left)
    assert browser.find(f"{pane} .controls .wide").text == f"{len(left)} rows"
    lines = browser.driver.execute_async_script(COPIED).split("\n")
    assert lines[0].split("\t")[:2] == ["of", "operator"]
    assert [row.split("\t")[1] for row in lines[1:]] == left


def test_panes_are_reached_by_buttons_and_keys(browser: Browser, plan_page: Path) -> None:
    browser.open(plan_page)
    current = "return document.querySelector('nav [aria-current=true]').dataset.goto"
    assert browser.run(current) == "time"
    browser.find("[data-goto=frontier]").click()
    browser.await_frame()
    assert browser.run(current) == "frontier"
    browser.press("2")
    browser.await_frame()
    assert browser.run(current) == "memory"
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    browser.press("d")
    assert browser.run(ground) != light
    browser.press("/")
    assert browser.run("return document.activeElement.placeholder") == "Filter rows"


def test_drawings_say_what_the_document_says(browser: Browser, plan_page: Path) -> None:
    """Parts as long as their times, a mark for each plan of the frontier, and a tip on each."""
    browser.open(plan_page)
    document: dict[str, Any] = json.loads(
        browser.run("return document.getElementById('trn3-summary').textContent")
    )
    widths = browser.run(
        "const bar = document.querySelector('section[data-pane=memory] .split');"
        "return [...bar.children].map((part) => part.offsetWidth / bar.clientWidth)"
    )
    held = document["memory"]
    assert sum(widths) == pytest.approx(held["used"] / held["bank"], abs=0.02)
    marks = "return document.querySelectorAll('section[data-pane=frontier] circle').length"
    assert browser.run(marks) == len(document["searched"]["frontier"]) + 1
    tip = browser.run(
        "const drawing = document.querySelector('section[data-pane=frontier] svg'),"
        " box = drawing.querySelector('circle').getBoundingClientRect();"
        "drawing.dispatchEvent(new PointerEvent('pointermove',"
        " {clientX: box.x + 3, clientY: box.y + 3}));"
        "return document.getElementById('tip').innerText"
    )
    assert "best of all layouts" in tip
    assert "first token" in tip


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_at_usual_sizes(browser: Browser, plan_page: Path, dark: bool) -> None:
    for width, height in ((1280, 720), (1920, 1080)):
        browser.resize(width, height, dark=dark)
        browser.open(plan_page)
        browser.await_frame()
        size = (
            "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        assert browser.run(size) == [width, height]
        cut = browser.run(
            "return [...document.querySelectorAll('header button, .controls > *, nav button, svg,"
            " .stack-row, .bar-row, [data-stage] text')]"
            ".map((part) => [part.outerHTML, part.getBoundingClientRect()])"
            ".filter(([, box]) => box.width && (box.right > innerWidth || box.left < 0))"
        )
        assert cut == []


def test_what_a_person_wrote_is_text(browser: Browser, tmp_path: Path) -> None:
    """In tables, drawings, keys and tips alike."""
    evil = "</script><img src=x onerror=hacked=1>\x1b[31m\u202e"
    grid: dict[str, list[Any]] = {"name": ["a", evil], "size": [1, 2]}
    page = tmp_path / "sweep.html"
    trn3.sweep(lambda name, size: {evil: size}, grid, workers=0).to_html(page)
    browser.open(page)
    text = browser.run("return document.body.innerText")
    assert "<img src=x" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert browser.run("return [document.images.length, typeof hacked]") == [0, "undefined"]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[RunServer]:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        by_hand().to_json(tmp_path / name / "profile.json")
        by_hand().to_html(tmp_path / name / "report.html")
    with RunServer(RunFolder(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def arrive(browser: Browser, kind: str) -> None:
    """Wait for a page of a kind: what was clicked may leave the old one there for a moment."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support.ui import WebDriverWait

    waiting = WebDriverWait(browser.driver, 20, 0.05, ignored_exceptions=[WebDriverException])
    waiting.until(lambda _: browser.run("return document.body.dataset.kind") == kind)


def test_runs_are_chosen_compared_and_opened(browser: Browser, runs: RunServer) -> None:
    """From the list to the comparison to a report, which cannot reach the other pages."""
    driver = browser.driver
    driver.get(runs.url)
    assert driver.execute_async_script(READY) == ""
    assert sorted(cells(browser, "runs", 7)) == ["after", "before"]
    for box in driver.find_elements("css selector", "input[type=checkbox]"):
        box.click()
    browser.find("button[type=submit]").click()
    arrive(browser, "compared-runs")
    assert driver.execute_async_script(READY) == ""
    assert "latency_us" in cells(browser, "profile", 0)
    browser.find("section[data-pane=runs] td a").click()
    arrive(browser, "profile")
    assert driver.execute_async_script(READY) == ""
    assert browser.run("return self.origin") == "null"
    script = (
        "const done = arguments[1];"
        "fetch(arguments[0]).then((answer) => answer.text()).then(done, () => done('refused'))"
    )
    assert driver.execute_async_script(script, runs.url) == "refused"
    assert all("Content Security Policy" in one for one in browser.complaints())
