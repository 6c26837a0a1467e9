"""Configurations of clients whose fates in an upgrade are known, and what readiness says of them before it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import client_installers
from client_installers import Installed

from featuregate.jars.maven import cache_folder

if TYPE_CHECKING:
    from client_brokers import RecordedBroker

BEFORE, AFTER = "3.9.2", "4.2.0"
CORE = ("produce", "consume", "commit", "offsets", "rebalance")
SCRAM = "sasl-SCRAM-SHA-512"
STEADY = frozenset({"PRODUCE", "FETCH", "METADATA", "OFFSET_COMMIT", "HEARTBEAT"})
"""What a client calls that runs for days, with committed offsets and without a rebalance."""
WORST = ("ok", "warn", "stale", "unknown", "block")


class Configuration(NamedTuple):
    client: str
    version: str
    settings: Mapping[str, str] = {}
    steps: tuple[str, ...] = (*CORE, "admin")

    @property
    def verdicts(self) -> frozenset[str]:
        """What readiness may say of it: with settings of its own it may send what no measured client sends."""
        return frozenset({"ok", "warn", "block", *(["unknown"] if self.settings else [])})

    @property
    def name(self) -> str:
        others = [step.lower() for step in self.steps if step in {SCRAM, "transactions"}]
        return "-".join([self.client, self.version, *self.settings.values(), *others])


def plain(client: str, *versions: str, **settings: str) -> list[Configuration]:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    return [Configuration(client, version, own) for version in versions]


def pinned(client: str, version: str, *pins: str) -> list[Configuration]:
    """Return configurations with ``api_version``, whose name has an underscore."""
    return [Configuration(client, version, {"api_version": pin}) for pin in pins]


def login(client: str, *versions: str) -> list[Configuration]:
    return [Configuration(client, version, steps=(SCRAM,)) for version in versions]


KNOWN = [
    *plain("confluent-kafka", "2.16.1", "1.5.0", "1.0.1", "0.11.6"),
    Configuration("confluent-kafka", "2.16.1", steps=(*CORE, "transactions")),
    *plain("confluent-kafka", "2.16.1", api_version_request="false", broker_version_fallback="0.9.0.1"),
    *plain("confluent-kafka", "2.16.1", broker_version_fallback="0.10.2"),
    *plain("confluent-kafka-go", "1.4.2"),
    *plain("kafka-python", "3.0.12", "2.0.2", "1.4.7"),
    *pinned("kafka-python", "2.0.2", "0.10.2", "0.10.1"),
    *plain("kafka-clients", "0.11.0.3", "2.0.1", "3.9.0"),
    *plain("franz-go", "1.22.3"),
    *plain("franz-go", "1.22.3", max_versions="0.11.0"),
    *plain("franz-go", "1.22.3", max_versions="2.0"),
    *plain("sarama", "1.61.1"),
    *plain("sarama", "1.61.1", version="0.10.2.0"),
    *plain("sarama", "1.27.2", version="1.0.0"),
    *plain("sarama", "1.27.2", version="1.1.0"),
    *plain("sarama", "1.27.2", version="2.0.0"),
    *plain("kafka-go", "0.4.51"),
    *plain("kafkajs", "2.2.4", "1.15.0"),
    *plain("kafka-node", "5.0.0"),
]
"""The 28 whose fates were seen first by hand."""
MORE = [
    *login("confluent-kafka", "2.16.1", "2.6.1", "2.6.0", "2.0.2", "1.9.2", "1.5.0"),
    *login("kafka-python", "3.0.12", "2.2.21", "2.0.2"),
    *login("aiokafka", "0.14.0", "0.9.0", "0.8.1"),
    *login("kafka-clients", "0.11.0.3", "2.0.1", "3.9.0", "4.4.0"),
    *login("franz-go", "1.22.3"),
    *login("kafka-go", "0.4.51"),
    *login("kafkajs", "2.2.4", "1.15.0"),
    *plain("aiokafka", "0.14.0", "0.8.1"),
]
CONFIGURATIONS = [*KNOWN, *MORE]


def of_cache(wanted: Configuration) -> Installed | None:
    found = client_installers.install(wanted.client, wanted.version, cache_folder() / "clients", to_run=True)
    return found.with_settings(wanted.settings) if found and wanted.settings else found


def steady_lines(log: str) -> list[str]:
    """Return the steady calls of clients that run for days: one that only asks for Metadata might be any."""
    calls = [(line, name, client) for line in log.splitlines() for name, client in [_call(line)] if name in STEADY]
    working = {client for _, name, client in calls if name != "METADATA"}
    return [line for line, _, client in calls if client in working]


def _call(line: str) -> tuple[str | None, ...]:
    found = (re.search(rf'"{name}":"([^"]*)"', line) for name in ("requestApiKeyName", "clientId"))
    return tuple(each and each[1] for each in found)


def verdicts_of(folder: Path, broker: RecordedBroker, when: str) -> dict[str, str]:
    """Return the worst verdict of each configuration, from the steady calls that a broker has logged until now.

    ``when`` follows the name of a configuration in its client ids.
    """
    logs = folder / "logs" / "1"
    logs.mkdir(parents=True)
    steady = steady_lines(broker.kafka.node(1).log.read_text())
    (logs / "server.log").write_text("\n".join([*steady, ""]))
    where = ("--cluster", "c", "--tables", str(folder / "tables"))
    featuregate(
        "fleet",
        "run",
        "--once",
        *where,
        "--logs",
        str(folder / "logs"),
        "--bootstrap-server",
        broker.kafka.internal_bootstrap,
    )
    asked = ("--to", "4.2", "--min-hours", "0", "--without-usage-reports", "--output", "json")
    found: dict[str, str] = {}
    for row in json.loads(featuregate("readiness", *where, *asked))["rows"]:
        name = (row["client_id"] or "").partition(f"-{when}")[0]
        found[name] = max(found.get(name, "ok"), row["verdict"], key=WORST.index)
    return found


def featuregate(*arguments: str) -> str:
    """Run a command; return what it prints."""
    command = [sys.executable, "-m", "featuregate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 3}, done.stderr
    return done.stdout
