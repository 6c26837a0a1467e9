"""Real brokers of several releases behind recorders, with a plain listener and one for each mechanism of SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from client_recorder import Recorder
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

USER, PASSWORD = "featuregate", "featuregate-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
JAAS = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.client.plain.sasl.jaas.config": (
        f'{JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
    "listener.name.client.scram-sha-256.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
    "listener.name.client.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
    "listener.name.client.oauthbearer.sasl.jaas.config": (
        f'{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "num.partitions": 2,
}


class RecordedBroker:
    """One broker of a release, and what clients requested of it."""

    def __init__(self, release: str, log_levels: Mapping[str, str] | None = None) -> None:
        self.release = release
        self.recorder = Recorder()
        plain = self.recorder.listen(lambda: self.kafka.node(1).internal_port)
        login = self.recorder.listen(lambda: self.kafka.node(1).port)
        self.bootstrap, self.sasl_bootstrap = f"127.0.0.1:{plain}", f"127.0.0.1:{login}"
        advertised = {"advertised.listeners": f"INTERNAL://{self.bootstrap},CLIENT://{self.sasl_bootstrap}"}
        self.kafka = LocalKafka(
            release,
            security="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            users={USER: PASSWORD},
            properties=SETTINGS | advertised,
            log_levels=log_levels,
        )

    def __enter__(self) -> Self:
        self.kafka.open()
        where = ("--bootstrap-server", self.kafka.internal_bootstrap, "--entity-type", "users", "--entity-name", USER)
        added = ("--alter", "--add-config", f"SCRAM-SHA-256=[password={PASSWORD}]")
        done = self.kafka.run_tool("kafka.admin.ConfigCommand", *where, *added)
        if done.returncode:
            self.close()
            raise RuntimeError(f"Kafka {self.release}: no SCRAM-SHA-256 user: {done.stdout}{done.stderr}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def prepare(self, topic: str) -> None:
        """Create the topics of a client, the first of them with records in each partition."""
        names = [topic, *(f"{topic}-{name}" for name in ("zstd", "out", "sasl"))]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # it must outlive its futures
        created = admin.create_topics([NewTopic(name, 2) for name in names])
        for future in created.values():
            future.result(30)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition in (0, 1):
            for number in range(3):
                producer.produce(topic, f"first {number}", partition=partition)
        if producer.flush(30):
            raise RuntimeError(f"Kafka {self.release} took no records of {topic}")

    def close(self) -> None:
        """End the broker."""
        self.kafka.close()
        self.recorder.close()
