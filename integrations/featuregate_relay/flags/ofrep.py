"""The paths of OpenFeature's remote evaluation protocol, OFREP 0.3.0: one flag, or all flags."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from featuregate.flags import PREFIXES, no_flag
from featuregate.sources.seen import Seen
from featuregate_relay.access.authentication import client_in
from featuregate_relay.entity_tags import if_none_match_in
from featuregate_relay.flags.cluster_flags import AllFlags, ClusterFlags
from featuregate_relay.refusals import RequestRefused, refusal
from featuregate_relay.views.floors import problem_after

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.views.view_body import RawHeaders

_FLAGS: Final = "/ofrep/v1/evaluate/flags"
_MOST_BYTES: Final = 64 * 1024
"""Bytes of the body of a request. Nothing in it changes the answer."""
_NO_ANSWER: Final = "no broker has answered yet"


class _FlagKey(PathConvertor):
    """The key of a flag may be any text: Starlette's own `path` ends at a line break."""

    regex = "(?s:.*)"


register_url_convertor("flag_key", _FlagKey())


class _BadRequest(Exception):
    """A request that the protocol does not allow: its error code, and what is wrong."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        super().__init__(code, details)
        self.status = status
        self.body = {"errorCode": code, "errorDetails": details}


class FlagPaths:
    """The handlers, and the flags of the clusters that they look at.

    Flags that are older than those of the client are never sent: the request waits ``floor_seconds`` for newer ones.
    """

    def __init__(self, clusters: Mapping[str, ServedCluster], *, floor_seconds: float) -> None:
        self._flags = {name: ClusterFlags(cluster) for name, cluster in clusters.items()}
        self._floor_seconds = floor_seconds

    def routes(self, base: str, find: Callable[[Request], ServedCluster]) -> list[Route]:
        """Return the paths that evaluate the gates and the levels of a cluster.

        A provider appends the paths of the protocol to its base URL, so that each cluster has its own: no provider can
        name a cluster in another way, and the keys of flags are the same in all clusters.
        """

        async def evaluate(request: Request) -> ASGIApp:
            return await self.evaluate(find(request), request.path_params.get("key"), request.scope, request.receive)

        return [
            Route(base + _FLAGS, evaluate, methods=["POST"]),
            Route(base + _FLAGS + "/{key:flag_key}", evaluate, methods=["POST"]),
        ]

    async def evaluate(self, cluster: ServedCluster, key: str | None, scope: Scope, receive: Receive) -> ASGIApp:
        """Return the response with the flag of this key, or with all flags; raises `RequestRefused`."""
        if _asks_for_another_protocol(scope):  # as Java's client does with each request: uvicorn skips the body then
            return _last_of_connection(await self._answer(cluster, key, scope))
        try:
            _check_context(await _body(receive))
        except _BadRequest as bad:
            return JSONResponse(bad.body if key is None else {"key": key, **bad.body}, status_code=bad.status)
        return await self._answer(cluster, key, scope)

    async def _answer(self, cluster: ServedCluster, key: str | None, scope: Scope) -> ASGIApp:
        flags = self._flags[cluster.name]
        return await self._all(flags, scope) if key is None else _one(flags, key)

    async def _all(self, flags: ClusterFlags, scope: Scope) -> ASGIApp:
        if_none_match = if_none_match_in(scope) or ""
        newest = flags.now()[0].all
        if newest is not None and if_none_match == f'"{newest.tag.text}"':  # most clients are in sync
            return _unchanged(if_none_match)
        seen = Seen.read(if_none_match)
        found, age = await self._not_below(flags, seen)
        tag = found.tag.joined(*seen)
        text = f'"{tag.text}"'
        if any(tag.is_same(known) for known in seen) or if_none_match.strip() == "*":
            return _unchanged(text)
        return _json(found.beginning + age + b"}}", *_tagged(text))

    async def _not_below(self, flags: ClusterFlags, seen: tuple[Seen, ...]) -> tuple[AllFlags, bytes]:
        """Return all flags and their age, once they are not older than those that the client has seen elsewhere."""
        problem = await problem_after(self._floor_seconds, flags.cluster, lambda: _problem(flags, seen))
        known, age = flags.now()
        found = known.held(seen)
        if found is None or problem is not None:
            raise RequestRefused(503, f"{flags.cluster.name}: {problem}", retry_after=1)
        return found, known.aged(age)


class Evaluations:
    """Middleware that evaluates flags of clusters that the client may read, and passes all other requests on.

    The routes have the same handler. Finding one of them takes longer than the answer.
    """

    def __init__(self, app: ASGIApp, clusters: Mapping[str, ServedCluster], paths: FlagPaths) -> None:
        self._app = app
        self._clusters = clusters
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Evaluate, or pass the request on."""
        base, is_evaluation, key = scope["path"].partition(_FLAGS) if scope.get("method") == "POST" else ("", "", "")
        cluster = self._clusters.get(base) if is_evaluation and key[:1] in {"", "/"} else None
        if cluster is None or not client_in(scope).may_read(cluster.name):
            await self._app(scope, receive, send)
            return
        try:
            response = await self._paths.evaluate(cluster, key[1:] if key else None, scope, receive)
        except RequestRefused as refused:
            response = await refusal(Request(scope), refused)
        await response(scope, receive, send)


