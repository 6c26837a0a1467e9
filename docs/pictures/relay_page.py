"""Takes the pictures of the relay's page: ``python docs/pictures/relay_page.py``.

The page is that of ``examples/relay_page.py``, while one of three brokers is left of a roll. Options of the example may
follow: ``--real`` takes it over real brokers. Needs Chromium: ``make chromium``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from chromium import chromium  # noqa: E402 - of the tests, which know where one may be

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = ROOT / "docs/how-to"
SECONDS = 20
"""Seconds between two steps of the roll, so that both pictures show the same one."""
BOUND = 600_000
"""Milliseconds that the roll may take until then."""


@contextmanager
def rolling(*options: str) -> Iterator[str]:
    """Run the example, and give the address of its page."""
    command = [
        sys.executable,
        ROOT / "examples/relay_page.py",
        "--port",
        "0",
        "--seconds",
        str(SECONDS),
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as example:  # noqa: S603 - a command of this file
        assert example.stdout is not None
        yield example.stdout.readline().removeprefix("open ").strip()
        example.send_signal(signal.SIGINT)


def opened(browser: Browser, address: str, **options: Any) -> Page:
    """Open the page, and wait until its script follows the cluster."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(BOUND)
    page.goto(address)
    page.locator("#live").filter(has_text="Live").wait_for()
    return page


def main(*options: str) -> None:
    """Take each picture again."""
    with chromium() as browser, rolling(*options) as address:
        page = opened(browser, address, viewport={"width": 1280, "height": 800})
        page.locator("#roll").filter(
            has_text="2 of 3 brokers have release 4.2"
        ).wait_for()
        page.screenshot(path=FOLDER / "relay-page.png")
        phone = opened(
            browser,
            address,
            viewport={"width": 390, "height": 844},
            color_scheme="dark",
        )
        phone.screenshot(path=FOLDER / "relay-page-phone.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
