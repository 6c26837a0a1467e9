"""The paths of OpenFeature's remote evaluation protocol, OFREP 0.3.0: one flag, or all flags."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate_relay.entity_tags import entity_tag, matches
from featuregate_relay.flags import Flag, gate_flag, level_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

    from featuregate_relay.clusters import ServedCluster

__all__ = ["routes"]

_MOST_BYTES: Final = 64 * 1024
"""Of a request. Nothing in it changes the answer."""


def routes(base: str, cluster_of: Callable[[Request], ServedCluster]) -> list[Route]:
    """Return the paths that evaluate the gates and the levels of a cluster.

    A provider appends the paths of the protocol to its base URL, so that each cluster has its own: no provider can
    name a cluster in another way, and the keys of flags are the same in all clusters.
    """
    flags = _Flags(cluster_of)
    prefix = f"{base}/ofrep/v1/evaluate/flags"
    return [
        Route(prefix, flags.evaluate_all, methods=["POST"]),
        Route(prefix + "/{key:path}", flags.evaluate_one, methods=["POST"]),
    ]


class _BadRequest(Exception):
    """A request that the protocol does not allow: its error code, and what is wrong."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        super().__init__(code, details)
        self.status = status
        self.body = {"errorCode": code, "errorDetails": details}


class _Flags:
    """The handlers, and which cluster they look at."""

    def __init__(self, cluster_of: Callable[[Request], ServedCluster]) -> None:
        self._cluster_of = cluster_of

    async def evaluate_one(self, request: Request) -> Response:
        key, cluster = request.path_params["key"], self._cluster_of(request)
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
        cluster = self._cluster_of(request)
        try:
            await _check_context(request)
        except _BadRequest as bad:
            return JSONResponse(bad.body, status_code=bad.status)
        freshness = _freshness(cluster)
        flags = [flag.to_dict() for flag in _flags(cluster)]
        # The age grows all the time, and is no reason to send the flags again.
        tag = entity_tag(json.dumps([flags, freshness["stale"]]).encode())
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if matches(request.headers.get("If-None-Match"), tag):
            return Response(status_code=304, headers=headers)
        return JSONResponse({"flags": flags, "metadata": freshness}, headers=headers)


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
