"""The answer to a client that has the newest view, which most requests of a fleet get."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from featuregate.sources.floor import Floor
from featuregate_relay.access.authentication import client_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.views.view_answers import ViewPath
    from featuregate_relay.views.view_body import RawHeaders


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
        if_none_match = None
        for name, value in scope["headers"]:
            if name == b"if-none-match":
                if_none_match = value.decode("latin-1")
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
