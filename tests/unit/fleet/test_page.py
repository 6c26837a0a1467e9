"""The report as one HTML page."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from fleet_evidence import UPGRADED, gate_use
from fleet_report import NOW, TARGET, WEEK, WORDS, fleet, fleet_evidence, of_client
from page_tags import Tags

from featuregate.catalog import captured
from featuregate_fleet.page.charts import (
    coverage_chart,
    levels_chart,
    recent_usage,
    software_over_time,
    usage_by_software,
    versions_over_time,
)
from featuregate_fleet.page.report_page import ENVIRONMENT, MOST_BYTES, to_html
from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis
from featuregate_fleet.readiness.evidence import AppUsage, BrokerLog, Evidence, LevelAt, LogLevel, UsageAt
from featuregate_fleet.readiness.moves import Deprecate, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict


@pytest.mark.parametrize("report", [fleet(3), fleet(0, brokers=0), fleet(2, old=0), fleet(5, silent=1)])
def test_the_page_stands_alone(report: Report):
    """No script, no link and no address: it is read as a mail's attachment and on paper, too."""
    page = to_html(report, "orders")
    assert {tag for tag, _ in Tags(page).seen}.isdisjoint({"script", "link", "img", "iframe", "object", "a"})
    assert not re.search(r"url\(|@import|https?:|\bon[a-z]+=", page)


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        (fleet(3), Verdict.BLOCK),
        (fleet(3, old=0), Verdict.OK),
        (fleet(3, old=0, silent=1), Verdict.UNKNOWN),
        (fleet(0, brokers=0), Verdict.UNKNOWN),
    ],
)
def test_the_page_says_the_verdict(report: Report, verdict: Verdict):
    """In its title, in its heading, and as a card with the number of findings."""
    page = to_html(report, "orders")
    assert report.verdict is verdict
    assert f"<title>orders to Kafka 4.2: {verdict}</title>" in page
    number = sum(row.verdict is verdict for row in report.rows)
    assert re.search(rf'<li class="{verdict}"><b>{number}</b>', page)


def test_a_client_that_must_move_is_one_row_with_all_its_findings():
    """An operator upgrades it once. A client that is ok stands among the other findings."""
    movers, others = to_html(fleet(3), "orders").split("<h2>Who must move</h2>")[1].split("<h2>Other findings</h2>")
    assert movers.count("<strong>client &#39;client-0&#39; of User:team-0</strong>") == 1
    assert "apache-kafka-java 3.7.0" in movers
    assert "<td>DescribeConfigs 0 (1-4 served, dropped in 4.0), " in movers
    assert ", Fetch 0 (4-18 served, dropped in 4.0), " in movers
    assert "Upgrade each client, or stop it, before the brokers move to 4.2." in movers
    assert "client-1&#39; of" not in movers
    assert "client-1&#39; of" in others


def test_text_from_the_network_cannot_become_markup():
    """A client id is any text; the longest have 32,767 characters, and some characters change what a reader sees."""
    evil = "<script>alert(1)</script>\"'&\x00\x1b\u202e" + "x" * 30_000
    report = fleet(1)
    changed = {"client_id": evil, "principal": evil, "software_name": evil, "software_version": evil}
    usage = tuple(replace(used, **changed) for used in report.evidence.usage)
    logs = {evil: next(iter(report.evidence.brokers.values()))}
    evidence = Evidence(usage=usage, brokers=logs, hourly={evil: {NOW: 1}}, quarantined={(evil, evil): 1})
    page = to_html(assess(evidence, ToRelease(TARGET), NOW, WEEK), evil)
    assert "<script" not in page
    assert "script" not in {tag for tag, _ in Tags(page).seen}
    assert not {"\x00", "\x1b", "\u202e"} & set(page)
    assert len(page.encode()) < MOST_BYTES


def test_the_page_of_a_hundred_clients_is_small():
    """The page is small enough for a mail."""
    page = to_html(fleet(100, old=30, brokers=30, silent=2), "orders")
    assert len(page.encode()) < MOST_BYTES
    assert "left out" not in page


@pytest.mark.no_cover
def test_a_crowded_page_says_how_much_it_leaves_out():
    """It stays small, also where each name of a client is long and full of characters that are escaped."""
    evidence = fleet_evidence(220, old=210, brokers=100)
    apart = tuple(replace(used, client_id=(used.client_id or "").translate(WORDS)) for used in evidence.usage)
    crowded = to_html(assess(replace(evidence, usage=apart), ToRelease(TARGET), NOW, WEEK), "orders")
    assert re.search(r"\d+ more clients are left out here", crowded)
    assert re.search(r"\d+ more brokers, with more hours each, are left out here", crowded)
    evidence = fleet_evidence(40, old=30, brokers=40)
    usage = tuple(
        replace(used, client_id="'<" * 150 + str(number), software_name=f"{number % 50}'" * 100)
        for number, used in enumerate(evidence.usage)
    )
    hostile = to_html(assess(replace(evidence, usage=usage), ToRelease(TARGET), NOW, WEEK), "orders")
    assert max(len(crowded.encode()), len(hostile.encode())) < MOST_BYTES


