"""One broker that wants everything: TLS with a client certificate, and SASL. Each way that leads to it."""

import asyncio
import base64
import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from java_stores import SCRAM, java_client, key_store, trust_store
from kerberos_realm import CLIENTS, NAME, Realm, realm, why_no_kerberos
from waiting import BOUND, eventually

import featuregate
from featuregate.testing import LocalKafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaAdminClient


pytestmark = [pytest.mark.proof("net"), pytest.mark.live, pytest.mark.slow]

PATIENT = {"socket.timeout.ms": "60000", "socket.connection.setup.timeout.ms": "60000"}
PASSWORD = "changeit"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BROKER = "kafka/127.0.0.1"


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm | None]:
    """Return a realm that this process and the broker find; None where the machine has no Kerberos."""
    if why_no_kerberos():
        yield None
        return
    with realm(tmp_path_factory.mktemp("realm")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={found.environment['KRB5_CONFIG']}")
        yield found


@pytest.fixture(scope="module")
def secured(kerberos: Realm | None) -> Iterator[LocalKafka]:
    """Return a broker that wants a client certificate, and any SASL mechanism."""
    mechanisms = {"SCRAM-SHA-512": "", "OAUTHBEARER": OAUTH + ' required unsecuredLoginStringClaim_sub="broker";'}
    if kerberos is not None:
        keys = f'useKeyTab=true storeKey=true isInitiator=false keyTab="{kerberos.keytab(BROKER)}"'
        mechanisms["GSSAPI"] = f'{KERBEROS} required {keys} principal="{BROKER}@{NAME}";'
    properties = {
        # Beside SASL, a broker wants certificates only where the listener's own property says so.
        "listener.name.client.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "sasl.kerberos.service.name": "kafka",
        "delegation.token.secret.key": "a secret of all brokers",
        **{f"listener.name.client.{name.lower()}.sasl.jaas.config": jaas for name, jaas in mechanisms.items() if jaas},
    }
    options = {"security": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
    with LocalKafka("4.2.0", **options, client_auth=True, properties=properties) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def stores(secured: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return Java's TLS properties, with stores of type JKS that keytool made."""
    folder = tmp_path_factory.mktemp("stores")
    config = secured.client_config()
    key = serialization.load_pem_private_key(Path(config["ssl.key.location"]).read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(Path(config["ssl.certificate.location"]).read_bytes())
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    found = pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption)  # type: ignore[arg-type]
    (folder / "client.p12").write_bytes(found)
    return {
        "ssl.truststore.location": str(trust_store(folder / "trust.jks", PASSWORD, Path(config["ssl.ca.location"]))),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(key_store(folder / "key.jks", PASSWORD, folder / "client.p12")),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": PASSWORD,
    }


def discovered(config: dict[str, Any], prefix: str = "") -> str | None:
    """Return the id of the cluster that a configuration leads to."""
    given = {prefix + name: value for name, value in {**PATIENT, **config}.items()}
    return featuregate.discover(given, timeout=120).cluster_id


def test_stores_of_type_jks(secured: LocalKafka, stores: dict[str, str]) -> None:
    """The trust store opens TLS, and the key store shows who the client is, in Spark's spelling too."""
    config = java_client(secured, stores)
    assert discovered(config) == secured.cluster_id
    assert discovered(config, "kafka.") == secured.cluster_id
    with pytest.raises(featuregate.FeatureGateError, match=r"ssl\.certificate\.location"):
        discovered({name: value for name, value in config.items() if not name.startswith("ssl.keystore")})


def tls(kafka: LocalKafka) -> dict[str, str]:
    """Return the address and the TLS properties of the broker, and no credentials."""
    return {name: str(value) for name, value in kafka.client_config().items() if not name.startswith("sasl.")}


def test_kerberos(secured: LocalKafka, kerberos: Realm | None) -> None:
    """By a keytab in the spelling of librdkafka and Java, by a ticket, and not without either."""
    if kerberos is None:
        pytest.skip(str(why_no_kerberos()))
    keytab = kerberos.keytab("app")
    config = {**tls(secured), "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
    with pytest.raises(featuregate.FeatureGateError, match=r"run kinit, or set sasl\.kerberos\.keytab"):
        discovered(config)
    librdkafka = {**config, "sasl.kerberos.keytab": str(keytab), "sasl.kerberos.principal": f"app@{NAME}"}
    assert discovered(librdkafka) == secured.cluster_id
    assert discovered(librdkafka) == secured.cluster_id  # with the ticket that is in memory
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="app@{NAME}"'
    assert discovered({**config, "sasl.jaas.config": f"{KERBEROS} required {options};"}) == secured.cluster_id
    with pytest.raises(featuregate.FeatureGateError, match=r"see sasl\.kerberos\.keytab"):
        discovered({**librdkafka, "sasl.kerberos.principal": "stranger"})
    with pytest.raises(featuregate.FeatureGateError, match="the service is other@"):
        discovered({**librdkafka, "sasl.kerberos.service.name": "other"})
    kerberos.run("kinit", "-k", "-t", str(keytab), "app")
    assert discovered(config) == secured.cluster_id
    cache = kerberos.environment["KRB5CCNAME"]
    options = f'useTicketCache=true ticketCache="{cache}"'
    assert discovered({**config, "sasl.jaas.config": f"{KERBEROS} required {options};"}) == secured.cluster_id


DISCOVER = """
import json, resource, sys
import featuregate
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    featuregate.discover(json.loads(sys.argv[1]), timeout=5)
except featuregate.FeatureGateError as error:
    print(str(error).count(chr(10)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10, error)
"""
"""Prints the line breaks in the error, the MiB that it took, and the error."""


@contextmanager
def hostile_kdc(answer: bytes) -> Iterator[int]:
    """Send this to each client over and over, and nothing where it is empty; yield the port."""

    class Client(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while answer:
                    self.request.sendall(answer)
                self.request.recv(1)
                ended.wait(BOUND)

    ended = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Client) as server:
        threading.Thread(target=server.serve_forever, name="kdc").start()
        try:
            yield server.server_address[1]
        finally:
            ended.set()
            server.shutdown()


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\x7f\xff\xff\xff" + bytes(65536), b"\x00\x00\x00\x20" + b"~" * 32],
    ids=["silent", "garbage", "a huge length", "no message of Kerberos"],
)
def test_a_hostile_kdc_costs_an_error(
    secured: LocalKafka, kerberos: Realm | None, tmp_path: Path, answer: bytes
) -> None:
    """In one line, within the timeout of the poll, and little memory."""
    if kerberos is None:
        pytest.skip(str(why_no_kerberos()))
    names = {"service.name": "kafka", "principal": f"hostile@{NAME}", "keytab": str(kerberos.keytab("hostile"))}
    config = tls(secured) | {"sasl.mechanism": "GSSAPI"} | {f"sasl.kerberos.{name}": names[name] for name in names}
    with hostile_kdc(answer) as port:
        (tmp_path / "krb5.conf").write_text(CLIENTS.format(name=NAME, port=port))
        run = subprocess.run(
            [sys.executable, "-c", DISCOVER, json.dumps(config)],
            env={**os.environ, "KRB5_CONFIG": str(tmp_path / "krb5.conf"), "KRB5CCNAME": str(tmp_path / "none")},
            capture_output=True,
            text=True,
            check=True,
            timeout=BOUND,
        )
    breaks, mib, error = run.stdout.split(" ", 2)
    assert ("Kerberos" if answer else "timed out") in error
    assert int(breaks) <= 1
    assert int(mib) < 100


def test_a_delegation_token(secured: LocalKafka, tmp_path: Path) -> None:
    """The token's id is the user name of SCRAM, and its HMAC the password (KIP-48)."""
    theirs = secured.client_config()
    login = f'username="{theirs["sasl.username"]}" password="{theirs["sasl.password"]}"'
    pem = tmp_path / "client.pem"
    pem.write_text("".join(Path(str(theirs[f"ssl.{part}.location"])).read_text() for part in ("key", "certificate")))
    command = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{SCRAM} required {login};",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": theirs["ssl.ca.location"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pem,
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in command.items()))
    where = ("--bootstrap-server", secured.bootstrap, "--command-config", str(file))
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    done = secured.run_tool(tool, *where, "--create", "--max-life-time-period", "-1")
    assert done.returncode == 0, done.stdout + done.stderr
    token_id, hmac = done.stdout.strip().splitlines()[-1].split()[:2]
    config = {**tls(secured), "sasl.mechanism": "SCRAM-SHA-512"}
    options = f'username="{token_id}" password="{hmac}"'
    by_token = {**config, "sasl.jaas.config": f'{SCRAM} required {options} tokenauth="true";'}
    # The controller answers before the broker has read the token from the metadata log.
    found = eventually(lambda: discovered(by_token), "the token", despite=(featuregate.FeatureGateError,))
    assert found == secured.cluster_id
    with pytest.raises(featuregate.FeatureGateError, match="SASL_AUTHENTICATION_FAILED"):
        discovered({**config, "sasl.jaas.config": f"{SCRAM} required {options};"})


def unsecured(subject: str, life: float) -> tuple[str, float]:
    """Return a token that a broker without keys accepts, and when it expires, in seconds since 1970."""
    now = datetime.now(UTC).timestamp()
    parts = ({"alg": "none"}, {"sub": subject, "iat": int(now), "exp": int(now + life)})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join([*encoded, ""]), now + life


class Signer:
    """What the signers of clouds look like: MSK's gives a token and its expiry in milliseconds."""

    def generate_auth_token(self, region: str) -> tuple[str, int]:
        """Return a token that lives for 15 minutes."""
        token, expiry = unsecured(region, 900)
        return token, int(expiry * 1000)


class Provider(AbstractTokenProvider):
    """aiokafka's provider over the same signer."""

    async def token(self) -> str:
        """Return a token."""
        return Signer().generate_auth_token("eu-central-1")[0]


def test_signers_of_clouds(secured: LocalKafka) -> None:
    """By confluent-kafka's callback in seconds, and by a provider; milliseconds are refused."""

    def oauth_cb(_config: str) -> tuple[str, float]:
        token, expiry_ms = Signer().generate_auth_token("eu-central-1")
        return token, expiry_ms / 1000

    config: dict[str, Any] = {**tls(secured), "sasl.mechanism": "OAUTHBEARER"}
    assert discovered({**config, "oauth_cb": oauth_cb}) == secured.cluster_id
    with pytest.raises(featuregate.FeatureGateError, match="in milliseconds"):
        discovered({**config, "oauth_cb": lambda _: Signer().generate_auth_token("eu-central-1")})
    with pytest.raises(featuregate.FeatureGateError, match="the broker refused the token"):
        discovered({**config, "oauth_cb": lambda _: ("not.a.token", 4e9)})
    assert discovered({**config, "sasl_oauth_token_provider": Provider()}) == secured.cluster_id


async def test_keywords_of_aiokafka_and_kafka_python(secured: LocalKafka) -> None:
    """One dict leads each client to the same cluster."""
    theirs = secured.client_config()
    config: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap.split(","),
        "client_id": "app",
        "request_timeout_ms": 60000,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": theirs["sasl.username"],
        "sasl_plain_password": theirs["sasl.password"],
    }
    files = {
        "ssl_check_hostname": True,
        "ssl_cafile": theirs["ssl.ca.location"],
        "ssl_certfile": theirs["ssl.certificate.location"],
        "ssl_keyfile": theirs["ssl.key.location"],
    }
    context = ssl.create_default_context(cafile=str(files["ssl_cafile"]))
    context.load_cert_chain(str(files["ssl_certfile"]), str(files["ssl_keyfile"]))
    of_kafka_python, of_aiokafka = config | files, config | {"ssl_context": context}
    admin = await asyncio.to_thread(lambda: KafkaAdminClient(**of_kafka_python))
    try:
        assert (await asyncio.to_thread(admin.describe_cluster))["cluster_id"] == secured.cluster_id
    finally:
        admin.close()
    client = AIOKafkaClient(**of_aiokafka)
    await client.bootstrap()
    try:
        assert {broker.nodeId for broker in client.cluster.brokers()} == set(secured.nodes)
    finally:
        await client.close()
    for given in (of_kafka_python, of_aiokafka):
        assert (await featuregate.adiscover(given, timeout=120)).cluster_id == secured.cluster_id
