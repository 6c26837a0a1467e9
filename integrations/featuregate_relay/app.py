"""The HTTP interface of a relay: what each path answers, from the discoverers of its clusters. No sockets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate.errors import RequirementError
from featuregate.requirements import presets
from featuregate.sources.http import AGE_HEADER
from featuregate_relay import ofrep
from featuregate_relay.entity_tags import entity_tag, matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from featuregate import Discoverer, Gate, View

__all__ = ["Cluster", "make_app"]

_RETRY_SECONDS: Final = "1"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the relay polls, and the gates that it keeps there."""

    features: Discoverer
    gates: tuple[Gate, ...] = ()


def make_app(clusters: Mapping[str, Cluster]) -> Starlette:
    """Return the ASGI app that serves these clusters, by name. The caller starts and closes the discoverers.

    ================================== ======================================================================
    path                               answer
    ================================== ======================================================================
    /v1/clusters                       names of the clusters, each with what `Discoverer.health` says
    /v1/clusters/{name}/view           the view as JSON, with ``ETag`` and ``Featuregate-Age``; 304, 404, 503
    /v1/clusters/{name}/check?require= the decision of a requirement or a preset, with its reasons
    /ofrep/v1/evaluate/flags           the flags of the cluster, where the relay has a single one
    /healthz                           200 while the process serves; no cluster is looked at
    /readyz                            503 until each cluster has a view, then 200, also while brokers are away
    ================================== ======================================================================
    """
    relay = _Relay(clusters)
    paths = [
        Route("/v1/clusters", relay.list_clusters),
        Route("/v1/clusters/{name}/view", relay.view),
        Route("/v1/clusters/{name}/check", relay.check),
        Route("/healthz", relay.live),
        Route("/readyz", relay.ready),
    ]
    if len(clusters) == 1:  # a flag's key has no room for the name of a cluster
        (cluster,) = clusters.values()
        paths += ofrep.routes(cluster.features, cluster.gates)
    return Starlette(routes=paths)


class _Relay:
    """The handlers of the paths, and the clusters that they look at."""

    def __init__(self, clusters: Mapping[str, Cluster]) -> None:
        self._clusters = clusters

    async def list_clusters(self, _request: Request) -> Response:
        return JSONResponse({"clusters": self._health()})

    async def view(self, request: Request) -> Response:
        name = request.path_params["name"]
        cluster = self._clusters.get(name)
        if cluster is None:
            return self._unknown(name)
        # The age is read first. A poll that ends in between makes the view younger than its age says, never older.
        health = cluster.features.health()
        view = cluster.features.view
        if view is None:
            return _error(503, f"no broker of {name} has answered yet: {health['last_error']}", retry=True)
        return _view(view, health["age_seconds"], request.headers.get("If-None-Match"))

    async def check(self, request: Request) -> Response:
        name = request.path_params["name"]
        cluster = self._clusters.get(name)
        if cluster is None:
            return self._unknown(name)
        try:
            decision = cluster.features.evaluate(presets.parse(request.query_params.get("require", "")))
        except RequirementError as error:
            return _error(400, f"require: {error}")
        return JSONResponse(decision.to_dict(), headers={"Cache-Control": "no-store"})

    async def live(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        """Say whether each cluster has a view. One that has keeps it, so that no broker's failure takes a relay out."""
        ready = all(cluster.features.view is not None for cluster in self._clusters.values())
        status = {"status": "ready" if ready else "waiting for brokers", "clusters": self._health()}
        return JSONResponse(status, status_code=200 if ready else 503)

    def _health(self) -> dict[str, dict[str, Any]]:
        return {name: cluster.features.health() for name, cluster in self._clusters.items()}

    def _unknown(self, name: str) -> Response:
        return _error(404, f"this relay has no cluster {name!r}: it has {', '.join(self._clusters)}")


def _view(view: View, age: float | None, if_none_match: str | None) -> Response:
    body = view.to_json().encode()
    tag = entity_tag(body)
    # Only this process knows the age of the view, so no cache may answer without asking it.
    headers = {"ETag": tag, "Cache-Control": "no-cache", AGE_HEADER: f"{age or 0.0:.3f}"}
    if matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def _error(status: int, problem: str, *, retry: bool = False) -> Response:
    return JSONResponse(
        {"error": problem}, status_code=status, headers={"Retry-After": _RETRY_SECONDS} if retry else None
    )
