"""Moves of a real cluster: what was blocked breaks for the group that was named, and what was safe works."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from fleet_clients import is_stopped, joined, reads_on, transaction
from waiting import BOUND, eventually

from featuregate import Admin
from featuregate.admin.updates import disable, downgrade
from featuregate.catalog import captured
from featuregate.cli import main
from featuregate.config.properties import read_properties
from featuregate.testing import LocalKafka
from featuregate_fleet.errors import ClusterUnread
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.stream.internal_topics import topic_ends
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables
from featuregate_fleet.tables.reader import read_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate_fleet.readiness.evidence import Evidence
    from featuregate_fleet.readiness.moves import Move

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
SECURED: Any = {
    "security": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "users": {"admin": "admin-secret", "fleet": "fleet-secret", "stranger": "fleet-secret"},
    "properties": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    },
}
UNREAD = "so readiness cannot say what their coordinators would lose"
READER = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" \\
  password="fleet-secret";
"""


def allow(kafka: LocalKafka) -> None:
    """Give the rights that the documentation names to the user that reads."""
    named = [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL) for topic in TOPICS]
    groups = (ResourceType.GROUP, "spark-kafka-source-", ResourcePatternType.PREFIXED)
    rights = [
        AclBinding(*resource, "User:fleet", "*", AclOperation.READ, AclPermissionType.ALLOW)
        for resource in (*named, groups)
    ]
    admin = AdminClient(kafka.client_config())
    for made in admin.create_acls(rights).values():
        made.result(BOUND)


def blocked(evidence: Evidence, move: Move) -> dict[str, str]:
    """Return what blocks a move, with the check. Logs of requests and reports of apps are not looked at here."""
    report = assess(evidence, move, datetime.now(UTC), timedelta(hours=1))
    return {row.subject: row.check for row in report.rows if row.verdict == "block"}


@pytest.mark.usefixtures("jvm")
def test_verdicts_on_moves_come_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level that is taken away breaks the group of its protocol alone; a level that is safe breaks no client."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    (tmp_path / "logs").mkdir()
    with LocalKafka("4.2.0", **SECURED) as kafka, ExitStack() as stack:
        transaction(kafka, b"one")
        old = joined(stack, kafka, "classic-group")
        new = joined(stack, kafka, "modern-group", group_protocol="consumer")
        (tmp_path / "reader.properties").write_text(READER.format(user="fleet"))
        allow(kafka)
        run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]
        run += ["--bootstrap-server", kafka.bootstrap, "--command-config", str(tmp_path / "reader.properties")]
        assert main(run) == 0
        assert UNREAD not in capsys.readouterr().err
        assert main(["fleet", "readiness", *place, "--finalize", "group.version=0", "--output", "json"]) == 1
        (row,) = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["verdict"] == "block"]
        assert (row["check"], row["subject"], row["client_id"]) == (
            "protocols",
            "group 'modern-group'",
            "modern-group-1",
        )

        with local_session() as spark:
            (tmp_path / "stranger.properties").write_text(READER.format(user="stranger"))
            config = {**read_properties(tmp_path / "stranger.properties"), "bootstrap.servers": kafka.bootstrap}
            with pytest.raises(ClusterUnread, match=r"the topic __consumer_offsets cannot be read: .*Authorization"):
                topic_ends(spark, config, TOPICS)
            evidence = read_evidence(DeltaTables(spark, tmp_path / "tables", "c"))
        assert blocked(evidence, Finalize("transaction.version", 1)) == {}
        assert blocked(evidence, Deprecate("group.version", 0)) == {}
        assert blocked(evidence, Deprecate("group.version", 1)) == {"group.version=1": "feature-levels"}
        to_3_9 = blocked(evidence, DowngradeTo(captured()["3.9"], "3.9.2"))
        assert {name for name, check in to_3_9.items() if check == "coordinator-records"} == {"group 'modern-group'"}
        assert to_3_9["group.version=1"] == "feature-levels"
        to_4_1 = blocked(evidence, DowngradeTo(captured()["4.1"], "4.1.1"))
        assert {"metadata.version=4.2-IV1", "streams.version=1"} == to_4_1.keys()

        admin = Admin(kafka.client_config())
        admin.update(downgrade({"transaction.version": 1}))
        transaction(kafka, b"two")
        assert reads_on(old)
        assert reads_on(new)
        admin.update(disable("group.version"))
        eventually(lambda: is_stopped(new), "the member of the group that was named goes on")
        transaction(kafka, b"three")
        assert reads_on(old)
