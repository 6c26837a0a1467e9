"""Chromium for tests of pages: that of the system, or the one that Playwright has installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser; skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    with playwright.sync_playwright() as driver:
        own = Path(driver.chromium.executable_path)
        found = next(filter(None, map(shutil.which, NAMES)), None) or (str(own) if own.exists() else None)
        if found is None:
            pytest.skip("needs Chromium: make chromium")
        try:
            browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        except playwright.Error as error:
            pytest.skip(f"{found} does not start: {str(error).partition(chr(10))[0]}")
        try:
            yield browser
        finally:
            browser.close()
