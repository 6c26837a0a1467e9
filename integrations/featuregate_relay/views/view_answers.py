"""The path of a view: the newest one that is not below the floor of the request, or a wait for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import parse_qsl

from starlette.responses import Response

from featuregate.sources.relay_responses import AGE_HEADER
from featuregate.sources.seen import Floor
from featuregate_relay.access.authentication import client_in
from featuregate_relay.entity_tags import if_none_match_in, matches
from featuregate_relay.refusals import RequestRefused
from featuregate_relay.views.floors import Floors, problem_after
from featuregate_relay.views.view_body import RawHeaders, ViewBody, accepts_gzip
from featuregate_relay.waiting import unless_gone

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from featuregate import View
    from featuregate_relay.clusters import ServedCluster

_RANDOM: Final = SystemRandom()
_LONGEST_WAIT: Final = 30
"""Seconds of a long poll: below the idle timeouts of most proxies."""
_JITTER: Final = 0.1
_AGE: Final = AGE_HEADER.lower().encode()
_SPREAD_SECONDS: Final = 0.1
"""Over which the answers of all long polls are spread when a view changes."""


@dataclass(frozen=True, slots=True)
class _ViewRequest:
    """What a request for a view says."""

    floor: Floor | None
    wait: float
    """Seconds for which the request waits for other content than the client has."""
    if_none_match: str | None
    revision: str | None
    """The revision that the client has; the client waits for another one."""
    accept_encoding: str

    @classmethod
    def of(cls, request: Request) -> Self:
        query = request.query_params
        text = query.get("wait", "0")
        if not text.isdecimal():
            raise ValueError(f"wait must be a whole number of seconds, not {text!r}")
        wait = min(int(text), _LONGEST_WAIT) * (1 - _JITTER * _RANDOM.random())
        return cls(
            floor=Floor.from_query(query),
            wait=wait,
            if_none_match=request.headers.get("If-None-Match"),
            accept_encoding=request.headers.get("Accept-Encoding", ""),
            revision=query.get("revision"),
        )

    def is_news(self, body: ViewBody) -> bool:
        """Say whether the client does not have this yet."""
        if self.revision is not None:
            return body.revision != self.revision
        return not matches(self.if_none_match, body.tag)


class ViewPath:
    """Answers requests for views, and keeps the body of the newest view of each cluster."""

    def __init__(self, floors: Floors) -> None:
        self._floors = floors
        self._bodies: dict[str, ViewBody] = {}

    async def answer(self, request: Request, cluster: ServedCluster) -> Response:
        """Return the view, or 304.

        Raises RequestRefused: a parameter is not a number; or there is no view, or none that is not below the floor.
        """
        try:
            wanted = _ViewRequest.of(request)
        except ValueError as error:
            raise RequestRefused(400, str(error)) from None
        finding = self._body(cluster, wanted)
        body, age, problem = await (unless_gone(request.receive, finding) if wanted.wait else finding)
        if body is None or problem is not None:
            raise RequestRefused(503, f"{cluster.name}: {problem}", retry_after=1)
        return await _view(cluster, body, age, wanted)

    def unchanged(self, cluster: ServedCluster, floor: Floor | None, if_none_match: str) -> RawHeaders | None:
        """Return the headers of 304 for a client that has the newest view; None: it has not, or it is not made yet."""
        view, age, problem = self._floors.newest(cluster, floor)
        body = None if view is None or problem is not None else self._known(cluster, view)
        if body is None or body.problem is not None or not matches(if_none_match, body.tag):
            return None
        return [*body.headers, _age(age)]

    async def _body(self, cluster: ServedCluster, wanted: _ViewRequest) -> tuple[ViewBody | None, float, str | None]:
        """Return the body, its age, and why it cannot be sent; wait for another view where the request allows it.

        A floor comes from a replica with a newer view, so that this one probably has it once it asks the brokers.
        """
        now, floor = asyncio.get_running_loop().time, wanted.floor
        ends = now() + wanted.wait
        if floor is not None:
            longest = max(wanted.wait, self._floors.seconds)
            await problem_after(longest, cluster, lambda: self._floors.newest(cluster, floor)[2])
        while True:
            body, age, problem = await self._newest(cluster, floor)
            left = ends - now()
            if left <= 0 or (problem is None and body is not None and wanted.is_news(body)):
                return body, age, problem
            if not await cluster.next_view.after(None if body is None else body.view, left):
                return await self._newest(cluster, floor)
            await asyncio.sleep(_RANDOM.random() * _SPREAD_SECONDS)

    async def _newest(self, cluster: ServedCluster, floor: Floor | None) -> tuple[ViewBody | None, float, str | None]:
        view, age, problem = self._floors.newest(cluster, floor)
        if view is None:
            return None, age, problem
        body = self._known(cluster, view)
        if body is None:
            aged = _Aging(cluster, view, age)
            body = await cluster.worker.run_once(id(view), lambda: self._make(cluster, view))
            age = aged.now()
        return body, age, problem or body.problem

    def _known(self, cluster: ServedCluster, view: View) -> ViewBody | None:
        body = self._bodies.get(cluster.name)
        if body is None or body.view is not view:
            return None
        latched = cluster.latched(view.cluster_id)
        return body if (body.latched, body.holds) == (latched, cluster.features.holds) else None

    def _make(self, cluster: ServedCluster, view: View) -> ViewBody:
        latched, before = cluster.latched(view.cluster_id), self._bodies.get(cluster.name)
        body = ViewBody(view, latched, cluster.features.holds, before=before)
        self._bodies[cluster.name] = body
        return body


async def _view(cluster: ServedCluster, body: ViewBody, age: float, wanted: _ViewRequest) -> Response:
    if matches(wanted.if_none_match, body.tag):
        response = Response(status_code=304)
    else:
        encoding, aged = wanted.accept_encoding, _Aging(cluster, body.view, age)
        encoded = body.made(encoding)
        if encoded is None:
            key = (id(body), accepts_gzip(encoding))
            encoded = await cluster.worker.run_once(key, lambda: body.encoded(encoding))
        age = aged.now()
        response = Response(encoded.content, media_type="application/json")
        response.raw_headers += encoded.coding
    response.raw_headers += [*body.headers, _age(age)]
    return response


class _Aging:
    """The age of a view whose body is made meanwhile, and which may not be the newest one any more then."""

    def __init__(self, cluster: ServedCluster, view: View, age: float) -> None:
        self._cluster, self._view, self._age = cluster, view, age
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()

    def now(self) -> float:
        view, age = self._cluster.features.view_and_age()
        return age if view is self._view else self._age + self._clock() - self._since


def _age(seconds: float) -> tuple[bytes, bytes]:
    return _AGE, b"%.6f" % seconds


class UnchangedViews:
    """Middleware that answers 304 where nothing else is to be decided, and passes all other requests on.

    It saves the objects that a framework makes for each request: half of the time of such a response.
    """

    def __init__(self, app: ASGIApp, clusters: Mapping[str, ServedCluster], views: ViewPath) -> None:
        self._app = app
        self._clusters = {f"/v1/clusters/{name}/view": cluster for name, cluster in clusters.items()}
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        headers = self._unchanged(scope)
        if headers is None:
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body"})

    def _unchanged(self, scope: Scope) -> RawHeaders | None:
        cluster = self._clusters.get(scope["path"]) if scope.get("method") == "GET" else None
        if cluster is None or not client_in(scope).may_read(cluster.name):
            return None
        if_none_match = if_none_match_in(scope)
        if if_none_match is None:
            return None
        try:
            query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
            floor = Floor.from_query(query)
        except ValueError:
            return None
        if "wait" in query:
            return None
        return self._views.unchanged(cluster, floor, if_none_match)
