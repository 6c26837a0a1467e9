"""The built pages in Chromium: nothing is cut on a screen or a phone, and a command is copied without its prompt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import chromium
from doc_pages import ROOT
from waiting import BOUND

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.proof("docs"), pytest.mark.slow]

SCREEN, PHONE = 1280, 390
CUT = """
() => [...document.querySelectorAll("article pre")]
  .filter((block) => block.offsetParent && block.scrollWidth > block.clientWidth + 1)
  .map((block) => block.textContent.slice(0, 80))
"""
WIDER_THAN_THE_PAGE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages once, from the sources as `make docs` has read them."""
    pytest.importorskip("furo", reason="needs Sphinx")
    built, read = tmp_path_factory.mktemp("site"), ROOT / "docs" / "_build" / "html" / ".doctrees"
    where = ["-d", str(read), str(ROOT / "docs"), str(built)]
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-j", "2", *where]
    subprocess.run(command, check=True, timeout=2 * BOUND, capture_output=True)
    return built


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_no_code_is_cut_and_no_page_scrolls_sideways(browser: Browser, site: Path, width: int) -> None:
    """Each page is as wide as the screen or the phone, and shows its code whole; a wide table scrolls by itself."""
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_default_timeout(BOUND * 1000)
    wrong = {}
    for path in site.rglob("*.html"):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        cut, wider = page.evaluate(CUT), page.evaluate(WIDER_THAN_THE_PAGE)
        if cut or wider > 0:
            wrong[path.name] = (cut, wider)
    page.close()
    assert wrong == {}


def test_a_command_is_copied_without_its_prompt(browser: Browser, site: Path) -> None:
    """Each block of code has a button, which copies what a person types."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(BOUND * 1000)
    page.goto((site / "index.html").as_uri())
    block = page.locator("div.highlight-console").first
    block.hover()
    block.locator("button.copybtn").click()
    page.locator("button.copybtn.success").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    context.close()
    assert copied.startswith("pip install")
    assert "$" not in copied
