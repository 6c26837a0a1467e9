"""The health of a discoverer as an ASGI app, for FastAPI, Starlette, Django and their servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate.health.responses import respond

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from featuregate.polling.discoverer import Discoverer

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Message, Receive, Send], Awaitable[None]]


def asgi_app(features: Discoverer) -> App:
    """Return an app that answers by the health of a discoverer: see :func:`featuregate.health.responses.respond`.

    The app does no I/O, and neither starts nor closes the discoverer.
    """

    async def health(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _follow_lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the health app serves HTTP only, not {scope['type']}")
        query = scope["query_string"].decode("latin-1")
        answer = respond(scope["method"], scope["path"], query, features.health())
        headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    return health


async def _follow_lifespan(receive: Receive, send: Send) -> None:
    """Let a server start and stop that runs this app alone."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
