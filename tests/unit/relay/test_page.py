"""The page of a relay as HTML, without a browser."""

import asyncio
import re
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
import requests
from apps_in_process import call
from bs4 import BeautifulSoup
from builders import broker, deaf, view
from doc_pages import ROOT
from relay_on_socket import serving
from transcripts import sections
from waiting import eventually

import featuregate as fg
from featuregate.catalog import captured_releases
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate.view.answers import ApiRange, Failure, SupportedRange
from featuregate.view.matrix import compare
from featuregate_relay.app import make_app
from featuregate_relay.clusters import PolledCluster
from featuregate_relay.page.rendering import _with_breaks, lacks, roll_of, software_of

BOUND = 30.0


def page_of(features: fg.Discoverer, *gates: fg.Gate, path: str = "/") -> BeautifulSoup:
    with serving({"orders": features}, *gates) as url:
        response = requests.get(url + path, timeout=BOUND)
        assert response.status_code == 200
        return BeautifulSoup(response.text.replace("<wbr>", ""), "html.parser")


def text_of(page: BeautifulSoup, selector: str) -> str:
    return " ".join(" ".join(found.get_text(" ") for found in page.select(selector)).split())


SCENES = sections(__file__, "pages.txt")
GATES = {"heartbeats": "ConsumerGroupHeartbeat>=1", "groups": "group.version>=2"}
VIEWS: dict[str, list[fg.View]] = {
    "a roll with a silent broker": [release_view("3.9", "3.9", "4.2", silent=[2])],
    "a hundred brokers of two releases": [release_view(*["3.9"] * 60, *["4.2"] * 40)],
    "a hundred brokers of two releases in turn": [release_view(*["3.9", "4.1"] * 50)],
    "brokers that all differ": [view(*(broker(number, txn=number) for number in range(30)))],
    "brokers that learn of an epoch one after the other": [
        view(*(broker(number, epoch=number, group_version=1) for number in range(1, 101)))
    ],
    "an open gate": [release_view("4.2")],
    "a gate that a latch holds open": [release_view("4.2"), release_view("3.9")],
    "no answer yet": [],
    "a broker without an id": [view(replace(broker(1), node_id=None, host="b1"))],
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_page_of_a_cluster_is_as_kept(scene: str) -> None:
    """Brokers that are equal share a column, and those of which the same is true are named together."""
    features = StaticFeatures()
    gates = [features.gate(name, requirement) for name, requirement in GATES.items()]
    for each in VIEWS[scene]:
        features.show(each)
    page = page_of(features, *gates)
    selectors = [line.partition(": ")[0] for line in SCENES[scene].splitlines()]
    told = "\n".join(f"{selector}: {text_of(page, selector)}" for selector in selectors)
    assert re.sub(r"since .*? UTC( ; brokers answered \d+ s ago)?", "since TIME", told) == SCENES[scene]
    columns = len(page.select("#matrix thead th"))
    assert all(len(row.select("td")) == columns - 1 for row in page.select("#matrix tbody tr:has(th[scope=row])"))


def test_the_page_says_how_old_it_is() -> None:
    now = [0.0]
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0, clock=lambda: now[0]) as features:
        features.refresh(BOUND)
        now[0] = 61.0
        with serving({"orders": features, "stock": StaticFeatures()}) as url:
            for path, selector in (("/clusters/orders", "#summary"), ("/", "#clusters li:first-child")):
                page = BeautifulSoup(requests.get(url + path, timeout=BOUND).text, "html.parser")
                assert "brokers answered 61 s ago" in text_of(page, selector)


def test_text_from_the_network_is_escaped_and_cut() -> None:
    evil = '"><script>alert(1)</script>'
    strange = replace(
        broker(1),
        host=evil,
        supported={evil: SupportedRange(1, 2), "f" * 5000: SupportedRange(1, 1)},
        finalized={evil + "\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}": 1},
        api_ranges={28: ApiRange(0, 3), 30_000: ApiRange(-5, 32_000)},
    )
    silent = replace(deaf(2), failure=Failure("TimedOut", evil * 1000))
    features = StaticFeatures(view(strange, silent, cluster_id=evil))
    gate = features.gate("g", "TxnOffsetCommit>=4")
    with serving({"orders": features}, gate) as url:
        text = requests.get(url, timeout=BOUND).text
    page = BeautifulSoup(text, "html.parser")
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert evil in text_of(page, "dd")
    assert max(map(len, page.stripped_strings)) < 500


