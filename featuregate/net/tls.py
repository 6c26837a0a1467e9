"""`Tls` settings become an SSLContext; what goes wrong becomes advice."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cachetools import LRUCache, cached
from cachetools.keys import hashkey

from featuregate.credentials.keystores import read_material
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from featuregate.config import Material, Secret, Tls

__all__ = ["context_for", "explain", "without_host_names"]


def _fingerprint(tls: Tls) -> Hashable:
    """Make a key that changes when a file does: certificates are renewed under running programs."""
    sources = (tls.trust, tls.certificate, tls.private_key)
    return hashkey(tls, *(_stamp(source) for source in sources if source is not None and source.location))


def _stamp(source: Material) -> tuple[int, int]:
    try:
        about = Path(source.location or "").stat()
    except OSError as error:
        raise ConfigError(source.key, f"{source.location!r} cannot be read: {error.strerror}") from None
    return about.st_mtime_ns, about.st_size


@cached(LRUCache(maxsize=16), key=_fingerprint, lock=threading.Lock())
def context_for(tls: Tls) -> ssl.SSLContext:
    """Make the context, or give the one that was made before: reading what the system trusts takes 10 ms.

    TLS 1.2 and newer. Raises `ConfigError` for files and passwords that do not fit.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    if tls.trust is not None:
        _trust(context, tls.trust)
    elif tls.verify:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.certificate is not None:
        _identify(context, tls, tls.certificate)
    return context


@cached(LRUCache(maxsize=4), key=_fingerprint, lock=threading.Lock())
def without_host_names(tls: Tls) -> ssl.SSLContext:
    """Make the context that checks all but the host name, to learn which names a certificate has."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    if tls.trust is not None:
        _trust(context, tls.trust)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _trust(context: ssl.SSLContext, source: Material) -> None:
    # Java trusts an intermediate authority that stands in a truststore by itself; OpenSSL only when told to.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if source.location and Path(source.location).is_dir():
        context.load_verify_locations(capath=source.location)
        return
    certificates = read_material(source).certificates
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(source.key, f"holds no certificate that can be read: {_reason(error)}") from None


def _identify(context: ssl.SSLContext, tls: Tls, certificate: Material) -> None:
    """Load our chain and key. Python's ssl takes them from files only, so they pass through one that nobody sees."""
    ours = read_material(certificate)
    key = read_material(tls.private_key).private_key if tls.private_key else ours.private_key
    blame = tls.private_key or certificate
    if not key:
        raise ConfigError(blame.key, "holds no private key: give ssl.key.location, or ssl.keystore.key")
    try:
        with _as_file(ours.certificates + "\n" + key) as path:
            context.load_cert_chain(path, password=lambda: _password(tls.key_password))
    except _NoPassword:
        raise ConfigError(blame.key, "holds a private key that is encrypted: give ssl.key.password") from None
    except (ssl.SSLError, ValueError) as error:
        problem = "the certificate, the private key and ssl.key.password do not fit together"
        raise ConfigError(blame.key, f"{problem}: {_reason(error)}") from None


class _NoPassword(Exception):
    """A key wants a password, and there is none."""


def _password(secret: Secret | None) -> str:
    """Answer OpenSSL, which would otherwise ask on the terminal."""
    if secret is None:
        raise _NoPassword
    return secret.reveal()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Hold a text in a file without a name where the system has such, in one that only we can read elsewhere."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("featuregate")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name


_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's X509_V_ERR codes for a chain that ends at nobody we trust."""
_EXPIRED, _NOT_YET = 10, 9
_ADVICE = (
    (
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"),
        "this listener does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
    ),
    (
        ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"),
        "the peer speaks no TLS 1.2 or newer",
    ),
    (
        ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE"),
        "the peer wants a client certificate that it can accept: give ssl.certificate.location and ssl.key.location",
    ),
    (
        ("ALERT_UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED"),
        "the peer does not accept our client certificate: see ssl.certificate.location",
    ),
)
"""What OpenSSL's reasons mean here, and what to do about it."""


def explain(error: Exception) -> str:
    """Say what a failed handshake means and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    if not isinstance(error, ssl.SSLError):
        return (
            "the peer closed the connection: does this listener speak TLS (see security.protocol), "
            "and does it want a client certificate (see ssl.certificate.location)?"
        )
    reason = _reason(error)
    advice = (text for words, text in _ADVICE if any(word in reason for word in words))
    return " ".join(filter(None, [next(advice, ""), f"({reason})"]))


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNKNOWN_ISSUER:
        return (
            f"the certificate is signed by nobody we trust ({error.verify_message}): "
            "give the authority that signed it by ssl.ca.location"
        )
    if error.verify_code in {_EXPIRED, _NOT_YET}:
        return f"{error.verify_message}: renew it at the broker, or set the clock of this machine"
    return str(error.verify_message)


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
