"""The report's page in Chromium: for assistive technology, on a screen, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import chromium
from fleet_report import fleet
from waiting import BOUND

from featuregate_fleet.page.report_page import to_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.slow]

SCREEN, PHONE, PAPER = 1280, 390, 484
"""Pixels; those of paper are A5 without its margins."""

WIDER_THAN_THE_PAGE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
() => [...document.querySelectorAll(".wide, figure, td, li")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
  .map((element) => element.textContent.slice(0, 80))
"""
"""What a reader of paper cannot scroll to."""
COLOURS = "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(to_html(fleet(8, old=3, brokers=5, silent=1), "orders"), encoding="utf-8")
    return file


@contextmanager
def opened(browser: Browser, file: Path, width: int, **options: Any) -> Iterator[Page]:
    with closing(browser.new_context(viewport={"width": width, "height": 844}, **options)) as context:
        page = context.new_page()
        page.set_default_timeout(BOUND * 1000)
        page.goto(file.as_uri())
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [SCREEN, PHONE])
def test_everybody_can_read_the_page(browser: Browser, page_file: Path, width: int, scheme: str):
    """No rule of accessibility is broken, and the page does not scroll sideways."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core").Axe()
    with opened(browser, page_file, width, color_scheme=scheme, bypass_csp=True) as page:
        assert page.evaluate(WIDER_THAN_THE_PAGE) <= 0
        violations = axe.run(page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == []


def test_paper_has_all_of_the_page(browser: Browser, page_file: Path):
    """The page is black on white also if the screen is dark, and no part is cut, because paper does not scroll."""
    with opened(browser, page_file, PAPER, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate(COLOURS) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
        assert page.evaluate(WIDER_THAN_THE_PAGE) <= 0
        assert page.evaluate(CUT) == []
        assert page.pdf(format="A5", margin=dict.fromkeys(("top", "bottom", "left", "right"), "1cm"))[:5] == b"%PDF-"
