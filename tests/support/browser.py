"""A headless Chromium for tests of pages, or why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What a page did wrong, as it comes from the browser.
Complaints = list[str]


def missing() -> str:
    """Return what there is not, in a line; empty where a browser can be started."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


READY = """
const done = arguments[0];
trn3report.ready.then(() => done(performance.now()), (error) => done(String(error)));
"""
FRAMES = """
const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => done()));
"""


class Browser:
    """A window of Chromium without a screen.

    Parameters
    ----------
    driver : selenium.webdriver.Chrome
        What drives it.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the page in CSS pixels, and what the system says of colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, page: Path) -> float:
        """Open a report, wait until it is ready, and return the seconds that it took."""
        self.driver.get(page.as_uri())
        taken = self.driver.execute_async_script(READY)
        assert isinstance(taken, (int, float)), taken
        return taken / 1000

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(script, *arguments)

    def await_frame(self) -> None:
        """Wait until what was asked for is drawn."""
        self.driver.execute_async_script(FRAMES)

    def find(self, selector: str) -> Any:
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, wherever the page listens."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def click_at(self, selector: str, x: float, y: float) -> None:
        """Click a place of an element, in CSS pixels from its upper left corner."""
        from selenium.webdriver import ActionChains

        element = self.find(selector)
        left, top = x - element.size["width"] // 2, y - element.size["height"] // 2
        chain = ActionChains(self.driver, duration=0)
        chain.move_to_element_with_offset(element, round(left), round(top)).click().perform()

    def complaints(self) -> Complaints:
        """Return errors and refusals since the last call."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def screenshot(self) -> bytes:
        """Return the page as a PNG."""
        self.await_frame()
        return bytes(self.driver.get_screenshot_as_png())


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for option in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none",
    ):  # fmt: skip
        options.add_argument(option)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_script_timeout(60)
        yield Browser(driver)
    finally:
        driver.quit()
