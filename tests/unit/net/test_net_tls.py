"""TLS: whom we trust, who we are, and what the errors advise."""

import asyncio
import datetime as dt
import ssl
import subprocess

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from featuregate.config import Address, Settings
from featuregate.errors import ConfigError, ConnectionLost, FeatureGateError, RemoteWireError, TimedOut, TlsFailed
from featuregate.net.connection import Connection
from featuregate.net.tls import context_for

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def authority():
    """Whom the broker's certificate is signed by."""
    return trustme.CA()


@pytest.fixture(scope="module")
def client(authority):
    """A client's certificate of the same authority."""
    return authority.issue_cert("client.featuregate.test", common_name="client")


def pem(authority):
    """The authority's certificate as text."""
    return authority.cert_pem.bytes().decode()


def chain(certificate):
    """A certificate as text."""
    return certificate.cert_chain_pems[0].bytes().decode()


def encrypted_key(certificate, password):
    """A private key as text, that a password opens."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def server_context(authority, *names, clients=None, **options):
    """The context of a listener."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost")), **options).configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


@pytest.fixture
def ask(settings_for):
    """Negotiate with a listener, given TLS properties; gives the answer."""

    async def negotiate(address, **config):
        config = {"security.protocol": "SSL"} | {name.replace("_", "."): value for name, value in config.items()}
        with await Connection.open(address, settings_for(address, config=config)) as connection:
            return (await connection.negotiate()).response

    return negotiate


async def test_a_certificate_of_an_authority_that_we_trust_is_accepted(serve, ask, fake_node, authority):
    """Given as PEM text."""
    address = await serve(fake_node(), tls=server_context(authority))
    assert (await ask(address, ssl_ca_pem=pem(authority))).api_ranges


async def test_the_authority_may_be_a_file_or_a_folder(serve, ask, fake_node, authority, tmp_path):
    """ssl.ca.location takes both."""
    address = await serve(fake_node(), tls=server_context(authority))
    name = f"{x509_subject_hash(authority, tmp_path)}.0"
    (tmp_path / name).write_text(pem(authority))
    assert await ask(address, ssl_ca_location=str(tmp_path / name))
    assert await ask(address, ssl_ca_location=str(tmp_path))