def test_each_chart_has_a_text_and_each_table_its_heads():
    """Screen readers read the texts and the heads."""
    tags = Tags(to_html(fleet(3), "orders")).seen
    charts = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(charts) == 8
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert "Fetch 0, 18" in (charts[0]["aria-label"] or "")
    assert all(attributes.get("scope") == "col" for tag, attributes in tags if tag == "th")
    assert ("html", {"lang": "en"}) in tags


def test_software_that_the_target_does_not_serve_comes_first():
    """A client says its software on some connections; its other requests count for that software, too."""
    silent = replace(
        of_client(1, oldest=False)[0], software_name=None, software_version=None, api_key=2, version=0, count=1
    )
    found = usage_by_software(
        Evidence(usage=(*of_client(0, oldest=False), silent, *of_client(1, oldest=False))), ReleaseApis(TARGET)
    )
    assert [name for name, _ in found] == ["librdkafka 2.6.1", "apache-kafka-java 3.7.0"]
    assert found[0][1][2][0] == 1


@pytest.mark.parametrize(
    ("back", "cells"),
    [
        (timedelta(0), 1),
        (timedelta(hours=5), 2),
        (timedelta(days=29), 2),
        (timedelta(days=31), 1),
        (-timedelta(hours=9), 1),
    ],
)
def test_coverage_has_a_cell_for_hours_with_requests(back: timedelta, cells: int):
    """Hours before the last 30 days are left out, and hours ahead of this clock count as now."""
    hour = NOW.replace(minute=0)
    chart = coverage_chart(["1", "2"], Evidence(hourly={"1": {hour - back: 5, hour: 9}}), NOW)
    assert sum(path.count("M") for path in re.findall(r'd="([^"]*)"', chart)) == cells
    assert chart.count('class="gap"') == 2


def test_requests_of_all_magnitudes_are_seen():
    """One request in an hour is evidence beside a million."""
    hourly = {"1": {NOW - timedelta(hours=3): 1, NOW - timedelta(hours=1): 10**6}}
    chart = coverage_chart(["1"], Evidence(hourly=hourly), NOW)
    assert "shade1" in chart
    assert "shade4" in chart


def test_the_page_has_the_gates_of_each_app():
    """With the verdict of each, and what becomes of it; the names are those of apps, and escaped."""
    use = gate_use(app="<orders>", instances=1)
    evidence = Evidence(apps=AppUsage(gates=(use,), read=10, rows=10))
    page = to_html(assess(evidence, Finalize("transaction.version", 1), NOW, WEEK), "orders")
    section = page.partition("<h2>Gates of apps</h2>")[2].partition("<h2>")[0]
    assert "<strong>&lt;orders&gt;</strong>" in section
    assert "1 instance is latched on transaction.version&gt;=2, which does not hold after the move" in section
    assert "block" in section
    assert "<h2>Gates of apps</h2>\n<p>No app reported its gates.</p>" in to_html(fleet(1), "orders")


def test_hours_of_deprecated_requests_and_lost_hours_are_marked():
    """By shape, because colour alone does not reach everybody."""
    hour = NOW.replace(minute=0)
    evidence = Evidence(
        hourly={"1": {hour: 5}},
        deprecated={"1": {hour - timedelta(hours=2): 5, hour: 1}},
        log_levels=(LogLevel(broker="1", level="DEBUG", taken_at=NOW - timedelta(hours=4)),),
    )
    chart = coverage_chart(["1"], evidence, NOW)
    assert [path.count("M") for path in re.findall(r'd="([^"]*)"', chart)] == [1, 1, 1]
    assert 'class="missing"' in chart
    assert "missing" not in coverage_chart(["1"], replace(evidence, log_levels=()), NOW)


DAY = NOW.replace(hour=0, minute=0)
OVER_TIME = Evidence(
    over_time=(
        UsageAt("old 1.0", 1, 0, DAY, 5),
        UsageAt("old 1.0", 1, 2, DAY - timedelta(days=9), 10**6),
        UsageAt("old 1.0", 1, 16, DAY, 50),
        UsageAt("old 1.0", 4, 1, DAY, 50),  # between brokers
        UsageAt("old 1.0", 32, 1, DAY, 50),
        UsageAt("", 1, 16, DAY, 50),
        UsageAt("new", 22, 4, DAY, 70),
        UsageAt("new", 68, 1, DAY, 20),
        UsageAt("gone", 1, 0, DAY - timedelta(days=40), 5),
    )
)


