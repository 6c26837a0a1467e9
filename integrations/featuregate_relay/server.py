"""Run the relay's app on a socket until a signal stops the process.

uvicorn has no deadline for a request or for a reader, and no limit on connections: a proxy before the relay has these.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import uvicorn

from featuregate_relay.app import PolledCluster, make_app

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from featuregate_relay.access.authentication import Access
    from featuregate_relay.access.certificates import Certificates

__all__ = ["PolledCluster", "bind", "serve"]

DRAIN_SECONDS: Final = 10
"""How long requests that are under way may take when the relay stops."""
_RENEW_TICKS: Final = 100
"""In ticks of the server (10 a second)."""
_BACKLOG: Final = 2048
_ALLOCATIONS: Final = 50_000
"""Objects between two collections. A stream has 150, and none in a cycle. With Python's 700, the events of a change to
thousands of streams wait most of the time for a look through all streams, which finds nothing."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port. Raises OSError, which says why."""
    family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _raise_file_limit() -> None:
    """Open as many files as the system allows: each stream needs one, and the soft limit is often a thousand."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems do not let a process have all that they name
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _is_error(record: logging.LogRecord) -> bool:
    """Say whether something went wrong. A request that the end of draining cancels is counted in a line of its own."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class _Stopped(BaseException):
    """A signal has asked the process to stop."""


def _stop(*_: object) -> None:
    raise _Stopped


class RelayServer(uvicorn.Server):
    """A server that lets waiting requests go before it drains: else each would take the whole time of draining."""

    def __init__(self, app: Starlette, certificates: Certificates | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                loop="uvloop",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",  # a line for each malformed request would let any client fill the disk
                access_log=False,
                server_header=False,
                proxy_headers=False,  # any client can send X-Forwarded-For
                ssl_context_factory=None if certificates is None else lambda _config, _default: certificates.context,
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )
        )
        self._stop_waiting = app.state.stop_waiting
        self._certificates = certificates

    async def on_tick(self, counter: int) -> bool:
        """Look for renewed certificates now and then."""
        if self._certificates is not None and counter % _RENEW_TICKS == 0:
            self._certificates.renew()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, answer what waits, and finish what is under way."""
        self._stop_waiting()
        await super().shutdown(sockets)


def serve(
    clusters: Mapping[str, PolledCluster],
    listener: socket.socket,
    *,
    access: Access | None = None,
    tls: Certificates | None = None,
    origins: Sequence[str] = (),
    local_only: bool = False,
) -> None:
    """Poll clusters and serve them until SIGINT or SIGTERM; then finish the requests that are under way.

    Each discoverer polls in a thread of its own, so that no handshake with a broker delays a response. They are closed
    at the end; the listener is, too.
    """
    gc.set_threshold(_ALLOCATIONS)
    logging.getLogger("uvicorn.error").addFilter(_is_error)
    _raise_file_limit()
    app = make_app(clusters, access=access, origins=origins, local_only=local_only)
    # uvicorn drains at a signal, and raises the signal again when that is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    with suppress(_Stopped), ExitStack() as running:
        running.enter_context(listener)
        for cluster in clusters.values():
            running.enter_context(cluster.features)
        RelayServer(app, tls).run(sockets=[listener])
