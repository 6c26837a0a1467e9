"""The HTTP interface of a relay: what each path answers, from the discoverers of its clusters. No sockets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate.errors import RequirementError
from featuregate.sources.floor import Floor
from featuregate.sources.relay_connection import AGE_HEADER
from featuregate_relay import ofrep
from featuregate_relay.entity_tags import matches
from featuregate_relay.event_stream import MOST_STREAMS, EventStream, OpenStreams, changes, event
from featuregate_relay.metrics import CONTENT_TYPE, ClusterNumbers, exposition
from featuregate_relay.states import ClusterState, current_state
from featuregate_relay.view_body import ViewBody
from featuregate_relay.waiting import NextChange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from featuregate import Discoverer, Gate, View

__all__ = ["Cluster", "make_app"]

_RETRY_SECONDS: Final = "1"
_FLOOR_SECONDS: Final = 2.0
"""How long a request waits for a view that is not below its floor."""
_LONGEST_WAIT: Final = 30
"""Seconds of a long poll: below the idle timeouts of most proxies."""
_JITTER: Final = 0.1
_SPREAD_SECONDS: Final = 0.1
"""Over which the answers of all long polls are spread when a view changes."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the relay polls, and the gates that it keeps there."""

    features: Discoverer
    gates: tuple[Gate, ...] = ()


