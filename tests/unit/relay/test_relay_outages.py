"""A relay that is killed, whose disk is full, or to which all clients come back at once."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import requests
from event_source import listening
from relay_on_socket import served
from waiting import eventually

import featuregate as fg
from featuregate.testing import FakeCluster

pytestmark = pytest.mark.slow

BOUND = 60.0
MIB = 1024 * 1024
CLIENTS = 100
GATE = "ConsumerGroupHeartbeat>=1"
FLAG = "ofrep/v1/evaluate/flags/groups"


@contextmanager
def relay(bootstrap: str, latches: Path, *before: str, port: str = "0") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    options = ["--bootstrap-server", bootstrap, "--interval", "0.2", "--latches", str(latches)]
    options += ["--gate", f"groups={GATE}", "--listen", f"127.0.0.1:{port}"]
    with served(*options, before=before) as relay:
        eventually(lambda: requests.get(f"{relay.url}/readyz", timeout=BOUND).status_code == 200)
        yield relay.url, relay.process


def flag(url: str) -> bool:
    return requests.post(f"{url}/{FLAG}", json={}, timeout=BOUND).json()["value"]


def test_a_relay_that_is_killed_knows_its_latches_when_it_starts_again(tmp_path: Path) -> None:
    """Though the brokers were rolled back meanwhile, and nothing was closed in order."""
    with FakeCluster(1, release="4.2", finalized={"metadata.version": 21}) as brokers:
        with relay(brokers.bootstrap, tmp_path) as (url, process), ExitStack() as streams:
            streams.enter_context(listening(f"{url}/v1/clusters/default/events"))
            eventually(lambda: flag(url))
            process.send_signal(signal.SIGKILL)
            assert process.wait(BOUND) == -signal.SIGKILL
        brokers.roll(1, "3.9")
        with relay(brokers.bootstrap, tmp_path) as (url, _):
            assert flag(url)
            check = requests.get(f"{url}/v1/clusters/default/check", params={"require": GATE}, timeout=BOUND)
            assert not check.json()["open"]


def test_a_relay_whose_disk_is_full_serves_and_says_so(tmp_path: Path) -> None:
    """A latch that would not outlive it opens no gate of its own. Its clients get the view, and latch by themselves."""
    with (
        FakeCluster(1, release="4.2") as brokers,
        relay(brokers.bootstrap, tmp_path, "sh", "-c", 'ulimit -f 0 && exec "$@"', "sh") as (url, process),
    ):
        assert not flag(url)
        health = requests.get(f"{url}/readyz", timeout=BOUND).json()["clusters"]["default"]
        assert health["status"] == "degraded"
        assert any(str(tmp_path) in reason for reason in health["reasons"])
        with fg.Discoverer(source=fg.HttpSource(url), interval=3600.0) as features:
            assert features.gate("groups", GATE).wait(BOUND)
        process.terminate()
        assert process.wait(BOUND) == 0
    assert [path for path in tmp_path.iterdir() if path.suffix == ".json"] == []


def test_more_streams_are_open_than_the_shell_allows_files(tmp_path: Path) -> None:
    """Many shells allow a thousand, and the relay serves ten thousand streams: it takes what the system allows."""
    with (
        FakeCluster(1) as brokers,
        relay(brokers.bootstrap, tmp_path, "sh", "-c", 'ulimit -S -n 100 && exec "$@"', "sh") as (url, _),
        ExitStack() as streams,
    ):
        events = f"{url}/v1/clusters/default/events"
        opened = [streams.enter_context(listening(events)) for _ in range(CLIENTS)]
        assert {next(stream).kind for stream in opened} == {"view"}


def test_clients_of_a_killed_relay_come_back_six_times_as_many(tmp_path: Path) -> None:
    """Each of those that retried too soon is answered, and the memory that they take is given back or bounded."""
    with FakeCluster(1, release="4.2") as brokers, ExitStack() as opened:
        with relay(brokers.bootstrap, tmp_path) as (url, process):
            port = url.rpartition(":")[2]
            for _ in range(CLIENTS):
                opened.enter_context(listening(f"{url}/v1/clusters/default/events"))
            process.send_signal(signal.SIGKILL)
            process.wait(BOUND)
        with relay(brokers.bootstrap, tmp_path, port=port) as (url, process):
            memory = psutil.Process(process.pid).memory_info().rss
            returned = []
            for _ in range(6 * CLIENTS):
                client = socket.create_connection(("127.0.0.1", int(port)), timeout=BOUND)
                opened.callback(client.close)
                client.sendall(b"GET /v1/clusters/default/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                returned.append(client)
            assert {client.recv(12) for client in returned} == {b"HTTP/1.1 200"}
            eventually(lambda: numbers(url)["streams"] == 6 * CLIENTS)
            assert flag(url)
            assert psutil.Process(process.pid).memory_info().rss - memory < 64 * MIB
            for client in returned:
                client.close()
            eventually(lambda: numbers(url)["streams"] == 0)


def numbers(url: str) -> dict[str, float]:
    lines = requests.get(f"{url}/metrics", timeout=BOUND).text.splitlines()
    found = [line.removeprefix("featuregate_relay_").split() for line in lines if not line.startswith("#")]
    wanted = ("streams", "requests_waiting")
    return {name.partition("{")[0]: float(value) for name, value in found if name.partition("{")[0] in wanted}
