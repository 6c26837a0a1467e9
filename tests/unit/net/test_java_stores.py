"""Java key stores of type JKS: those that keytool wrote, and damaged ones."""

import ssl
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st
from java_stores import jks, key_store, protected, trust_store

from featuregate.config import Settings
from featuregate.config.tls import Tls
from featuregate.credentials.jks import JksError, read_jks
from featuregate.credentials.keystores import client_identity, trusted_certificates
from featuregate.errors import ConfigError
from featuregate.net.connection import Connection
from featuregate.net.tls import context_for

PASSWORD = "changeit"
KEY_PASSWORD = "another"


class Party:
    """An authority, a client with its certificate, and files of both."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.client = self.authority.issue_cert("client.featuregate.test", common_name="client")
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.key = serialization.load_pem_private_key(self.client.private_key_pem.bytes(), None)
        self.certificate = x509.load_pem_x509_certificate(self.client.cert_chain_pems[0].bytes())
        self.root = x509.load_pem_x509_certificate(self.ca.read_bytes())
        self.p12 = folder / "client.p12"
        encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
        self.p12.write_bytes(
            pkcs12.serialize_key_and_certificates(b"client", self.key, self.certificate, [self.root], encryption)  # type: ignore[arg-type]
        )

    @property
    def key_der(self) -> bytes:
        """The private key as PKCS 8."""
        none = serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, none)

    @property
    def ders(self) -> tuple[bytes, bytes]:
        """The client's certificate and the authority's."""
        der = serialization.Encoding.DER
        return self.certificate.public_bytes(der), self.root.public_bytes(der)


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Party:
    """Return an authority and a client."""
    return Party(tmp_path_factory.mktemp("party"))


@pytest.fixture(scope="module")
def real(party: Party, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return stores that keytool made."""
    folder = tmp_path_factory.mktemp("stores")
    return {
        "trust": trust_store(folder / "trust.jks", PASSWORD, party.ca),
        "key": key_store(folder / "key.jks", PASSWORD, party.p12),
        "two passwords": key_store(folder / "two.jks", PASSWORD, party.p12, key_password=KEY_PASSWORD),
    }


def tls(**config: Any) -> Tls:
    """Return TLS settings, from names with underscores."""
    properties = {name.replace("_", "."): str(value) for name, value in config.items()}
    found = Settings.parse({"bootstrap.servers": "a", "security.protocol": "SSL", **properties}).tls
    assert found is not None
    return found


def trusted(path: Path, password: str | None = PASSWORD) -> str:
    """Return the certificates of a trust store."""
    source = tls(ssl_truststore_location=path, ssl_truststore_type="JKS", **_password("truststore", password)).trust
    assert source is not None
    return trusted_certificates(source)


def _password(store: str, password: str | None) -> dict[str, str]:
    return {f"ssl_{store}_password": password} if password else {}


def refused(settings: Tls) -> str:
    """Return why a client identity cannot be read: one line."""
    with pytest.raises(ConfigError) as caught:
        client_identity(settings)
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_keytools_trust_store_is_read_also_without_its_password(
    real: dict[str, Path], party: Party, password: str | None
) -> None:
    """Java checks the integrity of a store only where it has a password."""
    found = x509.load_pem_x509_certificates(trusted(real["trust"], password).encode())
    assert found == [party.root]


def test_keytools_key_store_is_read(real: dict[str, Path], party: Party) -> None:
    """The chain begins with the certificate of the key, and ssl.key.password is the store's where it is left out."""
    for store, words in (("key", {}), ("two passwords", {"ssl_key_password": KEY_PASSWORD})):
        identity = client_identity(tls(ssl_keystore_location=real[store], ssl_keystore_password=PASSWORD, **words))
        assert x509.load_pem_x509_certificates(identity.certificates.encode())[0] == party.certificate
        key = serialization.load_pem_private_key(identity.private_key.encode(), None)
        assert key.private_numbers() == party.key.private_numbers()  # type: ignore[union-attr]


def test_a_wrong_password_is_told(real: dict[str, Path]) -> None:
    """The password of the store and that of the key are told apart."""
    line = refused(tls(ssl_keystore_location=real["key"], ssl_keystore_password="wrong"))
    assert line.endswith("the password is wrong, or the file was changed")
    assert line.startswith("ssl.keystore.location: ")
    line = refused(tls(ssl_keystore_location=real["two passwords"], ssl_keystore_password=PASSWORD))
    assert line.endswith("the password does not open its private key")
    line = refused(tls(ssl_keystore_location=real["key"]))
    assert line.endswith("is a JKS store, whose private key needs a password")
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: .* the password is wrong"):
        trusted(real["trust"], "wrong!")


def test_a_trust_store_without_a_key_is_no_key_store(real: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="holds no private key"):
        context_for(tls(ssl_keystore_location=real["trust"], ssl_keystore_password=PASSWORD))


def test_a_key_store_trusts_the_certificate_of_its_key_alone(real: dict[str, Path], party: Party) -> None:
    """As in Java: the authority in a key's chain is not trusted by that."""
    assert x509.load_pem_x509_certificates(trusted(real["key"]).encode()) == [party.certificate]


@given(data=st.data())
def test_a_store_that_is_cut_is_refused(real: dict[str, Path], data: st.DataObject) -> None:
    """At any byte, with or without a password."""
    content = data.draw(st.sampled_from(list(real.values()))).read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(JksError):
        read_jks(cut, PASSWORD)
    with pytest.raises(JksError, match=r"cut or damaged|no JKS store"):
        read_jks(cut[: data.draw(st.integers(0, max(0, len(cut) - 20)))], None)


