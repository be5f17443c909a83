"""A real browser for tests: Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

__all__ = ["WIDTHS", "log_of", "open_browser", "open_page", "requests_of", "set_screen"]

WIDTHS = {"laptop": 1280, "phone": 390}
PROGRAMS = ("chromium", "chromedriver")


def open_browser() -> webdriver.Chrome:
    """Start Chromium; say what to install where it is missing."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        message = f"the report is tried in a real browser, and {' and '.join(missing)} is not installed: "
        raise RuntimeError(message + "apt-get install -y chromium chromium-driver")
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    arguments = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    )
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))


def set_screen(browser: webdriver.Chrome, width: int, *, dark: bool = False, height: int = 900) -> None:
    """Give the page a screen: its width, and whether its owner likes dark colours."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    # Without motion: nothing is still on its way when a test clicks.
    wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def open_page(browser: webdriver.Chrome, path: Path, *, seconds: float = 30.0) -> float:
    """Open a page, wait until all of it is read, and give the seconds after which it could be used."""
    log_of(browser, "browser")
    log_of(browser, "performance")
    browser.get(path.as_uri())
    browser.set_script_timeout(seconds)
    browser.execute_async_script(
        "const done = arguments[0];"
        "const look = () => document.documentElement.dataset.whole ? done() : setTimeout(look, 20);"
        "look();"
    )
    return int(browser.execute_script("return document.documentElement.dataset.ready")) / 1000


def log_of(browser: Any, kind: str) -> list[dict[str, Any]]:
    """Give what was written to a log since it was asked for last."""
    found: list[dict[str, Any]] = browser.get_log(kind)
    return found


def requests_of(browser: webdriver.Chrome) -> list[str]:
    """Give the addresses that the page asked for since it was opened."""
    found = []
    for entry in log_of(browser, "performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(str(message["params"]["request"]["url"]))
    return found
