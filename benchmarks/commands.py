"""Commands as whole processes: those of kafka-features beside the JVM tool, others beside a bare Python."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import prometheus
from importing import ENVIRONMENT, START, process, row
from live import AS_THE_SCRIPT, KAFKA, LOGGING, TOOL
from measuring import Bar, Row, Section, announce, at_least, beside, take_turns

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.releases import recipe_for

COMMANDS = (
    "describe",
    "upgrade --feature group.version=1",
    "upgrade --feature metadata.version=29 --dry-run",
    "downgrade --feature metadata.version=27 --dry-run",
    "disable --feature group.version --dry-run",
)
"""None of them changes the cluster: group.version is at 1 already."""
OTHERS = (
    "check kip848 --bootstrap-server {}",
    "matrix --bootstrap-server {}",
    "completion bash",
)


def whole_process(command: Sequence[str | Path]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
        took = time.perf_counter() - began
        assert done.stdout, done.stderr
        return took * 1e3

    return run


def run(rounds: int) -> Section:
    announce(f"  starting one Kafka {KAFKA} node")
    with LocalKafka(KAFKA) as kafka, tempfile.TemporaryDirectory() as folder:
        logging = Path(folder, "log4j2.properties")
        logging.write_text(LOGGING)
        rows = (
            *(beside_the_tool(kafka, command, logging, rounds) for command in COMMANDS),
            *(beside_python(command.format(kafka.bootstrap), rounds) for command in OTHERS),
            fit_of_clients(Path(folder), rounds),
            readiness_of_a_page(Path(folder), rounds),
            *prometheus.rows(rounds),
        )
    return Section(
        name="commands",
        title="Commands",
        rows=rows,
        notes=(
            (
                f"One real broker of Kafka {KAFKA}. `featuregate` beside the tool with the options that its own "
                "script gives the JVM, without the time that the shell script takes."
            ),
            "Other commands of `featuregate` stand beside `python -c pass`: what is beyond it is ours.",
        ),
    )


def beside_the_tool(kafka: LocalKafka, command: str, logging: Path, rounds: int) -> Row:
    asks = ("--bootstrap-server", kafka.bootstrap, *shlex.split(command))
    configured = f"-Dlog4j2.configurationFile={logging}"
    classpath = f"{jars_of(recipe_for(KAFKA))}/*"
    name = command.partition(" ")[0]
    java: list[str | Path] = [find_java(), *AS_THE_SCRIPT, configured, "-cp", classpath, TOOL]
    contestants = {
        f"featuregate {name}": whole_process([sys.executable, "-c", START, *asks]),
        f"kafka-features {name}": whole_process([*java, *asks]),
    }
    for contestant in contestants.values():
        contestant()  # from here on every file is in memory
    ours, theirs = take_turns(command, rounds, contestants, "ms").values()
    return at_least(4.0, f"{command}, whole process", ours, theirs)


def beside_python(command: str, rounds: int) -> Row:
    contestants: dict[str, Callable[[], float]] = {
        command: whole_process([sys.executable, "-c", START, *shlex.split(command)]),
        "python -c pass": partial(process, "pass"),
    }
    for contestant in contestants.values():
        contestant()  # as above
    ours, python = take_turns(command, rounds, contestants, "ms").values()
    return beside(f"featuregate {command.partition(' --')[0]}, whole process", ours, python)


CLIENTS = ("confluent-kafka==2.6.0", "kafka-python==2.0.2", "aiokafka==0.10.0", "pyspark==4.0.0")
BEYOND = Bar(300, "<= 300 ms")


def fit_of_clients(folder: Path, rounds: int) -> Row:
    """Measure what ``fit`` of five clients takes beyond Python's start, with the table of clients loaded."""
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(CLIENTS))
    named = ("kafka-clients==3.9.0", "--requirements", str(requirements), "--to", "4.2")
    contestants: dict[str, Callable[[], float]] = {
        "fit": whole_process([sys.executable, "-c", START, "fit", *named]),
        "python -c pass": partial(process, "pass"),
    }
    for contestant in contestants.values():
        contestant()  # as above
    ours, python = take_turns("fit", rounds, contestants, "ms").values()
    return row("`featuregate fit` of 5 clients, beyond `python -c pass`", ours, python, BEYOND)


A_PAGE = Bar(500, "<= 500 ms")


def readiness_of_a_page(folder: Path, rounds: int) -> Row:
    """Measure the verdict from one page of 0.6 MB, as Strimzi's rules write it, from the start to the end."""
    page, requests = folder / "page.txt", "kafka_network_requestmetrics_requests_total"
    apis = ("Metadata", "Produce", "ApiVersions", "FindCoordinator", "ListOffsets", "OffsetCommit")
    lines = [f'{requests}{{request="{api}",version="{version}"}} 7.0' for api in apis for version in range(3, 6)]
    software = 'clientSoftwareName="apache-kafka-java",clientSoftwareVersion="3.9.{}",listener="CLIENT"'
    name = "kafka_server_socket_server_metrics_connections_software"
    lines += [f'{name}{{{software.format(patch)},networkProcessor="0"}} 1.0' for patch in range(3)]
    lines += [
        f'kafka_log_log_size{{partition="{number}",topic="a-topic-of-usual-length-{number}"}} 1.0'
        for number in range(7_000)
    ]
    page.write_text("\n".join([*lines, "process_start_time_seconds 1.7E9\n"]))
    known = ("--brokers", "1", "--listener", "CLIENT=none", "--to", "4.2")
    contestants: dict[str, Callable[[], float]] = {
        "readiness": whole_process([sys.executable, "-c", START, "readiness", "--metrics", str(page), *known]),
        "python -c pass": partial(process, "pass"),
    }
    for contestant in contestants.values():
        contestant()  # as above
    ours, python = take_turns("readiness", rounds, contestants, "ms").values()
    what = f"`featuregate readiness` of a page of {page.stat().st_size / 1e6:.1f} MB, whole process"
    return Row(what=what, ours=ours, peer=python, score=ours, bar=A_PAGE)
