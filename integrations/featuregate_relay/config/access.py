"""Tables that say who may read what: ``[clients.NAME]``, ``[tokens]`` and ``[tls]``."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from featuregate_relay.access.authentication import Access
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.access.clients import ApiKeys, RelayClient
from featuregate_relay.access.fetching import is_trusted_url
from featuregate_relay.access.tokens import Tokens
from featuregate_relay.config.tables import FilePath, Name, Table, checked_url

_ALL = "*"
_LIST = Field(strict=False)
"""TOML has lists; tuples do not change."""

Clusters = Annotated[tuple[Name | Literal["*"], ...], Field(min_length=1, strict=False)]
"""Names of clusters, or ``*`` for all."""


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("must be a SHA-256 digest, as 64 hexadecimal digits; never the key itself")
    return text


Digest = Annotated[str, AfterValidator(_digest)]


def _trusted(url: str) -> str:
    if not is_trusted_url(checked_url(url)):
        raise ValueError("must begin with https://")
    return url


def _readable(file: Path) -> Path:
    """Return the file; raises ValueError where no certificate can be read: each request would fail for it."""
    try:
        if not file.is_dir():
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        raise ValueError("has no certificate that can be read: give a file in PEM") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    return file


CaFile = Annotated[FilePath, AfterValidator(_readable)]
"""A file, or a folder, of certificates."""


class ClientTable(Table):
    """A client, and what it shows."""

    clusters: Clusters
    api_keys: Annotated[tuple[Digest, ...], _LIST] = ()
    """SHA-256 digests of its keys: two while a key is replaced."""
    certificates: Annotated[tuple[str, ...], _LIST] = ()
    """Names in its certificate."""
    subjects: Annotated[tuple[str, ...], _LIST] = ()
    """Subjects of its tokens."""
    requests_per_second: Annotated[float, Field(gt=0)] | None = None


class TokensTable(Table):
    """An OpenID Connect provider whose tokens are accepted."""

    issuer: Annotated[str, AfterValidator(_trusted)]
    audience: str
    algorithms: Annotated[
        tuple[Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"], ...],
        Field(min_length=1, strict=False),
    ] = ("RS256", "ES256")
    clusters: Annotated[tuple[Name | Literal["*"], ...], _LIST] = ()
    """What a valid token may read whose subject is none of a client's."""
    ca: CaFile | None = None


class TlsTable(Table):
    """The certificate of the relay, and who signs those of clients."""

    certificate: FilePath
    key: FilePath
    client_ca: FilePath | None = None

    def certificates(self, *, required: bool) -> Certificates:
        """Return the certificates of a listener; raises OSError.

        Parameters
        ----------
        required
            Whether a client must have a certificate.
        """
        return Certificates(self.certificate, self.key, self.client_ca, required=required)


def problems(
    clients: Mapping[str, ClientTable], tokens: TokensTable | None, tls: TlsTable | None, clusters: Collection[str]
) -> list[str]:
    """Return a line for each thing in which these tables contradict each other."""
    found = []
    known = {*clusters, _ALL}
    readers = {f"clients.{name}": client.clusters for name, client in clients.items()}
    if tokens is not None:
        readers["tokens"] = tokens.clusters
    for place, names in readers.items():
        found += [f"{place}.clusters: there is no cluster {name!r}" for name in names if name not in known]
    for kind in ("api_keys", "certificates", "subjects"):
        owners: dict[str, str] = {}
        for name, client in clients.items():
            for shown in getattr(client, kind):
                if owners.setdefault(shown, name) != name:
                    found.append(f"clients.{name}.{kind.replace('_', '-')}: one is also of client {owners[shown]}")
    if tokens is None and any(client.subjects for client in clients.values()):
        found.append("tokens: is missing: clients have subjects, and no issuer is trusted")
    if (tls is None or tls.client_ca is None) and any(client.certificates for client in clients.values()):
        found.append("tls.client-ca: is missing: clients have certificates, and no authority is trusted")
    if tls is not None and tls.client_ca is not None and not clients:
        found.append("clients: is missing: client-ca alone gives no client any rights")
    return found


def make_access(clients: Mapping[str, ClientTable], tokens: TokensTable | None, *, anonymous: bool) -> Access:
    """Return who may read what by these tables."""
    made = {name: RelayClient(name, _rights(client.clusters)) for name, client in clients.items()}

    def by(kind: str) -> dict[str, RelayClient]:
        return {shown: made[name] for name, client in clients.items() for shown in getattr(client, kind)}

    return Access(
        api_keys=ApiKeys(by("api_keys")),
        certificates=by("certificates"),
        subjects=by("subjects"),
        tokens=None
        if tokens is None
        else Tokens(tokens.issuer, tokens.audience, tokens.algorithms, ca=tokens.ca, clock=time.monotonic),
        any_subject=frozenset() if tokens is None else _rights(tokens.clusters),
        anonymous=anonymous,
        rates={
            name: client.requests_per_second
            for name, client in clients.items()
            if client.requests_per_second is not None
        },
    )


def _rights(clusters: Collection[str]) -> frozenset[str] | None:
    return None if _ALL in clusters else frozenset(clusters)
