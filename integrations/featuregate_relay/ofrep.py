"""The paths of OpenFeature's remote evaluation protocol, OFREP 0.3.0: one flag, or all flags."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate_relay.access.authentication import STREAM_OF_FLAGS, ticket_for
from featuregate_relay.event_stream import OpenStreams, event, open_stream
from featuregate_relay.flag_tags import FlagTag, cluster_of, content_of, latch_of, stream_of
from featuregate_relay.flags import Flag, gate_flag, level_flags
from featuregate_relay.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.states import ClusterState

__all__ = ["routes"]

_FLAGS: Final = "/ofrep/v1/evaluate/flags"
_MOST_BYTES: Final = 64 * 1024
"""Of a request. Nothing in it changes the answer."""


def routes(
    base: str, find: Callable[[Request], ServedCluster], streams: OpenStreams, *, floor_seconds: float
) -> list[Route]:
    """Return the paths that evaluate the gates and the levels of a cluster, and the stream that tells of changes.

    A provider appends the paths of the protocol to its base URL, so that each cluster has its own: no provider can
    name a cluster in another way, and the keys of flags are the same in all clusters. Flags that are older than those
    of the client are never sent: the request waits ``floor_seconds`` for newer ones.
    """
    flags = _Flags(find, streams, floor_seconds)
    prefix = base + _FLAGS
    return [
        Route(prefix, flags.evaluate_all, methods=["POST"]),
        Route(prefix + "/{key:flag_key}", flags.evaluate_one, methods=["POST"]),
        Route(base + STREAM_OF_FLAGS, flags.events),
    ]


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


class _Found(NamedTuple):
    """All flags of a cluster, for one client."""

    flags: tuple[Flag, ...]
    tag: FlagTag
    freshness: dict[str, Any]


class _Flags:
    """The handlers, and which cluster they look at."""

    def __init__(self, find: Callable[[Request], ServedCluster], streams: OpenStreams, floor_seconds: float) -> None:
        self._find = find
        self._streams = streams
        self._floor_seconds = floor_seconds
        self._since: dict[str, FlagTag] = {}
        """For each cluster the flags without those that a client knows to be latched, since they changed."""

    async def evaluate_one(self, request: Request) -> Response:
        key, cluster = request.path_params["key"], self._find(request)
        try:
            await _check_context(request)
        except _BadRequest as bad:
            return JSONResponse({"key": key, **bad.body}, status_code=bad.status)
        for flag in _flags(cluster):
            if flag.key == key:
                response = flag.to_dict()
                response["metadata"] |= _freshness(cluster)
                return JSONResponse(response)
        details = f"there is no gate and no feature {key!r}"
        return JSONResponse({"key": key, "errorCode": "FLAG_NOT_FOUND", "errorDetails": details}, status_code=404)

    async def evaluate_all(self, request: Request) -> Response:
        cluster = self._find(request)
        try:
            await _check_context(request)
        except _BadRequest as bad:
            return JSONResponse(bad.body, status_code=bad.status)
        if_none_match = request.headers.get("If-None-Match", "")
        seen = FlagTag.read(if_none_match)
        found = await self._not_below(cluster, seen)
        stream = _stream_beside(request, cluster)
        tag = replace(found.tag, stream=stream_of(stream))
        headers = {"ETag": str(tag), "Cache-Control": "no-cache"}
        if any(tag.is_same(known) for known in seen) or if_none_match.strip() == "*":
            return Response(status_code=304, headers=headers)
        flags = [flag.to_dict() for flag in found.flags]
        streams = [{"type": "sse", "endpoint": {"requestUri": stream}}]
        return JSONResponse({"flags": flags, "metadata": found.freshness, "eventStreams": streams}, headers=headers)

    async def events(self, request: Request) -> Response:
        """Tell a client to fetch all flags: on each connect, since it may have missed a change, and on each change."""
        cluster = self._find(request)
        return open_stream(request, self._streams, cluster, lambda state, _seen: _refetch(state))

    async def _not_below(self, cluster: ServedCluster, seen: tuple[FlagTag, ...]) -> _Found:
        """Return all flags, once they are not older than those that the client has seen at another replica."""
        view = cluster.features.view
        found = self._all(cluster, seen)
        if _problem(found, seen) and self._floor_seconds > 0:
            await cluster.next_view.after(view, self._floor_seconds)
            found = self._all(cluster, seen)
        if found is None or _problem(found, seen):
            raise Refused(503, f"{cluster.name}: {_problem(found, seen)}", retry_after=1)
        return found

    def _all(self, cluster: ServedCluster, seen: tuple[FlagTag, ...]) -> _Found | None:
        view, freshness = cluster.features.view, _freshness(cluster)
        if view is None:
            return None
        flags = tuple(_flags(cluster))
        now = FlagTag(
            content=content_of(flags, stale=freshness["stale"]),
            cluster=cluster_of(view.cluster_id),
            epoch=view.epoch,
            since=int(datetime.now(UTC).timestamp()),
        )
        since = self._since.get(cluster.name)
        if since is None or (since.cluster, since.content) != (now.cluster, now.content):
            since = self._since[cluster.name] = now
        latches = {gate.name: latch_of(view.cluster_id, gate) for gate in cluster.gates if gate.policy == "sticky"}
        held = frozenset().union(*(tag.latched for tag in seen))
        flags = tuple(_held(flag) if latches.get(flag.key) in held else flag for flag in flags)
        latched = frozenset(latches[flag.key] for flag in flags if flag.key in latches and flag.value)
        content = content_of(flags, stale=freshness["stale"])
        return _Found(flags, replace(since, content=content, latched=latched), freshness)


def _refetch(state: ClusterState) -> bytes:
    return event("message", {"type": "refetchEvaluation"}, ident=state.revision)


def _stream_beside(request: Request, cluster: ServedCluster) -> str:
    """Return the path of the stream beside the path of the flags. Clients add the origin of their base URL."""
    path = request.url.path.removesuffix(_FLAGS) + STREAM_OF_FLAGS
    ticket = ticket_for(request, cluster.name)
    return path if ticket is None else f"{path}?ticket={ticket}"


def _problem(found: _Found | None, seen: tuple[FlagTag, ...]) -> str | None:
    if found is None:
        return "no broker has answered yet"
    below = any(found.tag.is_below(tag) for tag in seen)
    return "this relay is behind: the client has seen flags of a higher epoch" if below else None


def _held(flag: Flag) -> Flag:
    """Keep a gate open that the client has seen open: a latch is a set that only grows."""
    if flag.value:
        return flag
    return Flag(key=flag.key, value=True, variant="open", why=f"held open: another relay has latched it; {flag.why}")


def _flags(cluster: ServedCluster) -> Iterable[Flag]:
    for gate in cluster.gates:
        yield gate_flag(gate.name, gate.decision)
    yield from level_flags(cluster.features.view)


def _freshness(cluster: ServedCluster) -> dict[str, Any]:
    """Return how old the evidence is: OFREP has no reason STALE."""
    health = cluster.features.health()
    known = {"clusterId": health["cluster_id"], "age": health["age_seconds"]}
    stale = health["status"] not in {"ok", "degraded"}
    return {"stale": stale} | {name: value for name, value in known.items() if value is not None}


async def _check_context(request: Request) -> None:
    """Check that the body is a request of the protocol. A targeting key is not needed: every app gets the same."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise _BadRequest("PARSE_ERROR", f"the request has more than {_MOST_BYTES} bytes", 413)
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise _BadRequest("PARSE_ERROR", "the request is not JSON") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("context", {}), dict):
        raise _BadRequest("INVALID_CONTEXT", 'the request is not an object with an object "context"')
