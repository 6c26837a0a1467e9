"""Two apps that report their gates to a real broker, and the verdicts that name them."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from topics import create_topics
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate.usage.report import Reporter, UsageReport
from featuregate_confluent import UsageTopic
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence
from featuregate_spark.watch import usage_reporter

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

TOPIC = "usage-of-two-apps"
TV2 = fg.Feature("transaction.version") >= 2
OF_ANOTHER_CLUSTER = UsageReport(
    reporter=Reporter("elsewhere", "elsewhere-1", "featuregate", "0.1.0"),
    reported_at=1.0,
    cluster_id="another",
    epoch=1,
    age_seconds=0.0,
    gates=(),
)


def report(kafka: LocalKafka, app: str, name: str, requirement: fg.Requirement, **more: Any) -> None:
    topic, sent = UsageTopic(kafka.client_config(), TOPIC), list[UsageReport]()

    def send(value: bytes) -> None:
        topic(value)
        sent.append(UsageReport.from_json(value))

    reporter = fg.UsageReporter(send, app=app, instance=f"{app}-1")
    with fg.Discoverer(kafka.bootstrap, usage=reporter) as features:
        features.gate(name, requirement, **more)
        assert features.wait(BOUND)
        eventually(lambda: sent, f"a report of {app}")
    eventually(lambda: sent[-1].closing, f"the last report of {app}")


@pytest.mark.usefixtures("jvm")
def test_readiness_names_the_app_that_is_latched_on_what_a_move_removes(
    kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other app waits for another level. Other records are counted, and no report counts twice."""
    logs, folder = tmp_path / "logs", tmp_path / "tables"
    logs.mkdir()
    create_topics(kafka.client_config(), TOPIC, partitions=2)
    report(kafka, "billing", "eos", TV2)
    report(kafka, "audit", "later", fg.Feature("transaction.version") >= 3, policy="live")
    producer = Producer(kafka.client_config({"log_level": 0}))
    producer.produce(TOPIC, b"garbage")
    producer.produce(TOPIC, OF_ANOTHER_CLUSTER.to_json())
    assert producer.flush(BOUND) == 0
    place = ["--tables", str(folder), "--cluster", "orders"]
    cluster = ["--bootstrap-server", kafka.bootstrap, "--usage-topic", TOPIC]
    assert main(["fleet", "run", "--once", "--logs", str(logs), *place, *cluster]) == 0
    capsys.readouterr()

    code = main(["readiness", *place, "--downgrade-to", "3.9", "--output", "json"])
    found = json.loads(capsys.readouterr().out)
    rows = {row["app"]: row for row in found["rows"] if row["check"] == "app-gates"}
    assert (code, found["verdict"], rows.keys()) == (1, "block", {"billing", "audit"})
    assert (rows["billing"]["verdict"], rows["audit"]["verdict"]) == ("block", "ok")
    assert rows["billing"]["subject"] == "gate 'eos' of app 'billing'"
    assert "1 instance is latched on transaction.version>=2" in rows["billing"]["why"]
    counted = found["reports"]
    assert (counted["read"], counted["quarantined"]) == (counted["rows"] + 2, 2)

    report(kafka, "late", "live", TV2, policy="live")
    for _ in range(2):
        assert main(["fleet", "run", "--once", "--logs", str(logs), *place, *cluster]) == 0
    with local_session() as spark:
        apps = read_evidence(EvidenceTable(spark, folder, "orders")).apps
        application = spark.sparkContext.applicationId
        names = usage_reporter(spark, kafka.bootstrap, TOPIC).name_process()
    assert names[:3] == ("featuregate fleet", application, "spark")
    assert apps is not None
    assert {(use.app, use.latched) for use in apps.gates} == {("audit", False), ("billing", True), ("late", False)}
    assert apps.read == end_of(kafka) == apps.rows + 2
    assert (apps.quarantined, apps.unread) == (2, 1)


def end_of(kafka: LocalKafka) -> int:
    consumer = Consumer(kafka.client_config({"group.id": "ends", "log_level": 0}))
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(TOPIC, number), BOUND)[1] for number in range(2))
    finally:
        consumer.close()
