"""Beside Kafka's own tool, on real brokers: describing one, and polling three again and again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from importing import ENVIRONMENT, START, cpu
from kafka import KafkaAdminClient
from measuring import Bar, Row, Sample, Section, announce, at_least, at_most, each, progress, take_turns

import featuregate as fg
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.releases import recipe_for

KAFKA = "4.2.0"
TOOL = "org.apache.kafka.tools.FeatureCommand"
AS_THE_SCRIPT = [
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
"""What kafka-run-class.sh of 4.2.0 gives its tools."""
TO_START_FAST = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true"]
LOGGING = "rootLogger.level=error\n"
POLLS = 200
"""Polls in a row that are one measurement: the clock of processor time is coarse."""
IDLE_SECONDS = 3.0
LISTENERS: dict[str, dict[str, Any]] = {
    "PLAINTEXT": {},
    "SSL": {"security": "SSL"},
    "SASL_SSL with SCRAM": {"security": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
}

KINDS: dict[str, dict[str, Any]] = {
    "new": {"keep_connections": False},
    "kept": {},
    "alone": {"broker_list": "bootstrap", "keep_connections": False},
}
"""How a discoverer polls; alone: by ApiVersions and nothing else, which needs no authentication."""

SPARED = {"SSL": Bar(5.0, ">= 5x less than on new connections", upwards=True)}


def whole_process(command: Sequence[str | Path]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
        took = time.perf_counter() - began
        assert "Feature: transaction.version" in done.stdout, done.stdout + done.stderr
        return took * 1e3

    return run


def describe(rounds: int) -> Section:
    announce(f"  starting one Kafka {KAFKA} node")
    with LocalKafka(KAFKA) as kafka, tempfile.TemporaryDirectory() as folder:
        logging = Path(folder, "log4j2.properties")
        logging.write_text(LOGGING)
        classpath = f"{jars_of(recipe_for(KAFKA))}/*"
        asks = ("--bootstrap-server", kafka.bootstrap, "describe")

        def java(options: Sequence[str]) -> Callable[[], float]:
            configured = f"-Dlog4j2.configurationFile={logging}"
            return whole_process([find_java(), *options, configured, "-cp", classpath, TOOL, *asks])

        contestants = {
            "featuregate describe": whole_process([sys.executable, "-c", START, *asks]),
            "kafka-features describe": java(AS_THE_SCRIPT),
            "kafka-features, JVM tuned to start fast": java(TO_START_FAST),
        }
        for run in contestants.values():
            run()  # from here on every file is in memory
        took = take_turns("describe", rounds, contestants, "ms")
        alone = {
            "describe": partial(cpu, START, *asks),
            "check": partial(cpu, START, "check", "kip848", "--bootstrap-server", kafka.bootstrap),
            "python -c pass": partial(cpu, "pass"),
        }
        busy = take_turns("processor time", rounds, alone, "ms")
        inside = in_process(kafka.bootstrap, rounds)
    ours, script, tuned = took.values()
    return Section(
        name="describe",
        title="Describing a cluster",
        rows=(
            at_least(4.0, "describe, whole process", ours, script),
            at_least(8.0, "the same", ours, tuned),
            at_most(4.6, "describe, processor time", busy["describe"], busy["python -c pass"]),
            at_most(4.6, "check kip848, processor time", busy["check"], busy["python -c pass"]),
            at_least(None, "one look, in a process that runs", inside["featuregate"], inside["kafka-python"]),
        ),
        notes=(
            (
                f"One real broker of Kafka {KAFKA}. The tool runs with the options that its own script gives the JVM, "
                "without the time that the shell script takes. kafka-python's look is `api_versions()` of an admin "
                "client that is made for it, as our connections are."
            ),
        ),
    )


def in_process(bootstrap: str, rounds: int) -> dict[str, Sample]:
    def ours() -> float:
        began = time.perf_counter()
        fg.discover(bootstrap)
        return (time.perf_counter() - began) * 1e3

    def theirs() -> float:
        began = time.perf_counter()
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.api_versions()
        took = (time.perf_counter() - began) * 1e3
        admin.close()
        return took

    ours()
    theirs()
    return take_turns("one look", rounds, {"featuregate": ours, "kafka-python": theirs}, "ms")


def poll(rounds: int) -> Section:
    rows: list[Row] = []
    for listener, security in LISTENERS.items():
        announce(f"  starting three Kafka {KAFKA} nodes: {listener}")
        with LocalKafka(KAFKA, nodes=3, **security) as kafka:
            took = asyncio.run(polls(kafka, listener, rounds))
        bar = 3.0 if listener in {"PLAINTEXT", "SSL"} else None
        rows += [
            each(bar, f"{listener}: processor time of the client", took["client, kept"]),
            each(None, f"{listener}: the same on new connections", took["client, new"]),
            replace(
                at_least(None, f"{listener}: processor time of a broker", took["broker, kept"], took["broker, new"]),
                bar=SPARED.get(listener),
            ),
            each(None, f"{listener}: the client, ApiVersions alone on new connections", took["client, alone"]),
            each(None, f"{listener}: a broker, ApiVersions alone on new connections", took["broker, alone"]),
        ]
    return Section(
        name="poll",
        title="Polling three brokers",
        rows=tuple(rows),
        notes=(
            (
                f"Three real brokers of Kafka {KAFKA}, whose epoch rises all the time. A poll fetches the broker list "
                "from one broker, and the API versions and features from each, on kept connections or on new ones; it "
                'merges the answers and updates the gates. ApiVersions alone is a poll with `broker_list="bootstrap"`, '
                "which needs no authentication. What a broker uses between polls is not in its times."
            ),
        ),
    )


async def polls(kafka: LocalKafka, listener: str, rounds: int) -> dict[str, Sample]:
    """Measure polls of all kinds in turns: milliseconds for each poll, of the client and of one broker."""
    took: dict[str, list[float]] = {}
    for number in range(rounds):
        progress(f"poll, {listener}: round {number + 1} of {rounds}")
        for kind, options in KINDS.items():
            async with polled(kafka.client_config(), **options) as features:
                idle, before = await idle_rate(kafka), used(kafka)
                began, client = time.perf_counter(), time.process_time()
                for _ in range(POLLS):
                    await features._poller.poll()  # noqa: SLF001 - the loop of the worker, without its pauses
                client = time.process_time() - client
                brokers = used(kafka) - before - idle * (time.perf_counter() - began)
                took.setdefault(f"client, {kind}", []).append(client / POLLS * 1e3)
                took.setdefault(f"broker, {kind}", []).append(brokers / len(kafka.nodes) / POLLS * 1e3)
                health = features.health()
                assert health["status"] == "ok", health
    progress("")
    return {name: Sample(name, "ms", tuple(values)) for name, values in took.items()}


def used(kafka: LocalKafka) -> float:
    """Return the processor time of all brokers, in seconds."""
    return sum(sum(psutil.Process(kafka.node(node).pid).cpu_times()[:2]) for node in kafka.nodes)


async def idle_rate(kafka: LocalKafka) -> float:
    """Return the processor time that the brokers use in a second by themselves."""
    began, before = time.perf_counter(), used(kafka)
    await asyncio.sleep(IDLE_SECONDS)
    return (used(kafka) - before) / (time.perf_counter() - began)


@asynccontextmanager
async def polled(config: Any, **options: Any) -> AsyncIterator[fg.Discoverer]:
    """Give a discoverer that has polled once and will not by itself for an hour, with three gates."""
    async with fg.Discoverer(source=fg.BrokerSource(config, **options), interval=3600) as features:
        gates = [features.gate(preset.name, preset) for preset in fg.presets.all()[:3]]
        assert await asyncio.to_thread(features.wait, 30)
        yield features
        del gates
