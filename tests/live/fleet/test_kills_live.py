"""Runs over all sources of a real fleet that are killed at random, and what a plain program says of the same evidence.

``FLEET_KILLS=10`` kills ten runs, ``FLEET_SEED`` repeats a run. Without it, nothing is killed, and the test is skipped.
"""

import gzip
import json
import os
import random
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
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
from fleet_runs import Broker
from killed_runs import MOMENTS, killed
from pyspark.sql import Row
from real_fleet import APPS, BROKERS, CLIENTS, REPORTS, Fleet, real_fleet
from waiting import BOUND, eventually

from featuregate import View
from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

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
FETCH = 1


class Source:
    """Files, and topics of the fleet's cluster, to which more is written between two runs, and while they run."""

    def __init__(self, fleet: Fleet, logs: Path, rng: random.Random) -> None:
        self.fleet, self.logs, self.rng = fleet, logs, rng
        self.kafka = fleet.kafka
        self.written: list[tuple[str, str, bytes]] = []
        self._read = dict.fromkeys(BROKERS, 0)
        self._waiting: deque[bytes] = deque()
        (logs / "1").mkdir()
        (logs / "2").mkdir()
        self.live = Broker(logs / "1", rng, self._next_line)

    def write(self, number: int) -> None:
        """Let the clients work, and hand in what brokers have logged: a log that grows, a compressed file, a topic."""
        self.fleet.work()
        self._waiting += self._lines("1")
        path = f"2/{number}.log.gz"
        text = b"".join(self._keep(path, "2", line) + b"\n" for line in self._lines("2"))
        hidden = self.logs.parent / "half"
        hidden.write_bytes(gzip.compress(text))
        hidden.rename(self.logs / path)
        producer = Producer(self.kafka.client_config({"log_level": 0}))
        for line in self._lines("3"):
            producer.produce(LOGS, self._keep(f"kafka:{LOGS}/0", "3", line), headers={"broker": b"3"}, partition=0)
        producer.produce(REPORTS, b"garbage", partition=0)
        assert producer.flush(BOUND) == 0
        self.rng.choice([self.live.copy_and_truncate, self.live.rename, self.live.write])()

    def goes_on(self) -> None:
        step = self.rng.choice([self.live.write] * 30 + [self.live.rename, self.live.compress])
        step()

    def end(self) -> None:
        while self._waiting:
            self.live.write()
        self.live.end_line()

    def _next_line(self) -> bytes:
        if not self._waiting:
            return b""
        return self._keep(f"1/{self.live.texts}", "1", self._waiting.popleft()) + b"\n"

    def _keep(self, text: str, broker: str, line: bytes) -> bytes:
        self.written.append((text, broker, line))
        return line

    def _lines(self, broker: str) -> list[bytes]:
        """Return the whole lines that a broker has logged since the last time, with garbage between them."""
        with self.kafka.node(int(broker)).log.open("rb") as log:
            log.seek(self._read[broker])
            whole = log.read().rpartition(b"\n")[0] + b"\n"
        self._read[broker] += len(whole)
        found = whole.splitlines()
        for _ in range(20):
            found.insert(self.rng.randrange(len(found)), b"garbage \xff " + self.rng.randbytes(9).hex().encode())
        return found


def of_day(who: tuple[str, str, Client]) -> tuple[str, str, Client]:
    """Return who, by day and without the level of the log, as rows of usage have it."""
    broker, hour, client = who
    return broker, hour[:10], client._replace(level="")


def added(parts: Iterator[tuple[Any, Seen]]) -> dict[Any, Seen]:
    found = defaultdict[Any, list[Seen]](list)
    for key, seen_ in parts:
        found[key].append(seen_)
    return {key: total(of) for key, of in found.items()}


def client_of(row: Row) -> Client:
    return Client(level="", **{name: row[name] for name in Client._fields if name != "level"})


