"""Runs over all sources that are killed at random, and what a plain program says of the same evidence.

``FLEET_KILLS=10`` kills ten runs, ``FLEET_SEED`` repeats a run. Without it, nothing is killed, and the test is skipped.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fleet_clients import joined, reads_on, transaction
from fleet_reference import LINE, Seen, levels, log_level, records, reports, said_of
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.cli import main
from featuregate_confluent import UsageTopic
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing import LocalKafka

KILLS = int(os.environ.get("FLEET_KILLS", "0"))
SEED = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**6)))

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not KILLS, reason="FLEET_KILLS says how many runs to kill"),
]

LOGS, REPORTS = "kills-logs", "kills-reports"
COORDINATORS = ("__consumer_offsets", "__transaction_state")
STREAMS = ("request_logs", f"log_topic_{LOGS}", "coordinator_records", f"usage {REPORTS}")
TABLES = ("api_usage", "evidence_files", "feature_levels", "coverage", "coordinator_records", "feature_usage")
PLACES = (*TABLES, *(f"_checkpoints/c/{stream}" for stream in STREAMS))
"""Where a run is killed, in turn: once it has written some files more there."""


class Source:
    """Files, and topics of one cluster, to which more is written between two runs."""

    def __init__(self, kafka: LocalKafka, logs: Path, lines: list[str], rng: random.Random) -> None:
        self.kafka, self.logs, self.lines, self.rng = kafka, logs, lines, rng
        self.written: list[tuple[str, str, bytes]] = []

    def write(self, number: int) -> None:
        """Write files of two brokers, one of them compressed, lines and reports in topics, and offsets of groups."""
        for broker in ("1", "2"):
            path = f"{broker}/{number}.log{'.gz' if broker == '2' else ''}"
            lines = self._lines(path, broker)
            text = b"".join(line + b"\n" for line in lines)
            (self.logs / broker).mkdir(exist_ok=True)
            hidden = self.logs.parent / "half"
            hidden.write_bytes(gzip.compress(text) if broker == "2" else text)
            hidden.rename(self.logs / path)
        producer = Producer(self.kafka.client_config({"log_level": 0}))
        for line in self._lines(f"kafka:{LOGS}/0", "3"):
            producer.produce(LOGS, line, headers={"broker": b"3"}, partition=0)
        producer.produce(REPORTS, b"garbage", partition=0)
        assert producer.flush(BOUND) == 0
        report(self.kafka, f"app-{number % 3}")
        transaction(self.kafka, str(number).encode())

    def _lines(self, path: str, broker: str) -> list[bytes]:
        """Return some lines of the log of a real broker, in order, with garbage between them."""
        begin = self.rng.randrange(len(self.lines) // 2)
        found = [line.encode() for line in self.lines[begin:]]
        for _ in range(20):
            found.insert(self.rng.randrange(len(found)), b"garbage \xff " + self.rng.randbytes(9).hex().encode())
        self.written += [(path, broker, line) for line in found]
        return found


def report(kafka: LocalKafka, app: str) -> None:
    """Run an app until its last report is in the topic."""
    topic, sent = UsageTopic(kafka.client_config(), REPORTS), list[bytes]()

    def send(value: bytes) -> None:
        topic(value)
        sent.append(value)

    with fg.Discoverer(kafka.bootstrap, usage=fg.UsageReporter(send, app=app, instance=app)) as features:
        features.gate("eos", fg.Feature("transaction.version") >= 2)
        assert features.wait(BOUND)
        eventually(lambda: sent, f"a report of {app}")
    eventually(lambda: json.loads(sent[-1])["closing"], f"the last report of {app}")


def files(folder: Path) -> int:
    """Return how many files a folder has."""
    return sum(1 for path in folder.rglob("*") if path.is_file())


def killed(command: list[str], place: Path, rng: random.Random, own_files: dict[str, str]) -> bool:
    """Start a run, and kill it after a random number of files more at a place; return whether it ran still."""
    until = files(place) + 1 + rng.randrange(4)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet, env=own_files, start_new_session=True) as run:
        try:
            eventually(lambda: files(place) >= until or run.poll() is not None, f"the run writes {place}", 480)
            return run.poll() is None
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)


def check_lines(tables: DeltaTables, source: Source) -> None:
    """Hold usage, files and quarantine against a plain program, row for row."""
    said = said_of(source.written)
    times = ("hour", "first_seen", "last_seen")
    texts = [f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSS') as {name}_text" for name in times]
    usage = defaultdict[tuple[Any, ...], list[Seen]](list)
    for row in tables.read("api_usage").where("outcome = 'completed'").selectExpr("*", *texts).collect():
        who = (row.client_id, row.principal, row.listener, row.forwarded, row.software_name, row.software_version)
        seen = Seen(row["count"], row.first_seen_text, row.last_seen_text)
        usage[row.broker, row.hour_text[:13], row.level, row.api_key, row.version, *who].append(seen)
    summed = {
        who: Seen(sum(one.count for one in seen), min(one.first for one in seen), max(one.last for one in seen))
        for who, seen in usage.items()
    }
    assert summed == said.usage
    counts: Counter[tuple[str, str]] = Counter()
    for row in tables.read("evidence_files").collect():
        assert row.read == row.rows + row.quarantined
        counts[row.path, "rows"] += row.rows
        counts[row.path, "quarantined"] += row.quarantined
    assert counts == said.files
    reports_too = tables.read("quarantine").where(f"path <> '{REPORTS}/0'").collect()
    assert Counter((row.path, row.raw) for row in reports_too) == said.garbage


def check_records(tables: DeltaTables, kafka: LocalKafka) -> None:
    """Hold records of coordinators and usage reports against a plain consumer."""
    ours: Counter[tuple[Any, ...]] = Counter()
    ends: dict[tuple[str, int], int] = {}
    for row in tables.read("coordinator_records").where(f"topic in {COORDINATORS}").collect():
        ours[row.topic, row.partition, bytes(row.key), row.version] += row["count"]
        place = (row.topic, row.partition)
        ends[place] = max(ends.get(place, -1), row.offset)
    assert ours == records(kafka, ends)

    read = tables.read("usage_topics").collect()
    said, garbage = reports(kafka, {(REPORTS, 0): max(row.end for row in read) - 1})
    told: Counter[tuple[Any, ...]] = Counter()
    for row in tables.read("feature_usage").collect():
        app = (row.app, row.instance, row.software_name, row.software_version, row.cluster_id, row.closing)
        told[*app, row.gate, row.requirement, row.policy, row.state, row.latched, row.levels] += row["count"]
    assert told == said
    assert sum(row.quarantined for row in read) == garbage
    assert tables.read("quarantine").where(f"path = '{REPORTS}/0'").count() == garbage
    assert sum(row.read for row in read) == garbage + sum(said.values())  # each app has one gate


def check_snapshots(tables: DeltaTables, kafka: LocalKafka) -> int:
    """Hold each snapshot of levels and of coverage against Kafka's own tools; return how many there are."""
    views = {row.taken_at for row in tables.read("cluster_views").collect()}
    assert len(views) == tables.read("cluster_views").count()
    known = levels(kafka)
    of_view = defaultdict[Any, list[tuple[str, ...]]](list)
    for row in tables.read("feature_levels").collect():
        if row.lowest is not None:
            of_view[row.taken_at].append(tuple(map(str, (row.feature, row.lowest, row.highest, row.level))))
    assert views <= of_view.keys()  # a run that was killed between the two has no view, so that readers skip its levels
    for found in of_view.values():
        assert sorted(found) == sorted(known)
    coverage = tables.read("coverage").collect()
    assert len({row.taken_at for row in coverage}) == len(coverage)
    assert {(row.broker, row.level) for row in coverage} == {("1", log_level(kafka, "1"))}
    return len(views)


