"""The pipeline from Python: what it refuses before it reads anything, and what a report does."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark")

import featuregate_fleet as door
from featuregate.errors import ConfigError
from featuregate_fleet import Fleet, FleetReport, NotReady, WrongSpark
from featuregate_fleet.readiness.evidence import Evidence
from featuregate_fleet.readiness.moves import MOVES
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.runs.session import session_beside


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr("featuregate_fleet.api.fleet.session_beside", lambda _: None)
    monkeypatch.setattr("featuregate_fleet.api.fleet.EvidenceTable", Empty)
    monkeypatch.setattr("featuregate_fleet.api.fleet.read_evidence", lambda _: Evidence())
    spark: Any = None
    return Fleet(spark, tmp_path / "tables", "orders")


class Empty:
    """A table that does not exist yet."""

    def __init__(self, *_: object) -> None: ...

    def version(self) -> None:
        """Return none."""

    def since(self, hour: datetime) -> "Empty":
        """Return what happened from an hour with a zone on."""
        assert hour.tzinfo is UTC
        return self


def test_the_door_needs_no_spark_until_a_name_is_used() -> None:
    """A supervisor that catches its errors starts at once."""
    code = "import sys, featuregate_fleet; featuregate_fleet.TablesBroken; print('pyspark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = door.Nothing


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "move: give one of to, downgrade_to, finalize, deprecate, drop_api, and not none"),
        ({"to": "4.2", "drop_api": "Fetch<12"}, "and not to, drop_api"),
        ({"move": MOVES["to"].read("3.9"), "to": "4.2"}, "and not to, move"),
        ({"to": "9.9"}, "to: '9.9' is none of the known releases"),
        ({"finalize": "x=1"}, "finalize: 'x' is none of the known features"),
    ],
)
def test_a_move_that_is_none_is_refused(fleet: Fleet, asked: dict[str, Any], says: str) -> None:
    """By the name of the argument."""
    with pytest.raises(ConfigError, match=says):
        fleet.readiness(**asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"to": 4.2}, 'to is text, such as to="4.2", and not 4.2'),
        ({"downgrade_to": 3.9}, 'downgrade_to is text, such as downgrade_to="3.9", and not 3.9'),
    ],
)
def test_a_release_that_is_a_number_is_refused(fleet: Fleet, asked: dict[str, Any], says: str) -> None:
    """4.10 would be 4.1."""
    with pytest.raises(TypeError) as error:
        fleet.readiness(**asked)
    assert str(error.value) == says


def test_a_time_without_a_zone_is_in_utc(fleet: Fleet) -> None:
    """Spark would take it for one of the zone of this machine, and heads of cut lines could not be compared with it."""
    report = fleet.readiness(to="4.2", since=datetime(2026, 11, 22, 14))  # noqa: DTZ001 - on purpose
    assert report.coverage["since"] == "2026-11-22T14:00:00+00:00"
    in_india = datetime(2026, 11, 22, 14, tzinfo=ZoneInfo("Asia/Kolkata"))  # whose hours begin amid those of UTC
    assert fleet.readiness(to="4.2", since=in_india).coverage["since"] == "2026-11-22T08:30:00+00:00"


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (["order", "payments"], "cluster: the tables .* have no cluster orders: they have order, and others"),
        (["payments", "mails"], "they have mails, payments$"),
    ],
)
def test_a_cluster_that_the_tables_do_not_have_is_refused_with_its_neighbours(
    fleet: Fleet, tmp_path: Path, there: list[str], says: str
) -> None:
    """Its verdict would be unknown for a letter that is missing; only where nothing was read is that what it is."""
    assert fleet.readiness(to="4.2").verdict == "unknown"
    for name in there:
        (tmp_path / "tables" / name / "_delta_log").mkdir(parents=True)
    for ask in (lambda: fleet.readiness(to="4.2"), lambda: fleet.table("usage"), fleet.usage):
        with pytest.raises(ConfigError, match=says):
            ask()


def test_a_cluster_without_a_table_is_not_tidied(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to tidy where nothing was read."""
    monkeypatch.setattr("featuregate_fleet.tables.evidence_table.EvidenceTable", Empty)
    with pytest.raises(ConfigError, match="have no cluster orders: read logs first"):
        fleet.tidy(older_than=9)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"forget": ""}, "forget: no name is given"),
        ({"forget": " \n"}, "forget: no name is given"),
        ({"older_than": -1}, "older_than: -1 days before today are still to come"),
    ],
)
def test_what_would_empty_a_table_is_not_tidied(fleet: Fleet, asked: dict[str, Any], says: str) -> None:
    """A variable that is not set is in each line, so that all texts in quarantine would go."""
    with pytest.raises(ConfigError, match=says):
        fleet.tidy(**asked, yes=True)


