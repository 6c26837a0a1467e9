"""Moves of three real brokers: what readiness passes works for every client, and what it blocks breaks for the named.

The brokers are rolled one by one, and the clients work on beside each of them. Others, of older releases and of other
libraries, come by before and after each move.
"""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from fleet_clients import TOPIC, is_stopped, joined, reads_on, transaction
from real_fleet import java_clients, run_java, run_kafka_python
from waiting import BOUND, eventually

from featuregate import Admin
from featuregate.admin.updates import disable
from featuregate.catalog import captured
from featuregate.cli import main
from featuregate.config.properties_file import read_properties
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import write_logging
from featuregate_fleet.commands.readiness import exit_code
from featuregate_fleet.errors import ClusterUnread
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.evidence import Evidence
from featuregate_fleet.readiness.moves import DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict
from featuregate_fleet.runs.internal_topics import topic_ends
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(1200)]

OLD, NEW = "3.9.2", "4.2.0"
TO_OLD = DowngradeTo(captured()["3.9"], OLD)
PRODUCE = 0
BROKERS = (1, 2, 3)
TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
PASSWORD = "known-to-all"
CLUSTER: Any = {
    "nodes": len(BROKERS),
    "release_version": "3.9",
    "log_levels": {"kafka.request.logger": "DEBUG"},
    "security": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "users": dict.fromkeys(("admin", "fleet", "stranger"), PASSWORD),
    "properties": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "metadata.log.max.snapshot.interval.ms": "500",
    },
}
UNREAD = "so readiness cannot say what their coordinators would lose"
PROPERTIES = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" \\
  password="{password}";
