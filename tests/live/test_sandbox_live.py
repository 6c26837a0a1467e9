"""The sandbox of real Kafka, as a process."""

import itertools
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from reserving import two_ports_in_a_row
from waiting import eventually

import featuregate as fg

pytestmark = [
    pytest.mark.proof("testing"),
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="a reserved port can be used by another process"),
]

BOUND = 240.0


@contextmanager
def sandbox(
    *options: str, version: str = "4.2.0", stdin: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a sandbox of up to two brokers at ports that are reserved, and yield it with the first port."""
    with two_ports_in_a_row() as first:
        port = str(first)
        command = [sys.executable, "-m", "featuregate", "sandbox", version, "--port", port, *options]
        process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True)
        try:
            yield process, port
        finally:
            process.kill()
            process.communicate()


def says(process: subprocess.Popen[str], text: str) -> bool:
    """Read lines until one has a text; return whether there is one."""
    assert process.stdout is not None
    return any(text in line for line in process.stdout)


def runs(port: str, release: str) -> bool:
    """Return whether each broker has this release or a newer one."""
    return fg.evaluate(fg.discover(f"localhost:{port}"), fg.Release(release)).open


def test_the_sandbox_runs_real_kafka_until_ctrl_c_and_leaves_nothing() -> None:
    """At the port that the user chose, with the levels that the user chose."""
    with sandbox("--features", "group.version=0") as (process, port):
        assert says(process, "Ctrl-C ends it")
        brokers = psutil.Process(process.pid).children(recursive=True)
        assert fg.discover(f"localhost:{port}").level("group.version") == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND) == 0
        assert psutil.wait_procs(brokers, BOUND)[1] == []


def test_a_move_can_be_practised_from_the_first_plan_to_the_way_back() -> None:
    """As the page does it: a level that was raised and lowered keeps older software away until there is a snapshot."""
    options = ("--roll-to", "4.3", "--pause")
    with sandbox(*options, version="3.9.2", stdin=subprocess.PIPE) as (process, port):
        assert process.stdin is not None
        assert process.stdout is not None
        (controllers,) = re.findall(r"controllers: (\S+)", "".join(itertools.islice(process.stdout, 2)))

        def ended(*command: str) -> int:
            where = ("--bootstrap-server", f"localhost:{port}")
            return subprocess.run([sys.executable, "-m", "featuregate", *command, *where], check=False).returncode

        def said(word: str) -> None:
            process.stdin.write(f"{word}\n")
            process.stdin.flush()

        plan = ("plan", "upgrade", "--release-version", "4.3", "--controllers", controllers)
        assert ended(*plan) == 1  # before the roll
        said("next")
        assert says(process, "all brokers run 4.3.0")
        assert ended(*plan) == 0
        assert ended("upgrade", "--feature", "group.version=1", "--wait", "60") == 0
        assert ended("downgrade", "--feature", "group.version=0", "--wait", "60", "--yes") == 0

        def is_back() -> bool:
            said("back")
            assert says(process, "broker 1 stops, and starts with 3.9.2")
            with suppress(AssertionError):  # it did not start, and starts as it was
                return eventually(lambda: not runs(port, "4.0"), within=BOUND / 4, despite=(fg.DiscoveryError,))
            return False

        eventually(is_back, "a snapshot lets 3.9 start")
        assert ended(*plan) == 1


def test_the_sandbox_has_the_topics_and_records_that_the_user_chose() -> None:
    """And says where its logs are."""
    options = ("--topic", "orders:2", "--records", "orders=20", "--records", "orders=5", "--topic", "copies")
    with sandbox(*options) as (process, port):
        assert process.stdout is not None
        said = "".join(itertools.takewhile(lambda line: "Ctrl-C ends it" not in line, process.stdout))
        assert "topic orders: partitions: 2, records: 25" in said
        assert "topic copies: partitions: 1, records: 0" in said
        log = re.search(r"log of broker 1: (\S+)", said)
        assert log
        assert Path(log[1]).is_file()
        config = {"bootstrap.servers": f"localhost:{port}", "group.id": "g"}
        with closing(Consumer(config)) as consumer:
            parts = [TopicPartition("orders", number) for number in (0, 1)]
            assert sum(consumer.get_watermark_offsets(part, timeout=60)[1] for part in parts) == 25
            assert len(consumer.list_topics("copies", timeout=60).topics["copies"].partitions) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND) == 0
