"""Clients of one machine, without a library: what they take themselves must not hide what the server takes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_load.processes import Server

AT_A_TIME = 200
"""Connections that are opened at once."""
BOUND = 120.0
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"
_UNCHANGED = b"HTTP/1.1 304 "


def get(path: str, **headers: str) -> bytes:
    return _request("GET", path, headers, b"")


def post(path: str, body: bytes, **headers: str) -> bytes:
    return _request(
        "POST", path, {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}, body
    )


def _request(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Asking(asyncio.Protocol):
    """Sends the same request again as soon as the response is there."""

    def __init__(self, request: bytes, status: int, count: Callable[[], bool], ended: asyncio.Future[None]) -> None:
        self._request = request
        self._wanted = f"HTTP/1.1 {status} ".encode()
        self._count = count
        self._ended = ended
        self._received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_END)
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if length is not None and len(body) < int(length[1]):
            return
        if not head.startswith(self._wanted):
            self._end(RuntimeError(f"the server answered {self._received!r}"))
        self._received = b""
        if self._count():
            self._transport.write(self._request)
        else:
            self._end(None)

    def connection_lost(self, _error: Exception | None) -> None:
        self._end(RuntimeError("the server has closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None) if error is None else self._ended.set_exception(error)
        self._transport.close()


async def ask(server: Server, request: bytes, status: int, number: int, connections: int = 16) -> None:
    """Send so many requests over kept connections, each connection one at a time."""
    loop = asyncio.get_running_loop()
    left = number

    def count() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    for ended in ends:

        def made(ended: asyncio.Future[None] = ended) -> _Asking:
            return _Asking(request, status, count, ended)

        await loop.create_connection(made, "127.0.0.1", server.port)
    await asyncio.wait_for(asyncio.gather(*ends), BOUND)


class _Held(asyncio.Protocol):
    def __init__(self, request: bytes, arrived: Callable[[bytes], None]) -> None:
        self._request = request
        self._arrived = arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if data.startswith(_UNCHANGED):  # a poll that has ended: ten thousand take longer to connect than one waits
            self._transport.write(self._request)
        self._arrived(data)


class Connections:
    """Connections that wait for an answer or for events."""

    def __init__(self, server: Server, request: bytes) -> None:
        self._server = server
        self._request = request
        self._transports: list[asyncio.BaseTransport] = []
        self._times: list[float] = []
        self._mark = b""

    async def open(self, number: int) -> None:
        """Open so many, and wait until the server holds them all."""
        loop = asyncio.get_running_loop()
        for _ in range(0, number, AT_A_TIME):
            opened = await asyncio.gather(
                *(
                    loop.create_connection(
                        lambda: _Held(self._request, self._arrived),
                        "127.0.0.1",
                        self._server.port,
                        ssl=self._server.tls,
                        ssl_handshake_timeout=BOUND if self._server.tls else None,
                    )
                    for _ in range(AT_A_TIME)
                )
            )
            self._transports += [transport for transport, _ in opened]
        await _until(lambda: self._server.held() >= number)

    async def after_change(self, mark: bytes) -> list[float]:
        """Change the cluster, and return the seconds after which each connection has it, in their order.

        ``mark`` is what only the news begin with.
        """
        self._times, self._mark = [], mark
        began = await asyncio.to_thread(self._server.change)
        await _until(lambda: len(self._times) >= len(self._transports))
        return sorted(each - began for each in self._times)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()

    def _arrived(self, data: bytes) -> None:
        if self._mark and self._mark in data:
            self._times.append(time.monotonic())


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not await asyncio.to_thread(done):  # noqa: ASYNC110 - another process tells nothing
            await asyncio.sleep(0.1)
