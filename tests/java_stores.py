"""The properties of Java clients, and their JKS stores: made by keytool, or byte by byte where keytool makes none."""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from featuregate.errors import LocalKafkaError
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.java import find_java

SUN = bytes.fromhex("300e060a2b060104012a021101010500")


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_client(kafka: LocalKafka, stores: Mapping[str, str]) -> dict[str, str]:
    """Return the whole configuration of a Java client of a cluster with SASL_SSL and SCRAM-SHA-512."""
    theirs = kafka.client_config()
    login = f'username="{theirs["sasl.username"]}" password="{theirs["sasl.password"]}"'
    return {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{SCRAM} required {login};",
        **stores,
    }


def keytool(*arguments: str) -> None:
    """Run keytool beside the Java that runs Kafka; a Java without tools skips the test."""
    try:
        tool = find_java().resolve().with_name("keytool")
    except LocalKafkaError as error:
        pytest.skip(str(error))
    if not tool.is_file():
        pytest.skip(f"{tool.parent} has no keytool")
    done = subprocess.run(
        [tool, "-J-XX:TieredStopAtLevel=1", "-noprompt", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def trust_store(path: Path, password: str, *certificates: Path) -> Path:
    for at, certificate in enumerate(certificates):
        store = ("-keystore", str(path), "-storepass", password, "-storetype", "JKS")
        keytool("-importcert", *store, "-alias", f"ca{at}", "-file", str(certificate))
    return path


def key_store(path: Path, password: str, pkcs12: Path, *, key_password: str | None = None) -> Path:
    """Make a key store by keytool from a PKCS12 store with the same password."""
    source = ("-srckeystore", str(pkcs12), "-srcstoretype", "PKCS12", "-srcstorepass", password)
    target = ("-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", password)
    one = ("-srcalias", "client", "-destkeypass", key_password) if key_password else ()
    keytool("-importkeystore", *source, *target, *one)
    return path


def jks(
    trusted: Sequence[bytes] = (),
    keys: Sequence[tuple[bytes, Sequence[bytes]]] = (),
    *,
    password: str,
    version: int = 2,
    kind: bytes = b"X.509",
    after: bytes = b"",
) -> bytes:

    def certificate(der: bytes) -> bytes:
        return (_sized(2, kind) if version > 1 else b"") + _sized(4, der)

    def entry(tag: int, body: bytes) -> bytes:
        return tag.to_bytes(4, "big") + _sized(2, b"alias") + bytes(8) + body

    body = b"\xfe\xed\xfe\xed" + version.to_bytes(4, "big") + (len(trusted) + len(keys)).to_bytes(4, "big")
    for key, chain in keys:
        body += entry(1, _sized(4, key) + len(chain).to_bytes(4, "big") + b"".join(map(certificate, chain)))
    body += b"".join(entry(2, certificate(der)) for der in trusted) + after
    return body + _sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body)


def protected(key: bytes, password: str, *, salt: bytes = bytes(20), algorithm: bytes = SUN) -> bytes:
    """Return a private key as the JDK protects it: an EncryptedPrivateKeyInfo."""
    secret = password.encode("utf-16-be")
    stream, digest = b"", salt
    while len(stream) < len(key):
        digest = _sha1(secret + digest)
        stream += digest
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    return _der(0x30, algorithm + _der(0x04, salt + hidden + _sha1(secret + key)))


def _der(tag: int, value: bytes) -> bytes:
    return bytes([tag, 0x84]) + _sized(4, value)


def _sized(length: int, value: bytes) -> bytes:
    return len(value).to_bytes(length, "big") + value


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