@pytest.fixture
def source(kafka: LocalKafka, broker_log: Path, tmp_path: Path) -> Source:
    """Create the topics."""
    admin = AdminClient(kafka.client_config())
    for topic in (LOGS, REPORTS):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(BOUND)
        eventually(lambda topic=topic: not admin.list_topics(topic, BOUND).topics[topic].error, f"{topic} is there")
    lines = [line for line in broker_log.read_text().splitlines() if LINE.fullmatch(line)]
    (tmp_path / "logs").mkdir()
    return Source(kafka, tmp_path / "logs", lines, random.Random(SEED))


@pytest.mark.usefixtures("jvm")
def test_killed_runs_lose_and_double_nothing(source: Source, tmp_path: Path) -> None:
    """Requests, lines, reports and records are those of a plain program, also after a lost commit of each stream."""
    print(f"FLEET_SEED={SEED}")  # noqa: T201 - how to repeat it
    rng, kafka, folder = source.rng, source.kafka, tmp_path / "tables"
    folder.mkdir()
    arguments = ["fleet", "run", "--once", "--logs", str(source.logs), "--tables", str(folder), "--cluster", "c"]
    arguments += ["--logs-topic", LOGS, "--usage-topic", REPORTS, "--bootstrap-server", kafka.bootstrap]
    command = [sys.executable, "-m", "featuregate", *arguments]
    own_files = os.environ | {"TMPDIR": str(tmp_path)}  # which a killed process leaves behind
    done = number = 0
    with ExitStack() as stack:
        transaction(kafka, b"first")
        member = joined(stack, kafka, "kills-group")
        while done < KILLS:
            number += 1
            source.write(number)
            done += killed(command, folder / PLACES[number % len(PLACES)], rng, own_files)
        reads_on(member)
    assert main(arguments) == 0
    for stream in STREAMS:
        commits = folder / "_checkpoints" / "c" / stream / "commits"
        max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)).unlink()
    assert main(arguments) == 0

    with local_session() as spark:
        tables = DeltaTables(spark, folder, "c")
        check_lines(tables, source)
        check_records(tables, kafka)
        views = check_snapshots(tables, kafka)
        brokers = {(row.broker, row.source) for row in tables.read("brokers").collect()}
    assert brokers == {("1", "folder"), ("2", "folder"), ("1", "cluster")}
    print(f"{done} of {number} runs killed, {len(source.written)} lines, {views} views")  # noqa: T201 - likewise