def drawn(move: Move, evidence: Evidence = OVER_TIME) -> dict[str, list[tuple[str, bool]]]:
    """Return the versions of each software that are drawn over time, and whether they are not served then."""
    found = versions_over_time(move, recent_usage(evidence, NOW - timedelta(days=30)))
    return {software: [(row.name, row.lost) for row in rows] for software, rows in found}


def test_the_apis_that_a_move_concerns_are_drawn_over_time_by_software():
    """An operator sees which clients still use what is not served then, and which use newer versions."""
    old = [("Fetch 0", True), ("Fetch 2", True), ("Fetch 16", False), ("DescribeConfigs 1", False)]
    assert drawn(ToRelease(TARGET)) == {"old 1.0": old, "software without a name": [("Fetch 16", False)]}
    assert drawn(DropApi(1, 2)) == {
        "old 1.0": [("Fetch 0", True), ("Fetch 2", False), ("Fetch 16", False)],
        "software without a name": [("Fetch 16", False)],
    }
    served = Evidence(over_time=OVER_TIME.over_time[:3])
    assert drawn(ToRelease(captured()["3.9"]), served) == {}, "it serves all versions from the oldest on"


@pytest.mark.parametrize("kind", [Finalize, Deprecate])
def test_the_apis_of_a_feature_are_drawn_over_time_by_software(kind: type[Finalize | Deprecate]):
    """An operator sees who has adopted the feature. That the table has no row of them is said, too."""
    assert drawn(kind("group.version", 1)) == {"new": [("ConsumerGroupHeartbeat 1", False)]}
    assert drawn(kind("transaction.version", 2)) == {}
    evidence = replace(OVER_TIME, view=UPGRADED)
    page = to_html(assess(evidence, kind("transaction.version", 2), NOW, WEEK), "orders")
    assert "Produce from 12 on, EndTxn from 5 on, TxnOffsetCommit from 5 on. No request of these APIs was seen." in page
    page = to_html(assess(evidence, kind("group.version", 1), NOW, WEEK), "orders")
    assert "ConsumerGroupHeartbeat 1 until 2026-11-22" in page
    assert "API versions over time" not in to_html(assess(evidence, kind("metadata.version", 22), NOW, WEEK), "orders")


def test_a_chart_over_time_says_what_it_draws():
    """In words, for those who do not see it, with what it leaves out."""
    ((_, rows),) = versions_over_time(ToRelease(TARGET), OVER_TIME.over_time[:3])
    chart = software_over_time(rows, DAY - timedelta(days=9), NOW)
    assert "Fetch 0 (refused after the move) until 2026-11-22" in chart
    assert sum(path.count("M") for path in re.findall(r' d="([^"]*)"', chart)) == 3
    many = tuple(UsageAt("a", 1, version, DAY, version) for version in range(4, 17))
    ((_, rows),) = versions_over_time(ToRelease(TARGET), many)
    assert software_over_time(rows, DAY, NOW).count('class="gap"') == 5
    assert "Fetch 16 until 2026-11-22, and 8 more." in software_over_time(rows, DAY, NOW)


def test_days_are_drawn_as_wide_as_they_are():
    """Days without a request are empty."""
    used = tuple(UsageAt("old", 1, 0, DAY - timedelta(days=back), 5) for back in (0, 9))
    ((_, rows),) = versions_over_time(ToRelease(TARGET), used)
    assert "h56v" in software_over_time(rows, DAY - timedelta(days=9), NOW)


def test_levels_are_drawn_from_when_they_were_first_seen():
    """A level that stays is one bar; a feature that never was finalized is none."""
    seen = [
        LevelAt(feature, level, NOW - timedelta(days=days))
        for days, levels in ((3, (0, 0)), (2, (1, 0)), (1, (1, 0)))
        for feature, level in zip(("group.version", "share.version"), levels, strict=True)
    ]
    chart = levels_chart(seen, NOW)
    assert "Finalized levels: group.version 0, 1." in chart
    assert (chart.count('class="even"'), chart.count('class="odd"')) == (1, 1)
    assert 'class="even" x="200" y="19" width="560"' in chart, "from the first time on, 560 units wide"
    assert 'class="odd" x="386.67" y="19" width="373.33"' in chart, "from a third of the time on"
    assert "share.version" not in chart


@pytest.mark.parametrize(
    ("seconds", "hours", "covered", "text"),
    [
        (34, 1, None, "34 s"),
        (34, 1, 34.2, "34 s"),
        (600, 1, None, "10 min"),
        (9e5, 76, None, "76 h"),
        (9e5, 76, 7200, "2 h"),
    ],
)
def test_a_minute_of_log_is_not_counted_as_an_hour(seconds: int, hours: int, covered: float | None, text: str) -> None:
    """Beside a finding that says how little was seen."""
    end = NOW + timedelta(seconds=seconds)
    log = BrokerLog(hours=hours, requests=1, first_seen=NOW, last_seen=end, covered_seconds=covered)
    assert ENVIRONMENT.filters["spent"](log) == text
