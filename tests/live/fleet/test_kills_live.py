"""Runs over all sources of a real fleet that are killed at random, and what a plain program says of the same evidence.

``FLEET_KILLS=10`` kills ten runs, ``FLEET_SEED`` repeats a run. Without it, nothing is killed, and the test is skipped.
"""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fleet_reference import (
    Client,
    Finding,
    Said,
    Seen,
    Skipped,
    levels,
    levels_in_3_9,
    log_levels,
    records,
    reports,
    said_of,
    skipped_by_3_9,
    total,
    without_old,
)
from real_fleet import APPS, BROKERS, CLIENTS, REPORTS, Fleet, real_fleet
from waiting import BOUND, eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import Tables

KILLS = int(os.environ.get("FLEET_KILLS", "0"))
SEED = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**6)))

pytestmark = [
    pytest.mark.proof("fleet"),
    pytest.mark.live,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not KILLS, reason="FLEET_KILLS says how many runs to kill"),
]

LOGS = "fleet-logs"
COORDINATORS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
STREAMS = ("request_logs", f"log_topic_{LOGS}", "coordinator_records", f"usage {REPORTS}")
TABLES = ("api_usage", "evidence_files", "feature_levels", "coverage", "coordinator_records", "feature_usage")
PLACES = (*TABLES, *(f"_checkpoints/c/{stream}" for stream in STREAMS))
"""Where a run is killed, in turn: once it has written some files more there."""
FETCH = 1


class Source:
    """Files, and topics of the fleet's cluster, to which more is written between two runs."""

    def __init__(self, fleet: Fleet, logs: Path, rng: random.Random) -> None:
        self.fleet, self.logs, self.rng = fleet, logs, rng
        self.kafka = fleet.kafka
        self.written: list[tuple[str, str, bytes]] = []
        self._read = dict.fromkeys(BROKERS, 0)

    def write(self, number: int) -> None:
        """Let the clients work, and hand in what brokers have logged: files, one of them compressed, and a topic."""
        self.fleet.work()
        for broker in ("1", "2"):
            path = f"{broker}/{number}.log{'.gz' if broker == '2' else ''}"
            text = b"".join(line + b"\n" for line in self._lines(path, broker))
            (self.logs / broker).mkdir(exist_ok=True)
            hidden = self.logs.parent / "half"
            hidden.write_bytes(gzip.compress(text) if broker == "2" else text)
            hidden.rename(self.logs / path)
        producer = Producer(self.kafka.client_config({"log_level": 0}))
        for line in self._lines(f"kafka:{LOGS}/0", "3"):
            producer.produce(LOGS, line, headers={"broker": b"3"}, partition=0)
        producer.produce(REPORTS, b"garbage", partition=0)
        assert producer.flush(BOUND) == 0

    def _lines(self, path: str, broker: str) -> list[bytes]:
        """Return the whole lines that a broker has logged since the last time, with garbage between them."""
        with self.kafka.node(int(broker)).log.open("rb") as log:
            log.seek(self._read[broker])
            whole = log.read().rpartition(b"\n")[0] + b"\n"
        self._read[broker] += len(whole)
        found = whole.splitlines()
        for _ in range(20):
            found.insert(self.rng.randrange(len(found)), b"garbage \xff " + self.rng.randbytes(9).hex().encode())
        self.written += [(path, broker, line) for line in found]
        return found


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