@pytest.mark.no_cover
def test_every_broker_may_be_strange_and_the_page_stays_small() -> None:
    """A hundred brokers with a hundred features of their own each."""
    strange = [
        replace(broker(number), supported={f"{number}-{each}-{'x' * 150}": SupportedRange(1, 1) for each in range(100)})
        for number in range(100)
    ]
    with serving({"orders": StaticFeatures(view(*strange))}) as url:
        assert len(requests.get(url, timeout=BOUND).content) < 2_000_000


@pytest.mark.parametrize("path", ["/", "/clusters/orders"])
def test_the_state_of_a_cluster_is_looked_at_on_the_loop(path: str) -> None:
    """A page is made in a thread; if it made a state there, streams would take that for a change."""
    threads = set()

    class Observed(StaticFeatures):
        def health(self) -> dict[str, Any]:
            threads.add(threading.get_ident())
            return super().health()

    clusters = {name: PolledCluster(Observed(release_view("4.2"))) for name in ("orders", "stock")}
    status, *_ = asyncio.run(call(make_app(clusters), path))
    assert status == 200
    assert threads == {threading.get_ident()}


def test_several_clusters_have_a_page_each() -> None:
    features = StaticFeatures(release_view("3.9", "4.2"))
    with serving({"orders": features, "payments": StaticFeatures()}) as url:
        first = BeautifulSoup(requests.get(url, timeout=BOUND).text, "html.parser")
        assert [link["href"] for link in first.select("h2 a")] == ["clusters/orders", "clusters/payments"]
        assert "1 have release 4.2" in text_of(first, "li")
        page = BeautifulSoup(requests.get(f"{url}/clusters/orders", timeout=BOUND).text, "html.parser")
        assert page.select_one("h1").get_text() == "orders"
        assert page.select_one("nav a")["href"] == "../"
        assert requests.get(f"{url}/clusters/other", timeout=BOUND).status_code == 404


def test_the_browser_loads_nothing_but_the_files_of_the_page() -> None:
    with serving({"orders": StaticFeatures(release_view("4.2"))}) as url:
        response = requests.get(f"{url}/clusters/orders", timeout=BOUND)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        page = BeautifulSoup(response.text, "html.parser")
        assert not page.select("[style], style, script:not([src])")
        links = [link["href"] for link in page.select("link")] + [script["src"] for script in page.select("script")]
        for link in links:
            loaded = requests.get(f"{url}/clusters/{link}", timeout=BOUND)
            assert loaded.status_code == 200
            again = requests.get(
                f"{url}/clusters/{link}", headers={"If-None-Match": loaded.headers["ETag"]}, timeout=BOUND
            )
            assert again.status_code == 304
        assert requests.get(f"{url}/assets/other.css", timeout=BOUND).status_code == 404


def test_brokers_of_one_release_are_no_roll() -> None:
    """They may differ in what is configured."""
    same = release_view("4.2", "4.2")
    assert roll_of(same, software_of(compare(same, all_apis=True))) is None


def test_software_has_the_newest_release_of_which_it_has_everything() -> None:
    """A release that is newer than all known ones counts as the newest."""
    newest = captured_releases()[-1]
    titles = [each.title for each in software_of(compare(release_view("3.9", newest), all_apis=True))]
    assert titles == [f"release {newest} or newer", "release 3.9"]


def test_brokers_lack_versions_that_only_others_have() -> None:
    """At both ends of a range, and all of one."""
    answers = view(broker(1, txn=3), broker(2, txn=None), replace(broker(3), api_ranges={28: ApiRange(2, 5)}))
    matrix = compare(answers, all_apis=True)
    assert {each.group.members: lacks(each, matrix) for each in software_of(matrix)} == {
        "1": ["TxnOffsetCommit 4..5"],
        "2": ["TxnOffsetCommit 0..5"],
        "3": ["TxnOffsetCommit 0..1"],
    }


def test_the_example_rolls_a_cluster_under_its_page() -> None:
    """It says where the page is, and ends with a signal."""
    command = [sys.executable, str(ROOT / "examples/relay_page.py"), "--port", "0", "--seconds", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as example:
        try:
            assert example.stdout is not None
            url = example.stdout.readline().split()[-1]
            eventually(lambda: requests.get(url, timeout=BOUND).text.count("✓</span> open") == 3)
            example.terminate()
            assert example.wait(BOUND) == 0
        finally:
            example.kill()


def test_names_break_between_their_words() -> None:
    """On a phone, and not within a word; what stands in them is escaped."""
    names = {
        "transaction.version": "transaction.<wbr>version",
        "ConsumerGroupHeartbeat>=0": "Consumer<wbr>Group<wbr>Heartbeat&gt;=0",
        "config:a.b": "config:<wbr>a.<wbr>b",
        "3.9 <b>": "3.9 &lt;b&gt;",
    }
    assert {name: str(_with_breaks(name)) for name in names} == names
