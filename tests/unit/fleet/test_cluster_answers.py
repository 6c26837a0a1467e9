"""What brokers answered, as columns and rows of a batch, and when a batch is committed for it alone."""

from datetime import timedelta
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from dataclasses import replace

from fleet_evidence import NOW, view

from featuregate.admin.loggers import BrokerLogLevel
from featuregate.errors import FeatureGateError
from featuregate.view.answers import BrokerAnswer
from featuregate.view.cluster_view import View
from featuregate_fleet.evidence.columns import rows_from
from featuregate_fleet.metrics.prometheus import MetricsUnread, Web
from featuregate_fleet.runs import ingestion
from featuregate_fleet.runs.kept_metrics import MetricsInput
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.tables.run_rows import RunsSaw, answers_of, told_hours

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def test_answers_are_columns_of_a_run():
    """With the level of each feature: 0 where it is not finalized."""
    found = answers_of(view())
    (row,) = rows_from("run", [found]).column("run").to_pylist()
    assert (row["asked_at"], row["cluster_id"], row["epoch"]) == (NOW, "c", 7)
    levels = {each["feature"]: each["level"] for each in row["levels"]}
    assert (levels["metadata.version"], levels["share.version"]) == (25, 0)
    assert View.from_json(row["view"]).same_content(view())


def test_levels_that_no_broker_reports_are_unknown():
    """An unknown level is not a level of 0."""
    (row,) = rows_from("run", [answers_of(replace(view("2.6"), epoch=-1, finalized={}))]).column("run").to_pylist()
    assert {each["level"] for each in row["levels"]} == {None}


def test_the_level_that_a_broker_reports_is_a_row_of_the_hour():
    """It has no requests, and the time of the answer; a broker that does not tell has its reason."""
    levels = (
        BrokerLogLevel(broker=1, level="DEBUG"),
        BrokerLogLevel(broker=2, level=None, failure=FeatureGateError("no")),
    )
    at = NOW + 7 * MINUTE
    rows = rows_from("hour", told_hours(levels, at)).column("hour").to_pylist()
    assert [(row["broker"], row["level"], row["failure"], row["asked"]) for row in rows] == [
        ("1", "DEBUG", None, True),
        ("2", None, "no", True),
    ]
    assert {(row["hour"], row["count"], row["first_seen"], row["last_seen"]) for row in rows} == {(NOW, 0, at, at)}


def test_a_run_keeps_the_levels_that_brokers_report_and_names_those_that_report_none(monkeypatch: pytest.MonkeyPatch):
    """The answers come one by one."""
    levels = [BrokerLogLevel(broker=1, level="DEBUG"), BrokerLogLevel(broker=2, level=None)]
    monkeypatch.setattr(ingestion.LogLevels, "read", lambda _: iter(levels))
    said: list[str] = []
    of_nothing = cast("Any", None)
    run = ingestion.Ingestion(
        of_nothing, of_nothing, ingestion.Inputs(cluster="c", config={"bootstrap.servers": "a:1"}), said.append
    )
    assert [(row["broker"], row["level"]) for row in run._told()] == [("1", "DEBUG"), ("2", None)]
    assert said == ["brokers that do not report the level of their request log: 2"]


def test_a_prometheus_that_fails_is_asked_once_in_a_run_and_again_in_the_next_one():
    """A run has many batches of logs, and may have to wait each time for a server that does not answer."""
    said: list[str] = []

    def web() -> Web:
        raise MetricsUnread("no answer")

    metrics = MetricsInput(url="http://p:9090", conditions=(), web=web, reach=24 * HOUR)
    of_nothing = cast("Any", None)
    run = ingestion.Ingestion(of_nothing, of_nothing, ingestion.Inputs(cluster="c", metrics=metrics), said.append)
    run._known = KnownSources.nothing()
    run.read(None)
    assert [run._parts(None) for _ in range(2)] == [[], []]
    assert (said, run.unread_metrics) == (["metrics: no answer"], True)
    run.read(None)
    assert said == ["metrics: no answer"] * 2


def test_a_broker_whose_id_is_not_known_is_not_in_the_list_of_brokers():
    """An address that did not answer has no id."""
    of_nothing = cast("Any", None)
    run = ingestion.Ingestion(of_nothing, of_nothing, ingestion.Inputs(cluster="c"), [].append)
    found = view()
    first, _ = found.brokers
    seen = replace(found, brokers=(first, BrokerAnswer(node_id=None, host="b3", port=9092)))
    assert run._run_row([], seen)["listed"] == ["1"]


def test_a_batch_for_answers_alone_is_due_each_ten_minutes():
    """At once where there are none, or others: brokers of another release may have the same finalized levels."""
    before = view("4.2")
    later = replace(before, seen_at=before.seen_at + 60)
    assert RunsSaw().is_due(later, NOW)
    saw = RunsSaw(asked_at=NOW, view=before.to_json())
    assert [saw.is_due(later, NOW + minutes * MINUTE) for minutes in (0, 9, 10)] == [False, False, True]
    assert saw.is_due(later, NOW - 10 * MINUTE)  # the clock was ahead: what is written down would be fresh for as long
    assert saw.is_due(replace(before, seen_at=before.seen_at - 3600), NOW - 60 * MINUTE)
    others = [replace(view("3.9"), finalized=before.finalized), view("4.2", missing=True), view("4.2", group_version=0)]
    for other in others:
        assert saw.is_due(other, NOW)
    assert RunsSaw(asked_at=NOW, view='{"schema": 99}').is_due(before, NOW)
