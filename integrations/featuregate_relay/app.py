"""The HTTP interface of a relay: what each path answers, from the discoverers of its clusters. No sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from featuregate.errors import RequirementError
from featuregate.requirements import And, Or, Requirement, conditions_in, configs_in, parse, presets
from featuregate.sources.relay_responses import AGE_HEADER, EPOCH_HEADER, SEEN_AT_HEADER, SEEN_HEADER, freshness_of
from featuregate_relay.access.authentication import Access, Authentication, client_of
from featuregate_relay.access.hosts import LocalHosts, NotStored
from featuregate_relay.clusters import PolledCluster, ServedCluster
from featuregate_relay.flags.ofrep import Evaluations, FlagPaths
from featuregate_relay.metrics import CONTENT_TYPE, ClusterNumbers, exposition
from featuregate_relay.page.paths import Pages
from featuregate_relay.refusals import RequestRefused, refusal
from featuregate_relay.views.event_stream import ClusterEvents, OpenStreams, open_stream
from featuregate_relay.views.floors import FLOOR_SECONDS, Floors
from featuregate_relay.views.view_answers import UnchangedViews, ViewPath
from featuregate_relay.waiting import unless_gone

if TYPE_CHECKING:
    from starlette.requests import Request

    from featuregate import Decision, Gate


__all__ = ["PolledCluster", "make_app"]

_WATCH_SECONDS: Final = 1.0
_CORS: Final[dict[str, Any]] = {
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["Authorization", "Content-Type", "If-None-Match", "Last-Event-ID", "X-API-Key"],
    "expose_headers": [
        "ETag",
        "Retry-After",
        AGE_HEADER,
        EPOCH_HEADER,
        SEEN_AT_HEADER,
        SEEN_HEADER,
    ],  # else scripts see none of them
}


def make_app(
    clusters: Mapping[str, PolledCluster],
    *,
    access: Access | None = None,
    origins: Sequence[str] = (),
    floor_seconds: float = FLOOR_SECONDS,
    local_only: bool = False,
) -> Starlette:
    """Return the ASGI app that serves these clusters, by name. The caller starts and closes the discoverers.

    ================================== ======================================================================
    path                               answer
    ================================== ======================================================================
    /v1/clusters                       the clusters, each with what `Discoverer.health` says, and since when
    /v1/clusters/{name}/view           the view as JSON, with ``ETag`` and ``Featuregate-Age``; 304, 400, 404, 503
    /v1/clusters/{name}/events         a stream of server-sent events: one for each change of the view, and heartbeats
    /v1/clusters/{name}/check?require= the decision of a requirement or a preset, with its reasons
    /v1/clusters/{name}/ofrep/v1/...   the flags of the cluster, by OFREP
    /ofrep/v1/...                      the same, where the relay has a single cluster
    /healthz                           200 while the process serves; no cluster is looked at
    /readyz                            503 until each cluster has a view, then 200, also while brokers are away
    /readyz?max-age=                   503 also while the answers of a cluster are older than SECONDS
    /metrics                           numbers of each cluster, broker and gate, for Prometheus
    /                                  a page for people: all clusters, or the only one
    /clusters/{name}                   the page of a cluster
    ================================== ======================================================================

    Nothing below the floor of a request is sent: it waits ``floor_seconds`` for a newer view. Views, events, checks and
    pages have floors.
    With ``?wait=SECONDS`` a request waits, 30 seconds at the most, for other content than ``If-None-Match`` names.
    ``access`` says which client may read what; without it, every client may read everything.
    ``origins`` are those of the pages whose scripts may read the responses.
    ``local_only``: requests that name another host than this machine are refused.
    ``app.state.stop_waiting()`` ends every wait, before the server drains.
    """
    served = {name: ServedCluster(name, cluster) for name, cluster in clusters.items()}
    relay = _Relay(served, floor_seconds)
    paths: list[Route] = [
        Route("/v1/clusters", relay.list_clusters),
        Route("/v1/clusters/{name}/view", relay.view),
        Route("/v1/clusters/{name}/events", relay.events),
        Route("/v1/clusters/{name}/check", relay.check),
        Route("/healthz", relay.live),
        Route("/readyz", relay.ready),
        Route("/metrics", relay.metrics),
        *relay.flags.routes("/v1/clusters/{name}", relay.cluster_of),
        *Pages(relay.cluster_of, relay.readable_clusters, relay.floors).routes(),
    ]
    bases = {f"/v1/clusters/{name}": cluster for name, cluster in served.items()}
    if len(served) == 1:  # a client that names no cluster can mean this one only
        (only,) = served.values()
        find = partial(relay.readable, name=only.name)
        paths = [*relay.flags.routes("", find), *paths]
        bases[""] = only
    app = Starlette(
        routes=paths,
        exception_handlers={RequestRefused: refusal},
        lifespan=relay.lifespan,
        middleware=[
            Middleware(NotStored),
            *([Middleware(LocalHosts)] if local_only else []),
            *([Middleware(CORSMiddleware, allow_origins=origins, **_CORS)] if origins else []),
            *([] if access is None else [Middleware(Authentication, access)]),
            Middleware(UnchangedViews, served, relay.views),
            Middleware(Evaluations, bases, relay.flags),
        ],
    )
    app.router.redirect_slashes = False  # it would lead to whichever host the request names
    app.state.stop_waiting = relay.stop_waiting
    return app


class _Relay:
    """The handlers of the paths, and the clusters that they look at."""

    def __init__(self, clusters: Mapping[str, ServedCluster], floor_seconds: float) -> None:
        self._clusters = clusters
        self.floors = Floors(floor_seconds)
        self.views = ViewPath(self.floors)
        self.streams = OpenStreams()
        self.flags = FlagPaths(clusters, floor_seconds=floor_seconds)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Watch the clusters while the app runs, so that each status is known with its beginning."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            for cluster in self._clusters.values():
                cluster.worker.close()

    async def _watch(self) -> None:
        while True:
            for cluster in self._clusters.values():
                cluster.health()
            await asyncio.sleep(_WATCH_SECONDS)

    def stop_waiting(self) -> None:
        for cluster in self._clusters.values():
            cluster.stop_waiting()

    def cluster_of(self, request: Request) -> ServedCluster:
        """Return the cluster of the path; raises `RequestRefused`."""
        return self.readable(request, request.path_params["name"])

    def readable(self, request: Request, name: str) -> ServedCluster:
        """Return a cluster. A client that may not read it does not learn whether it exists; raises `RequestRefused`."""
        client = client_of(request)
        if not client.may_read(name):
            raise RequestRefused(403, f"{client.name} may not read cluster {name!r}")
        cluster = self._clusters.get(name)
        if cluster is None:
            raise RequestRefused(
                404, f"this relay has no cluster {name!r}: it has {', '.join(self.readable_clusters(request))}"
            )
        return cluster

    def readable_clusters(self, request: Request) -> dict[str, ServedCluster]:
        client = client_of(request)
        return {name: cluster for name, cluster in self._clusters.items() if client.may_read(name)}

    async def list_clusters(self, request: Request) -> Response:
        return JSONResponse({"clusters": _health(self.readable_clusters(request))})

    async def view(self, request: Request) -> Response:
        return await self.views.answer(request, self.cluster_of(request))

    async def events(self, request: Request) -> Response:
        """Stream the changes of a cluster. A client that comes back says what it has seen."""
        cluster = self.cluster_of(request)
        await self.floors.reached(request, cluster)
        await cluster.prepare()
        events = ClusterEvents(cluster, request.headers.get("Last-Event-ID"))
        return open_stream(request, self.streams, events, self.floors.seconds)

    async def check(self, request: Request) -> Response:
        """Decide a requirement. The headers and the cluster id of the decision are the floor of the next request."""
        cluster = self.cluster_of(request)
        text = request.query_params.get("require", "")
        await self.floors.reached(request, cluster)
        content = await unless_gone(request.receive, cluster.worker.run(lambda: _decided(cluster, text)))
        view, age = cluster.features.view_and_age()  # not before: the client must not have seen more than this says
        fresh = {} if view is None else {AGE_HEADER: f"{age:.6f}", **freshness_of(view)}
        headers = {"Cache-Control": "no-store", **fresh}
        return Response(content, media_type="application/json", headers=headers)

    async def live(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Say whether each cluster has a view. One that has keeps it, so that no broker's failure takes a relay out.

        Unless the probe asks for more, by ``?max-age=SECONDS``.
        """
        text = request.query_params.get("max-age", "inf")
        if "max-age" in request.query_params and not text.isdecimal():
            raise RequestRefused(400, f"max-age must be a whole number of seconds, not {text!r}")
        health = _health(self._clusters)
        ages = [each["age_seconds"] for each in health.values()]
        state = "waiting for brokers" if None in ages else "too old" if max(ages) > float(text) else "ready"
        shown = {name: health[name] for name in self.readable_clusters(request)}
        status = {"status": state, "clusters": shown}
        return JSONResponse(status, status_code=200 if state == "ready" else 503)

    async def metrics(self, request: Request) -> Response:
        numbers = {
            name: ClusterNumbers(
                cluster.features.health(), cluster.features.view, cluster.next_view.waiting, cluster.next_state.waiting
            )
            for name, cluster in self.readable_clusters(request).items()
        }
        content = await asyncio.to_thread(exposition, numbers)  # it has a line for each broker
        return Response(content, headers={"Content-Type": CONTENT_TYPE})