def x509_subject_hash(authority, tmp_path):
    """What OpenSSL wants the files of a folder to be called."""
    path = tmp_path / "hash-me.pem"
    path.write_text(pem(authority))
    made = subprocess.run(
        ["openssl", "x509", "-noout", "-subject_hash", "-in", path], capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


async def test_the_host_is_told_by_name(serve, ask, fake_node, authority):
    """SNI: one address may serve many names."""
    names = []
    context = server_context(authority)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    address = await serve(fake_node(), tls=context)
    await ask(Address("localhost", address.port), ssl_ca_pem=pem(authority))
    assert names == ["localhost"]


async def test_an_authority_that_we_do_not_know_is_refused(serve, ask, fake_node, authority):
    """The advice names the property."""
    address = await serve(fake_node(), tls=server_context(authority))
    with pytest.raises(TlsFailed, match=r"not signed by a trusted authority .* set ssl\.ca\.location"):
        await ask(address, ssl_ca_pem=pem(trustme.CA()))


async def test_what_the_system_trusts_counts_where_nothing_is_said(serve, ask, fake_node, authority):
    """And that is not our test authority."""
    address = await serve(fake_node(), tls=server_context(authority))
    with pytest.raises(TlsFailed, match=r"ssl\.ca\.location"):
        await ask(address)


async def test_an_expired_certificate_is_refused(serve, ask, fake_node, authority):
    """It says so."""
    context = server_context(authority, not_before=LONG_AGO, not_after=LONG_AGO + dt.timedelta(days=1))
    address = await serve(fake_node(), tls=context)
    with pytest.raises(TlsFailed, match="certificate has expired: renew the certificate"):
        await ask(address, ssl_ca_pem=pem(authority))


async def test_a_certificate_for_another_host_is_refused_and_its_names_are_told(serve, ask, fake_node, authority):
    """Who is behind a wrong address is the first thing one wants to know."""
    address = await serve(fake_node(), tls=server_context(authority, "kafka1.example", "10.1.2.3"))
    with pytest.raises(TlsFailed) as caught:
        await ask(address, ssl_ca_pem=pem(authority))
    assert "the certificate is for 'kafka1.example', '10.1.2.3', not for '127.0.0.1'" in str(caught.value)


async def test_the_check_of_host_names_can_be_turned_off(serve, ask, fake_node, authority):
    """The authority still counts."""
    address = await serve(fake_node(), tls=server_context(authority, "kafka1.example"))
    assert await ask(address, ssl_ca_pem=pem(authority), ssl_endpoint_identification_algorithm="none")
    with pytest.raises(TlsFailed, match="not signed by a trusted authority"):
        await ask(address, ssl_ca_pem=pem(trustme.CA()), ssl_endpoint_identification_algorithm="none")


async def test_verification_can_be_turned_off(serve, ask, fake_node, authority):
    """Explicitly only."""
    address = await serve(fake_node(), tls=server_context(authority, "kafka1.example"))
    assert await ask(address, enable_ssl_certificate_verification="false")


async def test_a_listener_that_wants_our_certificate_gets_it(serve, ask, fake_node, authority, client):
    """As PEM texts, with a key that a password opens."""
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    assert await ask(
        address,
        ssl_ca_pem=pem(authority),
        ssl_certificate_pem=chain(client),
        ssl_key_pem=encrypted_key(client, "hunter2"),
        ssl_key_password="hunter2",
    )


async def test_our_certificate_may_be_in_files(serve, ask, fake_node, authority, client, tmp_path):
    """Chain and key apart, or both in one."""
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    (tmp_path / "crt").write_text(chain(client))
    (tmp_path / "key").write_bytes(client.private_key_pem.bytes())
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both")
    ca = pem(authority)
    assert await ask(
        address, ssl_ca_pem=ca, ssl_certificate_location=str(tmp_path / "crt"), ssl_key_location=str(tmp_path / "key")
    )
    assert await ask(address, ssl_ca_pem=ca, ssl_keystore_location=str(tmp_path / "both"), ssl_keystore_type="PEM")


async def test_stores_may_be_pkcs12(serve, ask, fake_node, authority, client, tmp_path):
    """What the file holds decides, not its name or its type."""
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    certificate = x509.load_pem_x509_certificate(chain(client).encode())
    root = x509.load_pem_x509_certificate(pem(authority).encode())
    password = serialization.BestAvailableEncryption(b"changeit")
    (tmp_path / "key.jks").write_bytes(
        pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, password)
    )
    (tmp_path / "trust.p12").write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(root, b"ca")], password)
    )
    assert await ask(
        address,
        ssl_truststore_location=str(tmp_path / "trust.p12"),
        ssl_truststore_password="changeit",
        ssl_keystore_location=str(tmp_path / "key.jks"),
        ssl_keystore_password="changeit",
    )


async def test_a_listener_that_wants_our_certificate_and_gets_none_is_explained(serve, ask, fake_node, authority):
    """In TLS 1.3 that comes only after the handshake; in 1.2 within."""
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context = server_context(authority, clients=authority)
        context.maximum_version = newest
        address = await serve(fake_node(), tls=context)
        with pytest.raises((TlsFailed, ConnectionLost), match=r"client certificate.*ssl\.certificate\.location"):
            await ask(address, ssl_ca_pem=pem(authority))


async def test_a_client_certificate_of_a_stranger_is_explained(serve, ask, fake_node, authority):
    """The broker's authority did not sign it."""
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    stranger = trustme.CA().issue_cert("stranger.example")
    with pytest.raises((TlsFailed, ConnectionLost)):
        await ask(
            address,
            ssl_ca_pem=pem(authority),
            ssl_certificate_pem=chain(stranger),
            ssl_key_pem=stranger.private_key_pem.bytes().decode(),
        )


