"""A downgrade of real brokers: the groups and ids that readiness passes go on, and the group that it names does not."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from fleet_clients import is_stopped, joined, reads_on, transaction
from waiting import eventually

from featuregate import Admin, discover
from featuregate.admin.updates import disable
from featuregate.catalog import captured
from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.readiness.moves import DowngradeTo
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables
from featuregate_fleet.tables.reader import read_evidence

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

TARGET = DowngradeTo(captured()["3.9"], "3.9.2")
OFTEN = {"metadata.log.max.snapshot.interval.ms": "500"}


def snapshot(kafka: LocalKafka) -> str:
    """Return the name of the newest snapshot of the metadata, which begins with its offset."""
    metadata = kafka.node(1).log.parent.glob("**/__cluster_metadata-0/*.checkpoint")
    return max((path.name for path in metadata), default="")


def await_snapshot(kafka: LocalKafka) -> None:
    """Wait for a snapshot that was begun after now: the second one that comes."""
    for _ in range(2):
        before = snapshot(kafka)
        eventually(lambda before=before: snapshot(kafka) > before, "no snapshot of the metadata comes")


@pytest.mark.usefixtures("jvm")
def test_a_downgrade_breaks_the_group_that_was_named(tmp_path: Path) -> None:
    """Brokers go from 4.2.0 to 3.9.2, whose coordinators skip the members of a KIP-848 group."""
    (tmp_path / "logs").mkdir()
    with LocalKafka("4.2.0", release_version="3.9", properties=OFTEN) as kafka, ExitStack() as stack:
        kafka.finalize({"group.version": 1})
        transaction(kafka, b"one")
        old = joined(stack, kafka, "classic-group")
        new = joined(stack, kafka, "modern-group", group_protocol="consumer")
        run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
        assert main([*run, "--tables", str(tmp_path / "tables"), "--cluster", "c"]) == 0
        with local_session() as spark:
            evidence = read_evidence(DeltaTables(spark, tmp_path / "tables", "c"))
        report = assess(evidence, TARGET, datetime.now(UTC), timedelta(hours=1))
        blocked = {row.subject: row for row in report.rows if row.verdict == "block"}
        assert blocked.keys() == {"group 'modern-group'", "group.version=1"}
        assert blocked["group 'modern-group'"].client_id == "modern-group-1"

        Admin(kafka.client_config()).update(disable("group.version"))
        await_snapshot(kafka)  # without one, 3.9.2 reads group.version=1 in the metadata log, and does not start
        kafka.roll(1, "3.9.2")
        assert discover(kafka.bootstrap).level("metadata.version") == 21
        transaction(kafka, b"two")
        assert reads_on(old)
        eventually(lambda: is_stopped(new), "the member of the group that was named goes on")
        members = kafka.run_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", kafka.bootstrap, "--describe", "--all-groups", "--members"),
        ).stdout
        assert "classic-group-1" in members
        assert "modern-group-1" not in members
        transaction(kafka, b"three")
        assert reads_on(old)
