"""Run the relay's app on a socket until the process is told to stop."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import uvicorn

from featuregate_relay.app import make_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate import Discoverer

__all__ = ["bind", "serve"]

_DRAIN_SECONDS: Final = 10
"""How long requests that are under way may take when the relay stops."""
_BACKLOG: Final = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port. Raises OSError, which says why."""
    family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


class _Stopped(BaseException):
    """The process was told to stop."""


def _stop(*_: object) -> None:
    raise _Stopped


def serve(clusters: Mapping[str, Discoverer], listener: socket.socket) -> None:
    """Poll these clusters and serve them until SIGINT or SIGTERM; then finish the requests that are under way.

    The discoverers poll in threads of their own, so that no handshake with a broker delays a response. They are closed
    at the end; the listener is, too.
    """
    config = uvicorn.Config(
        make_app(clusters),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    # uvicorn drains at a signal, and raises the signal again when that is done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    with suppress(_Stopped), ExitStack() as running:
        running.enter_context(listener)
        for features in clusters.values():
            running.enter_context(features)
        uvicorn.Server(config).run(sockets=[listener])
