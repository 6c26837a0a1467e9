"""The page of a relay in Chromium: live, without a script, by keyboard, for assistive technology, and on a phone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import broker, view
from chromium import chromium
from relay_on_socket import serving
from waiting import BOUND

from featuregate.testing import StaticFeatures, release_view
from featuregate.view.answers import SupportedRange
from featuregate_relay.access.authentication import Access, ApiKeys, RelayClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.proof("relay"), pytest.mark.slow]

MILLISECONDS = BOUND * 1000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@contextmanager
def looking_at(browser: Browser, url: str, **options: object) -> Iterator[Page]:
    """Open a page, and leave it before its relay stops. Nothing may be wrong in its console."""
    context = browser.new_context(**options)
    problems: list[str] = []
    try:
        page = context.new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(url)
        yield page
        assert problems == []
        page.goto("about:blank")
    finally:
        context.close()


def says(page: Page, selector: str, text: str) -> None:
    page.locator(selector).filter(has_text=text).first.wait_for()


def test_the_page_changes_while_it_is_looked_at(browser: Browser) -> None:
    """By events, without a reload. What a person has opened and focused stays as it is."""
    features = StaticFeatures(release_view("3.9", "3.9"))
    gate = features.gate("heartbeats", "ConsumerGroupHeartbeat>=1")
    with serving({"orders": features}, gate) as url, looking_at(browser, url) as page:
        says(page, "#live", "Live")
        page.evaluate("document.body.dataset.same = 'yes'")
        page.locator("#agreed-summary").click()
        page.locator("#agreed-summary").focus()
        features.show(release_view("3.9", "4.1", silent=[1]))
        says(page, "#roll h3", "No answer")
        features.show(release_view("3.9", "4.1"))
        says(page, "#roll p", "1 of 2 brokers have release 4.1")
        says(page, "#live", "changed at")
        assert page.locator("#agreed").get_attribute("open") is not None
        assert page.evaluate("document.activeElement.id") == "agreed-summary"
        features.show(release_view("4.1", "4.1"))
        says(page, "#gates h3", "open")
        assert page.locator("#agreed").get_attribute("open") is not None
        assert page.evaluate("document.body.dataset.same") == "yes"


def test_the_page_of_a_cluster_that_begins_to_answer_fills_itself(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is live before that, although its stream has no event yet. It has other sections then."""
    monkeypatch.setattr("featuregate_relay.views.event_stream._HEARTBEAT_SECONDS", BOUND)
    features = StaticFeatures()
    with serving({"orders": features}) as url, looking_at(browser, url) as page:
        says(page, "#summary", "no broker has answered yet")
        says(page, "#live", "Live")
        features.show(release_view("4.1"))
        says(page, "#matrix th", "metadata.version")


NO_TIMERS = """
const later = setTimeout;
window.setTimeout = (run, delay) => (delay < 1000 ? later(run, delay) : 0);
"""