def make_app(clusters: Mapping[str, Cluster], *, floor_seconds: float = _FLOOR_SECONDS) -> Starlette:
    """Return the ASGI app that serves these clusters, by name. The caller starts and closes the discoverers.

    ================================== ======================================================================
    path                               answer
    ================================== ======================================================================
    /v1/clusters                       names of the clusters, each with what `Discoverer.health` says
    /v1/clusters/{name}/view           the view as JSON, with ``ETag`` and ``Featuregate-Age``; 304, 400, 404, 503
    /v1/clusters/{name}/events         a stream of server-sent events: one for each change of the view, and heartbeats
    /v1/clusters/{name}/check?require= the decision of a requirement or a preset, with its reasons
    /ofrep/v1/evaluate/flags           the flags of the cluster, where the relay has a single one
    /healthz                           200 while the process serves; no cluster is looked at
    /readyz                            503 until each cluster has a view, then 200, also while brokers are away
    /readyz?max-age=                   503 also while the answers of a cluster are older than so many seconds
    /metrics                           numbers of each cluster, broker and gate, for Prometheus
    ================================== ======================================================================

    A view that is below the floor of a request is never sent: the request waits ``floor_seconds`` for a newer one.
    With ``?wait=SECONDS`` a request waits, 30 seconds at the most, for another view than ``If-None-Match`` names.
    ``app.state.stop_waiting()`` ends every wait, before the server drains.
    """
    relay = _Relay(clusters, floor_seconds)
    paths = [
        Route("/v1/clusters", relay.list_clusters),
        Route("/v1/clusters/{name}/view", relay.view),
        Route("/v1/clusters/{name}/events", relay.events),
        Route("/v1/clusters/{name}/check", relay.check),
        Route("/healthz", relay.live),
        Route("/readyz", relay.ready),
        Route("/metrics", relay.metrics),
    ]
    if len(clusters) == 1:  # a flag's key has no room for the name of a cluster
        (cluster,) = clusters.values()
        paths += ofrep.routes(cluster.features, cluster.gates)
    app = Starlette(routes=paths)
    app.state.stop_waiting = relay.stop_waiting
    return app


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a request for a view says."""

    floor: Floor | None
    wait: float
    """Seconds for which the request waits for another view than the client has."""
    if_none_match: str | None
    accept_encoding: str

    @classmethod
    def of(cls, request: Request) -> Self:
        text = request.query_params.get("wait", "0")
        if not text.isdecimal():
            raise ValueError(f"wait must be a whole number of seconds, not {text!r}")
        wait = min(int(text), _LONGEST_WAIT) * (1 - _JITTER * random.random())  # noqa: S311 - spreads requests
        return cls(
            floor=Floor.from_query(request.query_params),
            wait=wait,
            if_none_match=request.headers.get("If-None-Match"),
            accept_encoding=request.headers.get("Accept-Encoding", ""),
        )


class _Relay:
    """The handlers of the paths, and the clusters that they look at."""

    def __init__(self, clusters: Mapping[str, Cluster], floor_seconds: float) -> None:
        self._clusters = clusters
        self._floor_seconds = floor_seconds
        self._bodies: dict[str, ViewBody] = {}
        self._next_views = {name: NextChange(_view_of(cluster.features)) for name, cluster in clusters.items()}
        self._states = {name: current_state(cluster.features) for name, cluster in clusters.items()}
        self._next_states = {name: NextChange(state, most=MOST_STREAMS) for name, state in self._states.items()}
        self._streams = OpenStreams()

    def stop_waiting(self) -> None:
        for change in (*self._next_views.values(), *self._next_states.values()):
            change.stop()

    async def list_clusters(self, _request: Request) -> Response:
        return JSONResponse({"clusters": self._health()})

    async def view(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._clusters:
            return self._unknown(name)
        try:
            wanted = _Wanted.of(request)
        except ValueError as error:
            return _error(400, str(error))
        body, age, problem = await self._body(name, wanted)
        if body is None or problem is not None:
            return _error(503, f"{name}: {problem}", retry=True)
        return _view(body, age, wanted)

    async def _body(self, name: str, wanted: _Wanted) -> tuple[ViewBody | None, float, str | None]:
        """Return the body, its age, and why it cannot be sent; wait for another view where the request allows it.

        A floor comes from a replica with a newer view, so that this one probably has it with its next poll.
        """
        began = _now()
        while True:
            body, age, problem = self._newest(name, wanted.floor)
            if problem is None and body is not None and not matches(wanted.if_none_match, body.tag):
                return body, age, problem
            patience = max(wanted.wait, self._floor_seconds if problem and wanted.floor else 0.0)
            left = began + patience - _now()
            if left <= 0 or not await self._next_views[name].after(None if body is None else body.view, left):
                return self._newest(name, wanted.floor)
            await asyncio.sleep(random.random() * _SPREAD_SECONDS)  # noqa: S311 - spreads a burst

    def _newest(self, name: str, floor: Floor | None) -> tuple[ViewBody | None, float, str | None]:
        # The age is read first. A poll that ends in between makes the view younger than its age says, never older.
        features = self._clusters[name].features
        health, view = features.health(), features.view
        age = health["age_seconds"] or 0.0
        if view is None:
            return None, age, f"no broker has answered yet: {health['last_error']}"
        body = self._bodies.get(name)
        if body is None or body.view is not view:
            body = self._bodies[name] = ViewBody(view)
        problem = None if floor is None else floor.above(view, age)
        return body, age, problem and f"this relay is behind: {problem}"

    async def events(self, request: Request) -> Response:
        """Stream the changes of a cluster. A client that comes back says which revision it has."""
        name = request.path_params["name"]
        if name not in self._clusters:
            return self._unknown(name)
        if problem := self._streams.problem(None):
            return _error(503, problem, retry=True)

        def tell(state: ClusterState, seen: str | None) -> bytes:
            kind = "view" if state.revision != seen else "health"
            return event(kind, {"cluster": name, **state.to_dict()}, ident=state.revision)

        def alive() -> dict[str, Any]:
            health = self._clusters[name].features.health()
            return {"status": health["status"], "age_seconds": health["age_seconds"]}

        seen = request.headers.get("Last-Event-ID")
        events = changes(self._next_states[name], self._states[name], seen, tell, alive)
        return EventStream(events, self._streams, None)

    async def check(self, request: Request) -> Response:
        name = request.path_params["name"]
        cluster = self._clusters.get(name)
        if cluster is None:
            return self._unknown(name)
        try:
            decision = cluster.features.evaluate(request.query_params.get("require", ""))
        except RequirementError as error:
            return _error(400, f"require: {error}")
        return JSONResponse(decision.to_dict(), headers={"Cache-Control": "no-store"})

    async def live(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Say whether each cluster has a view. One that has keeps it, so that no broker's failure takes a relay out.

        Unless the probe asks for more, by ``?max-age=SECONDS``.
        """
        text = request.query_params.get("max-age", "inf")
        if "max-age" in request.query_params and not text.isdecimal():
            return _error(400, f"max-age must be a whole number of seconds, not {text!r}")
        health = self._health()
        ages = [each["age_seconds"] for each in health.values()]
        state = "waiting for brokers" if None in ages else "too old" if max(ages) > float(text) else "ready"
        status = {"status": state, "clusters": health}
        return JSONResponse(status, status_code=200 if state == "ready" else 503)

    async def metrics(self, _request: Request) -> Response:
        numbers = {
            name: ClusterNumbers(
                cluster.features.health(),
                cluster.features.view,
                {gate.name: gate.open for gate in cluster.gates},
                self._next_views[name].waiting,
                self._next_states[name].waiting,
            )
            for name, cluster in self._clusters.items()
        }
        return Response(exposition(numbers), headers={"Content-Type": CONTENT_TYPE})

    def _health(self) -> dict[str, dict[str, Any]]:
        return {name: cluster.features.health() for name, cluster in self._clusters.items()}

    def _unknown(self, name: str) -> Response:
        return _error(404, f"this relay has no cluster {name!r}: it has {', '.join(self._clusters)}")


def _view_of(features: Discoverer) -> Callable[[], View | None]:
    return lambda: features.view


def _now() -> float:
    return asyncio.get_running_loop().time()


def _view(body: ViewBody, age: float, wanted: _Wanted) -> Response:
    content, coding = body.encoded(wanted.accept_encoding)
    # Only this process knows the age of the view, so no cache may answer without asking it.
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding", AGE_HEADER: f"{age:.6f}"}
    if matches(wanted.if_none_match, body.tag):
        return Response(status_code=304, headers=headers | {"ETag": coding["ETag"]})
    return Response(content, media_type="application/json", headers=headers | coding)


def _error(status: int, problem: str, *, retry: bool = False) -> Response:
    return JSONResponse(
        {"error": problem}, status_code=status, headers={"Retry-After": _RETRY_SECONDS} if retry else None
    )
