"""A report in a headless browser without a GPU: how soon it shows something, how fluently it pans.

The goals are those of a report of a million instructions on two cores: the first picture within
4 s, a frame of panning within 33 ms. A browser draws at most sixty frames a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from comparison import Comparison, Work, limit
from support import synthetic_report
from support.browser import Browser, browser as started, missing

COUNT, QUICK = 1_000_000, 20_000
FRAMES = 60

# From side to side, with so much of the run in view; the frames' times come back, in ms.
PAN = """
const [frames, part, done] = arguments;
const figures = JSON.parse(document.getElementById("trn3-summary").textContent);
const length = figures.latency_us * 1e6;
const times = [];
let last;
const step = (now) => {
  if (last !== undefined) times.push(now - last);
  last = now;
  if (times.length >= frames) return done(times);
  const from = (times.length / frames) * (1 - part) * length;
  trn3report.zoom(from, from + part * length);
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
"""


@pytest.fixture
def threads() -> int:
    """Return two: the browser takes what cores there are, and the goals are for two."""
    return 2


@pytest.fixture
def window() -> Iterator[Browser]:
    if missing():
        pytest.skip(missing())
    with started() as browser:
        browser.resize(1280, 800)
        yield browser


@pytest.fixture
def page(quick: bool, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(synthetic_report.page(QUICK if quick else COUNT), encoding="utf-8")
    return path


def bench_first_picture(compare: Comparison, window: Browser, page: Path) -> None:
    work = Work(COUNT, "instructions")
    compare("report: open", lambda: window.open(page), [limit(4.0, "4 s")], work)


@pytest.mark.parametrize("part", [0.5, 0.001])
def bench_panning(
    compare: Comparison, window: Browser, page: Path, quick: bool, part: float
) -> None:
    window.open(page)
    frames = FRAMES // 10 if quick else FRAMES
    slow: list[float] = []

    def pan() -> None:
        times = sorted(window.driver.execute_async_script(PAN, frames, part))
        slow.append(times[int(0.95 * len(times))])

    goal = limit(0.033 * frames, "33 ms a frame")
    compare(f"report: pan, {100 * part:g} % in view", pan, [goal], Work(frames, "frames"))
    compare.benchmark.extra_info["slowest_twentieth_ms"] = max(slow)
