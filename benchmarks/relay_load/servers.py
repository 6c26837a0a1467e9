"""The servers under load, each in a process of its own: `python servers.py FD KIND [CERTIFICATE KEY]`.

``relay`` is `featuregate serve` over three fake brokers, whose epoch rises as KRaft's does, ``polling`` the same with a
poll each second, and ``bare`` the same stack with constant answers. A line on standard input changes the cluster; the
line on standard output is the time before it, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import featuregate as fg
from featuregate.testing import FakeCluster
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.server import PolledCluster, serve

if TYPE_CHECKING:
    from starlette.requests import Request

EPOCH_SECONDS = 0.5
GATE = ("new-groups", "kip848")
HEADERS = {
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
    "Featuregate-Age": "12.345678",
    "Featuregate-Epoch": "5613",
    "Featuregate-Revision": "1f0c53a8f05c9f8f0c2be8e4b3a1d6a7",
    "Featuregate-Seen-At": "1795396691.57635",
    "ETag": 'W/"1f0c53a8f05c9f8f0c2be8e4b3a1d6a7"',
}
FLAG = b'{"key":"new-groups","value":true,"reason":"STATIC","variant":"open","metadata":{"stale":false,"age":1.234}}'
VIEW = bytes(1500)
"""As large as a compressed view of three brokers."""
EVENT = b'id: 1f0c53a8f05c9f8f0c2be8e4b3a1d6a7\nevent: view\ndata: {"cluster": "orders", "status": "ok"}\n\n'


def main() -> None:
    listener, kind = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    tls = Certificates(Path(sys.argv[3]), Path(sys.argv[4])) if len(sys.argv) > 3 else None
    kinds: dict[str, Callable[[socket.socket, Certificates | None], None]]
    kinds = {"relay": relay, "polling": partial(relay, interval=1.0), "bare": bare}
    kinds[kind](listener, tls)


def relay(listener: socket.socket, tls: Certificates | None, *, interval: float = 3600.0) -> None:
    with FakeCluster(3) as brokers:
        features = fg.Discoverer(brokers.bootstrap, interval=interval)
        gate = features.gate(*GATE)
        levels = 0

        def change() -> None:
            nonlocal levels
            levels += 1
            brokers.finalize({"transaction.version": 2 - levels % 2})
            features.refresh()

        obey(change)
        threading.Thread(target=keep_moving, args=(brokers,), daemon=True).start()
        serve({"orders": PolledCluster(features, (gate,))}, listener, tls=tls)


def keep_moving(brokers: FakeCluster) -> None:
    while True:
        brokers.advance_epoch()
        time.sleep(EPOCH_SECONDS)


def bare(listener: socket.socket, tls: Certificates | None) -> None:
    """Serve constants by the stack of the relay, with what a wait and a stream need at the least."""
    changed = asyncio.Event()
    holding = 0

    async def view(request: Request) -> Response:
        nonlocal holding
        if "wait" in request.query_params:
            holding += 1
            await changed.wait()
            return Response(VIEW, headers=HEADERS, media_type="application/json")
        return Response(status_code=304, headers=HEADERS)

    async def events(_request: Request) -> Response:
        return StreamingResponse(stream(), media_type="text/event-stream")

    async def stream() -> AsyncIterator[bytes]:
        nonlocal holding
        yield EVENT
        holding += 1
        await changed.wait()
        yield EVENT
        await asyncio.Event().wait()

    async def flag(request: Request) -> Response:
        await request.body()
        return Response(FLAG, media_type="application/json")

    async def flags(request: Request) -> Response:
        await request.body()
        return Response(status_code=304, headers=HEADERS)

    async def metrics(_request: Request) -> Response:
        return PlainTextResponse(f"held {holding}\n")

    app = Starlette(
        routes=[
            Route("/v1/clusters/{name}/view", view),
            Route("/v1/clusters/{name}/events", events),
            Route("/ofrep/v1/evaluate/flags", flags, methods=["POST"]),
            Route("/ofrep/v1/evaluate/flags/{key}", flag, methods=["POST"]),
            Route("/metrics", metrics),
        ]
    )
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="uvloop",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls.context,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        obey(lambda: loop.call_soon_threadsafe(changed.set))
        await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def obey(change: Callable[[], object]) -> None:
    """Change the cluster for each line of standard input."""

    def run() -> None:
        for _ in sys.stdin:
            began = time.monotonic()
            change()
            print(began, flush=True)

    threading.Thread(target=run, daemon=True).start()


if __name__ == "__main__":
    main()