async def test_tls_to_a_plain_listener_is_explained(serve, ask):
    """Kafka hangs up; others answer in plain text."""

    async def hang_up(reader, writer):
        await reader.read(1)

    async def http(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    for talk in (hang_up, http):
        address = await serve(talk)
        with pytest.raises(TlsFailed, match=r"speak TLS.*security\.protocol"):
            await ask(address)


async def test_plain_text_to_a_tls_listener_is_explained(serve, settings_for, fake_node, authority):
    """It answers with an alert, or hangs up."""
    address = await serve(fake_node(), tls=server_context(authority))
    connection = await Connection.open(address, settings_for(address))
    with connection, pytest.raises((RemoteWireError, ConnectionLost), match=r"TLS.*security\.protocol"):
        await connection.negotiate()


async def test_invariant_7_a_handshake_that_does_not_go_on_costs_one_timeout(serve, settings_for, silent):
    """The bound of connecting includes it."""
    address = await serve(silent)
    settings = settings_for(address, config={"security.protocol": "SSL"}, connect_timeout=0.1)
    with pytest.raises(TimedOut, match="in the TLS handshake"):
        await Connection.open(address, settings)


def tls(**config):
    """TLS settings of these properties."""
    config = {name.replace("_", "."): value for name, value in config.items()}
    return Settings.parse({"bootstrap.servers": "a", "security.protocol": "SSL", **config}).tls


def test_nothing_older_than_tls_1_2_is_spoken():
    """Whatever the system allows."""
    assert context_for(tls()).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_context_is_made_once():
    """Reading what the system trusts at every poll would cost more than the poll."""
    assert context_for(tls()) is context_for(tls())


def test_a_renewed_file_makes_a_new_context(authority, tmp_path):
    """Certificates are renewed under running programs."""
    path = tmp_path / "ca.pem"
    path.write_text(pem(authority))
    before = context_for(tls(ssl_ca_location=str(path)))
    path.write_text(pem(trustme.CA()) + "\n")
    assert context_for(tls(ssl_ca_location=str(path))) is not before


def refused(**config):
    """The error that these properties give when a context is made of them."""
    with pytest.raises(ConfigError) as caught:
        context_for(tls(**config))
    assert "hunter2" not in str(caught.value)
    return caught.value


def test_a_key_with_a_password_that_is_not_given_is_an_error(client):
    """OpenSSL would ask on the terminal, and wait."""
    error = refused(ssl_certificate_pem=chain(client), ssl_key_pem=encrypted_key(client, "hunter2"))
    assert str(error) == "ssl.key.pem: holds a private key that is encrypted: set ssl.key.password"


def test_a_wrong_key_password_is_an_error(client):
    """It is not shown."""
    key = encrypted_key(client, "right")
    assert (
        "do not fit" in refused(ssl_certificate_pem=chain(client), ssl_key_pem=key, ssl_key_password="hunter2").problem
    )


def test_a_key_of_another_certificate_is_an_error(client, authority):
    """Half of two identities."""
    other = authority.issue_cert("other.example").private_key_pem.bytes().decode()
    assert "do not fit" in refused(ssl_certificate_pem=chain(client), ssl_key_pem=other).problem


def test_a_certificate_without_its_key_is_an_error(client):
    """It says where the key goes."""
    assert "ssl.key.location" in refused(ssl_certificate_pem=chain(client)).problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore"),
        (b"0 nonsense", "neither PEM nor a PKCS12 store that its password opens"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no certificate that can be read"),
        (b"-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----", "no certificate that can be read"),
    ],
)
def test_a_truststore_that_cannot_be_read_is_an_error(tmp_path, content, says):
    """It names the property, and says what to do about Java's own format."""
    path = tmp_path / "store"
    path.write_bytes(content)
    error = refused(ssl_truststore_location=str(path), ssl_truststore_password="hunter2")
    assert error.key == "ssl.truststore.location"
    assert says in error.problem


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_file_that_holds_no_store_at_all_is_told_apart(tmp_path, content):
    """Neither a password nor another package would help, so none is asked for."""
    path = tmp_path / "store"
    path.write_bytes(content)
    assert refused(ssl_truststore_location=str(path)).problem == f"{str(path)!r} is neither PEM nor a PKCS12 store"


def test_a_file_that_vanishes_is_an_error(authority, tmp_path):
    """It was there when the settings were read."""
    path = tmp_path / "ca.pem"
    path.write_text(pem(authority))
    settings = tls(ssl_ca_location=str(path))
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        context_for(settings)


async def test_bytes_after_the_handshake_may_be_anything(serve, ask, authority):
    """Garbage inside TLS is garbage."""

    async def garbage(reader, writer):
        await reader.read(1)
        writer.write(b"\xff" * 100)
        await writer.drain()
        await reader.read()

    address = await serve(garbage, tls=server_context(authority))
    with pytest.raises(FeatureGateError):
        await asyncio.wait_for(ask(address, ssl_ca_pem=pem(authority)), 30)
