"""What LocalKafka reads and writes: command lines, answers of old protocols, Java, the cache; paused processes."""

import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from waiting import eventually

from featuregate.errors import LocalKafkaError
from featuregate.jars.maven import cache_folder, install
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka import archive_classes, processes
from featuregate.testing.local_kafka.commands import Installation, format_arguments, write_logging
from featuregate.testing.local_kafka.config import ClusterConfig
from featuregate.testing.local_kafka.java import archive_of, java_major, options_to_read
from featuregate.testing.local_kafka.probe import _ask, membership, parse_membership, serves
from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup, ReservedPorts
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.testing.local_kafka.zookeeper import registered_in


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("sh: java: not found", None),
    ],
)
def test_the_version_of_java_is_read(printed, major):
    assert java_major(printed) == major


def test_the_storage_is_formatted_with_what_was_asked():
    config = ClusterConfig(
        nodes=(),
        security="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        users={"alice": "secret"},
        release_version="4.1",
        features={"transaction.version": 0},
    )
    assert " ".join(map(str, format_arguments(config, Path("p"), "ID"))) == (
        "format -t ID -c p --release-version 4.1 --feature transaction.version=0"
        " --add-scram SCRAM-SHA-256=[name=alice,password=secret]"
    )


@pytest.mark.parametrize(("version", "option"), [("3.9.2", "-Dlog4j.configuration=file:"), ("4.2.0", "-Dlog4j2.conf")])
def test_each_release_gets_its_own_option_for_logging(version, option):
    installed = Installation(recipe_for(version), Path("/jars"), Path("/java"), Path("/shared"))
    command = [str(word) for word in installed.broker(Path("p"), None)]
    assert any(word.startswith(option) for word in command)
    assert command[-4:] == ["-cp", "/jars/*", "kafka.Kafka", "p"]


def test_a_jvm_reads_the_class_archive_of_its_jars_and_its_java(tmp_path: Path):
    """Not that of another Java, such as the same one after an update. Where there is none, Java need not say so."""
    jars, java = tmp_path / "4.2.0", tmp_path / "java"
    java.touch()
    archive = archive_of(jars, java)
    assert (archive.parent, archive.name.partition("-")[0]) == (tmp_path, "4.2.0")
    assert options_to_read(archive) == []
    archive.touch()
    options = options_to_read(archive)
    assert options[0] == f"-XX:SharedArchiveFile={archive}"
    installed = Installation(recipe_for("4.2.0"), jars, java, tmp_path, tuple(options))
    assert set(options) < set(installed.broker(Path("p"), None))
    assert set(options) < set(installed.tool("Tool", []))
    os.utime(java, ns=(0, 0))
    assert archive_of(jars, java) != archive


def test_nothing_is_left_of_an_archive_that_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Java does not survive one that is cut short: it gets its name when it is whole."""
    (tmp_path / "kafka" / "4.2.0").mkdir(parents=True)
    monkeypatch.setenv("FEATUREGATE_CACHE", str(tmp_path))

    def killed(_version: str, jvm_options: list[str]) -> LocalKafka:
        Path(jvm_options[0].partition("=")[2]).write_text("half")
        raise LocalKafkaError("killed")

    monkeypatch.setattr(archive_classes, "LocalKafka", killed)
    with pytest.raises(LocalKafkaError, match="killed"):
        archive_classes.archive_classes("4.2.0")
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["4.2.0"]


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_membership_has_the_brokers_that_lag():
    """Two brokers, one topic with one partition, whose second replica is not in sync."""
    brokers = struct.pack(">i", 2) + b"".join(
        struct.pack(">i", node_id) + _string("localhost") + struct.pack(">i", 9092) for node_id in (1, 2)
    )
    partition = struct.pack(">hii", 0, 0, 1) + struct.pack(">iii", 2, 1, 2) + struct.pack(">ii", 1, 1)
    topics = struct.pack(">ih", 1, 0) + _string("t") + struct.pack(">i", 1) + partition
    seen = parse_membership(brokers + topics)
    assert (seen.brokers, seen.lagging) == ({1, 2}, {2})


@pytest.mark.parametrize("sent", ["", "000000", "00000012", "000000120000000100000000"])
def test_a_broker_is_not_ready_before_its_answer_is_whole(sent: str) -> None:
    """One that ends closes its connections amid answers. The error says so, and not how bytes are read."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        def answer() -> None:
            for _ in range(3):
                with server.accept()[0] as connection:
                    connection.recv(100)
                    connection.sendall(bytes.fromhex(sent))

        Thread(target=answer, daemon=True).start()
        assert not serves(host, port)
        assert membership(host, port) is None
        with pytest.raises(ConnectionError, match=f"^{host}:{port} closed the connection before its answer was whole$"):
            _ask(host, port, 18, b"", None)


