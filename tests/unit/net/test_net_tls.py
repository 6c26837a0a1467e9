"""TLS: which certificates the client trusts, which one it shows, and what its errors advise."""

import datetime as dt
import re
import ssl
import subprocess

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from featuregate.config import Address, Settings
from featuregate.errors import ConfigError, ConnectionLost, RemoteWireError, TimedOut, TlsFailed
from featuregate.net.connection import Connection
from featuregate.net.tls import context_for

LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def authority():
    """Return the authority that signs the certificate of the broker."""
    return trustme.CA()


@pytest.fixture(scope="module")
def client(authority):
    """Return a client certificate of the same authority."""
    return authority.issue_cert("client.featuregate.test", common_name="client")


def pem(authority):
    """Return the certificate of the authority as PEM text."""
    return authority.cert_pem.bytes().decode()


def chain(certificate):
    """Return a certificate as PEM text."""
    return certificate.cert_chain_pems[0].bytes().decode()


def encrypted_key(certificate, password):
    """Return a private key as PEM text, encrypted with a password."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def store(certificate, password):
    """Return a PKCS 12 store with a certificate and its key."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    leaf = x509.load_pem_x509_certificate(chain(certificate).encode())
    encryption = serialization.BestAvailableEncryption(password)
    return pkcs12.serialize_key_and_certificates(b"client", key, leaf, None, encryption)


