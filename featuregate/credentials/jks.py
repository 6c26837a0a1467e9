"""Decode Java key stores of type JKS, as ``keytool`` wrote them before Java 9 and writes them for ``-storetype JKS``.

The format is that of the JDK's ``sun.security.provider.JavaKeyStore``, and the protection of private keys that of its
``KeyProtector``. Integers are big-endian. A digest over the store's password and content ends the file.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_X509: Final = b"X.509"
_DIGEST: Final = 20
"""Bytes of SHA-1, which is also the length of a key's salt."""
_WHITENER: Final = b"Mighty Aphrodite"
_SUN_PROTECTION: Final = bytes.fromhex("300e060a2b060104012a021101010500")
"""The AlgorithmIdentifier 1.3.6.1.4.1.42.2.17.1.1 of JDK's KeyProtector."""
_SEQUENCE, _OCTETS = 0x30, 0x04
_LONG_FORM: Final = 0x80
_PEM_LINE: Final = 64


class JksError(Exception):
    """The store cannot be read. The text says why, without any content of the store."""


class KeyEntry(NamedTuple):
    """A private key that is still protected, and its chain as PEM text, the key's own certificate first."""

    protected: bytes
    chain: tuple[str, ...]

    def private_key(self, password: str) -> str:
        """Return the key as PEM text. Raises `JksError`, also for a wrong password."""
        secret = password.encode("utf-16-be", "surrogatepass")
        sealed = _sealed(self.protected)
        salt, hidden, check = sealed[:_DIGEST], sealed[_DIGEST:-_DIGEST], sealed[-_DIGEST:]
        plain = bytes(a ^ b for a, b in zip(hidden, _key_stream(secret, salt), strict=False))
        if len(sealed) < 2 * _DIGEST or not hmac.compare_digest(_sha1(secret + plain), check):
            raise JksError("the password does not open its private key")
        return _pem("PRIVATE KEY", plain)


class JavaKeyStore(NamedTuple):
    """The content of a store."""

    trusted: tuple[str, ...]
    """Certificates of authorities, as PEM text."""
    keys: tuple[KeyEntry, ...]

    def __repr__(self) -> str:
        return "JavaKeyStore(<secret>)"


def read_jks(content: bytes, password: str | None) -> JavaKeyStore:
    """Decode a store. Without a password its integrity is not checked, as in Java. Raises `JksError`."""
    reader = _Reader(content[: max(0, len(content) - _DIGEST)])
    if reader.take(len(MAGIC)) != MAGIC:
        raise JksError("it is not a JKS store")
    version = reader.integer(4)
    if version not in _VERSIONS:
        raise JksError(f"its version {version} is not known")
    trusted: list[str] = []
    keys: list[KeyEntry] = []
    for _ in range(reader.integer(4)):
        kind, _alias, _created = reader.integer(4), reader.text(), reader.take(8)
        if kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif kind == _KEY:
            protected = reader.block()
            keys.append(KeyEntry(protected, tuple(reader.certificate(version) for _ in range(reader.integer(4)))))
        else:
            raise JksError("it has an entry that is neither a key nor a certificate")
    reader.expect_end()
    if password is not None:
        _check_integrity(content, password)
    return JavaKeyStore(tuple(trusted), tuple(keys))


def _check_integrity(content: bytes, password: str) -> None:
    expected = _sha1(password.encode("utf-16-be", "surrogatepass") + _WHITENER + content[:-_DIGEST])
    if not hmac.compare_digest(expected, content[-_DIGEST:]):
        raise JksError("the password is wrong, or the file was changed")


class _Reader:
    """Reads from the front, and never beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise JksError(f"it is cut or damaged at byte {self._at}")
        self._at += length
        return self._data[self._at - length : self._at]

    def integer(self, length: int) -> int:
        return int.from_bytes(self.take(length), "big")

    def text(self) -> bytes:
        return self.take(self.integer(2))

    def block(self) -> bytes:
        return self.take(self.integer(4))

    def certificate(self, version: int) -> str:
        if version > 1 and self.text() != _X509:
            raise JksError("it has a certificate that is not X.509")
        return _pem("CERTIFICATE", self.block())

    def expect_end(self) -> None:
        if self._at != len(self._data):
            raise JksError(f"it has bytes after its last entry, at byte {self._at}")


def _sealed(protected: bytes) -> bytes:
    """Return the octets of an EncryptedPrivateKeyInfo (RFC 5208, section 6) of JDK's KeyProtector."""
    body = _value(protected, _SEQUENCE)
    if not body.startswith(_SUN_PROTECTION):
        raise JksError("its private key is protected in a way that only Java reads")
    return _value(body[len(_SUN_PROTECTION) :], _OCTETS)


def _value(encoded: bytes, tag: int) -> bytes:
    """Return the value of the one DER element that the bytes hold."""
    reader = _Reader(encoded)
    try:
        found, length = reader.integer(1), reader.integer(1)
        if length >= _LONG_FORM:
            length = reader.integer(length - _LONG_FORM)
        value = reader.take(length)
        reader.expect_end()
    except JksError:
        found, value = None, b""
    if found != tag:
        raise JksError("its private key is damaged")
    return value


def _key_stream(secret: bytes, salt: bytes) -> Iterator[int]:
    digest = salt
    while True:
        digest = _sha1(secret + digest)
        yield from digest


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()  # the format has no other digest


def _pem(label: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = "\n".join(text[at : at + _PEM_LINE] for at in range(0, len(text), _PEM_LINE))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
