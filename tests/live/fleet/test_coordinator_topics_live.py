"""Records of real coordinators, in tables, held against what Kafka's own formatters print of the same topics."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fleet_clients import commit_offsets
from printed_records import documents

from featuregate.cli import main
from featuregate.cli.plugin import UNKNOWN
from featuregate.records.transactions import TransactionState
from featuregate_fleet.evidence.coordinator_records import kinds, model_of_mark
from featuregate_fleet.stream import coordinator_topics
from featuregate_fleet.stream.removal import Removal, remove, retention
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

FORMATTERS = {
    "__consumer_offsets": ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"),
    "__transaction_state": ("TransactionLogMessageFormatter",),
}


def formatted(kafka: LocalKafka, topic: str, formatter: str, records: int) -> list[tuple[Any, Any]]:
    """Return keys and values as Kafka's own tool prints those of a topic."""
    options = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning"]
    options += ["--max-messages", str(records), "--timeout-ms", "60000", "--isolation-level", "read_committed"]
    tool = "org.apache.kafka.tools.consumer"
    printed = kafka.run_tool(f"{tool}.ConsoleConsumer", *options, "--formatter", f"{tool}.{formatter}")
    assert printed.returncode == 0, printed.stderr
    found = list(documents(printed.stdout))
    assert found
    return found


def identity(key: Any, value: Any) -> tuple[Any, ...]:
    """Return what a row of the table says, too: number of the key, version of the value, group or id."""
    name = key["data"].get("group") or key["data"]["transactionalId"]
    return int(key.get("type", key.get("version"))), None if value is None else int(value["version"]), name


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0"], indirect=True)
def test_tables_have_what_kafkas_own_formatters_print(
    kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Record by record: what was overwritten is counted, and what a transaction did not commit is left out.

    Neither a lost commit of Spark's nor a lost checkpoint loses or doubles a record. By its defaults Spark reads none.
    """
    commit_offsets(kafka)
    (tmp_path / "logs").mkdir()
    command = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
    command += ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(command) == 0
    rows = in_table(tmp_path)
    assert all(row.kind == kinds()[row.topic][row.record_type] for row in rows)
    old = kafka.node(1).version.startswith("3.")
    (mark,) = [row for row in rows if row.group == "records-group" and row.kind == "OffsetCommit"]
    assert (mark.model, mark.version) == ("v2", 3 if old else 4)
    for topic, formatters in FORMATTERS.items():
        ours: Counter[tuple[Any, ...]] = Counter()
        for row in rows:
            if row.topic == topic:
                ours[row.record_type, row.version, row.group or row.transactional_id] += row["count"]
        for formatter in formatters:
            printed = formatted(kafka, topic, formatter, ours.total())
            theirs = Counter(identity(key, value) for key, value in printed)
            types = {kind for kind, _, _ in theirs}
            assert {found: count for found, count in ours.items() if found[0] in types} == theirs
            last = {json.dumps(key): value and value["data"] for key, value in printed}
            for key, value in last.items():
                assert value is None or says_the_same(rows, json.loads(key)["data"], value), (key, value)
    if old:
        return
    checkpoint = tmp_path / "tables" / "_checkpoints" / "c" / "coordinator_records"
    for lost in (checkpoint / "commits").iterdir():
        lost.unlink()
    assert main(command) == 0
    shutil.rmtree(checkpoint)
    assert main(command) == 0
    again = in_table(tmp_path)
    assert counted(again) == counted(rows)
    assert not [row.group for row in again if (row.group or "").startswith("spark-")], "reading leaves no group behind"
    with local_session() as spark:
        tables = DeltaTables(spark, tmp_path / "tables", "c")
        overwritten = retention(datetime.now(UTC) + timedelta(days=1)).rows["coordinator_records"]
        remove(tables, Removal({"coordinator_records": overwritten}, None))
    newest: dict[tuple[Any, ...], int] = {}
    for row in again:
        key = (row.topic, row.partition, bytes(row.key))
        newest[key] = max(row.offset, newest.get(key, -1))
    left = Counter((row.topic, row.partition, bytes(row.key)) for row in in_table(tmp_path))
    assert left == Counter(newest.keys()), "the newest record of each key stays"
    monkeypatch.setattr(coordinator_topics, "_DEPRECATED_FETCHING", "spark.featuregate.unused")
    assert main([*command, "--cluster", "without-the-setting"]) == UNKNOWN
    assert "and Spark returned no record of it" in capsys.readouterr().err


def says_the_same(rows: list[Any], key: Any, value: Any) -> bool:
    """Return whether a row says what the value of a record says, as far as a row keeps it."""
    if "transactionStatus" in value:
        state = TransactionState(value["transactionStatus"]).name.replace("_", "").lower()
        return any(row.transactional_id == key["transactionalId"] and row.state.lower() == state for row in rows)
    of_group = [row for row in rows if row.group == key["group"] and not row.tombstone]
    if "metadata" in value:
        return any(row.kind == "OffsetCommit" and row.model == model_of_mark(value["metadata"]) for row in of_group)
    clients = {member["clientId"] for member in value["members"]}
    return any(row.kind == "GroupMetadata" and {of.client_id for of in row.members} == clients for row in of_group)


def counted(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Count the records of the group and the transactional id of this test, which writes none any more."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "records-group" in (row.group or "") or row.transactional_id == "records-app":
            found[row.topic, bytes(row.key), row.version, row.offset] += row["count"]
    return found


def in_table(folder: Path) -> list[Any]:
    """Return the rows of the table."""
    with local_session() as spark:
        return DeltaTables(spark, folder / "tables", "c").read("coordinator_records").collect()