def check_lines(table: EvidenceTable, source: Source) -> Said:
    """Hold usage, hours, files and quarantine against a plain program; return what that program says."""
    said = said_of(source.written)
    times = [f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSS') as {name}_text" for name in ("first_seen", "last_seen")]
    usage = added(
        ((row.broker, str(row.day), client_of(row)), Seen(row["count"], row.first_seen_text, row.last_seen_text))
        for row in table.rows("usage").selectExpr("*", *times).collect()
    )
    assert usage == added((of_day(who), seen_) for who, seen_ in said.usage.items())
    hours = added(
        ((row.broker, row.hour_text[:13], row.level), Seen(row["count"], row.first_seen_text, row.last_seen_text))
        for row in table.rows("hour")
        .where("not asked")
        .selectExpr("*", *times, "date_format(hour, 'yyyy-MM-dd HH:mm:ss') as hour_text")
        .collect()
    )
    served = [(who, seen_) for who, seen_ in said.usage.items() if who[2].outcome == "completed"]
    assert hours == added(((broker, hour, client.level), seen_) for (broker, hour, client), seen_ in served)
    counts: Counter[tuple[str, str]] = Counter()
    for row in table.rows("source").where("input = 'logs' and read is not null").collect():
        assert row.read == row.rows + row.quarantined
        counts[row.broker, "rows"] += row.rows
        counts[row.broker, "quarantined"] += row.quarantined
    brokers = {text: broker for text, broker, _ in source.written}
    expected: Counter[tuple[str, str]] = Counter()
    for (text, kind), lines in said.files.items():
        expected[brokers[text], kind] += lines
    assert counts == +expected
    logs = table.rows("quarantine").where(f"path <> 'kafka:{REPORTS}/0'").collect()
    garbage: Counter[tuple[str, str]] = Counter()
    for (text, line), lines in said.garbage.items():
        garbage[brokers[text], line] += lines
    assert (
        Counter({(row.broker, row.raw): 0 for row in logs}) + Counter((row.broker, row.raw) for row in logs) == garbage
    )
    assert {row.reason for row in logs} <= {"no-request", "cut"}  # garbage may be amid the lines of a refusal
    return said


def check_clients(said: Said) -> None:
    """Each client of the fleet is in the evidence, with its software where it says it, and one of them was refused."""
    clients = {client for _, _, client in said.usage}
    assert {client.client_id for client in clients} >= CLIENTS.keys()
    told = {(client.client_id, client.software_name, client.software_version) for client in clients}
    assert {(name, *software) for name, software in CLIENTS.items() if software} <= told
    assert {client.api_key for client in clients if client.outcome == "refused"} == {0}


def is_of_run(row: Finding) -> bool:
    """Return whether a client is a run of the pipeline: each has another id, and a report has one row for many."""
    return "spark-kafka-relation-" in (row.client_id or "")


def total_of(rows: Iterable[Finding]) -> tuple[set[str], Seen]:
    of = [*rows]
    return {row.verdict for row in of}, total(row.seen for row in of)


def check_report(said: Said, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hold the rows of a report against a plain program: who uses versions of Fetch that only the oldest client has."""
    rows = reported(folder, capsys, "--drop-api", "Fetch<12")["api-versions"]
    found = {Finding(*(row[name] for name in Finding._fields[:4]), tuple(row["versions"]), seen(row)) for row in rows}
    assert len(found) == len(rows)
    wanted = without_old(said.usage, FETCH, 12)
    assert {row for row in found if not is_of_run(row)} == {row for row in wanted if not is_of_run(row)}
    assert total_of(row for row in found if is_of_run(row)) == total_of(row for row in wanted if is_of_run(row))
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
    place = ["--tables", str(folder), "--cluster", "c"]
    capsys.readouterr()
    assert main(["readiness", *place, *move, "--output", "json"]) == 1
    rows = defaultdict[str, list[dict[str, Any]]](list)
    for row in json.loads(capsys.readouterr().out)["rows"]:
        rows[row["check"]].append(row)
    return rows


def seen(row: dict[str, Any]) -> Seen:
    times = (datetime.fromisoformat(row[name]).astimezone(UTC) for name in ("first_seen", "last_seen"))
    return Seen(row["count"], *(time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] for time in times))


def check_records(table: EvidenceTable, kafka: LocalKafka) -> dict[tuple[str, int], int]:
    """Hold records of coordinators and usage reports against a plain consumer; return the last offsets that were read.

    They are by topic and partition.
    """
    ours: Counter[tuple[Any, ...]] = Counter()
    ends: dict[tuple[str, int], int] = {}
    rows = table.rows("record").where(f"topic in {COORDINATORS}").collect()
    for row in rows:
        ours[row.topic, row.partition, bytes(row.key), row.version] += row["count"]
        place = (row.topic, row.partition)
        ends[place] = max(ends.get(place, -1), row.offset)
    assert ours == records(kafka, ends)
    assert {row.protocol for row in rows} >= {"classic", "consumer", "share"}
    assert {topic for topic, _ in ends} == set(COORDINATORS)

    read = table.rows("source").where("input = 'reports'").collect()
    said, garbage = reports(kafka, {(REPORTS, 0): max(row.position for row in read) - 1})
    told: Counter[tuple[Any, ...]] = Counter()
    apps = table.rows("app").collect()
    for row in apps:
        app = (row.app, row.instance, row.software_name, row.software_version, row.cluster_id, row.closing)
        told[*app, row.gate, row.requirement, row.policy, row.state, row.latched, row.levels] += row["count"]
    assert told == said
    assert sum(row.quarantined or 0 for row in read) == garbage
    assert table.rows("quarantine").where(f"path = 'kafka:{REPORTS}/0'").count() == garbage
    assert sum(row.read or 0 for row in read) == garbage + sum(said.values())  # each app has one gate
    assert {row.app for row in apps if row.latched and row.state == "open"} == set(APPS)
    return ends


def check_answers(table: EvidenceTable, kafka: LocalKafka) -> int:
    """Hold levels and coverage of each run against Kafka's own tools; return how many runs have asked."""
    known = sorted(levels(kafka))
    runs = table.rows("run").where("asked_at is not null").collect()
    for run in runs:
        view = View.from_json(run.view)
        finalized = {row.feature: row.level for row in run.levels}
        assert sorted(map(str, (broker.node_id for broker in view.brokers))) == list(BROKERS) == run.listed
        for broker in view.brokers:
            told = ((name, *map(str, (*of, finalized[name]))) for name, of in broker.supported.items())
            assert sorted(told) == known
    hours = table.rows("hour").where("asked").collect()
    assert len({(row.first_seen, row.broker) for row in hours}) == len(hours)
    assert {(row.broker, row.level) for row in hours} == set(log_levels(kafka, BROKERS).items())
    return len(runs)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
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
    """Requests, lines, reports and records are those of a plain program, wherever and whatever was killed."""
    with capsys.disabled():
        print(f"FLEET_SEED={SEED}")  # noqa: T201 - how to repeat it
    kafka, folder = source.kafka, tmp_path / "tables"
    arguments = ["fleet", "run", "--once", "--logs", str(source.logs), "--tables", str(folder), "--cluster", "c"]
    arguments += ["--logs-topic", LOGS, "--usage-topic", REPORTS, "--bootstrap-server", kafka.bootstrap]
    command = [sys.executable, "-m", "featuregate", *arguments]
    moments = source.rng.sample(MOMENTS, len(MOMENTS))
    done = Counter[str]()
    number = 0
    while done.total() < KILLS:
        moment = moments[number % len(moments)]
        number += 1
        source.write(number)
        done[moment.place] += killed(command, folder / "c", moment, source.goes_on, tmp_path / f"own-{number}")
    source.end()
    for _ in range(2):
        assert main(arguments) == 0

    with local_session() as spark:
        table = EvidenceTable(spark, folder, "c")
        said = check_lines(table, source)
        ends = check_records(table, kafka)
        asked = check_answers(table, kafka)
        assert {tuple(row.folders) for row in table.rows("run").collect()} == {("1", "2")}
    check_clients(said)
    check_report(said, folder, capsys)
    check_downgrade(kafka, ends, folder, capsys)
    with capsys.disabled():
        lines = len(source.written)
        print(f"{dict(done)} of {number} runs killed, {lines} lines, {asked} answers")  # noqa: T201 - likewise
