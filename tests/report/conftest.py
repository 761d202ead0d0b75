"""A browser for the tests of a worker, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.browser import Browser, browser as started, missing


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if missing():
        pytest.skip(missing())
    with started() as window:
        yield window


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Give a window of 1280 x 800 in light; a test fails if its page complained."""
    chromium.resize(1280, 800)
    chromium.complaints()
    yield chromium
    assert chromium.complaints() == []
