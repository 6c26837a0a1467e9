"""Real brokers of several releases behind recorders: a plain listener, one for each mechanism of SASL, and TLS."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from client_recorder import Recorder
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.nodes import issue_certificates
from featuregate.testing.local_kafka.processes import ReservedPorts

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from kerberos_realm import NAME, realm, why_no_kerberos

if TYPE_CHECKING:
    from types import TracebackType

    from client_offers import Offer

USER, PASSWORD = "featuregate", "featuregate-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
BUSY = 120.0
"""Seconds for what takes one on a machine that is not busy."""
SERVICE, PRINCIPAL = "kafka/localhost", "app"
JAAS = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS[:-1]),
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
    """One broker of a release, and what clients requested of it.

    Programs find its TLS listener and its realm of Kerberos by ``environment``. What they request over TLS is not
    recorded: the recorder is between them and the other listeners alone.
    """

    def __init__(
        self, release: str, log_levels: Mapping[str, str] | None = None, *, offer: Offer | None = None
    ) -> None:
        self.release, self.offer = release, offer
        self.without: frozenset[str] = frozenset()
        """The steps for which this machine has no service."""
        self.environment: dict[str, str] = {}
        self.recorder = Recorder()
        self._ports = ReservedPorts([0, 0])
        plain_port, tls = self._ports.numbers
        plain = self.recorder.listen(lambda: plain_port, offer)
        login = self.recorder.listen(lambda: self.kafka.node(1).port)
        self.bootstrap, self.tls_bootstrap = f"127.0.0.1:{plain}", f"localhost:{tls}"
        # Kerberos knows the broker by a name: Java looks up that of its address, others take the one that they got.
        self.sasl_bootstrap = f"localhost:{login}"
        self._ended = ExitStack()
        self._folder = Path(self._ended.enter_context(TemporaryDirectory()))
        self.kafka = LocalKafka(
            release,
            security="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            users={USER: PASSWORD},
            properties=SETTINGS,
            log_levels=log_levels,
            jvm_options=[f"-Djava.security.krb5.conf={self._folder / 'krb5.conf'}"],
        )
        self.kafka.properties |= self._listeners()

    def _listeners(self) -> dict[str, str]:
        """Return the properties of the listeners: LocalKafka has one for clients, and one for brokers and tools."""
        ours = {name: f"127.0.0.1:{port}" for name, port in zip(("PLAIN", "TLS"), self._ports.numbers, strict=True)}
        own = {"CLIENT": self.kafka.bootstrap, "INTERNAL": self.kafka.internal_bootstrap, **ours}
        protocols = {"CLIENT": "SASL_PLAINTEXT", "INTERNAL": "PLAINTEXT", "PLAIN": "PLAINTEXT", "TLS": "SSL"}
        if self.kafka.controllers:
            own["CONTROLLER"], protocols["CONTROLLER"] = self.kafka.controller_bootstrap, "PLAINTEXT"
        advertised = {"PLAIN": self.bootstrap, "CLIENT": self.sasl_bootstrap, "TLS": self.tls_bootstrap}
        advertised |= {"INTERNAL": self.kafka.internal_bootstrap}  # for the broker itself, and its tools
        return {
            "listeners": ",".join(f"{name}://{address}" for name, address in own.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "listener.name.tls.ssl.keystore.type": "PKCS12",  # 2.8 takes no PEM file without a password
            "listener.name.tls.ssl.keystore.location": str(self._folder / "broker.p12"),
            "listener.name.tls.ssl.keystore.password": PASSWORD,
            "listener.name.tls.ssl.key.password": PASSWORD,
        }

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        issue_certificates(self._folder)
        self.environment |= self._stores() | self._kerberos()
        self.kafka.open()
        where = ("--bootstrap-server", self.kafka.internal_bootstrap, "--entity-type", "users", "--entity-name", USER)
        added = ("--alter", "--add-config", f"SCRAM-SHA-256=[password={PASSWORD}]")
        done = self.kafka.run_tool("kafka.admin.ConfigCommand", *where, *added)
        if done.returncode:
            raise RuntimeError(f"Kafka {self.release}: no SCRAM-SHA-256 user: {done.stdout}{done.stderr}")

    def _stores(self) -> dict[str, str]:
        """Write the key of the broker for Java, and return where programs find its authority, as PEM and for Java."""
        encrypted = BestAvailableEncryption(PASSWORD.encode())
        pem = (self._folder / "broker.pem").read_bytes()
        key, certificate = load_pem_private_key(pem, None), x509.load_pem_x509_certificate(pem)
        broker = pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, encrypted)
        (self._folder / "broker.p12").write_bytes(broker)
        authority = x509.load_pem_x509_certificate((self._folder / "ca.pem").read_bytes())
        trusted = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], encrypted)
        (self._folder / "ca.p12").write_bytes(trusted)
        names = {"TLS_CA": "ca.pem", "TLS_STORE": "ca.p12"}
        return {"TLS_BOOTSTRAP": self.tls_bootstrap, **{name: str(self._folder / at) for name, at in names.items()}}

    def _kerberos(self) -> dict[str, str]:
        """Start a realm, and return how programs find it. Without one, nobody can log in with GSSAPI."""
        if missing := why_no_kerberos():
            print(f"Kafka {self.release}: no step with GSSAPI: {missing}", file=sys.stderr)
            self.without = frozenset({"sasl-GSSAPI"})
            return {}
        found = self._ended.enter_context(realm(self._folder))
        keys = f'useKeyTab=true storeKey=true isInitiator=false keyTab="{found.keytab(SERVICE)}"'
        self.kafka.properties |= {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.kerberos.service.name": "kafka",
            "listener.name.client.gssapi.sasl.jaas.config": (
                f'com.sun.security.auth.module.Krb5LoginModule required {keys} principal="{SERVICE}@{NAME}";'
            ),
        }
        keytab = str(found.keytab(PRINCIPAL))
        return {
            "KRB5_CONFIG": found.environment["KRB5_CONFIG"],
            "KRB5_CLIENT_KTNAME": keytab,
            "KRB5CCNAME": "MEMORY:",
            "KERBEROS_KEYTAB": keytab,
            "KERBEROS_PRINCIPAL": f"{PRINCIPAL}@{NAME}",
        }

    def prepare(self, topic: str) -> None:
        """Create the topics of a client, the first of them with records in each partition."""
        names = [topic, *(f"{topic}-{name}" for name in ("zstd", "out", "sasl"))]
        # By the listener that nobody records, and which offers all that the broker serves.
        trusted = {"security.protocol": "SSL", "ssl.ca.location": self.environment["TLS_CA"]}
        config = {"bootstrap.servers": self.tls_bootstrap, "socket.timeout.ms": 60_000, **trusted}
        admin = AdminClient(config)  # it must outlive its futures
        created = admin.create_topics([NewTopic(name, 2) for name in names])
        for future in created.values():
            future.result(BUSY)
        producer = Producer(config)
        for partition in (0, 1):
            for number in range(3):
                producer.produce(topic, f"first {number}", partition=partition)
        if producer.flush(BUSY):
            raise RuntimeError(f"Kafka {self.release} took no records of {topic}")

    def close(self) -> None:
        """End the broker."""
        self.kafka.close()
        self.recorder.close()
        self._ports.close()
        self._ended.close()