def server_context(authority, *names, clients=None, **options):
    """Return the TLS context of a listener."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost")), **options).configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


@pytest.fixture
def ask(settings_for, in_each_loop):
    """Negotiate with a listener, with these TLS properties, and return the response."""

    async def negotiate(address, settings):
        with await Connection.open(address, settings) as connection:
            return (await connection.negotiate()).response

    async def run(address, **config):
        config = {"security.protocol": "SSL"} | {name.replace("_", "."): value for name, value in config.items()}
        return await in_each_loop(negotiate(address, settings_for(address, config=config)))

    return run


async def test_a_certificate_of_an_authority_that_we_trust_is_accepted(serve, ask, fake_node, authority):
    address = await serve(fake_node(), tls=server_context(authority))
    assert (await ask(address, ssl_ca_pem=pem(authority))).api_ranges


async def test_the_authority_may_be_a_file_or_a_folder(serve, ask, fake_node, authority, tmp_path):
    address = await serve(fake_node(), tls=server_context(authority))
    name = f"{x509_subject_hash(authority, tmp_path)}.0"
    (tmp_path / name).write_text(pem(authority))
    assert await ask(address, ssl_ca_location=str(tmp_path / name))
    assert await ask(address, ssl_ca_location=str(tmp_path))


def x509_subject_hash(authority, tmp_path):
    """Return the file name that OpenSSL expects in a folder of authorities."""
    path = tmp_path / "hash-me.pem"
    path.write_text(pem(authority))
    made = subprocess.run(
        ["openssl", "x509", "-noout", "-subject_hash", "-in", path], capture_output=True, text=True, check=True
    )
    return made.stdout.strip()


async def test_the_handshake_names_the_host(serve, ask, fake_node, authority):
    """The client sends the host name by SNI, because one address may serve many names."""
    names = []
    context = server_context(authority)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    address = await serve(fake_node(), tls=context)
    await ask(Address("localhost", address.port), ssl_ca_pem=pem(authority))
    assert names == ["localhost"]


@pytest.mark.parametrize(
    ("names", "options", "trusted", "says"),
    [
        ((), {}, None, r"ssl\.ca\.location"),  # None: the system's authorities, of which that of this test is not one
        ((), {}, "another", r"not signed by a trusted authority .* set ssl\.ca\.location"),
        (
            (),
            {"not_before": LONG_AGO, "not_after": LONG_AGO + dt.timedelta(days=1)},
            "ours",
            "certificate has expired: renew the certificate",
        ),
        (
            ("kafka1.example", "10.1.2.3"),
            {},
            "ours",
            "the certificate is not for '127.0.0.1': connect by a name in the certificate",
        ),
    ],
    ids=["system", "unknown", "expired", "other host"],
)
async def test_a_certificate_that_proves_nothing_is_refused(
    serve, ask, fake_node, authority, names, options, trusted, says
):
    """The error names the property that sets the authority, or the host that the certificate is not for."""
    address = await serve(fake_node(), tls=server_context(authority, *names, **options))
    authorities = {"ours": authority, "another": trustme.CA()}
    with pytest.raises(TlsFailed, match=says):
        await ask(address, **({"ssl_ca_pem": pem(authorities[trusted])} if trusted else {}))


async def test_the_check_of_host_names_can_be_turned_off(serve, ask, fake_node, authority):
    address = await serve(fake_node(), tls=server_context(authority, "kafka1.example"))
    assert await ask(address, ssl_ca_pem=pem(authority), ssl_endpoint_identification_algorithm="none")
    with pytest.raises(TlsFailed, match="not signed by a trusted authority"):
        await ask(address, ssl_ca_pem=pem(trustme.CA()), ssl_endpoint_identification_algorithm="none")


async def test_verification_can_be_turned_off(serve, ask, fake_node, authority):
    """The client skips verification only if the property says false."""
    address = await serve(fake_node(), tls=server_context(authority, "kafka1.example"))
    assert await ask(address, enable_ssl_certificate_verification="false")


async def test_a_listener_that_wants_our_certificate_gets_it(serve, ask, fake_node, authority, client):
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    assert await ask(
        address,
        ssl_ca_pem=pem(authority),
        ssl_certificate_pem=chain(client),
        ssl_key_pem=encrypted_key(client, "hunter2"),
        ssl_key_password="hunter2",
    )


async def test_our_certificate_may_be_in_files(serve, ask, fake_node, authority, client, tmp_path):
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
    """The client decides by the content of the file, not by its name or its configured type."""
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    (tmp_path / "key.jks").write_bytes(store(client, b"changeit"))
    root = x509.load_pem_x509_certificate(pem(authority).encode())
    password = serialization.BestAvailableEncryption(b"changeit")
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
    """A TLS 1.3 listener refuses the client after the handshake, a TLS 1.2 listener within it."""
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context = server_context(authority, clients=authority)
        context.maximum_version = newest
        address = await serve(fake_node(), tls=context)
        with pytest.raises((TlsFailed, ConnectionLost), match=r"client certificate.*ssl\.certificate\.location"):
            await ask(address, ssl_ca_pem=pem(authority))


async def test_tls_to_a_plain_listener_is_explained(serve, ask):
    """A Kafka listener closes the connection; other servers answer in plain text."""

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
    """The listener answers with a TLS alert, or closes the connection."""
    address = await serve(fake_node(), tls=server_context(authority))
    connection = await Connection.open(address, settings_for(address))
    with connection, pytest.raises((RemoteWireError, ConnectionLost), match=r"TLS.*security\.protocol"):
        await connection.negotiate()


async def test_invariant_7_a_handshake_that_does_not_go_on_costs_one_timeout(serve, settings_for, silent):
    address = await serve(silent)
    settings = settings_for(address, config={"security.protocol": "SSL"}, connect_timeout=0.1)
    with pytest.raises(TimedOut, match="in the TLS handshake"):
        await Connection.open(address, settings)


def tls(**config):
    """Return the TLS settings of these properties."""
    config = {name.replace("_", "."): value for name, value in config.items()}
    return Settings.parse({"bootstrap.servers": "a", "security.protocol": "SSL", **config}).tls


def test_nothing_older_than_tls_1_2_is_spoken():
    """The context sets the lowest version, whatever the system allows."""
    assert context_for(tls()).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_context_is_made_once():
    """Loading the system's authorities at each poll would cost more than the poll."""
    assert context_for(tls()) is context_for(tls())


def test_a_renewed_file_makes_a_new_context(authority, tmp_path):
    """Operators renew certificates while the app runs."""
    path = tmp_path / "ca.pem"
    path.write_text(pem(authority))
    before = context_for(tls(ssl_ca_location=str(path)))
    path.write_text(pem(trustme.CA()) + "\n")
    assert context_for(tls(ssl_ca_location=str(path))) is not before


def refused(**config):
    """Return the error that these properties cause when a context is made."""
    with pytest.raises(ConfigError) as caught:
        context_for(tls(**config))
    assert "hunter2" not in str(caught.value)
    return caught.value


def test_a_key_with_a_password_that_is_not_given_is_an_error(client):
    """OpenSSL would ask for the password on the terminal, and block."""
    error = refused(ssl_certificate_pem=chain(client), ssl_key_pem=encrypted_key(client, "hunter2"))
    assert str(error) == "ssl.key.pem: holds a private key that is encrypted: set ssl.key.password"


