"""Topics of logs and of usage reports that vanish while a run reads them, and that are created again."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from topics import create_again, delete_topic

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.runs import ingestion, internal_topics, topics
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

LOGS, REPORTS = "vanishing-logs", "vanishing-reports"


def fill(kafka: LocalKafka, topic: str, records: int) -> None:
    producer = Producer(kafka.client_config({"log_level": 0}))
    for _ in range(records):
        producer.produce(topic, b"garbage", headers={"broker": b"1"})
    assert producer.flush(240) == 0


def vanishing(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Delete the topic in the middle of a run: once it was described, and before Spark reads it."""

    def ends(*arguments: Any) -> Any:
        found = internal_topics.topic_ends(*arguments)
        monkeypatch.undo()
        delete_topic(kafka.client_config(), topic)
        return found

    monkeypatch.setattr(ingestion, "topic_ends", ends)


@pytest.fixture
def short_waits() -> Iterator[None]:
    """Let Spark look for a topic that has vanished for half a minute, in place of three minutes each time."""
    waits = {"kafkaConsumer.pollTimeoutMs": 15_000, "kafka.default.api.timeout.ms": 15_000}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(topics, "records_of", partial(topics.records_of, **waits))
        yield


@pytest.mark.usefixtures("jvm", "short_waits")
@pytest.mark.parametrize("topic", [LOGS, REPORTS])
def test_a_topic_that_vanishes_is_no_empty_topic(
    kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    """In the first run and in a later one; a new topic of that name with more records is another one."""
    (tmp_path / "logs").mkdir()
    command = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--tables", str(tmp_path / "tables")]
    command += ["--cluster", "c", "--bootstrap-server", kafka.bootstrap]
    command += ["--logs-topic" if topic == LOGS else "--usage-topic", topic]

    def says() -> str:
        capsys.readouterr()
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    deleted = f"the topic {topic} was deleted while it was read"
    create_again(kafka.client_config(), topic)
    fill(kafka, topic, 3)
    vanishing(kafka, monkeypatch, topic)
    assert deleted in says()
    with local_session() as spark:
        assert EvidenceTable(spark, tmp_path / "tables", "c").version() is None, "nothing was committed"

    create_again(kafka.client_config(), topic)
    fill(kafka, topic, 3)
    assert main(command) == 0
    fill(kafka, topic, 2)
    vanishing(kafka, monkeypatch, topic)
    assert deleted in says()
    if topic == REPORTS:
        assert main(command) == 0
        assert f"there is no topic {topic}" in capsys.readouterr().err
    else:
        assert f"the topic {topic} does not exist" in says()
    create_again(kafka.client_config(), topic)
    fill(kafka, topic, 7)
    try:
        assert f"the topic {topic} was deleted and created again" in says()
    finally:
        delete_topic(kafka.client_config(), topic)
    with local_session() as spark:
        kept = EvidenceTable(spark, tmp_path / "tables", "c").rows("quarantine").collect()
    assert sorted(row.at for row in kept) == [0, 1, 2]
