"""Middleware that finds out who sends a request, before any handler sees it."""

from __future__ import annotations

import base64
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache
from starlette.datastructures import Headers
from starlette.requests import Request

from featuregate_relay.access.clients import ANYONE, NOT_KNOWN, ApiKeys, RelayClient
from featuregate_relay.access.tickets import Tickets
from featuregate_relay.access.tokens import InvalidToken, Tokens
from featuregate_relay.refusals import RequestRefused, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_OPEN_PATHS: Final = {"/healthz", "/readyz"}
"""Probes have no credentials."""
STREAM_OF_FLAGS: Final = "/ofrep/v1/events"
"""What the path of a stream ends with that a ticket opens."""
_DOTS_OF_A_TOKEN: Final = 2
DEFAULT_RATE: Final = 1000.0
"""Requests of a client in a second."""
_BURST_SECONDS: Final = 2.0
"""Seconds: a client that was silent may send the requests of this time at once, and always at least one."""
_MOST_CLIENTS: Final = 10_000
"""Subjects of tokens are clients, too. The client that was silent for longest is forgotten: it has no debt."""


def wall() -> float:
    """Seconds since the Unix epoch: tickets are for replicas, too, which share no other clock."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, kw_only=True)
class Access:
    """The clients of a relay, by what they show."""

    api_keys: ApiKeys = field(default_factory=lambda: ApiKeys({}))
    certificates: Mapping[str, RelayClient] = field(default_factory=dict)
    """By the names of certificates."""
    tokens: Tokens | None = None
    subjects: Mapping[str, RelayClient] = field(default_factory=dict)
    """By the subjects of tokens."""
    any_subject: frozenset[str] | None = frozenset()
    """The clusters that each valid token may read; None: all."""
    tickets: Tickets = field(default_factory=lambda: Tickets(secrets.token_bytes(32), wall))
    """For streams that browsers open."""
    anonymous: bool = False
    """Whether a request without credentials may read everything."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Requests in a second, by the name of the client."""

    async def client(self, headers: Headers, peer_names: tuple[str, ...]) -> RelayClient:
        """Return who sends a request with these headers over a connection of this peer.

        Credentials that are wrong are refused, whatever else the request shows.

        Raises
        ------
        RequestRefused
            401: there are no credentials, or wrong ones.
        """
        key = _key(headers)
        if key is None:
            return self._without_key(peer_names)
        if self.tokens is not None and key.count(".") == _DOTS_OF_A_TOKEN:
            return await self._of_token(self.tokens, key)
        client = self.api_keys.client(key)
        if client is None:
            raise RequestRefused(401, "this API key is not known")
        return client

    def of_ticket(self, ticket: str) -> RelayClient:
        """Return who opens a stream with this ticket; raises `RequestRefused`."""
        client = self.tickets.client(ticket)
        if client is None:
            raise RequestRefused(
                401, "the ticket of the stream is not valid, or has ended: fetch all flags for another"
            )
        return client

    def _without_key(self, peer_names: tuple[str, ...]) -> RelayClient:
        for name in peer_names:
            if name in self.certificates:
                return self.certificates[name]
        if self.anonymous:
            return ANYONE
        raise RequestRefused(401, "this relay needs an API key, a token or a client certificate that it knows")

    async def _of_token(self, tokens: Tokens, text: str) -> RelayClient:
        try:
            claims = await tokens.claims(text)
        except InvalidToken as error:
            raise RequestRefused(401, f"the token is not valid: {error}") from None
        subject = str(claims["sub"])
        return self.subjects.get(subject) or RelayClient(f"subject {subject}", self.any_subject)


def _key(headers: Headers) -> str | None:
    """Return the API key or the token that a request shows.

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
        self._paid_until: LRUCache[str, float] = LRUCache(_MOST_CLIENTS)

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
            client = await self._client(scope)
        except RequestRefused as refused:
            response = await refusal(Request(scope), refused)
            await response(scope, receive, send)
            return
        scope.setdefault("state", {}).update(client=client, tickets=self._access.tickets)
        await self._app(scope, receive, send)

    async def _client(self, scope: Scope) -> RelayClient:
        peer_names = scope.get("state", {}).get("peer_names", ())
        try:
            if scope["path"].endswith(STREAM_OF_FLAGS) and (ticket := Request(scope).query_params.get("ticket")):
                client = self._access.of_ticket(ticket)
            else:
                client = await self._access.client(Headers(scope=scope), peer_names)
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


def ticket_for(scope: Scope, cluster: str) -> str | None:
    """Return a ticket for a stream of this cluster; None where the relay does not authenticate clients."""
    client = client_in(scope)
    if client.name is None:
        return None
    tickets: Tickets = scope["state"]["tickets"]
    return tickets.ticket(client, cluster)