@given(data=st.data())
def test_a_store_that_was_changed_is_refused_with_its_password(real: dict[str, Path], data: st.DataObject) -> None:
    """The digest covers every byte. Without the password the store is read, or refused by the same error."""
    content = bytearray(data.draw(st.sampled_from(list(real.values()))).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(JksError):
        read_jks(bytes(content), PASSWORD)
    try:
        found = read_jks(bytes(content), None)
        for key in found.keys:
            key.private_key(PASSWORD)
    except JksError:
        return


@given(content=st.binary(max_size=200), password=st.none() | st.text(max_size=5))
def test_garbage_is_refused(content: bytes, password: str | None) -> None:
    for start in (b"", b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", b"\xfe\xed\xfe\xed\0\0\0\1\xff\xff\xff\xff"):
        with pytest.raises(JksError):
            read_jks(start + content + b"x", password)


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(key=st.binary(min_size=1, max_size=300), password=text, other=text, salt=st.binary(min_size=20, max_size=20))
def test_a_key_comes_out_as_it_went_in(key: bytes, password: str, other: str, salt: bytes) -> None:
    """The right password opens the key, and no other password does."""
    found = read_jks(jks(keys=[(protected(key, password, salt=salt), [b"c"])], password=password), password).keys[0]
    assert ssl.PEM_cert_to_DER_cert(found.private_key(password).replace("PRIVATE KEY", "CERTIFICATE")) == key
    if other != password:
        with pytest.raises(JksError, match="does not open"):
            found.private_key(other)


def test_a_store_costs_no_more_than_its_bytes() -> None:
    """One of the 16 MB that a file may have took two minutes."""
    began = process_time()
    assert len(read_jks(jks([b"A" * 3_000_000], password=PASSWORD), PASSWORD).trusted[0]) > 4_000_000
    assert process_time() - began < 2


def test_a_store_of_the_first_version_has_no_types(party: Party) -> None:
    """JDK 1.1 wrote such stores."""
    leaf, _root = party.ders
    assert read_jks(jks([leaf], password="p", version=1), "p").trusted == (ssl.DER_cert_to_PEM_cert(leaf),)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (jks(password=PASSWORD, version=3), "its version 3 is not known"),
        (jks([b"c"], password=PASSWORD, kind=b"X.400"), "it has a certificate that is not X.509"),
        (jks([b"c"], password=PASSWORD, after=b"more"), "it has bytes after its last entry, at byte "),
        (
            b"\xfe\xed\xfe\xed" + bytes([0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3]) + bytes(50),
            "neither a key nor a certificate",
        ),
        (jks(keys=[(b"\x30\x00", [])], password=PASSWORD), "protected in a way that only Java reads"),
        (jks(keys=[(b"\x30\x05", [])], password=PASSWORD), "its private key is damaged"),
        (jks(keys=[(b"\x04\x00", [])], password=PASSWORD), "its private key is damaged"),
        (jks(keys=[(protected(b"k", "other"), [])], password=PASSWORD), "the password does not open its private key"),
        (jks(keys=[(protected(b"k", PASSWORD), [])] * 2, password=PASSWORD), "has 2 private keys: keep one"),
        (b"\xce\xce\xce\xce rest", "is a JCEKS keystore, which only Java reads: convert it with keytool"),
        (b"\xfe\xed\xfe\xed rest", "it is cut or damaged at byte"),
    ],
)
def test_each_refusal_says_what_is_wrong(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(content)
    line = refused(tls(ssl_keystore_location=path, ssl_keystore_password=PASSWORD))
    assert line.startswith(f"ssl.keystore.location: {str(path)!r} ")
    assert problem in line


def test_a_store_as_a_private_key_is_refused_with_advice(tmp_path: Path, party: Party) -> None:
    """ssl.key.location names a PEM file."""
    path = tmp_path / "store.jks"
    path.write_bytes(jks(keys=[(protected(b"k", PASSWORD), [])], password=PASSWORD))
    line = refused(tls(ssl_certificate_location=party.ca, ssl_key_location=path))
    assert line.endswith("is a JKS store: give it as ssl.keystore.location instead")


def test_invariant_12_a_store_shows_nothing_of_its_keys() -> None:
    """A traceback with local variables has its repr."""
    found = read_jks(jks(keys=[(protected(b"hunter2", PASSWORD), [])], password=PASSWORD), PASSWORD)
    assert repr(found) == "JavaKeyStore(<secret>)"


async def test_a_listener_that_wants_a_certificate_takes_that_of_the_store(
    serve: Any, fake_node: Any, settings_for: Any, party: Party, tmp_path: Path
) -> None:
    """Trust and identity both come from JKS."""
    leaf, root = party.ders
    trust, own = tmp_path / "trust.jks", tmp_path / "key.jks"
    trust.write_bytes(jks([root], password=PASSWORD))
    own.write_bytes(jks(keys=[(protected(party.key_der, KEY_PASSWORD), [leaf, root])], password=PASSWORD))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    party.authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    party.authority.configure_trust(context)
    address = await serve(fake_node(), tls=context)
    config = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(own),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
    }
    with await Connection.open(address, settings_for(address, config=config)) as connection:
        assert (await connection.negotiate()).response.api_ranges
