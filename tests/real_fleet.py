"""One fleet: three real brokers that log their requests, and real clients of many kinds and releases beside each other.

Each client has a client id of its own, so that a line of the log says whose it is.
"""

import json
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, libversion, version
from confluent_kafka.admin import AdminClient, NewTopic
from fleet_clients import TOPIC, joined, reads_on, transaction
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import Installation, write_logging
from featuregate_confluent import UsageTopic

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import __version__ as kafka_python


RELEASE: Final = "4.2.0"
BROKERS: Final = ("1", "2", "3")
REPORTS: Final = "fleet-reports"
APPS: Final = ("payments", "shipping")
RECORDS: Final = 9
_CONFLUENT: Final = f"{version()}-rdkafka-{libversion()[0]}"
CLIENTS: Final[dict[str, tuple[str, str] | None]] = {
    "producer-4.2.0": ("apache-kafka-java", "4.2.0"),
    "consumer-4.2.0": ("apache-kafka-java", "4.2.0"),
    "share-consumer": ("apache-kafka-java", "4.2.0"),
    "producer-2.8.2": ("apache-kafka-java", "2.8.2"),
    "consumer-2.8.2": ("apache-kafka-java", "2.8.2"),
    "producer-0.11.0.3": None,
    "consumer-0.11.0.3": None,
    "producer-0.10.0.1": None,
    "confluent-producer": ("confluent-kafka-python", _CONFLUENT),
    "fleet-classic-1": ("confluent-kafka-python", _CONFLUENT),
    "fleet-consumer-1": ("confluent-kafka-python", _CONFLUENT),
    "kafka-python-producer": ("kafka-python", kafka_python),
    "kafka-python-consumer": ("kafka-python", kafka_python),
}
"""The clients by their ids, with the software that they say: clients before KIP-511 say none."""

_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SHARE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_CONSUMER_BEFORE_4: Final = "kafka.tools.ConsoleConsumer"


class JavaClient(NamedTuple):
    release: str
    main_class: str
    arguments: tuple[str, ...]


def java_producer(kafka: LocalKafka, release: str, *, config: Path | None = None) -> JavaClient:
    arguments = ["--producer.config", str(config)] if config else []
    arguments += ["--topic", TOPIC, "--num-records", str(RECORDS), "--record-size", "9", "--throughput", "-1"]
    arguments += ["--producer-props", f"bootstrap.servers={kafka.bootstrap}", f"client.id=producer-{release}"]
    return JavaClient(release, _PRODUCER, tuple(arguments))


def java_consumer(
    kafka: LocalKafka, release: str, main_class: str, *properties: str, config: Path | None = None
) -> JavaClient:
    arguments = ["--consumer.config", str(config)] if config else []
    arguments += ["--bootstrap-server", kafka.bootstrap, "--topic", TOPIC, "--max-messages", "1"]
    arguments += ["--timeout-ms", f"{BOUND * 1000:.0f}"]
    arguments += [] if main_class == _SHARE_CONSUMER else ["--from-beginning"]
    for each in properties:
        arguments += ["--consumer-property", each]
    return JavaClient(release, main_class, tuple(arguments))


def java_clients(kafka: LocalKafka, *, protocol: str = "consumer", config: Path | None = None) -> Iterator[JavaClient]:
    """Yield the clients that end by themselves: the tools of this release, of a 2.x, and of one before 2.1.

    ``protocol`` is that of the group of this release, and ``config`` the file of properties of all clients.
    """
    for release in (RELEASE, "2.8.2", "0.11.0.3"):
        yield java_producer(kafka, release, config=config)
    for release in ("2.8.2", "0.11.0.3"):
        yield java_consumer(kafka, release, _CONSUMER_BEFORE_4, *_names(release), config=config)
    own = (*_names(RELEASE), f"group.protocol={protocol}")
    yield java_consumer(kafka, RELEASE, _CONSUMER, *own, config=config)


def _names(release: str) -> tuple[str, str]:
    return f"group.id=java-{release}", f"client.id=consumer-{release}"


def run_java(client: JavaClient, folder: Path) -> subprocess.CompletedProcess[str]:
    command = Installation.of(client.release, folder).tool(client.main_class, client.arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)