def test_files_of_a_folder_that_may_not_be_listed_are_not_taken_for_gone(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be forgotten, and read once more when it may be listed again."""
    monkeypatch.setattr("featuregate_fleet.api.fleet.existing_table", lambda *_: None)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    allowed = os.scandir

    def denied(folder: str) -> object:
        if folder.endswith("/1"):
            raise PermissionError(13, "Permission denied")
        return allowed(folder)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(ConfigError, match="1 cannot be listed"):
        fleet.tidy(older_than=9, logs=tmp_path / "logs")


def test_inputs_that_cannot_be_read_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    """Before a folder is made, or a broker is asked."""
    for inputs, says in (
        ({}, "logs: there is nothing to read"),
        ({"logs": tmp_path / "none"}, "logs: .* there is no such folder"),
        ({"logs": tmp_path}, "tables: .* would be read as logs"),
        ({"logs": "ftp://logs/kafka"}, "logs: is a URI"),
        ({"logs_topic": "lines"}, "bootstrap: the topic of logs needs the brokers"),
        ({"logs": Path(__file__).parent, "usage_topic": "reports"}, "bootstrap: the topic of usage reports needs"),
        ({"logs_topic": "lines", "again": ["layout"]}, "again: 'layout' is none of the reasons: cut, "),
    ):
        with pytest.raises(ConfigError, match=says):
            fleet.ingest(**inputs)  # type: ignore[arg-type]
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ConfigError, match="kind: 'usages' is none of the kinds of rows: usage, hour, "):
        fleet.table("usages")


@pytest.mark.parametrize(("cluster", "tables"), [("../c", "t"), ("c", "ftp://lake/t")])
def test_a_place_that_cannot_be_used_is_refused(cluster: str, tables: str) -> None:
    """A name that leaves the folder, and a URI, which would make a folder of that name."""
    spark: Any = None
    with pytest.raises(ConfigError, match=r"not a name|is a URI"):
        Fleet(spark, tables, cluster)


def test_spark_connect_is_refused_by_name() -> None:
    """Its driver has no Python of ours."""
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(WrongSpark, match="a session of Spark Connect: submit it as a job"):
        session_beside(session)


def test_a_report_without_evidence_ends_a_job(fleet: Fleet) -> None:
    """What is not known is not ready; the text has the verdict and why."""
    report = fleet.readiness(to="4.2")
    assert report.verdict == "unknown"
    assert report.coverage["brokers"] == {}
    assert "unknown" in repr(report)
    assert "<html" in report.html()
    said = str(report).splitlines()
    assert said[0] == "orders to Kafka 4.2: unknown"
    assert any(line.startswith("unknown: ") for line in said)
    assert {row.do for row in report.findings if row.do} <= set(said)
    framed = report._repr_html_()
    assert framed.startswith("<iframe srcdoc=")
    assert escape(report.html()) in framed
    with pytest.raises(NotReady, match=r"^orders to Kafka 4\.2: unknown\. \S"):
        report.raise_for_verdict()


def test_a_report_that_is_ok_lets_a_job_go_on(fleet: Fleet) -> None:
    """A move about which there is nothing to find, but for this test."""
    found = fleet.readiness(to="4.2").report
    spark: Any = None
    kept = type(found)(
        verdict=min(type(found.verdict), key=lambda verdict: verdict != "ok"),
        rows=(),
        move=MOVES["to"].read("4.2"),
        evidence=Evidence(),
        now=found.now,
        stale_after=timedelta(days=7),
    )
    FleetReport(spark, "orders", kept).raise_for_verdict()
    assert assess(Evidence(), MOVES["drop-api"].read("Fetch<12"), found.now, timedelta(days=7)).verdict != "ok"
