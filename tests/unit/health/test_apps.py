"""The health of a discoverer over ASGI and WSGI, mounted and alone."""

import asyncio
import json
from io import BytesIO
from typing import Any, NamedTuple
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from featuregate.health import asgi_app, wsgi_app
from featuregate.testing import StaticFeatures, release_view


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask_asgi(features, path: str, query: str = "", method: str = "GET") -> Answer:
    sent: list[Any] = []

    async def send(message) -> None:
        sent.append(message)

    async def ask() -> None:
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "root_path": ""}
        await asgi_app(features)(scope, None, send)

    asyncio.run(ask())
    start, body = sent
    headers = {name.decode().title(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], headers, body["body"])


def ask_wsgi(features, path: str, query: str = "", method: str = "GET") -> Answer:
    environ: dict[str, Any] = {
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "/mounted",
        "wsgi.input": BytesIO(),
    }
    setup_testing_defaults(environ)
    started: list[Any] = []
    pieces = validator(wsgi_app(features))(environ, lambda *said: started.append(said))
    body = b"".join(pieces)
    pieces.close()
    ((status, headers),) = started
    return Answer(int(status.split()[0]), dict(headers), body)


BOTH = pytest.mark.parametrize("ask", [ask_asgi, ask_wsgi])


@BOTH
def test_a_process_is_ready_when_it_has_a_view(ask) -> None:
    """Without a view, the process is alive and not ready."""
    features = StaticFeatures()
    assert ask(features, "/healthz").json == {"status": "ok"}
    waiting = ask(features, "/readyz")
    assert waiting.status == 503
    assert waiting.json["status"].startswith("no broker has answered yet: ")  # of the first poll, which may have ended
    features.show(release_view("4.2"))
    ready = ask(features, "/kafka/readyz")
    assert (ready.status, ready.json["status"]) == (200, "ready")
    assert ready.headers["Cache-Control"] == "no-store"
    assert ask(features, "").json["status"] == "ok"


@BOTH
def test_a_process_stays_ready_when_its_brokers_vanish(ask) -> None:
    """Unless the probe wants more: then its answers must be new enough."""
    features = StaticFeatures(release_view("4.2"))
    old = features.health() | {"age_seconds": 301.0, "status": "stale"}
    features.health = lambda: old  # type: ignore[method-assign]
    assert ask(features, "/readyz").status == 200
    late = ask(features, "/readyz", "max-age=300")
    assert (late.status, late.json["status"]) == (503, "no broker has answered for 301 s")
    assert ask(features, "/readyz", "max-age=302").status == 200
    for wrong in ("max-age=", "max-age=-1", "max-age=1e9", "max-age=\u00b2"):
        assert ask(features, "/readyz", wrong.encode().decode("latin-1")).status == 400


@BOTH
def test_other_paths_and_methods_are_refused(ask) -> None:
    """The app answers HEAD, which some balancers send."""
    features = StaticFeatures(release_view("4.2"))
    assert ask(features, "/metrics").status == 404
    refused = ask(features, "/readyz", method="POST")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    head = ask(features, "/readyz", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0


def test_a_server_may_run_the_app_alone() -> None:
    """It follows the lifespan, and refuses what is no HTTP."""
    app = asgi_app(StaticFeatures())
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive():
        return messages.pop(0)

    async def send(message) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(ValueError, match="HTTP only, not websocket"):
        asyncio.run(app({"type": "websocket"}, receive, send))
