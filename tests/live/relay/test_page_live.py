"""The page of a relay in Chromium, over a real cluster that is rolled to another release."""

import pytest
from chromium import chromium
from relay_on_socket import serving
from waiting import BOUND

import featuregate as fg
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("relay"), pytest.mark.live, pytest.mark.slow]


def test_the_page_follows_a_real_roll() -> None:
    """Brokers done and left, the gate that opens, and the level that is finalized at the end."""
    with (
        LocalKafka("3.9.2", nodes=3) as kafka,
        fg.Discoverer(kafka.bootstrap, interval=1) as features,
        chromium() as browser,
    ):
        gate = features.gate("new-groups", "group.version>=1 & ConsumerGroupHeartbeat>=1")
        with serving({"orders": features}, gate) as url:
            page = browser.new_page()
            page.set_default_timeout(BOUND * 1000)

            def says(selector: str, text: str) -> None:
                page.locator(selector).filter(has_text=text).first.wait_for()

            page.goto(url)
            says("#roll", "release 3.9")
            says("#gates h3", "closed")
            kafka.roll(1, "4.2.0")
            says("#roll p", "1 of 3 brokers have release 4.2")
            kafka.roll(2, "4.2.0")
            says("#roll p", "2 of 3 brokers have release 4.2")
            kafka.roll(3, "4.2.0")
            says("#roll", "All brokers that answer are equal")
            kafka.finalize({"metadata.version": 29, "group.version": 1})
            says("#gates h3", "open")
            page.close()
