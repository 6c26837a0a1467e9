"""What each path of a health app answers, and the apps that a web framework mounts. Pure."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from featuregate.polling.discoverer import Discoverer

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Message, Receive, Send], Awaitable[None]]


class HealthResponse(NamedTuple):
    """An HTTP response."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(cls, status: HTTPStatus, content: Mapping[str, Any], *more: tuple[str, str]) -> HealthResponse:
        """Return a response with JSON. No cache may keep it."""
        body = json.dumps(content).encode()
        headers = (
            ("Content-Type", "application/json"),
            ("Cache-Control", "no-store"),
            ("Content-Length", str(len(body))),
        )
        return cls(status, (*headers, *more), body)


def respond(method: str, path: str, query: str, health: Mapping[str, Any]) -> HealthResponse:
    """Answer a request.

    =================== ==================================================================================
    path                answer
    =================== ==================================================================================
    the root            200, and what `Discoverer.health` says
    /healthz            200 while the process answers at all; no broker matters
    /readyz             503 until there is a view, then 200, also while brokers are away
    /readyz?max-age=300 503 also while no broker has answered for 300 seconds
    =================== ==================================================================================

    Only the last part of the path counts, so that the app may be mounted anywhere.
    """
    if method not in {"GET", "HEAD"}:
        return HealthResponse.of(
            HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"{method} is not GET"}, ("Allow", "GET, HEAD")
        )
    found = _respond(path.rpartition("/")[2], query, health)
    return found._replace(body=b"") if method == "HEAD" else found


def _respond(name: str, query: str, health: Mapping[str, Any]) -> HealthResponse:
    match name:
        case "":
            return HealthResponse.of(HTTPStatus.OK, health)
        case "healthz":
            return HealthResponse.of(HTTPStatus.OK, {"status": "ok"})
        case "readyz":
            text = parse_qs(query, keep_blank_values=True).get("max-age", [None])[-1]
            if text is not None and not (text.isascii() and text.isdecimal()):
                return HealthResponse.of(HTTPStatus.BAD_REQUEST, {"error": "max-age must be a whole number of seconds"})
            problem = problem_of(health, None if text is None else float(text))
            status = HTTPStatus.OK if problem is None else HTTPStatus.SERVICE_UNAVAILABLE
            return HealthResponse.of(status, {"status": problem or "ready", "health": dict(health)})
    return HealthResponse.of(HTTPStatus.NOT_FOUND, {"error": "there are /, /healthz and /readyz"})


def problem_of(health: Mapping[str, Any], max_age: float | None) -> str | None:
    """Say why a process is not ready by its health; None where it is.

    A view stays for good, so that no failure of brokers takes all processes out of service at once, unless the probe
    asks for more by ``max_age``.
    """
    age = health["age_seconds"]
    if age is None:
        return f"no broker has answered yet: {health['last_error'] or 'the first poll has not ended'}"
    if max_age is not None and age > max_age:
        return f"no broker has answered for {age:.0f} s"
    return None


def asgi_app(features: Discoverer) -> App:
    """Return an app that answers by the health of a discoverer: see :func:`featuregate.health.responses.respond`.

    It is for FastAPI, Starlette, Django and their servers. The app does no I/O, and neither starts nor closes the
    discoverer.
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


def wsgi_app(features: Discoverer) -> WSGIApplication:
    """Return an app that answers by the health of a discoverer: see :func:`featuregate.health.responses.respond`.

    It is for Flask, Django and their servers (PEP 3333). The app does no I/O. Where a server forks its workers, each
    worker's discoverer starts to poll at the first request.
    """

    def health(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        features.ensure_polling()
        path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
        answer = respond(environ["REQUEST_METHOD"], path, query, features.health())
        start_response(f"{answer.status.value} {answer.status.phrase}", list(answer.headers))
        return [answer.body]

    return health
