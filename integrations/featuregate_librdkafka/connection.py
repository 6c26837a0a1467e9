"""The connection properties of a client, which any other client needs to reach the same brokers as the same user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_CONNECTION: Final = (
    "api.version.",
    "bootstrap.",
    "broker.address.",
    "broker.version.fallback",
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "metadata.broker.list",
    "metadata.recovery.",
    "oauth_cb",
    "receive.message.max.bytes",
    "reconnect.backoff.",
    "retry.backoff.",
    "sasl.",
    "security.protocol",
    "socket.",
    "ssl.",
)
"""How the properties begin that say where the cluster is and who we are; all else is the app's own business."""


def connection_properties(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a client's properties that any other client needs to reach the same brokers as the same user.

    ``oauth_cb`` is one of them. The app's other callbacks are not: they are about the app's own client.
    """
    return {name: value for name, value in config.items() if name.startswith(_CONNECTION)}