def test_a_change_that_comes_while_the_page_is_fetched_is_not_missed(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another fetch follows. No heartbeat and no timer helps: these would fetch the page, too, but later."""
    monkeypatch.setattr("featuregate_relay.views.event_stream._HEARTBEAT_SECONDS", 2 * BOUND)
    features = StaticFeatures(release_view("3.9"))
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    page.add_init_script(NO_TIMERS)

    def change_meanwhile(route: Route) -> None:
        before = route.fetch()
        features.show(release_view("4.1", cluster_id="third"))
        page.wait_for_timeout(1000)  # for the event of the change
        route.fulfill(response=before)

    try:
        with serving({"orders": features}) as url:
            page.goto(url)
            says(page, "#live", "Live")
            page.route(lambda address: address.startswith(f"{url}/?"), change_meanwhile, times=1)
            features.show(release_view("4.1", cluster_id="second"))
            says(page, "dd", "third")
            page.goto("about:blank")
    finally:
        context.close()


def test_the_age_of_what_is_shown_grows_while_nothing_comes(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the browser: the relay says the age with the page, and then nothing."""
    monkeypatch.setattr("featuregate_relay.views.event_stream._HEARTBEAT_SECONDS", 2 * BOUND)
    with serving({"orders": StaticFeatures(release_view("4.1"))}) as url, looking_at(browser, url) as page:
        says(page, "#summary", "brokers answered 0 s ago")
        page.locator("#summary [data-age]").filter(has_text=re.compile(r"^[2-9]|\d\d")).wait_for()


def test_a_page_whose_relay_is_gone_says_so(browser: Browser) -> None:
    """The page keeps what it has shown."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    try:
        with serving({"orders": StaticFeatures(release_view("4.1"))}) as url:
            page.goto(url)
            says(page, "#live", "Live")
        says(page, "#live", "The connection to the relay is lost")
        assert page.locator("#matrix").count() == 1
    finally:
        context.close()


def test_the_page_works_without_a_script(browser: Browser) -> None:
    """A reload shows what is new, and lists open."""
    features = StaticFeatures(release_view("3.9", "4.1"))
    with serving({"orders": features}) as url, looking_at(browser, url, java_script_enabled=False) as page:
        assert "Reload the page to see changes" in page.inner_text("#live")
        page.locator("#agreed-summary").click()
        assert page.locator("#agreed li").first.is_visible()
        features.show(release_view("4.1", "4.1"))
        page.get_by_role("link", name="Reload").click()
        says(page, "#roll", "All brokers that answer are equal")


def test_the_page_is_used_by_keyboard(browser: Browser) -> None:
    features = StaticFeatures(release_view("3.9", "4.1"))
    with serving({"orders": features}) as url, looking_at(browser, url) as page:
        reached: list[str] = []
        while "Reload" not in reached and len(reached) < 20:
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
            if reached[-1] == "agreed-summary":
                page.keyboard.press("Enter")
        assert reached == ["lacks-1-summary", "lacks-2-summary", "matrix-table", "agreed-summary", "Reload"]
        assert page.locator("#agreed li").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("brokers", [3, 100])
def test_nothing_is_cut_and_axe_finds_no_violation(browser: Browser, brokers: int, width: int, scheme: str) -> None:
    """On a phone and on a screen, light and dark, with few brokers and many; with all lists open."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core").Axe()
    features = StaticFeatures(release_view(*["3.9", "4.1"] * (brokers // 2), "4.1", silent=[2]))
    gates = [features.gate("groups", "kip848"), features.gate("zstd", "Produce>=7"), features.gate("far", "Fetch>=99")]
    features.show(release_view(*["3.9", "4.1"] * (brokers // 2), "4.1"))
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    with (
        serving({"orders": features, "payments": StaticFeatures()}, *gates) as url,
        looking_at(browser, f"{url}/clusters/orders", **options) as page,
    ):
        says(page, "#live", "Live")
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        for path in ("", "../"):
            if path:
                page.goto(url)
            violations = axe.run(page).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    "evil",
    [
        "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>",
        '" onfocus="document.title=\'owned\'" autofocus tabindex="1',
        "' onmouseover='document.title=1' '",
        "</script></style></textarea></title><svg onload=\"document.title='owned'\">",
        "javascript:document.title='owned'",
        "{{ 7 * 7 }}{% raw %}${document.title='owned'}",
        "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}\x00\x1b[2J\N{LINE SEPARATOR}\r\n\r\ndata: x",
        "\N{COMBINING LATIN SMALL LETTER A}" * 500,
    ],
)
def test_text_from_the_network_runs_nothing(browser: Browser, evil: str) -> None:
    """Neither at first nor where the page takes over a change, and long names stay within a phone's width."""
    strange = [
        replace(
            broker(number), host=evil, supported={evil: SupportedRange(1, number), "f" * 3000: SupportedRange(1, 1)}
        )
        for number in (1, 2)
    ]
    features = StaticFeatures(view(strange[0], cluster_id=evil))
    phone = {"viewport": {"width": 390, "height": 844}}
    with serving({"orders": features}) as url, looking_at(browser, url, **phone) as page:
        says(page, "#live", "Live")
        features.show(view(*strange, cluster_id=evil))
        says(page, "#roll h3", "broker 2")
        assert (
            page.locator("img, svg[onload], main script, [onfocus], [onmouseover], [href^='javascript']").count() == 0
        )
        assert "49" not in page.locator("dd").first.inner_text()
        assert page.title() == "orders: ok"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_person_with_a_key_sees_the_page_live(browser: Browser) -> None:
    """The browser sends the password with the files of the page and with its stream, too."""
    access = Access(api_keys=ApiKeys({hashlib.sha256(b"key").hexdigest(): RelayClient("me", None)}))
    features = StaticFeatures(release_view("3.9", "3.9"))
    person = {"http_credentials": {"username": "me", "password": "key"}}
    with serving({"orders": features}, access=access) as url, looking_at(browser, url, **person) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        says(page, "#live", "Live")
        features.show(release_view("3.9", "4.1"))
        says(page, "#roll p", "1 of 2 brokers have release 4.1")
        assert not any("key" in address for address in asked)  # it is in a header
