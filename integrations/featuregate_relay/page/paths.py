"""The paths of the page, and the headers that keep a browser from running or loading anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from featuregate_relay.entity_tags import entity_tag, matches
from featuregate_relay.page.rendering import Renderer, Shown
from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from starlette.requests import Request

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.views.floors import Floors

_TYPES: Final = {".css": "text/css", ".mjs": "text/javascript", ".svg": "image/svg+xml"}
"""MIME types of our own: the system's table may lack JavaScript modules."""

_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Pages:
    """The handlers, and the files that the page loads.

    ``cluster_of``: returns the cluster that a path names; raises `RequestRefused`. ``readable``: returns the clusters
    that a client may read. ``floors``: compares the view of a cluster with what the page has shown before.
    """

    def __init__(
        self,
        cluster_of: Callable[[Request], ServedCluster],
        readable: Callable[[Request], Mapping[str, ServedCluster]],
        floors: Floors,
    ) -> None:
        self._cluster_of = cluster_of
        self._readable = readable
        self._floors = floors
        self._renderer = Renderer()
        folder = Path(__file__).parent / "assets"
        self._assets = {path.name: path.read_bytes() for path in folder.iterdir()}

    def routes(self) -> list[Route]:
        """Return the paths of the page."""
        paths = {"/": self._overview, "/clusters/{name}": self._cluster, "/assets/{asset}": self._asset}
        return [Route(path, handler) for path, handler in paths.items()]

    async def _overview(self, request: Request) -> Response:
        """Show all clusters; a single one as a whole."""
        clusters = self._readable(request)
        if len(clusters) == 1:
            (only,) = clusters.values()
            return await self._page(request, only, root="", alone=True)
        shown = [Shown.of(cluster) for cluster in clusters.values()]
        return HTMLResponse(await asyncio.to_thread(self._renderer.overview, shown), headers=_HEADERS)

    async def _cluster(self, request: Request) -> Response:
        cluster = self._cluster_of(request)
        return await self._page(request, cluster, root="../", alone=len(self._readable(request)) == 1)

    async def _page(self, request: Request, cluster: ServedCluster, *, root: str, alone: bool) -> Response:
        floor = await self._floors.reached(request, cluster)
        await cluster.prepare()
        latched = frozenset[str]() if floor is None else floor.seen.latched
        # In a thread: the brokers decide how large the page is, and other requests do not wait for it.
        page = await asyncio.to_thread(
            self._renderer.cluster, Shown.of(cluster), root=root, alone=alone, latched=latched
        )
        return HTMLResponse(page, headers=_HEADERS)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["asset"]
        content = self._assets.get(name)
        if content is None:
            raise RequestRefused(404, f"the page has no file {name!r}")
        headers = {**_HEADERS, "ETag": entity_tag(content)}
        if matches(request.headers.get("If-None-Match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)
