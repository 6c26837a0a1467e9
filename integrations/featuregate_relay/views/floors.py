"""The floors of requests: a relay answers with a view that is not below the floor, or that the relay is behind."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.sources.seen import Floor, cluster_of
from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from starlette.requests import Request

    from featuregate import View
    from featuregate_relay.clusters import ServedCluster

FLOOR_SECONDS: Final = 2.0
"""How long a request waits for a view that is not below its floor."""
_REMEMBERED: Final = 100
"""Views of each cluster that were sent last."""


class Floors:
    """Compares views with the floors of requests, which wait ``seconds`` for a newer one."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._sent: dict[str, deque[tuple[str, float]]] = {}

    def newest(self, cluster: ServedCluster, floor: Floor | None) -> tuple[View | None, float, str | None]:
        """Return the view, its age, and why a request with this floor must not get it; None where it may."""
        view, age = cluster.features.view_and_age()
        if view is None:
            return None, age, f"no broker has answered yet: {cluster.features.health()['last_error']}"
        sent = self._sent.setdefault(cluster.name, deque(maxlen=_REMEMBERED))
        newest = cluster_of(view.cluster_id), round(view.seen_at, 3)
        if not sent or sent[-1] != newest:
            sent.append(newest)
        problem = None if floor is None else self._exact(cluster, floor).above(view, age)
        return view, age, problem and f"this relay is behind: {problem}"

    async def reached(self, request: Request, cluster: ServedCluster) -> Floor | None:
        """Wait until the view of the cluster is not below the floor of a request, and return it, where it has one.

        Raises RequestRefused: a parameter cannot be read; or the view is still below the floor, or there is none.
        """
        try:
            floor = Floor.from_query(request.query_params)
        except ValueError as error:
            raise RequestRefused(400, str(error)) from None
        if floor is None:
            return None
        problem = await problem_after(self.seconds, cluster, lambda: self.newest(cluster, floor)[2])
        if problem is not None:
            raise RequestRefused(503, f"{cluster.name}: {problem}", retry_after=1)
        return floor

    def _exact(self, cluster: ServedCluster, floor: Floor) -> Floor:
        """Return the floor without its age, if this relay has sent the client's view itself: it sends no older one.

        The age is exact to the time of two requests only. A view that came within it would seem to be older.
        """
        known = floor.seen.seen_at > 0 and (floor.seen.cluster, floor.seen.seen_at) in self._sent.get(cluster.name, ())
        return replace(floor, age=math.inf) if known else floor


async def problem_after(seconds: float, cluster: ServedCluster, problem: Callable[[], str | None]) -> str | None:
    """Return what is still a problem after this many seconds; None as soon as a poll of the relay has solved it."""
    now = asyncio.get_running_loop().time
    ends = now() + seconds
    while True:
        view, _ = cluster.features.view_and_age()
        found = problem()
        if found is None or (left := ends - now()) <= 0:
            return found
        cluster.poll_soon()
        if not await cluster.next_view.after(view, left):
            return problem()
