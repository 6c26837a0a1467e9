"""Request logs in a topic of a real cluster, to which a shipper writes them line by line."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from fleet_batches import batches
from fleet_lines import read_line
from topics import create_again, delete_topic
from waiting import BOUND

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.runs import topics
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

TOPIC = "request-logs-of-brokers"


def ship(kafka: LocalKafka, lines: list[str]) -> None:
    """Write lines: one in ten without a broker, others with the broker as the key, and most with a header."""
    producer = Producer(kafka.client_config({"log_level": 0}))
    for number, line in enumerate(lines):
        named: dict[str, Any] = {} if number % 10 == 0 else {"headers": {"broker": b"1"}}
        named = {"key": b"1"} if number % 10 == 1 else named
        producer.produce(TOPIC, line.encode(), partition=0, **named)
    assert producer.flush(240) == 0


def counts(tables: Path) -> tuple[int, int]:
    with local_session() as spark:
        table = EvidenceTable(spark, tables, "c")
        requests = sum(row["count"] for row in table.rows("usage").where("outcome = 'completed'").collect())
        unknown = table.rows("quarantine").where("reason = 'unknown-broker'").collect()
    assert {row.path for row in unknown} <= {f"kafka:{TOPIC}/0"}
    return requests, sum(row.lines for row in unknown)


@pytest.mark.usefixtures("jvm")
def test_lines_in_a_topic_count_once(
    kafka: LocalKafka,
    broker_log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many records a batch takes; a topic that was replaced or deleted ends the run."""
    tables = tmp_path / "tables"
    command = ["fleet", "run", "--once", "--logs-topic", TOPIC, "--tables", str(tables), "--cluster", "c"]
    command += ["--bootstrap-server", kafka.bootstrap]
    lines = broker_log.read_text().splitlines()
    requests = [number for number, line in enumerate(lines) if isinstance(read_line(line), LoggedRequest)]
    unknown = sum(number % 10 == 0 for number in requests)
    create_again(kafka.client_config(), TOPIC, partitions=2)
    try:
        ship(kafka, lines)
        assert main(command) == 0
        once = counts(tables)
        assert once[0] == len(requests) - unknown
        assert once[1] >= unknown  # those of refusals, too
        assert main(command) == 0
        assert counts(tables) == once
        ship(kafka, lines)
        monkeypatch.setattr(topics, "_LINES", len(lines) // 3)
        assert main(command) == 0
        assert counts(tables) == (2 * once[0], 2 * once[1])
        with local_session() as spark:
            assert batches(EvidenceTable(spark, tables, "c")) > 3
    finally:
        delete_topic(kafka.client_config(), TOPIC)
    capsys.readouterr()
    assert main(command) == 2
    assert f"the topic {TOPIC} does not exist" in capsys.readouterr().err
    create_again(kafka.client_config(), TOPIC, partitions=2)
    try:
        ship(kafka, lines[:1])
        assert main(command) == 2
        assert "it is another topic, or records were deleted" in capsys.readouterr().err
    finally:
        delete_topic(kafka.client_config(), TOPIC)


@pytest.mark.usefixtures("jvm")
def test_a_batch_ends_before_an_open_transaction(kafka: LocalKafka, broker_log: Path, tmp_path: Path) -> None:
    """A read behind it would wait until it ends, or fail after two minutes. Its records count once it is committed."""
    tables = tmp_path / "tables"
    command = ["fleet", "run", "--once", "--logs-topic", TOPIC, "--tables", str(tables), "--cluster", "c"]
    command += ["--bootstrap-server", kafka.bootstrap]
    line = next(each for each in broker_log.read_text().splitlines() if isinstance(read_line(each), LoggedRequest))
    create_again(kafka.client_config(), TOPIC, partitions=2)
    try:
        patient = {"transaction.timeout.ms": int(1000 * BOUND)}  # a run on a busy machine takes a minute
        producer = Producer(kafka.client_config({"transactional.id": "shipper", "log_level": 0, **patient}))
        producer.init_transactions(BOUND)

        def ship_one() -> None:
            producer.begin_transaction()
            producer.produce(TOPIC, line.encode(), headers={"broker": b"1"}, partition=0)
            assert producer.flush(BOUND) == 0

        ship_one()
        producer.commit_transaction(BOUND)
        ship_one()
        assert main(command) == 0
        assert counts(tables) == (1, 0)
        producer.commit_transaction(BOUND)
        ship_one()
        producer.abort_transaction(BOUND)
        assert main(command) == 0
        assert counts(tables) == (2, 0)
    finally:
        delete_topic(kafka.client_config(), TOPIC)