def check_lines(tables: Tables, source: Source) -> Said:
    """Hold usage, files and quarantine against a plain program, row for row; return what that program says."""
    said = said_of(source.written)
    times = ("hour", "first_seen", "last_seen")
    texts = [f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSS') as {name}_text" for name in times]
    usage = defaultdict[tuple[str, str, Client], list[Seen]](list)
    for row in tables.read("api_usage").selectExpr("*", *texts).collect():
        client = Client(**{name: row[name] for name in Client._fields})
        seen = Seen(row["count"], row.first_seen_text, row.last_seen_text)
        usage[row.broker, row.hour_text[:13], client].append(seen)
    assert {who: total(seen) for who, seen in usage.items()} == said.usage
    counts: Counter[tuple[str, str]] = Counter()
    for row in tables.read("evidence_files").collect():
        assert row.read == row.rows + row.quarantined
        counts[row.path, "rows"] += row.rows
        counts[row.path, "quarantined"] += row.quarantined
    assert counts == said.files
    reports_too = tables.read("quarantine").where(f"path <> '{REPORTS}/0'").collect()
    assert Counter((row.path, row.raw) for row in reports_too) == said.garbage
    return said


def check_clients(said: Said) -> None:
    """Each client of the fleet is in the evidence, with its software where it says it, and one of them was refused."""
    clients = {client for _, _, client in said.usage}
    assert {client.client_id for client in clients} >= CLIENTS.keys()
    told = {(client.client_id, client.software_name, client.software_version) for client in clients}
    assert {(name, *software) for name, software in CLIENTS.items() if software} <= told
    assert {client.api_key for client in clients if client.outcome == "refused"} == {0}


def check_report(said: Said, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hold the rows of a report against a plain program: who uses versions of Fetch that only the oldest client has."""
    rows = reported(folder, capsys, "--drop-api", "Fetch<12")["api-versions"]
    found = {Finding(*(row[name] for name in Finding._fields[:4]), tuple(row["versions"]), seen(row)) for row in rows}
    assert len(found) == len(rows)
    assert found == without_old(said.usage, FETCH, 12)
    assert {row.client_id for row in found if row.verdict == "block"} == {"consumer-0.11.0.3"}


def check_downgrade(
    kafka: LocalKafka, ends: Mapping[tuple[str, int], int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hold what a report says of records, levels and apps against a plain program, if brokers go to 3.9.2."""
    rows = reported(folder, capsys, "--downgrade-to", "3.9.2")
    skipped = [row for row in rows["coordinator-records"] if "goes on without these records" in row["why"]]
    found = {Skipped(row["verdict"], row["subject"], tuple(row["versions"]), row["count"]) for row in skipped}
    assert len(found) == len(skipped)
    assert found == skipped_by_3_9(kafka, ends)
    blocked = {row["subject"]: row["client_id"] for row in rows["coordinator-records"] if row["verdict"] == "block"}
    assert blocked == {"group 'fleet-consumer'": "fleet-consumer-1"}

    told = sorted((row["verdict"], row["subject"]) for row in rows["feature-levels"])
    assert told == sorted(levels_in_3_9(kafka))
    gates = {(row["verdict"], row["subject"], row["app"]) for row in rows["app-gates"]}
    assert gates == {("block", f"gate 'eos' of app {app!r}", app) for app in APPS}  # 3.9.2 has no transaction.version


def reported(folder: Path, capsys: pytest.CaptureFixture[str], *move: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a report on a move that is blocked, by their check."""
    place = ["--tables", str(folder), "--cluster", "c"]
    capsys.readouterr()
    assert main(["fleet", "readiness", *place, *move, "--output", "json"]) == 1
    rows = defaultdict[str, list[dict[str, Any]]](list)
    for row in json.loads(capsys.readouterr().out)["rows"]:
        rows[row["check"]].append(row)
    return rows


def seen(row: dict[str, Any]) -> Seen:
    """Return what a row of a report counts."""
    times = (datetime.fromisoformat(row[name]).astimezone(UTC) for name in ("first_seen", "last_seen"))
    return Seen(row["count"], *(time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] for time in times))


def check_records(tables: Tables, kafka: LocalKafka) -> dict[tuple[str, int], int]:
    """Hold records of coordinators and usage reports against a plain consumer; return the last offsets that were read.

    They are by topic and partition.
    """
    ours: Counter[tuple[Any, ...]] = Counter()
    ends: dict[tuple[str, int], int] = {}
    for row in tables.read("coordinator_records").where(f"topic in {COORDINATORS}").collect():
        ours[row.topic, row.partition, bytes(row.key), row.version] += row["count"]
        place = (row.topic, row.partition)
        ends[place] = max(ends.get(place, -1), row.offset)
    assert ours == records(kafka, ends)
    protocols = {row.protocol for row in tables.read("coordinator_records").select("protocol").collect()}
    assert protocols >= {"classic", "consumer", "share"}
    assert {topic for topic, _ in ends} == set(COORDINATORS)

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
    latched = tables.read("feature_usage").where("latched and state = 'open'").select("app").distinct().collect()
    assert {row.app for row in latched} == set(APPS)
    return ends


def check_snapshots(tables: Tables, kafka: LocalKafka) -> int:
    """Hold each snapshot of levels and of coverage against Kafka's own tools; return how many there are."""
    views = {row.taken_at for row in tables.read("cluster_views").collect()}
    assert len(views) == tables.read("cluster_views").count()
    known = levels(kafka)
    of_view = defaultdict[tuple[Any, str], list[tuple[str, ...]]](list)
    for row in tables.read("feature_levels").collect():
        if row.lowest is not None:
            told = tuple(map(str, (row.feature, row.lowest, row.highest, row.level)))
            of_view[row.taken_at, row.broker].append(told)
    # A run that was killed between the two has no view, so that readers skip its levels.
    assert {(taken_at, broker) for taken_at in views for broker in BROKERS} <= of_view.keys()
    for found in of_view.values():
        assert sorted(found) == sorted(known)
    coverage = tables.read("coverage").collect()
    assert len({(row.taken_at, row.broker) for row in coverage}) == len(coverage)
    assert {(row.broker, row.level) for row in coverage} == set(log_levels(kafka, BROKERS).items())
    return len(views)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    """Start the fleet."""
    (tmp_path / "logs").mkdir()
    with real_fleet(tmp_path) as fleet:
        admin = AdminClient(fleet.kafka.client_config())
        admin.create_topics([NewTopic(LOGS, 1, len(BROKERS))])[LOGS].result(BOUND)
        eventually(lambda: not admin.list_topics(LOGS, BOUND).topics[LOGS].error, "the topic of logs is there")
        yield Source(fleet, tmp_path / "logs", random.Random(SEED))


@pytest.mark.usefixtures("jvm")
def test_killed_runs_lose_and_double_nothing(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests, lines, reports and records are those of a plain program, also after a lost commit of each stream."""
    with capsys.disabled():
        print(f"FLEET_SEED={SEED}")  # noqa: T201 - how to repeat it
    rng, kafka, folder = source.rng, source.kafka, tmp_path / "tables"
    folder.mkdir()
    arguments = ["fleet", "run", "--once", "--logs", str(source.logs), "--tables", str(folder), "--cluster", "c"]
    arguments += ["--logs-topic", LOGS, "--usage-topic", REPORTS, "--bootstrap-server", kafka.bootstrap]
    command = [sys.executable, "-m", "featuregate", *arguments]
    own_files = os.environ | {"TMPDIR": str(tmp_path)}  # which a killed process leaves behind
    done = number = 0
    while done < KILLS:
        number += 1
        source.write(number)
        done += killed(command, folder / PLACES[number % len(PLACES)], rng, own_files)
    assert main(arguments) == 0
    for stream in STREAMS:
        commits = folder / "_checkpoints" / "c" / stream / "commits"
        max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)).unlink()
    assert main(arguments) == 0

    with local_session() as spark:
        tables = Tables(spark, folder, "c")
        said = check_lines(tables, source)
        ends = check_records(tables, kafka)
        views = check_snapshots(tables, kafka)
        brokers = {(row.broker, row.source) for row in tables.read("brokers").collect()}
    check_clients(said)
    check_report(said, folder, capsys)
    check_downgrade(kafka, ends, folder, capsys)
    assert brokers == {("1", "folder"), ("2", "folder"), *((broker, "cluster") for broker in BROKERS)}
    with capsys.disabled():
        print(f"{done} of {number} runs killed, {len(source.written)} lines, {views} views")  # noqa: T201 - likewise
