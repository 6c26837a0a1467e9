"""The built pages in Chromium: links that lead somewhere, nothing cut on a screen or a phone, light and dark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from chromium import chromium
from doc_pages import ROOT
from waiting import BOUND

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.proof("docs"), pytest.mark.slow]

SCREEN, PHONE = 1280, 390
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

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
WITHOUT_TEXT = """
() => [...document.querySelectorAll("article img")].filter((picture) => !picture.alt).map((picture) => picture.src)
"""


class Look(NamedTuple):
    """What is wrong with one page, where nothing is: how far it scrolls sideways and which texts cannot be read."""

    cut: list[str]
    wider: dict[int, int]
    faint: dict[str, list[str]]
    without_text: list[str]


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


@pytest.fixture(scope="module")
def looks(browser: Browser, site: Path) -> dict[str, Look]:
    """Load each page once, and look at it at both widths and in both schemes. DOCS_SHOTS keeps what was seen."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.set_default_timeout(BOUND * 1000)
        return {str(path.relative_to(site)): look_at(page, path, site) for path in every_page(site)}
    finally:
        context.close()


def look_at(page: Page, path: Path, site: Path) -> Look:
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    wider, faint = {}, {}
    for width in (PHONE, SCREEN):
        page.set_viewport_size({"width": width, "height": 844})
        wider[width] = page.evaluate(WIDER_THAN_THE_PAGE)
        keep_shots(page, f"{path.relative_to(site).as_posix().replace('/', '-')}-{width}")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        faint[scheme] = page.evaluate(FAINT)
    return Look(page.evaluate(CUT), wider, faint, page.evaluate(WITHOUT_TEXT))


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


def test_no_code_is_cut_on_a_screen(looks: dict[str, Look]) -> None:
    """Each page shows its code whole at a width of 1,280 px."""
    assert {name: look.cut for name, look in looks.items() if look.cut} == {}


@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_no_page_scrolls_sideways(looks: dict[str, Look], width: int) -> None:
    """Each page is as wide as the screen or the phone; a wide table scrolls by itself."""
    assert {name: look.wider[width] for name, look in looks.items() if look.wider[width] > 0} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(looks: dict[str, Look], scheme: str) -> None:
    """Each page can be read in the light and in the dark."""
    assert {name: look.faint[scheme] for name, look in looks.items() if look.faint[scheme]} == {}


def test_pictures_have_a_text(looks: dict[str, Look]) -> None:
    """A picture says what it shows to a reader who does not see it."""
    assert {name: look.without_text for name, look in looks.items() if look.without_text} == {}


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


def keep_shots(page: Page, name: str) -> None:
    if folder := os.environ.get("DOCS_SHOTS"):
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=f"{folder}/{name}-{scheme}.png", full_page=True)
