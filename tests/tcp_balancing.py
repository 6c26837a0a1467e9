"""A TCP load balancer: one address, and behind it the ports of several brokers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

__all__ = ["TcpBalancer", "balancing_tcp"]

HOST = "127.0.0.1"
_PIECE = 64 * 1024


class TcpBalancer:
    """Passes the bytes of each connection on to the first port that accepts, and when that ends, to the next one.

    The client does not notice, because its own connection stays. All calls belong to the loop of the balancer.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.port = 0
        self.accepted = 0
        """How many connections clients have opened."""
        self._clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._passing: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def forget(self) -> None:
        """Pass nothing on any more, and tell no client, as where a connection was idle for too long."""
        for task in self._passing:
            task.cancel()

    def accept(self, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._clients.append((requests, answers))  # else asyncio would end a connection that is forgotten
        task = asyncio.ensure_future(self._pass(requests, answers))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    def close(self) -> None:
        self.forget()
        for _, answers in self._clients:
            answers.transport.abort()  # a client of TLS might not say that it has ended

    async def _pass(self, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        for port in self.ports:
            with suppress(ConnectionError):
                await _pass_to(port, requests, answers)
        answers.close()


async def _pass_to(port: int, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    said, backend = await asyncio.open_connection(HOST, port)
    upward = asyncio.ensure_future(_copy(requests, backend))
    downward = asyncio.ensure_future(_copy(said, answers))
    try:
        await asyncio.wait([upward, downward], return_when=asyncio.FIRST_COMPLETED)
    finally:
        backend.close()
        upward.cancel()
        downward.cancel()
        await asyncio.gather(upward, downward, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE):
        target.write(piece)


@asynccontextmanager
async def balancing_tcp(*ports: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[TcpBalancer]:
    """Listen on a free port of this machine; with ``tls``, clients speak TLS and the backends do not."""
    balancer = TcpBalancer(*ports)
    server = await asyncio.start_server(balancer.accept, HOST, 0, ssl=tls)
    balancer.port = server.sockets[0].getsockname()[1]
    try:
        yield balancer
    finally:
        server.close()
        balancer.close()
