"""LocalKafka runs real Kafka, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

import featuregate
from featuregate.errors import ClosedError, LocalKafkaError
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.archive_classes import archive_classes
from featuregate.testing.local_kafka.probe import serves

pytestmark = pytest.mark.live

BOUND = 60
"""Seconds that anything may take which usually takes less than one."""


def brokers_seen(kafka: LocalKafka) -> set[int]:
    """Connect with librdkafka, as the user of the cluster."""
    client = AdminClient(kafka.client_config({"log_level": 0}))
    return set(client.list_topics(timeout=BOUND).brokers)


def top_metadata_version(kafka: LocalKafka, node_id: int) -> int:
    """Read the highest metadata.version that one broker supports: 29 is 4.2's, 30 is 4.3's."""
    view = featuregate.discover(kafka.internal_bootstrap)
    (supported,) = [answer.supported for answer in view.brokers if answer.node_id == node_id]
    return supported["metadata.version"][1]


@pytest.fixture(scope="module")
def three() -> Iterator[LocalKafka]:
    """Start three brokers of 4.2.0, with all security options at the client listener."""
    options = {"security": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "client_auth": True}
    with LocalKafka("4.2.0", nodes=3, **options) as kafka:
        yield kafka


@pytest.mark.proof("testing")
def test_an_independent_client_reaches_every_broker(three):
    """The credentials and certificates of client_config() are right."""
    assert brokers_seen(three) == {1, 2, 3} == set(three.nodes)


@pytest.mark.proof("testing")
def test_a_node_takes_its_classes_from_the_archive_of_its_release():
    """The archive is written once. Options of the JVM reach the node."""
    archive = archive_classes("4.2.0")
    written = archive.stat().st_mtime_ns
    assert archive_classes("4.2.0").stat().st_mtime_ns == written
    with LocalKafka("4.2.0", jvm_options=["-Xmx200m"]) as kafka:
        node = psutil.Process(kafka.node(1).pid)
        assert str(archive) in {mapped.path for mapped in node.memory_maps()}
        assert "-Xmx200m" in node.cmdline()


@pytest.mark.proof("testing")
def test_a_wrong_password_is_refused(three):
    """The listener requires a certificate, too."""
    errors: list[KafkaError] = []
    wrong = {"sasl.password": "wrong", "log_level": 0, "error_cb": errors.append}
    client = AdminClient(three.client_config(wrong))
    until = time.monotonic() + BOUND
    while not errors and time.monotonic() < until:
        client.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.proof("testing")
def test_levels_are_finalized_and_lowered_again(three):
    """Kafka's own tool finalizes the level, and discovery reads it."""
    three.downgrade({"transaction.version": 1})
    assert "transaction.version\t" in three.kafka_features("describe").stdout
    assert featuregate.discover(three.internal_bootstrap).level("transaction.version") == 1
    three.finalize({"transaction.version": 2})
    with pytest.raises(LocalKafkaError, match=r"Could not upgrade .* to 9"):
        three.finalize({"transaction.version": 9})


@pytest.mark.proof("testing")
def test_a_paused_broker_accepts_connections_and_says_nothing(three):
    """A resumed broker answers again."""
    node = three.node(2)
    three.pause(2)
    assert three.node(2).state == "paused"
    with socket.create_connection((node.host, node.internal_port), timeout=BOUND):
        pass
    assert not serves(node.host, node.internal_port)
    three.resume(2)
    assert serves(node.host, node.internal_port)


@pytest.mark.proof("testing")
def test_a_killed_broker_comes_back_at_its_address(three):
    """The restarted node is another process with the same data and ports."""
    before = three.node(3)
    three.kill(3)
    assert three.node(3).state == "stopped"
    assert not serves(before.host, before.internal_port)
    three.start(3)
    after = three.node(3)
    assert (after.state, after.port) == ("running", before.port)
    assert after.pid != before.pid


@pytest.mark.proof("testing")
def test_one_broker_is_rolled_to_another_release(three):
    """The rolled node runs the other release, and is back in the cluster."""
    three.roll(1, "4.3.1")
    assert [three.node(node_id).version for node_id in three.nodes] == ["4.3.1", "4.2.0", "4.2.0"]
    assert (top_metadata_version(three, 1), top_metadata_version(three, 2)) == (30, 29)
    assert brokers_seen(three) == {1, 2, 3}


