"""Records of 2.8, and those of share groups, in tables, held against what Kafka's own formatters print.

``FLEET_PROOFS=1`` runs them. `test_coordinator_topics_live` holds 3.9, 4.2 and 4.3 against them in each run.
"""

import os
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from fleet_clients import commit_offsets
from printed_records import documents
from waiting import BOUND

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [
    pytest.mark.proof("fleet"),
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("FLEET_PROOFS"), reason="FLEET_PROOFS runs what takes minutes"),
]

OLD_FORMATTERS = {
    "OffsetCommit": ("__consumer_offsets", "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"),
    "GroupMetadata": (
        "__consumer_offsets",
        "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
    ),
    "TransactionLog": (
        "__transaction_state",
        "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
    ),
}
LINE = re.compile(r"^(\[[^\]]*\]|[\w.-]+)::(.*)$", re.MULTILINE)
"""Key and value, as 2.8 prints them."""
SHARED = "shared-orders"


def in_tables(kafka: LocalKafka, folder: Path) -> list[Any]:
    (folder / "logs").mkdir()
    command = ["fleet", "run", "--once", "--logs", str(folder / "logs"), "--bootstrap-server", kafka.bootstrap]
    assert main([*command, "--tables", str(folder / "tables"), "--cluster", "c"]) == 0
    with local_session() as spark:
        return EvidenceTable(spark, folder / "tables", "c").rows("record").collect()


def printed(kafka: LocalKafka, tool: str, topic: str, formatter: str, records: int) -> str:
    options = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning", "--formatter", formatter]
    options += ["--max-messages", str(records), "--timeout-ms", "60000", "--isolation-level", "read_committed"]
    done = kafka.run_tool(tool, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("jvm")
def test_records_of_2_8_are_those_that_its_formatters_print(tmp_path: Path) -> None:
    """By key, with tombstones; values by the mark, the clients and the states in them."""
    with LocalKafka("2.8.2") as kafka:
        commit_offsets(kafka)
        rows = in_tables(kafka, tmp_path)
        assert all(row.reason is None and row.kind for row in rows)
        total = Counter[str]()
        for row in rows:
            total[row.topic] += row["count"]
        for kind, (topic, formatter) in OLD_FORMATTERS.items():
            text = printed(kafka, "kafka.tools.ConsoleConsumer", topic, formatter, total[topic])
            theirs: Counter[tuple[str, bool]] = Counter()
            for key, value in LINE.findall(text):
                name = key.strip("[]").partition(",")[0]
                theirs[name, value == "NULL"] += 1
            ours: Counter[tuple[str, bool]] = Counter()
            for row in rows:
                if row.kind == kind:
                    ours[row.group or row.transactional_id, row.tombstone] += row["count"]
            assert ours == theirs
            assert theirs
            if kind == "OffsetCommit":
                assert "metadata=fg1;model=v2|of the app" in text
                assert [row.model for row in rows if row.kind == kind and row.group == "records-group"] == ["v2"]
            elif kind == "GroupMetadata":
                clients = {of.client_id for row in rows if row.kind == kind for of in row.members or ()}
                assert clients <= set(re.findall(r"clientId=([^,]+),", text))
            else:
                states = {row.state for row in rows if row.kind == kind}
                assert states <= set(re.findall(r"state=(\w+)", text)), states


def share(kafka: LocalKafka) -> None:
    """Read a record in a share group, with Kafka's own consumer; it sees only what comes while it is there."""
    options = ["--bootstrap-server", kafka.bootstrap, "--topic", SHARED, "--group", "sharers", "--max-messages", "1"]
    done: list[Any] = []
    tool = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    reader = threading.Thread(target=lambda: done.append(kafka.run_tool(tool, *options, "--timeout-ms", "120000")))
    reader.start()
    producer = Producer(kafka.client_config({"log_level": 0}))
    while reader.is_alive():
        producer.produce(SHARED, b"shared")
        assert producer.flush(BOUND) == 0
        reader.join(0.2)
    assert done[0].returncode == 0, done[0].stderr


@pytest.mark.usefixtures("jvm")
def test_records_of_share_groups_are_those_that_the_formatter_prints(kafka: LocalKafka, tmp_path: Path) -> None:
    """The state of each partition, record by record; the group and its members by their names."""
    share(kafka)
    rows = in_tables(kafka, tmp_path)
    assert not [row for row in rows if row.reason]
    members = [row for row in rows if row.kind == "ShareGroupMemberMetadata" and row.group == "sharers"]
    assert {row.protocol for row in members} == {"share"}
    assert [of for row in members for of in row.members or ()]
    state = [row for row in rows if row.topic == "__share_group_state"]
    formatter = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    text = printed(kafka, tool, "__share_group_state", formatter, sum(row["count"] for row in state))
    theirs: Counter[tuple[int, bool, str]] = Counter()
    for key, value in documents(text):
        theirs[int(key["type"]), value is None, key["data"]["groupId"]] += 1
    ours: Counter[tuple[int, bool, str]] = Counter()
    for row in state:
        ours[row.record_type, row.tombstone, row.group] += row["count"]
    assert ours == theirs