def _one(flags: ClusterFlags, key: str) -> ASGIApp:
    known, age = flags.now()
    beginning = known.one(key)
    if beginning is not None:
        return _json(beginning + known.aged(age) + b"}}")
    if known.view is None and key.startswith(PREFIXES):
        raise RequestRefused(503, f"{flags.cluster.name}: {_NO_ANSWER}", retry_after=1)
    details = no_flag(key, known.keys)
    return JSONResponse({"key": key, "errorCode": "FLAG_NOT_FOUND", "errorDetails": details}, status_code=404)


def _json(body: bytes, *headers: tuple[bytes, bytes]) -> ASGIApp:
    length = b"content-length", b"%d" % len(body)
    return _encoded(200, [*headers, length, (b"content-type", b"application/json")], body)


def _unchanged(tag: str) -> ASGIApp:
    return _encoded(304, _tagged(tag))


def _tagged(tag: str) -> RawHeaders:
    return [(b"etag", tag.encode()), (b"cache-control", b"no-cache")]


def _encoded(status: int, headers: RawHeaders, body: bytes = b"") -> ASGIApp:
    """Return a response as ASGI has it: making an object of the framework takes longer than the answer."""

    async def respond(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return respond


def _problem(flags: ClusterFlags, seen: tuple[Seen, ...]) -> str | None:
    found = flags.now()[0].held(seen)
    if found is None:
        return _NO_ANSWER
    below = any(map(found.tag.is_below, seen))
    return "this relay is behind: the client has seen flags of a higher epoch" if below else None


def _asks_for_another_protocol(scope: Scope) -> bool:
    return any(name == b"upgrade" for name, _ in scope["headers"])


def _last_of_connection(response: ASGIApp) -> ASGIApp:
    """End the connection with this response: the bytes of the body that was skipped may still come."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await response(scope, receive, closing)

    return respond


async def _body(receive: Receive) -> bytes:
    """Return the body. A client that leaves within it reads no answer, whatever that is."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _MOST_BYTES:
            raise _BadRequest("PARSE_ERROR", f"the request has more than {_MOST_BYTES} bytes", 413)
    return body


def _check_context(body: bytes) -> None:
    """Check that the body is a request of the protocol. A targeting key is not needed: every app gets the same."""
    try:
        asked = _parsed(body)
    except (ValueError, RecursionError):
        raise _BadRequest("PARSE_ERROR", "the request is not JSON") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("context", {}), dict):
        raise _BadRequest("INVALID_CONTEXT", 'the request is not an object with an object "context"')


def _parsed(body: bytes) -> object:
    """Parse JSON by the faster library where it can. It takes no half of a surrogate pair, which JSON may have."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body)
