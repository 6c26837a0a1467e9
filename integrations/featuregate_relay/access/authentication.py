"""The clients of a relay, and the middleware that finds out who sends a request before any handler sees it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.requests import Request

from featuregate_relay.refusals import RequestRefused, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_OPEN_PATHS: Final = {"/healthz", "/readyz"}
"""Probes have no credentials."""
DEFAULT_RATE: Final = 1000.0
"""Requests of a client in a second."""
_BURST_SECONDS: Final = 2.0
"""Seconds: a client that was silent may send the requests of this time at once, and always at least one."""


@dataclass(frozen=True, slots=True)
class RelayClient:
    """A client that has said who it is."""

    name: str | None
    """As logs and limits call it; None: the relay does not authenticate clients."""
    clusters: frozenset[str] | None
    """None: all clusters."""

    def may_read(self, cluster: str) -> bool:
        """Return whether the client may read this cluster."""
        return self.clusters is None or cluster in self.clusters


ANYONE: Final = RelayClient(None, None)
"""Any client of a relay that does not authenticate clients."""
NOT_KNOWN: Final = RelayClient(None, frozenset())
"""A client without credentials: it learns whether the relay is ready, and nothing of the clusters."""


class ApiKeys:
    """Clients by the SHA-256 digests of their keys, so that the configuration of a relay opens nothing.

    A key is long and random: its digest needs no salt.
    """

    def __init__(self, clients: Mapping[str, RelayClient]) -> None:
        self._clients = [(bytes.fromhex(digest), client) for digest, client in clients.items()]

    def client(self, key: str) -> RelayClient | None:
        """Return whose key this is. The time does not tell how much of a key is right, or which one."""
        digest = hashlib.sha256(key.encode()).digest()
        found = None
        for known, client in self._clients:
            if hmac.compare_digest(known, digest):
                found = client
        return found


@dataclass(frozen=True, kw_only=True)
class Access:
    """The clients of a relay, by what they show."""

    api_keys: ApiKeys = field(default_factory=lambda: ApiKeys({}))
    certificate: RelayClient | None = None
    """The client of a request without a key, where the listener asks each connection for a certificate."""
    anonymous: bool = False
    """Whether a request without credentials may read everything."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Requests in a second, by the name of the client."""

    def client(self, headers: Headers) -> RelayClient:
        """Return who sends a request with these headers.

        A key that is wrong is refused, whatever else the connection shows. Raises RequestRefused: there are no
        credentials, or wrong ones (401).
        """
        key = _key(headers)
        if key is not None:
            client = self.api_keys.client(key)
            if client is None:
                raise RequestRefused(401, "this API key is not known")
            return client
        if self.certificate is not None:
            return self.certificate
        if self.anonymous:
            return ANYONE
        raise RequestRefused(401, "this relay needs an API key that it knows")


def _key(headers: Headers) -> str | None:
    """Return the API key that a request shows.

    A browser that opens the page asks a person for it, and sends it as the password of any user (RFC 7617).
    """
    if key := headers.get("X-API-Key"):
        return key
    scheme, _, shown = headers.get("Authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            return shown.strip()
        case "basic":
            try:
                return base64.b64decode(shown.strip(), validate=True).decode().partition(":")[2]
            except ValueError:
                return ""  # is not a key
        case _:
            return None


class Rates:
    """Limits the requests of each client by the generic cell rate algorithm (ITU-T I.371): one number for each."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._paid_until: dict[str, float] = {}

    def seconds_to_wait(self, client: str, rate: float) -> int:
        """Count a request, and return 0; or the seconds after which the client should come back."""
        now, cost = self._clock(), 1 / rate
        debt = max(self._paid_until.get(client, now) - now, 0) + cost
        early = debt - max(_BURST_SECONDS, cost)
        if early > 0:
            return math.ceil(early)
        self._paid_until[client] = now + debt
        return 0


class Authentication:
    """Refuses requests without credentials, and too many of a client; handlers learn the client by `client_of`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._rates = Rates(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            client = self._client(scope)
        except RequestRefused as refused:
            response = await refusal(Request(scope), refused)
            await response(scope, receive, send)
            return
        scope.setdefault("state", {})["client"] = client
        await self._app(scope, receive, send)

    def _client(self, scope: Scope) -> RelayClient:
        try:
            client = self._access.client(Headers(scope=scope))
        except RequestRefused:
            if scope["path"] in _OPEN_PATHS:
                return NOT_KNOWN
            raise
        if client.name is not None:
            seconds = self._rates.seconds_to_wait(client.name, self._access.rates.get(client.name, DEFAULT_RATE))
            if seconds:
                raise RequestRefused(429, f"{client.name} sends too many requests", retry_after=seconds)
        return client


def client_of(request: Request) -> RelayClient:
    """Return who sent the request."""
    return client_in(request.scope)


def client_in(scope: Scope) -> RelayClient:
    """Return who sent the request of this scope."""
    found: RelayClient = scope.get("state", {}).get("client", ANYONE)
    return found
