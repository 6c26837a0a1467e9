"""The sockets of fake brokers: one thread, and a listener for each node."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from featuregate.errors import RemoteWireError
from featuregate.testing.fakes.session import ServerSession
from featuregate.wire.frames import FrameReader

if TYPE_CHECKING:
    import ssl

    from featuregate.testing.fakes.broker import FakeBroker

HOST = "127.0.0.1"
_BACKLOG = 128
_RESET = struct.pack("ii", 1, 0)
"""``struct linger``: on, zero seconds."""
_TURNS_TO_NOTICE_A_CLOSE = 3
"""Turns of the loop in which it reads the end of a stream and closes the connection, so that no answer is sent."""
T = TypeVar("T")


class Transmission(NamedTuple):
    """What a broker sends in reply to one request."""

    data: bytes
    """The bytes, a valid frame or not."""
    close: bool = False
    """Whether the broker closes the connection afterwards."""
    after: float = 0.0
    """Seconds before the bytes are sent."""


class LoopThread:
    """A daemon thread with an event loop, for all listeners of a cluster."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for its result in this thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def run_all(self, work: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run coroutines one after the other."""
        for each in work:
            self.run(each)

    def close(self) -> None:
        """Stop the thread, and wait for its end."""
        self.run(_end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end_tasks() -> None:
    """Cancel tasks that still run: those of connections that are being accepted."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Listener:
    """A port of the loopback interface, reserved from construction to `release`, open or not.

    While the listener is shut, connections are refused. A socket that is bound and does not listen keeps the port.
    Otherwise Linux could give the same port to a client that connects to it, and would connect the client to itself.
    """

    def __init__(self, handler: FakeBroker, tls: ssl.SSLContext | None, port: int = 0) -> None:
        self.handler = handler
        self.connections: set[_Connection] = set()
        self._tls = tls
        if port:
            _require_unused(port)
        self._keeper: socket.socket | None = _bind(port)
        self._listening: socket.socket | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self.port: int = self._keeper.getsockname()[1]

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._listening is not None

    async def open(self) -> None:
        """Accept connections."""
        if self._keeper is None:
            return
        self._listening, self._keeper = self._keeper, None
        self._listening.setblocking(False)  # noqa: FBT003 - the socket module's signature
        self._listening.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def shut(self) -> None:
        """Refuse connections, and reset open ones."""
        if self._listening is not None:
            self._keeper = _bind(self.port)
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for task in (connecting := list(self._connecting)):
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await self.hang_up()

    def _accept(self, listening: socket.socket) -> bool:
        """Accept one connection. Return whether there was one."""
        # Not by asyncio.Server: if it is closed between accepting and connecting, it loses the connection, and the
        # client waits for its timeout instead of being reset.
        try:
            accepted, _ = listening.accept()
        except OSError:  # none waits, or the client has gone already
            return False
        accepted.setblocking(False)  # noqa: FBT003 - the socket module's signature
        task = asyncio.get_running_loop().create_task(self._connect(accepted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        task.add_done_callback(lambda done: accepted.close() if done.cancelled() else None)
        return True

    async def _connect(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # a client that speaks no TLS, or has gone already
            await asyncio.get_running_loop().connect_accepted_socket(lambda: _Connection(self), accepted, ssl=self._tls)

    async def hang_up(self) -> None:
        """Reset open connections, and wait until they are closed."""
        leaving = set(self.connections)
        for connection in leaving:
            connection.hang_up()
        for connection in leaving:
            await connection.gone.wait()

    async def go_on(self) -> None:
        """Answer requests that have waited, if there is an answer now, and later ones."""
        for _ in range(_TURNS_TO_NOTICE_A_CLOSE):
            await asyncio.sleep(0)
        for connection in tuple(self.connections):
            connection.pump()

    async def forget(self) -> None:
        """Drop the requests that wait for an answer."""
        for connection in self.connections:
            connection.forget()

    async def release(self) -> None:
        """Shut the listener and release the port."""
        await self.shut()
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None


class _Connection(asyncio.Protocol):
    """Reads requests from a connection, and sends the answers of the broker."""

    def __init__(self, listener: Listener) -> None:
        self.gone = asyncio.Event()
        self._listener = listener
        self._session = ServerSession()
        self._frames = FrameReader()
        self._waiting: bytes | None = None
        self._delayed: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._listener.is_open:
            self._listener.connections.add(self)
        else:  # it was accepted just before the port was shut
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._delayed is not None:
            self._delayed.cancel()
        self._transport = None
        self._listener.connections.discard(self)
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        self.pump()

    def pump(self) -> None:
        """Answer requests in order. A request without an answer holds up all later ones, as in a broker."""
        try:
            while self._take_one():
                pass
        except RemoteWireError:
            self._send(Transmission(b"", close=True))

    def forget(self) -> None:
        """Drop the request that waits for an answer. Later requests are answered again."""
        self._waiting = None

    def hang_up(self) -> None:
        """Reset the connection. After a normal close, the port would stay busy for a minute."""
        if self._transport is not None:
            # With TLS, the client and the socket may be gone before asyncio calls connection_lost.
            accepted = self._transport.get_extra_info("socket")
            if accepted is not None and accepted.fileno() >= 0:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def _take_one(self) -> bool:
        """Answer the waiting or the next request. Return whether there may be another one."""
        if self._delayed is not None:
            return False
        if self._waiting is not None:
            transmission = self._listener.handler.respond(self._session, self._waiting)
        elif (payload := self._frames.next_frame()) is not None:
            self._waiting = payload
            transmission = self._listener.handler.receive(self._session, payload)
        else:
            return False
        if transmission is None:
            return False
        self._waiting = None
        if transmission.after:
            self._delayed = asyncio.get_running_loop().call_later(transmission.after, self._late, transmission)
            return False
        return self._send(transmission)

    def _late(self, transmission: Transmission) -> None:
        self._delayed = None
        if self._send(transmission):
            self.pump()

    def _send(self, transmission: Transmission) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(transmission.data)
        if transmission.close:
            self._transport.close()
        return not transmission.close


def _require_unused(port: int) -> None:
    """Raise OSError if another process listens: two listeners of `_bind` would share a port, and its clients."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as lone:
        lone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        lone.bind((HOST, port))


def _bind(port: int) -> socket.socket:
    """Bind without listening. With both options the next socket can bind the port before the last one closes it."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise
    return bound


class ReceivedRequest(NamedTuple):
    """One request that a fake broker received."""

    broker: int
    """The node id of the broker."""
    api: str
    """Kafka's name, such as ``ApiVersions``; ``API 999`` for an API that fake brokers do not know, ``SaslToken`` for a
    token without a header."""
    version: int
    """-1 for a token without a header."""
    client_id: str | None
