"""A connection to a relay's HTTP protocol without a socket, which tells how much it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.server import ServerState

from featuregate_relay.limits import BODY_BYTES, HEAD_BYTES, MOST_PIPELINED, LimitedProtocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MOST_HELD = (MOST_PIPELINED + 2) * HEAD_BYTES + 2 * BODY_BYTES + 65536
"""Bytes of one connection, whatever its client sends."""


class Written(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        """Return what the client has not read: it reads all."""
        return 0

    def pause_reading(self) -> None:
        """Go on: a segment may have been read before."""

    resume_reading = pause_reading


class Connection:
    """A client of an app that answers when it has read the whole body, or that never answers."""

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers
        self.asked: list[dict[str, Any]] = []
        config = uvicorn.Config(self._app, interface="asgi3", log_config=None, lifespan="off")
        config.load()
        self.transport = Written()
        self.protocol = LimitedProtocol(config, ServerState(), {})
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if not self._answers:
            await asyncio.Event().wait()
        while (message := await receive()).get("more_body", False):
            body += message["body"]
        self.asked.append({"headers": list(scope["headers"]), "body": body + message.get("body", b"")})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def send(self, *segments: bytes) -> None:
        for segment in segments:
            if not self.transport.closed:
                self.protocol.data_received(segment)
                await asyncio.sleep(0)

    @property
    def held(self) -> int:
        """Bytes of requests that the connection holds, as far as its own objects have them."""
        waiting = [cycle for cycle, _ in self.protocol.pipeline]
        cycles = {id(cycle): cycle for cycle in (*waiting, self.protocol._running, self.protocol.cycle) if cycle}
        heads = {id(head): head for head in [cycle.scope["headers"] for cycle in cycles.values()]}
        begun: list[tuple[bytes, bytes]] | None = self.protocol.headers
        heads |= {id(begun): begun or []}
        fields = sum(len(name) + len(value) + 4 for head in heads.values() for name, value in head)
        return fields + sum(len(cycle.body) for cycle in cycles.values())

    def end(self) -> None:
        for task in list(self.protocol.tasks):
            task.cancel()
        if not self.transport.closed:
            self.protocol.connection_lost(None)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))
