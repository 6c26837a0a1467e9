"""``featuregate inventory``: who uses what, on a page and over time."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kept_metrics import Kept, serving
from metrics_pages import NOW, PAGES, page, read

from featuregate.cli.app import main
from featuregate_fleet.commands.inventory import bars
from featuregate_fleet.metrics.targets import evidence_of
from featuregate_fleet.readiness.hours import HOUR

OLD, NEW = ("confluent-kafka-python", "2.4.0-rdkafka-2.4.0"), ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
STRIMZI = str(PAGES / "3.9.2-strimzi-1.0.1.txt")


def test_software_of_all_brokers_is_one_row() -> None:
    pages = [
        read(page({}, {("CLIENT", *OLD): 2, ("OTHER", *OLD): 1}, started=None), "1"),
        read(page({}, {("CLIENT", *OLD): 3}, started=None), "2"),
    ]
    found = [
        (one.text, one.listener, one.brokers, one.connections) for one in evidence_of(pages, NOW, NOW).software_in_use
    ]
    assert found == [
        (" ".join(OLD), "CLIENT", ("1", "2"), {NOW - HOUR: 5}),
        (" ".join(OLD), "OTHER", ("1",), {NOW - HOUR: 1}),
    ]


def test_a_chart_has_a_bar_for_each_part_of_the_time() -> None:
    """The highest bar is the most, the lowest one connection, and a dot none."""
    hours = {datetime(2026, 11, 29, hour, tzinfo=UTC): count for hour, count in ((0, 1), (1, 100), (3, 10))}
    assert bars(hours, datetime(2026, 11, 29, tzinfo=UTC), datetime(2026, 11, 29, 5, tzinfo=UTC)) == "▂█·▅·"
    month = bars(hours, datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
    assert (len(month), month.count("█"), month.strip("·")) == (48, 1, "█▅")


def test_an_hour_that_was_not_sampled_yet_is_not_drawn_as_nothing() -> None:
    """A scrape may be a minute away; a sample that is there already counts for the part before."""
    begin, turn = (datetime(2026, 11, 29, hour, tzinfo=UTC) for hour in (21, 23))
    both = {begin: 1, turn - HOUR: 1}
    assert bars(both, begin, turn) == bars(both, begin, turn + timedelta(seconds=59)) == "██"
    assert bars(both, begin, turn + timedelta(seconds=61)) == "██·"
    assert bars({turn: 1}, begin, turn + timedelta(seconds=30)) == "·█"
    assert bars({turn: 1}, turn, turn + timedelta(seconds=30)) == "█"


def test_a_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "--metrics", f"7={STRIMZI}"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["SOFTWARE", "LISTENER", "CONNECTIONS", "BROKERS"]
    assert "librdkafka 1.9.2                              CLIENT      1            7" in said
    assert said[-1].split("  ")[:1] == ["7"]
    assert "3.1 or newer  not known" in said[-1]


def test_json_has_each_hour(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    assert main(["inventory", "--metrics", STRIMZI, "--metrics", f"2={nowhere}", "--output", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (one,) = [one for one in said["software"] if one["software"] == "librdkafka 1.9.2"]
    assert [hour["connections"] for hour in one["hours"]] == [1]
    assert said["brokers"][1]["problem"].endswith("No such file or directory")
    assert (said["brokers"][0]["release_at_least"], said["brokers"][1]["release_at_least"]) == ("3.1", None)


def test_what_a_page_lacks_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An empty list of software would say that nobody is there."""
    file = tmp_path / "page"
    for text, lacks in (
        (b"\n", "it has no metric of connected software, or not in each hour"),
        (page({}, {("CLIENT", *OLD): 1, ("CLIENT", "x" * 10**5, "1"): 1}), "1 lines cannot be read"),
    ):
        file.write_bytes(text)
        assert main(["inventory", "--metrics", f"7={file}"]) == 0
        assert capsys.readouterr().out.endswith(f"\n\nbroker 7: {lacks}\n")
        assert main(["inventory", "--metrics", f"7={file}", "--output", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["brokers"][0]["problem"] == lacks


def test_a_prometheus_shows_which_software_disappears(capsys: pytest.CaptureFixture[str]) -> None:
    """The old one left eight hours ago, the new one is there all the time; two exporters count once."""
    kept = Kept(datetime.now(UTC).timestamp(), hours=26)
    for instance in ("b1:1", "b1:2"):
        times = kept.broker(instance)
        kept.software(*OLD, {at: 3.0 if at < kept.ago(8) else 0.0 for at in times}, instance)
    with serving(kept) as (url, _):
        assert main(["inventory", "--prometheus", url, "--since", "24h"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("confluent")]
    new, old = rows
    assert (new.split()[:5], old.split()[:5]) == ([*NEW, "CLIENT", "3", "b1:1"], [*OLD, "CLIENT", "3", "b1:1"])
    assert set(new.split()[5]) == {"█"}
    bars = old.split()[5]
    assert 15 <= bars.count("█") <= 18
    assert bars.endswith("······")
    assert set(bars) == {"█", "·"}
