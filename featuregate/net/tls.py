"""Make an SSLContext from `Tls` settings. Imported where TLS is on, since a listener without it need not wait."""

from __future__ import annotations

import os
import ssl
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate.credentials.keystores import client_identity, trusted_certificates
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate.config import Secret
    from featuregate.config.tls import Material, Tls


def _fingerprint(tls: Tls) -> Hashable:
    """Return a key that changes when a file changes: certificates are renewed while programs run."""
    sources = (tls.trust, tls.revoked, tls.certificate, tls.private_key)
    return tuple(_stamp(source) for source in sources if source is not None and source.location)


def _stamp(source: Material) -> tuple[int, int]:
    try:
        about = Path(source.location or "").stat()
    except OSError as error:
        raise ConfigError(source.key, f"{source.location!r} cannot be read: {error.strerror}") from None
    return about.st_mtime_ns, about.st_size


def context_for(tls: Tls) -> ssl.SSLContext:
    """Return the app's own context, or one that allows TLS 1.2 and newer.

    Raises `ConfigError` for files and passwords that cannot be used.
    """
    return tls.context or _context(tls, _fingerprint(tls))


@lru_cache(maxsize=16)  # without a lock of Python, which a fork may find held
def _context(tls: Tls, _fingerprint: Hashable) -> ssl.SSLContext:
    """Make a context. It is cached: reading the certificates that the system trusts takes 10 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    if tls.trust is not None:
        _trust(context, tls.trust)
    elif tls.verify:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.revoked is not None:
        _revoke(context, tls.revoked)
    if tls.certificate is not None:
        _identify(context, tls, tls.certificate)
    return context


def _trust(context: ssl.SSLContext, source: Material) -> None:
    # Java trusts an intermediate authority in a truststore without its root; OpenSSL does so only with this flag.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if source.location and Path(source.location).is_dir():
        context.load_verify_locations(capath=source.location)
        return
    certificates = trusted_certificates(source)
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(source.key, f"holds no certificate that can be read: {reason_of(error)}") from None


def _revoke(context: ssl.SSLContext, source: Material) -> None:
    """Check the certificate of the broker, but not its authorities, as librdkafka and kafka-python do."""
    problem = f"{source.location!r} is not a PEM file of revoked certificates alone"
    before = context.cert_store_stats()
    try:
        context.load_verify_locations(cafile=source.location)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(source.key, f"{problem}: {reason_of(error)}") from None
    after = context.cert_store_stats()
    if after["crl"] == before["crl"] or after["x509"] != before["x509"]:  # certificates in it would be trusted
        raise ConfigError(source.key, problem)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _identify(context: ssl.SSLContext, tls: Tls, certificate: Material) -> None:
    """Load the client's chain and key. Python's ssl reads them from files only, so they pass through a private one."""
    identity = client_identity(tls)
    key_source = tls.private_key or certificate
    if not identity.private_key:
        raise ConfigError(key_source.key, "holds no private key: set ssl.key.location, or ssl.keystore.key")
    try:
        with _as_file("\n".join(identity)) as path:
            context.load_cert_chain(path, password=lambda: _password(tls.key_password))
    except _NoPassword:
        raise ConfigError(key_source.key, "holds a private key that is encrypted: set ssl.key.password") from None
    except (ssl.SSLError, ValueError) as error:
        problem = "the certificate, the private key and ssl.key.password do not fit together"
        raise ConfigError(key_source.key, f"{problem}: {reason_of(error)}") from None


class _NoPassword(Exception):
    """A private key is encrypted, and no password is set."""


def _password(secret: Secret | None) -> str:
    """Return the password to OpenSSL, which would otherwise prompt on the terminal."""
    if secret is None:
        raise _NoPassword
    return secret.reveal()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Hold a text in an anonymous file where the system has them, else in one that only this user can read."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("featuregate")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        from tempfile import NamedTemporaryFile  # noqa: PLC0415 - it takes 5 ms, and no Linux needs it

        with NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name


_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's X509_V_ERR codes for a chain without a trusted authority."""
_EXPIRED, _NOT_YET = 10, 9
_OTHER_NAME = frozenset({62, 64})
"""The host name or the IP address is not in the certificate."""
_ADVICE = (
    (
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"),
        "this listener does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
    ),
    (
        ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"),
        "the peer does not support TLS 1.2 or newer",
    ),
    (
        ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE"),
        "the peer requires a client certificate that it trusts: set ssl.certificate.location and ssl.key.location",
    ),
    (
        ("ALERT_UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED"),
        "the peer does not accept the client certificate: see ssl.certificate.location",
    ),
)
"""What OpenSSL's reasons mean for a Kafka client, and what to do."""


def explain(error: Exception) -> str:
    """Return what a failed handshake means and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    if not isinstance(error, ssl.SSLError):
        return (
            "the peer closed the connection: does this listener speak TLS (see security.protocol), "
            "and does it require a client certificate (see ssl.certificate.location)?"
        )
    reason = reason_of(error)
    advice = (text for words, text in _ADVICE if any(word in reason for word in words))
    return " ".join(filter(None, [next(advice, ""), f"({reason})"]))


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNKNOWN_ISSUER:
        return (
            f"the certificate is not signed by a trusted authority ({error.verify_message}): "
            "set ssl.ca.location to the certificate of the authority that signed it"
        )
    if error.verify_code in {_EXPIRED, _NOT_YET}:
        return f"{error.verify_message}: renew the certificate of the broker, or set the clock of this machine"
    return str(error.verify_message)


def is_mismatch(error: Exception) -> bool:
    """Return whether the certificate is valid, but for another host."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OTHER_NAME


def reason_of(error: Exception) -> str:
    """Return OpenSSL's name of what failed, or the text of the error."""
    return getattr(error, "reason", None) or str(error)
