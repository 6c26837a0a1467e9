"""Middleware: which hosts a relay answers for, and that no cache keeps a response.

A relay for this machine alone answers only requests that name this machine.

A page of another site can let its own name lead to 127.0.0.1 (DNS rebinding). The browser then sends the requests of
that page to the relay, and lets the page read the responses. An address in ``Host`` is never such a name.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from featuregate_relay.refusals import RequestRefused, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?", re.ASCII)
_PROBLEM: Final = (
    "this relay serves this machine only, and the request names another host: ask http://localhost or http://127.0.0.1;"
    " for a proxy that sends other names, give --allow-anonymous"
)


def names_this_machine(host: str) -> bool:
    """Say whether ``Host`` is ``localhost`` or an address, with or without a port (RFC 9110, 7.2)."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found[1] or found[2]).lower()
    if name.removesuffix(".") == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class LocalHosts:
    """Refuses requests for other hosts with 421, before any handler sees them. HTTP/1.0 may name none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if not all(map(names_this_machine, hosts)):
                response = await refusal(Request(scope), RequestRefused(421, _PROBLEM))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


class NotStored:
    """Adds ``Cache-Control: no-store`` to each response that says nothing else, refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    message["headers"] = [*headers, (b"cache-control", b"no-store")]
            await send(message)

        await self._app(scope, receive, marked)