"""
PYTHON_PROPERTIES = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "admin",
    "sasl_plain_password": PASSWORD,
}
VISITORS = {f"{role}-{release}" for role in ("producer", "consumer") for release in ("4.2.0", "2.8.2", "0.11.0.3")}
VISITORS |= {"kafka-python-producer", "kafka-python-consumer"}
OF_BROKERS = re.compile(r'"clientId":"(broker-\d-(?:fetcher-0|txn-marker-sender))"')
FOLLOWERS = {f"broker-{number}-fetcher-0" for number in BROKERS}
CLASSIC, MODERN = "classic-group", "modern-group"
PASSED: tuple[int, set[str]] = (0, set())
BLOCKED = (1, {f"{MODERN}-1"})
"""The exit code, and the clients that are named."""
TRANSACTIONAL = {"rdkafka"}
"""The client id of the app with transactions."""


class Visitors:
    """Clients of three releases of Java, and of kafka-python, that work for a moment."""

    def __init__(self, kafka: LocalKafka, folder: Path) -> None:
        self._kafka, self._folder = kafka, folder
        write_logging(folder, "ERROR")

    def work(self) -> None:
        """Let each produce, or consume and commit in a group of its own: none may fail."""
        config = properties_of(self._folder, "admin")
        clients = java_clients(self._kafka, protocol="classic", config=config)
        with ThreadPoolExecutor(4) as pool:
            ended = list(pool.map(lambda client: run_java(client, self._folder), clients))
        assert not [done for done in ended if done.returncode]
        run_kafka_python(self._kafka, **PYTHON_PROPERTIES)


class Clients:
    """Clients that live as long as the cluster: a producer, an app with transactions, and members of groups."""

    def __init__(self, kafka: LocalKafka, stack: ExitStack) -> None:
        self._kafka, self._stack = kafka, stack
        self._producer = Producer(kafka.client_config({"client.id": "billing", "log_level": 0}))
        transaction(kafka, b"first")
        self._numbers = count()
        self._members = {CLASSIC: joined(stack, kafka, CLASSIC)}

    def join(self) -> None:
        self._members[MODERN] = joined(self._stack, self._kafka, MODERN, group_protocol="consumer")

    def work(self) -> None:
        failures: list[object] = []
        newest = self._number()
        self._producer.produce(TOPIC, newest, on_delivery=lambda error, _: failures.append(error))
        assert self._producer.flush(BOUND) == 0
        assert failures == [None]
        self._consume(newest)

    def commit(self) -> None:
        """Produce in a transaction, and let each member consume and commit: none may fail."""
        newest = self._number()
        transaction(self._kafka, newest)
        self._consume(newest)

    def _number(self) -> bytes:
        return b"record %d" % next(self._numbers)

    def _consume(self, newest: bytes) -> None:
        for member in self._members.values():
            while reads_on(member) != newest:
                pass

    def lose(self, group: str) -> None:
        member = self._members.pop(group)
        eventually(lambda: is_stopped(member), f"the member of {group} goes on")


class Pipeline:
    """The pipeline over one cluster, as the user that may read what the docs say."""

    def __init__(self, kafka: LocalKafka, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._kafka, self._folder, self._capsys = kafka, folder, capsys

    def gather(self) -> Evidence:
        """Read the new lines of all brokers with the levels and the records, and return all evidence.

        No app of the cluster has gates, so that no reports are missed.
        """
        logs, tables = self._folder / "logs", self._folder / "tables"
        for number in BROKERS:
            (logs / str(number)).mkdir(parents=True, exist_ok=True)
            shutil.copy(self._kafka.node(number).log, logs / str(number))
        run = ["fleet", "run", "--once", "--logs", str(logs), "--tables", str(tables), "--cluster", "c"]
        run += ["--bootstrap-server", self._kafka.bootstrap]
        assert main([*run, "--command-config", str(properties_of(self._folder, "fleet"))]) == 0
        assert UNREAD not in self._capsys.readouterr().err
        with local_session() as spark:
            found = read_evidence(EvidenceTable(spark, tables, "c"))
        named = tuple(usage for usage in found.usage if usage.client_id)  # LocalKafka looks whether brokers are up
        return replace(found, usage=named, reports_expected=False)


def ask(evidence: Evidence, move: Move) -> Report:
    return assess(evidence, move, datetime.now(UTC), timedelta(hours=1))


def warned(report: Report) -> set[str | None]:
    return {row.client_id for row in report.rows if row.check == "transactions" and row.verdict is Verdict.WARN}


def outcome(report: Report) -> tuple[int, set[str]]:
    """Return the exit code, and the clients that are named where the move is blocked."""
    named = {row.client_id for row in report.rows if row.verdict is Verdict.BLOCK and row.client_id}
    return exit_code(report.verdict), named


def properties_of(folder: Path, user: str) -> Path:
    file = folder / f"{user}.properties"
    file.write_text(PROPERTIES.format(user=user, password=PASSWORD))
    return file


def prepare(kafka: LocalKafka) -> None:
    """Create the topic of the clients, and give the rights that the documentation names to the user that reads."""
    admin = AdminClient(kafka.client_config())
    for created in admin.create_topics([NewTopic(TOPIC, 3, 3)], operation_timeout=60).values():
        created.result(BOUND)
    named = [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL) for topic in TOPICS]
    groups = (ResourceType.GROUP, "spark-kafka-relation-", ResourcePatternType.PREFIXED)
    rights = [
        AclBinding(*resource, "User:fleet", "*", AclOperation.READ, AclPermissionType.ALLOW)
        for resource in (*named, groups)
    ]
    for made in admin.create_acls(rights).values():
        made.result(BOUND)


def logged(kafka: LocalKafka) -> set[str]:
    """Return the client ids of followers and of coordinators of transactions in the logs of the brokers."""
    return {name for number in BROKERS for name in OF_BROKERS.findall(kafka.node(number).log.read_text())}


def snapshots(kafka: LocalKafka) -> dict[int, str]:
    """Return the name of the newest snapshot of the metadata of each node, which begins with its offset."""
    folder = kafka.node(1).log.parent
    found = {number: folder.glob(f"node-{number}/**/__cluster_metadata-0/*.checkpoint") for number in BROKERS}
    return {number: max((path.name for path in paths), default="") for number, paths in found.items()}


def await_snapshots(kafka: LocalKafka) -> None:
    """Wait for a snapshot of each node that was begun after now: the second one that comes."""
    for _ in range(2):
        before = snapshots(kafka)
        eventually(
            lambda before=before: all(name > before[number] for number, name in snapshots(kafka).items()),
            "no snapshot of the metadata comes",
        )


def members(kafka: LocalKafka) -> dict[str, int]:
    admin = AdminClient(kafka.client_config())  # its answers come as long as it is there
    described = admin.describe_consumer_groups([CLASSIC, MODERN])
    return {group: len(found.result(BOUND).members) for group, found in described.items()}


def roll(kafka: LocalKafka, release: str, clients: Clients) -> None:
    """Move the brokers to a release, one by one. A transaction waits for the last one, as readiness warns."""
    for number in BROKERS:
        kafka.roll(number, release)
        clients.work()
    clients.commit()


@pytest.mark.usefixtures("jvm")
def test_verdicts_on_moves_come_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three brokers go down and up for all clients; then a level and a downgrade break the group that was named."""
    with LocalKafka(NEW, **CLUSTER) as kafka, ExitStack() as stack:
        prepare(kafka)
        clients, visitors = Clients(kafka, stack), Visitors(kafka, tmp_path)
        pipeline = Pipeline(kafka, tmp_path, capsys)
        visitors.work()
        eventually(lambda: logged(kafka) > FOLLOWERS, "the brokers log no requests of one another")
        evidence = pipeline.gather()
        assert {usage.client_id for usage in evidence.usage} > VISITORS
        down = ask(evidence, TO_OLD)
        assert (*outcome(down), warned(down)) == (*PASSED, TRANSACTIONAL)
        told = [row.client_id or "" for row in down.rows if row.check == "inter-broker"]
        assert {name for names in told for name in names.split(", ")} > FOLLOWERS
        roll(kafka, OLD, clients)
        visitors.work()

        evidence = pipeline.gather()
        up = ask(evidence, ToRelease(captured()["4.2"]))
        assert (*outcome(up), warned(up)) == (*PASSED, TRANSACTIONAL)
        assert outcome(ask(evidence, DropApi(PRODUCE, 3))) == PASSED
        roll(kafka, NEW, clients)
        visitors.work()

        kafka.finalize({"group.version": 1, "transaction.version": 2})
        clients.join()
        evidence = pipeline.gather()
        assert outcome(ask(evidence, Finalize("transaction.version", 0))) == PASSED
        assert outcome(ask(evidence, Finalize("group.version", 0))) == BLOCKED
        down = ask(evidence, TO_OLD)
        assert outcome(down) == BLOCKED
        blocked = {row.subject for row in down.rows if row.verdict is Verdict.BLOCK}
        assert blocked == {f"group {MODERN!r}", "group.version=1", "transaction.version=2"}

        admin = Admin(kafka.client_config())
        admin.update(disable("transaction.version"))
        clients.work()
        clients.commit()
        admin.update(disable("group.version"))
        clients.lose(MODERN)
        clients.work()
        clients.commit()
        await_snapshots(kafka)
        roll(kafka, OLD, clients)
        visitors.work()
        assert members(kafka) == {CLASSIC: 1, MODERN: 0}
        with local_session() as spark:
            stranger = {**read_properties(properties_of(tmp_path, "stranger")), "bootstrap.servers": kafka.bootstrap}
            with pytest.raises(ClusterUnread, match=r"the topic __consumer_offsets cannot be read: .*Authorization"):
                topic_ends(spark, stranger, TOPICS)["__consumer_offsets"].known()