@pytest.mark.proof("testing")
def test_a_rebuilt_cluster_is_another_one_at_the_same_addresses(three):
    """The rebuilt cluster has the same addresses, another cluster id, and the oldest release."""
    cluster_id, bootstrap = three.cluster_id, three.bootstrap
    three.rebuild()
    assert three.bootstrap == bootstrap
    assert {three.node(node_id).version for node_id in three.nodes} == {"4.2.0"}
    assert featuregate.discover(three.internal_bootstrap).cluster_id == three.cluster_id != cluster_id


@pytest.mark.parametrize(
    "options",
    [
        {"security": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"},
        {"security": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
        {"security": "SSL", "controllers": 1},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
@pytest.mark.proof("testing")
def test_every_way_in_is_open_to_its_client_config(options):
    """An independent client can connect with client_config()."""
    with LocalKafka("3.9.2", **options) as kafka:
        assert brokers_seen(kafka) == {1}
        assert kafka.controllers == ((101,) if "controllers" in options else (1,))


@pytest.mark.proof("testing")
def test_a_cluster_with_zookeeper_is_rolled():
    """A broker is rolled from 2.4.1 to 2.8.2 with a common protocol."""
    with LocalKafka("2.4.1", nodes=2) as kafka:
        assert brokers_seen(kafka) == {1, 2}
        kafka.roll(1, "2.8.2")
        assert brokers_seen(kafka) == {1, 2}
        with pytest.raises(LocalKafkaError, match="another kind of quorum"):
            kafka.roll(2, "4.0.0")


@pytest.mark.parametrize("version", ["0.11.0.3", "2.3.1"])
@pytest.mark.proof("testing")
def test_an_old_release_runs_on_a_java_that_is_newer(version):
    """Each of these releases needs an artifact that its dependencies do not name."""
    with LocalKafka(version) as kafka:
        assert brokers_seen(kafka) == {1}


def test_a_start_that_fails_shows_what_kafka_said():
    """The error contains the end of the log, and no process is left."""
    children = set(psutil.Process().children(recursive=True))
    with pytest.raises(LocalKafkaError, match=r"(?s)node 1 ended with 1.*log\.cleaner\.threads"):
        LocalKafka("0.10.0.1", properties={"log.cleaner.threads": "none"}).open()
    assert set(psutil.Process().children(recursive=True)) <= children


@pytest.mark.proof("testing")
def test_a_format_that_fails_shows_what_the_tool_said():
    """The storage tool reads the configuration first."""
    with pytest.raises(LocalKafkaError, match=r"(?s)not formatted.*99\.9-IV0"):
        LocalKafka("3.9.2", release_version="99.9-IV0").open()


def test_close_leaves_nothing_behind():
    """No process, file or port is left, and a second close() does nothing."""
    children = set(psutil.Process().children(recursive=True))
    kafka = LocalKafka("0.10.0.1")
    with kafka:
        assert kafka.cluster_id is None
        ours = set(psutil.Process().children(recursive=True)) - children
        assert len(ours) == 3, "ZooKeeper, one broker, the watchdog"
        folder, port = kafka.node(1).log.parent, kafka.node(1).port
        assert folder.is_dir()
    assert not [process for process in ours if process.is_running()]
    assert not folder.exists()
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free
    kafka.close()
    with pytest.raises(LocalKafkaError, match="opened only once"):
        kafka.open()


OWNER = """
import sys
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.archive_classes import archive_classes
kafka = LocalKafka("0.10.0.1")
kafka.open()
print(kafka.node(1).log.parent, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_an_owner_that_is_killed_leaves_nothing_behind(how):
    """The brokers end even if their owner is killed with SIGKILL."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        children = psutil.Process(owner.pid).children(recursive=True)
        assert len(children) == 3
        owner.send_signal(how)
    _, alive = psutil.wait_procs(children, timeout=BOUND)
    assert not alive
    cleaners = [
        process for process in psutil.process_iter(["cmdline"]) if str(folder) in (process.info["cmdline"] or [])
    ]
    psutil.wait_procs(cleaners, timeout=BOUND)
    assert not folder.exists()


def test_a_forked_child_owns_nothing():
    """close() in the child does not affect the parent's brokers."""
    with LocalKafka("0.10.0.1") as kafka:
        child = os.fork()
        if child == 0:
            kafka.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert serves("127.0.0.1", kafka.node(1).port)
    with pytest.raises(ClosedError):
        LocalKafka("0.10.0.1").node(1)
