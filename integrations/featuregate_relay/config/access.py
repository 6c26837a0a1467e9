"""Tables that say who may read what: ``[clients.NAME]`` and ``[tls]``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from featuregate_relay.access.authentication import Access, ApiKeys, RelayClient
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.config.tables import FilePath, Name, Table

_ALL = "*"
_TLS = "tls"
"""The client of each certificate that ``client-ca`` has signed."""
_OF_NO_KEY = {hashlib.sha256(text).hexdigest() for text in (b"", b"\n", b"\r\n")}
"""What ``sha256sum`` prints of a file that is empty or not there."""
_LIST = Field(strict=False)
"""TOML has lists; tuples do not change."""

Clusters = Annotated[tuple[Name | Literal["*"], ...], Field(min_length=1, strict=False)]
"""Names of clusters, or ``*`` for all."""


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("must be a SHA-256 digest, as 64 hexadecimal digits; never the key itself")
    if text in _OF_NO_KEY:
        raise ValueError("is the digest of an empty key, which any client can show: make the key first")
    return text


Digest = Annotated[str, AfterValidator(_digest)]


class ClientTable(Table):
    """A client, and what it shows."""

    clusters: Clusters
    api_keys: Annotated[tuple[Digest, ...], _LIST] = ()
    """SHA-256 digests of its keys: two while a key is replaced."""
    requests_per_second: Annotated[float, Field(gt=0)] | None = None


class TlsTable(Table):
    """The certificate of the relay, and who signs those of clients."""

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None

    def certificates(self) -> Certificates:
        """Return the certificates of a listener; raises OSError."""
        return Certificates(self.certificate, self.key, self.client_ca)


def problems(clients: Mapping[str, ClientTable], tls: TlsTable | None, clusters: Collection[str]) -> list[str]:
    """Return a line for each thing in which these tables contradict each other."""
    found = [
        f"clients.{client}.clusters: there is no cluster {name!r}"
        for client, table in clients.items()
        for name in table.clusters
        if name not in {*clusters, _ALL}
    ]
    owners: dict[str, str] = {}
    for name, client in clients.items():
        found += [
            f"clients.{name}.api-keys: one is also of client {owners[key]}"
            for key in client.api_keys
            if owners.setdefault(key, name) != name
        ]
    asks = tls is not None and tls.client_ca is not None
    if _TLS in clients and not asks:
        found.append("tls.client-ca: is missing: [clients.tls] has the rights of its certificates")
    if asks and not clients:
        found.append("clients: is missing: client-ca alone gives no client any rights: add [clients.tls]")
    return found


def make_access(clients: Mapping[str, ClientTable], *, anonymous: bool) -> Access:
    """Return who may read what by these tables."""
    made = {name: RelayClient(name, _rights(client.clusters)) for name, client in clients.items()}
    rates = {name: client.requests_per_second for name, client in clients.items()}
    return Access(
        api_keys=ApiKeys({key: made[name] for name, client in clients.items() for key in client.api_keys}),
        certificate=made.get(_TLS),
        anonymous=anonymous,
        rates={name: rate for name, rate in rates.items() if rate is not None},
    )


def _rights(clusters: Collection[str]) -> frozenset[str] | None:
    return None if _ALL in clusters else frozenset(clusters)
