"""The HTTP interface of a relay: what each path answers, from the discoverers of its clusters. No sockets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate.sources.http import AGE_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from featuregate import Discoverer, View

__all__ = ["make_app"]

_RETRY_SECONDS: Final = "1"


def make_app(clusters: Mapping[str, Discoverer]) -> Starlette:
    """Return the ASGI app that serves these clusters, by name. The caller starts and closes the discoverers.

    ========================== ==========================================================================
    path                       answer
    ========================== ==========================================================================
    /v1/clusters               names of the clusters, each with what `Discoverer.health` says
    /v1/clusters/{name}/view   the view as JSON, with ``ETag`` and ``Featuregate-Age``; 304, 404, 503
    /healthz                   200 while the process serves; no cluster is looked at
    /readyz                    503 until each cluster has a view, then 200, also while brokers are away
    ========================== ==========================================================================
    """
    relay = _Relay(clusters)
    return Starlette(
        routes=[
            Route("/v1/clusters", relay.list_clusters),
            Route("/v1/clusters/{name}/view", relay.view),
            Route("/healthz", relay.live),
            Route("/readyz", relay.ready),
        ]
    )


class _Relay:
    """The handlers of the paths, and the clusters that they look at."""

    def __init__(self, clusters: Mapping[str, Discoverer]) -> None:
        self._clusters = clusters

    async def list_clusters(self, _request: Request) -> Response:
        return JSONResponse({"clusters": self._health()})

    async def view(self, request: Request) -> Response:
        name = request.path_params["name"]
        features = self._clusters.get(name)
        if features is None:
            known = ", ".join(self._clusters)
            return _error(404, f"this relay has no cluster {name!r}: it has {known}")
        # The age is read first. A poll that ends in between makes the view younger than its age says, never older.
        health = features.health()
        view = features.view
        if view is None:
            return _error(503, f"no broker of {name} has answered yet: {health['last_error']}", retry=True)
        return _view(view, health["age_seconds"], request.headers.get("If-None-Match"))

    async def live(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """Say whether each cluster has a view. One that has keeps it, so that no broker's failure takes a relay out."""
        ready = all(features.view is not None for features in self._clusters.values())
        status = {"status": "ready" if ready else "waiting for brokers", "clusters": self._health()}
        return JSONResponse(status, status_code=200 if ready else 503)

    def _health(self) -> dict[str, dict[str, Any]]:
        return {name: features.health() for name, features in self._clusters.items()}


def _view(view: View, age: float | None, known: str | None) -> Response:
    body = view.to_json().encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    # Only this process knows the age of the view, so no cache may answer without asking it.
    headers = {"ETag": etag, "Cache-Control": "no-cache", AGE_HEADER: f"{age or 0.0:.3f}"}
    if known is not None and _names(known, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def _names(condition: str, etag: str) -> bool:
    """Say whether ``If-None-Match`` holds this entity tag; weak tags match, too (RFC 9110, 13.1.2)."""
    tags = [tag.strip().removeprefix("W/") for tag in condition.split(",")]
    return etag in tags or "*" in tags


def _error(status: int, problem: str, *, retry: bool = False) -> Response:
    return JSONResponse(
        {"error": problem}, status_code=status, headers={"Retry-After": _RETRY_SECONDS} if retry else None
    )