def run_to_their_end(kafka: LocalKafka, folder: Path) -> None:
    """Run the clients of Java, side by side, and a share group, which sees only what comes while it is there.

    One producer is older than ApiVersions: brokers refuse the version that it has.
    """
    write_logging(folder, "ERROR")
    refused = java_producer(kafka, "0.10.0.1")
    share = java_consumer(kafka, RELEASE, _SHARE_CONSUMER, "group.id=share-group", "client.id=share-consumer")
    with ThreadPoolExecutor(4) as pool:
        served = [pool.submit(run_java, client, folder) for client in (share, *java_clients(kafka))]
        ended: list[Future[subprocess.CompletedProcess[str]]] = [*served, pool.submit(run_java, refused, folder)]
        producer = Producer(kafka.client_config({"client.id": "confluent-producer", "log_level": 0}))
        while wait(ended, 1).not_done:
            producer.produce(TOPIC, b"shared")
            assert producer.flush(BOUND) == 0
    for done in served:
        assert done.result().returncode == 0, done.result()


def run_kafka_python(kafka: LocalKafka, **security: str) -> None:
    common: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap.split(","), **security}
    with closing(KafkaProducer(client_id="kafka-python-producer", **common)) as producer:
        producer.send(TOPIC, b"one").get(BOUND)
    named = {"client_id": "kafka-python-consumer", "group_id": "kafka-python", "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(TOPIC, **named, **common)) as consumer:
        # A member that leads a group before it knows the topic's partitions assigns none, and does not try again.
        eventually(lambda: consumer.partitions_for_topic(TOPIC), f"kafka-python knows no partitions of {TOPIC}")
        eventually(lambda: consumer.poll(timeout_ms=200), "kafka-python reads nothing")
        consumer.commit()


@contextmanager
def latched_app(kafka: LocalKafka, name: str) -> Iterator[None]:
    """Run an app that is latched on a level, and reports it; leave once its last report is in the topic."""
    topic, sent = UsageTopic(kafka.client_config(), REPORTS), list[bytes]()

    def send(value: bytes) -> None:
        topic(value)
        sent.append(value)

    with fg.Discoverer(kafka.bootstrap, usage=fg.UsageReporter(send, app=name, instance=name)) as features:
        gate = features.gate("eos", fg.Feature("transaction.version") >= 2)
        assert features.wait(BOUND)
        assert gate.open
        eventually(lambda: sent, f"a report of {name}")
        yield
    eventually(lambda: json.loads(sent[-1])["closing"], f"the last report of {name}")


class Fleet:
    """Clients that work as long as the fleet is there: a member of each protocol, a transactional app, latched apps."""

    def __init__(self, kafka: LocalKafka, stack: ExitStack) -> None:
        self.kafka = kafka
        transaction(kafka, b"first")
        protocols = {"classic": "fleet-classic", "consumer": "fleet-consumer"}
        self._members: Sequence[Consumer] = [
            joined(stack, kafka, group, group_protocol=protocol) for protocol, group in protocols.items()
        ]
        self._apps = [(name, stack.enter_context(ExitStack())) for name in APPS]
        for name, app in self._apps:
            app.enter_context(latched_app(kafka, name))

    def work(self) -> None:
        """Produce in a transaction, consume in each group, and restart an app, each of them in turn."""
        transaction(self.kafka, b"more")
        for member in self._members:
            reads_on(member)
        name, app = self._apps.pop(0)
        app.close()
        app.enter_context(latched_app(self.kafka, name))
        self._apps.append((name, app))


@contextmanager
def real_fleet(folder: Path) -> Iterator[Fleet]:
    """Start brokers and clients; return when those clients have ended that do not live as long as the fleet."""
    logged = {"kafka.request.logger": "DEBUG"}
    with LocalKafka(RELEASE, nodes=len(BROKERS), log_levels=logged) as kafka, ExitStack() as stack:
        topics = [NewTopic(TOPIC, len(BROKERS), len(BROKERS)), NewTopic(REPORTS, 1, len(BROKERS))]
        admin = AdminClient(kafka.client_config())
        for created in admin.create_topics(topics, operation_timeout=BOUND).values():
            created.result(BOUND)
        with ThreadPoolExecutor(1) as beside:
            ended = beside.submit(run_to_their_end, kafka, folder)
            fleet = Fleet(kafka, stack)
            run_kafka_python(kafka)
            ended.result()
        yield fleet