def test_a_certificate_with_no_key_that_fits_is_an_error(client, authority):
    """No error contains a password."""
    ours = chain(client)
    other = authority.issue_cert("other.example").private_key_pem.bytes().decode()
    wrong = refused(ssl_certificate_pem=ours, ssl_key_pem=encrypted_key(client, "right"), ssl_key_password="hunter2")
    assert "do not fit" in wrong.problem
    assert "do not fit" in refused(ssl_certificate_pem=ours, ssl_key_pem=other).problem
    assert "ssl.key.location" in refused(ssl_certificate_pem=ours).problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "cut or damaged"),
        (b"", "is neither PEM nor a PKCS12 or JKS store$"),
        (b"nonsense", "is neither PEM nor a PKCS12 or JKS store$"),
        (b"0 nonsense", "neither PEM nor a PKCS12 or JKS store: a certificate or key in DER is given as PEM"),
        (b"0\x82\x01\x00\x02\x01\x03 cut", "is a PKCS12 store that ssl.truststore.password does not open"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no certificate that can be read"),
        (b"-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----", "no certificate that can be read"),
    ],
)
def test_a_truststore_that_cannot_be_read_is_an_error(tmp_path, content, says):
    """The error names the property, and advises how to convert a Java keystore."""
    path = tmp_path / "store"
    path.write_bytes(content)
    error = refused(ssl_truststore_location=str(path), ssl_truststore_password="hunter2")
    assert error.key == "ssl.truststore.location"
    assert re.search(says, error.problem)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ssl_keystore_location", "is a PKCS12 store with a password: set ssl.keystore.password"),
        ("ssl_truststore_location", "is a PKCS12 store with a password: set ssl.truststore.password"),
        ("ssl_ca_location", "is a PKCS12 store with a password: give it as ssl.keystore.location"),
    ],
)
def test_a_store_whose_password_is_not_set_is_told(client, tmp_path, given, says):
    """Without the sentence the app would look for a fault of the file."""
    path = tmp_path / "store.p12"
    path.write_bytes(store(client, b"hunter2"))
    assert says in refused(**{given: str(path)}).problem


def test_a_file_that_vanishes_is_an_error(authority, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text(pem(authority))
    settings = tls(ssl_ca_location=str(path))
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        context_for(settings)


def own_context(authority):
    """Return a context that an app has made."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_the_apps_own_context_is_used(serve, settings_for, fake_node, authority, client):
    address = await serve(fake_node(), tls=server_context(authority, clients=authority))
    context = own_context(authority)
    client.configure_cert(context)
    settings = settings_for(address, config={"security_protocol": "SSL", "ssl_context": context})
    assert context_for(settings.tls) is context
    with await Connection.open(address, settings) as connection:
        assert (await connection.negotiate()).response.api_ranges


@pytest.fixture
def revocations(authority, tmp_path):
    """Write the authority's list of revoked certificates."""

    def write(*certificates):
        now = dt.datetime.now(dt.UTC)
        root = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
        builder = x509.CertificateRevocationListBuilder(root.subject, now, now + dt.timedelta(days=1))
        for certificate in certificates:
            number = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder(number, now).build()
            builder = builder.add_revoked_certificate(revoked)
        key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
        path = tmp_path / "revoked.pem"
        path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return str(path)

    return write


async def test_a_revoked_certificate_is_refused(serve, ask, fake_node, authority, revocations):
    """The list is read as librdkafka and kafka-python read it; other certificates pass."""
    ours = authority.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.configure_cert(context)
    address = await serve(fake_node(), tls=context)
    assert await ask(address, ssl_ca_pem=pem(authority), ssl_crl_location=revocations(authority.issue_cert("other")))
    with pytest.raises(TlsFailed, match="certificate revoked"):
        await ask(address, ssl_ca_pem=pem(authority), ssl_crl_location=revocations(ours))


@pytest.mark.parametrize("trusted", [True, False])
def test_a_list_of_revoked_certificates_that_is_none_is_an_error(tmp_path, authority, trusted):
    """OpenSSL would trust a certificate in the file."""
    path = tmp_path / "revoked.pem"
    path.write_text(pem(authority) if trusted else "nonsense")
    error = refused(ssl_crl_location=str(path))
    assert error.key == "ssl.crl.location"
    assert "is not a PEM file of revoked certificates alone" in error.problem
