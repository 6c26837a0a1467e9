"""The built pages in Chromium: links that lead somewhere, nothing cut on a screen or a phone, light and dark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from chromium import chromium
from doc_pages import ROOT
from waiting import BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

SCREEN, PHONE = 1280, 390
LOOKED_AT = (
    "index",
    "changelog",
    "how-to/connect",
    "how-to/recipes",
    "how-to/troubleshoot",
    "reference/cheat-sheet",
    "reference/compatibility",
    "reference/glossary",
    "tutorial/first-gate",
)
"""Pages that stand for all: cards, lists, code, definitions, tables, output."""

CUT = """
() => [...document.querySelectorAll("article pre")]
  .filter((block) => block.offsetParent && block.scrollWidth > block.clientWidth + 1)
  .map((block) => block.textContent.slice(0, 80))
"""
WIDER_THAN_THE_PAGE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
FAINT = """
() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!colour.startsWith("rgba")) return colour;  // what shines through is judged by what is behind it
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("article p, article li, article td, article h1, article h2, article pre")]
    .filter((element) => element.offsetParent)
    .filter((element) => {
      const [low, high] = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05) < 4.5;
    })
    .map((element) => element.textContent.slice(0, 80));
}
"""
"""Text whose contrast is below that of WCAG AA."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages once."""
    pytest.importorskip("furo", reason="needs Sphinx")
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-j", "2", str(ROOT / "docs"), str(built)]
    subprocess.run(command, check=True, timeout=2 * BOUND, capture_output=True)
    return built


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def every_page(site: Path) -> list[Path]:
    return [path for path in sorted(site.rglob("*.html")) if not {"_static", "_modules"} & set(path.parts)]


def test_no_link_is_dead(site: Path) -> None:
    """Within the site: each page, file and heading that a link or a picture names exists. No network is asked."""
    soup = pytest.importorskip("bs4").BeautifulSoup
    pages = {path: soup(path.read_text(), "html.parser") for path in every_page(site)}
    anchors = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    dead = []
    for path, page in pages.items():
        named = [tag.get("href") or tag.get("src") for tag in page.find_all(["a", "img", "link", "script"])]
        for link in filter(None, named):
            if re.match(r"[a-z]+:", link):
                continue
            target, anchor = urldefrag(urljoin(path.as_uri(), link))
            file = Path(unquote(target.removeprefix("file://").partition("?")[0]))
            if not file.exists() or (anchor and file in anchors and unquote(anchor) not in anchors[file] | {"", "top"}):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_no_code_is_cut_on_a_screen(browser: Browser, site: Path) -> None:
    """Each page shows its code whole at a width of 1,280 px."""
    context = browser.new_context(viewport={"width": SCREEN, "height": 900}, java_script_enabled=True)
    try:
        page = context.new_page()
        page.set_default_timeout(BOUND * 1000)
        cut = {}
        for path in every_page(site):
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            if found := page.evaluate(CUT):
                cut[str(path.relative_to(site))] = found
        assert cut == {}
    finally:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_pages_fit_and_are_readable(browser: Browser, site: Path, width: int, scheme: str) -> None:
    """No page scrolls sideways, text has contrast, and pictures have a text. DOCS_SHOTS keeps what was seen."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.set_default_timeout(BOUND * 1000)
        for name in LOOKED_AT:
            page.goto((site / f"{name}.html").as_uri())
            keep_shot(page, f"{name.replace('/', '-')}-{width}-{scheme}")
            assert page.evaluate(WIDER_THAN_THE_PAGE) <= 0, name
            assert page.evaluate(FAINT) == [], name
            assert page.locator("article img:not([alt]), article img[alt='']").count() == 0, name
    finally:
        context.close()


def test_a_command_is_copied_without_its_prompt(browser: Browser, site: Path) -> None:
    """Each block of code has a button, which copies what a person types."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    try:
        page = context.new_page()
        page.set_default_timeout(BOUND * 1000)
        page.goto((site / "index.html").as_uri())
        block = page.locator("div.highlight-console").first
        block.hover()
        block.locator("button.copybtn").click()
        page.locator("button.copybtn.success").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("pip install")
        assert "$" not in copied
    finally:
        context.close()


def keep_shot(page: Page, name: str) -> None:
    if folder := os.environ.get("DOCS_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
