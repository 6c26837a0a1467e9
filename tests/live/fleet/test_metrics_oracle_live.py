"""Verdicts by metrics beside the request log at DEBUG of the same broker: the log is the oracle."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import client_installers
import pytest
from client_installers import Installed
from confluent_kafka import Producer
from metrics_pages import exporter
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(1800)]

CLIENTS = (
    ("confluent-kafka", "2.16.1", {}),
    ("confluent-kafka", "2.4.0", {}),
    ("confluent-kafka", "2.16.1", {"api.version.request": False, "broker.version.fallback": "0.9.0"}),
    ("kafka-python", "3.0.12", {}),
    ("kafka-python", "2.0.2", {"api_version": "0.10.0"}),
    ("aiokafka", "0.14.0", {}),
    ("kafka-clients", "1.0.2", {}),
    ("kafka-clients", "3.9.0", {}),
    ("kafkajs", "2.2.4", {}),
    ("kafka-node", "5.0.0", {}),
    ("sarama", "1.38.1", {}),
    ("franz-go", "1.19.0", {}),
)
STEPS = ("produce", "consume", "commit", "offsets")
RELEASES = {"2.8.2": "4.2", "3.7.2": "4.2", "3.9.2": "4.2", "4.0.0": "4.3", "4.2.0": "4.3"}
"""The releases of brokers, each with the one that it may move to."""
KINDS = 10


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> list[Installed]:
    folder = tmp_path_factory.mktemp("clients")
    found = []
    for number, (name, version, settings) in enumerate(CLIENTS):
        if installed := client_installers.install(name, version, folder / str(number), to_run=True):
            found.append(installed.with_settings(settings) if settings else installed)
    return found


def run(client: Installed, number: int, bootstrap: str) -> str:
    topic = f"client-{number}"
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(3):
        producer.produce(topic, b"first")
    producer.flush(60)
    command = [*client.command, bootstrap, "localhost:1", topic, *STEPS]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(client.environment or os.environ), check=False, timeout=300
    )
    return f"{client.name}: {done.stdout}"


def blocked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, int]]:
    capsys.readouterr()
    code = main([*arguments, "--output", "json"])
    counts: dict[str, int] = {}
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    for row in found:
        if row["verdict"] == "block" and row["check"] == "api-versions":
            counts[row["api"]] = counts.get(row["api"], 0) + row["count"]
    return code, counts


@pytest.mark.parametrize("release", RELEASES)
def test_metrics_say_what_the_log_says_or_less(
    release: str, clients: list[Installed], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each API that blocks by the log blocks by metrics, with no more requests, and neither blocks for another one."""
    assert len({client.client for client in clients}) >= min(KINDS, len({name for name, *_ in CLIENTS}))
    option, page = exporter(tmp_path)
    kafka = LocalKafka(release, log_levels={"kafka.request.logger": "DEBUG"}, jvm_options=[option])
    with kafka, ThreadPoolExecutor(3) as pool:
        said = list(pool.map(run, clients, range(len(clients)), [kafka.bootstrap] * len(clients)))
        log = tmp_path / "requests.log"
        known = ("--brokers", "1", "--listener", "CLIENT=none", "--listener", "INTERNAL=brokers")
        before: list[bytes] = []

        def is_quiet() -> bool:
            before.append(kafka.node(1).log.read_bytes())
            return len(before) > 1 and before[-1] == before[-2]

        eventually(is_quiet, "the broker does not answer any more")
        code, by_metrics = blocked(capsys, "readiness", "--metrics", page, "--to", RELEASES[release], *known)
        log.write_bytes(kafka.node(1).log.read_bytes())
    of_log, by_log = blocked(capsys, "fleet", "peek", str(log), "--to", RELEASES[release])
    assert by_metrics.keys() == by_log.keys(), said
    assert {api: count for api, count in by_metrics.items() if count > by_log[api]} == {}
    assert code != 0
    assert of_log == 1 or code != 1  # the log has refused requests, too, which no metric shows
    if RELEASES[release] == "4.2":
        assert {"Produce", "Fetch", "ListOffsets"} <= by_metrics.keys(), said
    else:
        assert by_metrics == {}