def test_sessions_in_zookeeper_name_the_registered_brokers():
    """The answer to dump contains them."""
    dump = "Sessions with Ephemerals (2):\n0x1:\n\t/brokers/ids/1\n\t/controller\n0x2:\n\t/brokers/ids/12\n"
    assert registered_in(dump) == {1, 12}


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    """FEATUREGATE_CACHE, else the user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.delenv("FEATUREGATE_CACHE", raising=False)
    assert cache_folder() == Path("/xdg/featuregate")
    monkeypatch.setenv("FEATUREGATE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


def test_half_a_release_is_never_there(tmp_path):
    """A failed download leaves no folder, and the next one works."""
    jar = tmp_path / "kafka-clients.jar"
    jar.write_bytes(b"PK")
    cache = tmp_path / "kafka"
    cache.mkdir()

    def broken():
        yield jar
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="gone"):
        install(broken(), cache / "4.2.0")
    assert list(cache.iterdir()) == []
    install([jar], cache / "4.2.0")
    assert [path.name for path in (cache / "4.2.0").iterdir()] == ["kafka-clients.jar"]


def test_reserved_ports_are_not_given_to_other_sockets():
    """While ports are reserved, a new socket gets other ones."""
    ports = ReservedPorts([0] * 40)
    others = ReservedPorts([0] * 40)
    assert not set(ports.numbers) & set(others.numbers)
    ports.close()
    others.close()
    ports.close()


def test_a_free_port_is_none_of_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers of a cluster have ports in a row; the kernel might choose the second one for the first controller."""

    class Taken:
        def __init__(self, number: int) -> None:
            self.number = number

        def getsockname(self) -> tuple[str, int]:
            return processes.HOST, self.number

        def close(self) -> None:
            taken.discard(self.number)

    taken: set[int] = set()

    def bound(port: int) -> Taken:
        number = port or next(each for each in range(9092, 9999) if each not in taken)
        if number in taken:
            raise OSError("in use")
        taken.add(number)
        return Taken(number)

    monkeypatch.setattr(processes, "_bound", bound)
    assert ReservedPorts([9092, 0, 9093, 0]).numbers == (9092, 9094, 9093, 9095)


def test_invariant_12_a_cluster_shows_no_password():
    """The repr contains addresses and releases."""
    kafka = LocalKafka("4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN", users={"alice": "alice-secret"})
    assert "alice-secret" not in repr(kafka)
    assert kafka.bootstrap in repr(kafka)
    kafka.close()


def test_single_loggers_have_levels_of_their_own(tmp_path: Path) -> None:
    """A broker can log its requests and stay quiet otherwise, whichever logger its release reads."""
    write_logging(tmp_path, "WARN", {"kafka.request.logger": "DEBUG"})
    old, new = (tmp_path / "log4j.properties").read_text(), (tmp_path / "log4j2.properties").read_text()
    assert "log4j.rootLogger=WARN, out" in old
    assert "log4j.logger.kafka.request.logger=DEBUG" in old
    assert "rootLogger.level=WARN" in new
    assert "logger.l0.name=kafka.request.logger\nlogger.l0.level=DEBUG" in new


MANY_THREADS = """
import threading
for _ in range(200):
    threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
"""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads the threads of a process from /proc")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    """Start a process of 201 threads."""
    processes = ProcessGroup("threads")
    try:
        started = processes.start([sys.executable, "-c", MANY_THREADS], log=tmp_path / "log")
        eventually(lambda: started.last_lines(1) == "ready", "the threads run")
        yield started
    finally:
        processes.close()


def states_of_threads(pid: int) -> str:
    """Return one letter for each thread, as in proc(5)."""
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return "".join(sorted(stat.rpartition(") ")[2][0] for stat in stats))


@on_linux
def test_every_thread_of_a_paused_process_has_stopped(child):
    """The signal itself stops them one after another, while others may still answer a request."""
    for _ in range(5):
        child.pause()
        assert states_of_threads(child.pid) == "T" * 201
        child.resume()


@on_linux
def test_a_process_is_paused_twice_and_one_that_has_ended_is_not_waited_for(child):
    child.pause()
    child.pause()
    assert child.state == "paused"
    child.kill()
    child.pause()
    assert child.state == "stopped"
