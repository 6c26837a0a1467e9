"""Names of a client's certificate, which TLS has verified. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def names_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a certificate, as `ssl.SSLSocket.getpeercert` has it.

    The subject alternative names (DNS, URI, email) count; the common name does where there is none of these, as RFC
    6125 has it.
    """
    names = tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind in {"DNS", "URI", "email"})
    common = tuple(value for part in certificate.get("subject", ()) for key, value in part if key == "commonName")
    return names or common
