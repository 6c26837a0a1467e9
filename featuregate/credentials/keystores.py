"""Read certificates and keys from PEM and PKCS12 files; Java's own format is refused with advice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate.config import Material

__all__ = ["Pem", "read_material"]

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)
_JKS = b"\xfe\xed\xfe\xed"
_ASN1_SEQUENCE = b"\x30"
"""First byte of every PKCS12 store."""
_LARGEST = 16 * 1024 * 1024


class Pem(NamedTuple):
    """PEM text: certificates, and a private key."""

    certificates: str
    private_key: str

    def __repr__(self) -> str:
        return "Pem(<secret>)"


def read_material(source: Material) -> Pem:
    """Read all certificates and the private key of a source. The content decides the format, not the file name.

    Raises `ConfigError` where the file cannot be read, or where the password does not open the store.
    """
    if source.pem is not None:
        return _split(source.pem.reveal())
    content = _content(source)
    if content.startswith(_JKS):
        raise ConfigError(
            source.key,
            f"{source.location!r} is a JKS keystore, which only Java reads: convert it with keytool -importkeystore "
            "-srckeystore OLD -destkeystore NEW -deststoretype PKCS12",
        )
    if b"-----BEGIN " in content:
        return _split(content.decode("utf-8", "replace"))
    if not content.startswith(_ASN1_SEQUENCE):
        raise ConfigError(source.key, f"{source.location!r} is neither PEM nor a PKCS12 store")
    return _pkcs12(source, content)


def _content(source: Material) -> bytes:
    try:
        with Path(source.location or "").open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise ConfigError(source.key, f"{source.location!r} cannot be read: {error.strerror}") from None


def _split(text: str) -> Pem:
    blocks = [(match["label"], match[0]) for match in _BLOCK.finditer(text)]
    return Pem(
        "\n".join(block for label, block in blocks if label.endswith("CERTIFICATE")),
        "\n".join(block for label, block in blocks if label.endswith("PRIVATE KEY")),
    )


def _pkcs12(source: Material, content: bytes) -> Pem:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only PKCS12 needs it
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - likewise
    except ImportError:
        raise ConfigError(
            source.key, f"{source.location!r} is no PEM file, and PKCS12 needs: pip install cryptography"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, source.password.reveal().encode() if source.password else None)
    except ValueError:
        problem = "is neither PEM nor a PKCS12 store that its password opens"
        raise ConfigError(source.key, f"{source.location!r} {problem}") from None
    found = ([store.cert] if store.cert else []) + list(store.additional_certs)
    certificates = [entry.certificate.public_bytes(serialization.Encoding.PEM).decode() for entry in found]
    if store.key is None:
        return Pem("\n".join(certificates), "")
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pem("\n".join(certificates), key.decode())
