"""Read certificates and keys from PEM, PKCS12 and JKS files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from featuregate.credentials.jks import MAGIC, JavaKeyStore, JksError, read_jks
from featuregate.errors import ConfigError
from featuregate.files import read_file

if TYPE_CHECKING:
    from featuregate.config import Secret
    from featuregate.config.tls import Material, Tls

_BLOCK = re.compile(
    r"(-----BEGIN (?P<label>[A-Z0-9 ]+)-----)(?P<body>(?:(?!-----).)*+)(-----END (?P=label)-----)", re.DOTALL
)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_PEM_LINE = 64
_JCEKS = b"\xce\xce\xce\xce"
_ASN1_SEQUENCE = b"\x30"
"""First byte of every PKCS12 store."""
_PKCS12_VERSION, _HEADER = b"\x02\x01\x03", 9
"""The integer 3, with which the sequence begins (RFC 7292), and the bytes in which it is."""
_CONVERT = "convert it with keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12"


class Pem(NamedTuple):
    """PEM text: certificates, and a private key."""

    certificates: str
    private_key: str

    def __repr__(self) -> str:
        return "Pem(<secret>)"


def trusted_certificates(source: Material) -> str:
    """Return all certificates of a source as PEM text.

    Of a JKS store these are the trusted ones and that of each private key, as in Java. Raises `ConfigError` where the
    file cannot be read, or where the password does not open the store.
    """
    found = _read(source)
    if isinstance(found, Pem):
        return found.certificates
    return "".join([*found.trusted, *(key.chain[0] for key in found.keys if key.chain)])


def client_identity(tls: Tls) -> Pem:
    """Return the client's chain and private key, which has `Tls.key_password` where it is encrypted.

    The private key is empty where there is none. Raises `ConfigError` as `trusted_certificates`.
    """
    assert tls.certificate is not None
    identity = _identity(tls.certificate, tls.key_password)
    return identity if tls.private_key is None else Pem(identity.certificates, _pem(tls.private_key).private_key)


def _identity(source: Material, key_password: Secret | None) -> Pem:
    found = _read(source)
    if isinstance(found, Pem):
        return found
    if not found.keys:
        return Pem("", "")
    if len(found.keys) > 1:
        problem = f"{source.location!r} has {len(found.keys)} private keys: keep one, or give it as PEM or PKCS12"
        raise ConfigError(source.key, problem)
    password = key_password or source.password
    if password is None:
        raise ConfigError(source.key, f"{source.location!r} is a JKS store, whose private key needs a password")
    (key,) = found.keys
    try:
        return Pem("".join(key.chain), key.private_key(password.reveal()))
    except JksError as error:
        raise _unreadable(source, error) from None


def _pem(source: Material) -> Pem:
    found = _read(source)
    if isinstance(found, Pem):
        return found
    raise ConfigError(source.key, f"{source.location!r} is a JKS store: give it as ssl.keystore.location instead")


def _read(source: Material) -> Pem | JavaKeyStore:
    """Read a source. The content decides the format, not the file name."""
    if source.pem is not None:
        return _split(source.key, source.pem.reveal())
    content = _content(source)
    if content.startswith(MAGIC):
        try:
            return read_jks(content, source.password.reveal() if source.password else None)
        except JksError as error:
            raise _unreadable(source, error) from None
    if content.startswith(_JCEKS):
        raise ConfigError(source.key, f"{source.location!r} is a JCEKS keystore, which only Java reads: {_CONVERT}")
    if b"-----BEGIN " in content:
        return _split(source.key, content.decode("utf-8", "replace"))
    if not content.startswith(_ASN1_SEQUENCE):
        raise ConfigError(source.key, f"{source.location!r} is neither PEM nor a PKCS12 or JKS store")
    return _pkcs12(source, content)


def _content(source: Material) -> bytes:
    try:
        return read_file(Path(source.location or ""))
    except OSError as error:
        raise ConfigError(source.key, f"{source.location!r} cannot be read: {error.strerror}") from None


def _split(key: str, text: str) -> Pem:
    blocks = [(match["label"], _in_lines(key, match)) for match in _BLOCK.finditer(text)]
    if not blocks:
        problem = "has no -----END line that fits its -----BEGIN line; in a .properties file each line of a value but "
        raise ConfigError(key, f"{problem}the last ends with a backslash")
    return Pem(
        "\n".join(block for label, block in blocks if label.endswith("CERTIFICATE")),
        "\n".join(block for label, block in blocks if label.endswith("PRIVATE KEY")),
    )


def _in_lines(key: str, block: re.Match[str]) -> str:
    """Return a block with the line breaks that OpenSSL needs, and Java does not (KIP-651)."""
    begin, _, body, end = block.groups()
    if _BASE64.fullmatch(body):
        text = "".join(body.split())
        lines = [text[at : at + _PEM_LINE] for at in range(0, len(text), _PEM_LINE)]
        return "\n".join([begin, *lines, end])
    if "\\n" in body:
        problem = "is PEM text that has a backslash and an n where a line ends: give line breaks or blanks"
        raise ConfigError(key, problem)
    if "\n" not in body:
        problem = "is PEM text on one line whose headers do not end: give line breaks, or a key in PKCS8"
        raise ConfigError(key, problem)
    return block[0]


def _why_closed(source: Material, content: bytes) -> str:
    password = source.key.replace("location", "password") if "store" in source.key else ""
    if _PKCS12_VERSION not in content[:_HEADER]:
        return "is neither PEM nor a PKCS12 or JKS store: a certificate or key in DER is given as PEM"
    if not password:
        return "is a PKCS12 store with a password: give it as ssl.keystore.location or ssl.truststore.location"
    if source.password is None:
        return f"is a PKCS12 store with a password: set {password}"
    return f"is a PKCS12 store that {password} does not open"


def _unreadable(source: Material, error: JksError) -> ConfigError:
    return ConfigError(source.key, f"{source.location!r} is a JKS store that cannot be read: {error}")


def _pkcs12(source: Material, content: bytes) -> Pem:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only PKCS12 needs it
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - likewise
    except ImportError:
        raise ConfigError(
            source.key, f"{source.location!r} is not a PEM file, and PKCS12 needs: pip install cryptography"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, source.password.reveal().encode() if source.password else None)
    except ValueError:
        raise ConfigError(source.key, f"{source.location!r} {_why_closed(source, content)}") from None
    found = ([store.cert] if store.cert else []) + list(store.additional_certs)
    certificates = [entry.certificate.public_bytes(serialization.Encoding.PEM).decode() for entry in found]
    if store.key is None:
        return Pem("\n".join(certificates), "")
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pem("\n".join(certificates), key.decode())
