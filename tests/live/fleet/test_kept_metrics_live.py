"""Metrics in the table of a cluster: slices, one commit each, and verdicts that join them with logs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept_metrics import DEPRECATED, REQUESTS, Kept, serving

from featuregate.cli import main
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.metrics_reader import kept_metrics

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

HOUR = timedelta(hours=1)
KNOWN = ("--listener", "CLIENT=SCRAM-SHA-256", "--without-usage-reports", "--output", "json")
pytestmark.append(pytest.mark.usefixtures("jvm"))


@pytest.fixture
def now() -> datetime:
    """When the test begins, because hours that end while others run are not kept."""
    return datetime.now(UTC)


def ended(now: datetime) -> datetime:
    """Return the end of the last hour that is kept."""
    return (now - timedelta(minutes=2)).replace(minute=0, second=0, microsecond=0)


def world(now: datetime) -> Kept:
    """Return two brokers, of which one has answered old calls for three days, with a restart."""
    kept = Kept(now.timestamp(), hours=80)
    restart = kept.ago(30)
    times = kept.broker("b1:9404", restarts=(restart,))
    kept.broker("b2:9404", days=91)
    for low, high in ((kept.ago(60), restart), (restart, kept.until)):
        kept.add(REQUESTS, {at: 2 for at in times if low < at < high}, "b1:9404", request="Fetch", version="1")
    kept.add(REQUESTS, {at: 5 for at in times if at > kept.ago(5)}, "b1:9404", request="Produce", version="1")
    label = {"request_Produce_version_1_clientSoftwareName": "librdkafka", "clientSoftwareVersion": "1.9.2"}
    kept.add(DEPRECATED, {at: 5 for at in times if at > kept.ago(5)}, "b1:9404", **label)
    return kept


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["readiness", "--to", "4.2", *arguments])
    return code, json.loads(capsys.readouterr().out)


def blocks(found: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {
        (row["api"], row["subject"]): row["count"]
        for row in found["rows"]
        if row["verdict"] == "block" and row["check"] == "api-versions"
    }


def test_metrics_are_kept_a_day_in_a_commit_and_judged_as_the_server_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: datetime
) -> None:
    """The next run reads what is new; nothing is counted twice."""
    place = ("--tables", str(tmp_path / "tables"), "--cluster", "c")
    kept, end = world(now), ended(now)
    with serving(kept) as (url, _):
        run = ("fleet", "run", "--once", *place, "--prometheus", url, "--reach", "70h")
        assert main(list(run)) == 0
        assert main(list(run)) == 0
        code, by_server = asked(
            capsys, "--prometheus", url, "--since", f"{end - 48 * HOUR:%Y-%m-%dT%H:00}", *KNOWN[:2], "--brokers", "2",
            "--output", "json",
        )  # fmt: skip
    assert code == 1
    code, by_table = asked(capsys, *place, "--since", f"{end - 48 * HOUR:%Y-%m-%dT%H:00}", *KNOWN)
    assert code == 1
    assert blocks(by_table) == blocks(by_server)
    assert blocks(by_table) == {("Fetch", "clients without a name"): 2, ("Produce", "librdkafka 1.9.2"): 5}
    covered = [row["subject"] for row in by_table["rows"] if row["check"] == "coverage" and row["verdict"] == "ok"]
    assert covered == ["broker b1:9404", "broker b2:9404"] or ended(datetime.now(UTC)) > end
    assert by_table["no_metric_shows"]
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        batches = [row["batch"] for row in table.rows("target").select("batch").distinct().collect()]
        assert len(batches) == 3  # 70 hours
        found = kept_metrics(table, end - 69 * HOUR, now)
        assert found is not None
        assert {(one.broker, one.hours, one.of_hours) for one in found.brokers} == {
            ("b1:9404", 69, 69),
            ("b2:9404", 69, 69),
        }
        later = kept_metrics(table, end - 69 * HOUR, end + 5 * HOUR)
        assert later is not None
        assert {one.hours - one.of_hours for one in later.brokers} == {-5}
        assert kept_metrics(table, end + 3 * HOUR, now + 5 * HOUR) is None


def test_the_inventory_of_the_table_is_that_of_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: datetime
) -> None:
    """The hours of the server that have ended are kept, with the connections of each software."""
    place = ("--tables", str(tmp_path / "tables"), "--cluster", "c")
    since = ("--since", f"{ended(now) - 5 * HOUR:%Y-%m-%dT%H:00}", "--output", "json")
    with serving(world(now)) as (url, _):
        assert main(["fleet", "run", "--once", *place, "--prometheus", url, "--reach", "8h"]) == 0
        capsys.readouterr()
        assert main(["inventory", "--prometheus", url, *since]) == 0
    [by_server] = json.loads(capsys.readouterr().out)["software"]
    assert main(["inventory", *place, *since]) == 0
    [by_table] = json.loads(capsys.readouterr().out)["software"]
    assert by_table["hours"]
    assert by_table["hours"] == by_server["hours"][: len(by_table["hours"])]
    assert {**by_table, "hours": []} == {**by_server, "hours": []}


def test_days_before_the_first_sample_of_a_server_are_read_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: datetime
) -> None:
    """A server keeps some weeks, and a reach may be longer: a slice without any sample moves on, too."""
    place = ("--tables", str(tmp_path / "tables"), "--cluster", "c")
    young = Kept(now.timestamp(), hours=10)
    young.broker("b1:9404")
    with serving(young) as (url, _):
        assert main(["fleet", "run", "--once", *place, "--prometheus", url, "--reach", "60h"]) == 0
    capsys.readouterr()
    assert main(["inventory", *place, "--since", "12h", "--output", "json"]) == 0
    [software] = json.loads(capsys.readouterr().out)["software"]
    assert 8 <= len(software["hours"]) <= 11  # of ten hours, which are parts of eleven on the clock


def test_a_server_that_does_not_answer_is_said_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs would be read all the same."""
    place = ("--tables", str(tmp_path / "tables"), "--cluster", "c")
    assert main(["fleet", "run", "--once", *place, "--prometheus", "http://127.0.0.1:9"]) == 2
    assert "metrics: " in capsys.readouterr().err