def _decided(cluster: ServedCluster, text: str) -> bytes:
    """Decide the requirement of a client, in the thread of the cluster; raises `RequestRefused`."""
    return decision_json(cluster.features.evaluate(asked_requirement(text, cluster.gates)))


def _health(clusters: Mapping[str, ServedCluster]) -> dict[str, dict[str, Any]]:
    return {name: cluster.health() for name, cluster in clusters.items()}


LONGEST_REQUIREMENT: Final = 1000
"""Characters of the text."""
MOST_CONDITIONS: Final = 64
"""Those of presets included, and without those that follow themselves."""
MOST_REASONS: Final = 6000
"""Reasons in one answer: one for each broker of the largest cluster. Reasons that keep the gate closed come first."""


OF_PRESETS: Final = frozenset(name for preset in presets.all() for name in configs_in(preset))
"""The configs on which presets depend."""


def asked_requirement(text: str, gates: Iterable[Gate] = ()) -> Requirement:
    """Return the requirement of a client's text, without duplicates.

    It may name the configs of presets and of the relay's ``gates``. A client that could name others would read whatever
    brokers tell the relay, and use up the number of configs that are asked for. Raises RequestRefused: the text does
    not parse, is too long, has too many conditions, or names another config (400).
    """
    if len(text) > LONGEST_REQUIREMENT:
        raise RequestRefused(400, f"require: has {len(text)} characters, and {LONGEST_REQUIREMENT} are allowed")
    try:
        requirement = _without_duplicates(parse(text))
    except RequirementError as error:
        raise RequestRefused(400, f"require: {error}") from None
    number = sum(1 for _ in conditions_in(requirement))
    if number > MOST_CONDITIONS:
        raise RequestRefused(400, f"require: has {number} conditions, and {MOST_CONDITIONS} are allowed")
    named = set(configs_in(requirement)) - OF_PRESETS
    if others := sorted(named.difference(*(configs_in(gate.requirement) for gate in gates))):
        raise RequestRefused(400, f"require: config:{others[0]} is of no preset and of no gate of this relay")
    return requirement


def _without_duplicates(requirement: Requirement) -> Requirement:
    match requirement:
        case And(parts) | Or(parts):
            distinct = tuple(dict.fromkeys(_without_duplicates(part) for part in parts))
            return distinct[0] if len(distinct) == 1 else type(requirement)(distinct)
        case _:
            return requirement


def decision_json(decision: Decision) -> bytes:
    """Return a decision as JSON, each reason once; where there are too many, with the number of those left out."""
    answer: dict[str, Any] = decision.to_dict()
    reasons = {tuple(reason.values()): reason for reason in answer["reasons"]}
    more = len(reasons) - MOST_REASONS
    answer["reasons"] = list(reasons.values())[:MOST_REASONS]
    return json.dumps(answer | ({"more_reasons": more} if more > 0 else {})).encode()
