"""Tables that name the endpoints of webhooks: ``[webhooks.NAME]``."""

from __future__ import annotations

import base64
import ipaddress
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator

from featuregate.files import read_file
from featuregate_relay.config.authorities import CaFile  # noqa: TC001 - pydantic reads annotations
from featuregate_relay.config.tables import FilePath, Name, Table, checked_url
from featuregate_relay.webhooks.delivery import Endpoint
from featuregate_relay.webhooks.networks import Network  # noqa: TC001 - pydantic reads annotations
from featuregate_relay.webhooks.notifier import Notifier
from featuregate_relay.webhooks.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ALL = "*"
_PREFIX = "whsec_"
_LEAST_BYTES = 24


def _network(text: object) -> Network:
    if isinstance(text, str):
        return ipaddress.ip_network(text)
    raise ValueError("must be a network, such as 10.0.0.0/8")


def _url(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ValueError("must begin with https://")
    return checked_url(text)


class WebhookTable(Table):
    """An endpoint that gets the messages about changes."""

    url: Annotated[str, AfterValidator(_url)]
    secret: FilePath
    """A file with the secret, ``whsec_`` and 24 to 64 bytes as base64; one on each line while it is replaced."""
    clusters: Annotated[tuple[Name | Literal["*"], ...], Field(min_length=1, strict=False)] = (_ALL,)
    allow_networks: Annotated[tuple[Annotated[Network, PlainValidator(_network)], ...], Field(strict=False)] = ()
    """Private networks in which the endpoint may be."""
    ca: CaFile | None = None
    """Certificates that the endpoint's is checked with, in the place of well-known ones."""

    def problem(self) -> str | None:
        """Say what contradicts itself."""
        if self.url.startswith("http://") and not self.allow_networks:
            return "url: must begin with https://, or be in one of allow-networks"
        return None

    def sender(self, name: str) -> Sender:
        """Return what delivers to the endpoint; raises OSError and ValueError, without the secret."""
        return Sender(Endpoint(name, self.url, _secrets(self.secret), self.allow_networks, ca=self.ca))


def _secrets(file: Path) -> list[str]:
    lines = read_file(file).decode().split()
    if not lines:
        raise ValueError("the file is empty")
    for line in lines:
        encoded = line.removeprefix(_PREFIX).rstrip("=")
        try:
            size = len(base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True))
        except ValueError:
            size = 0
        if size < _LEAST_BYTES:
            raise ValueError("a secret must be whsec_ and 24 bytes or more as base64")
    return lines


def make_notifier(tables: Mapping[str, WebhookTable]) -> tuple[Notifier, list[str]]:
    """Return what notifies these endpoints, and a line for each that cannot be used."""
    senders, mistakes = [], []
    for name, table in tables.items():
        try:
            rights = None if _ALL in table.clusters else frozenset(table.clusters)
            senders.append((table.sender(name), rights))
        except OSError as error:
            mistakes.append(f"webhooks.{name}.secret: cannot be read: {error.strerror}")
        except ValueError as error:
            mistakes.append(f"webhooks.{name}.secret: {error}")
    return Notifier(senders), mistakes
