"""Streams of server-sent events (WHATWG HTML, 9.2): the changes of a cluster, as they come."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from starlette.responses import Response, StreamingResponse

from featuregate.sources.seen import Seen
from featuregate_relay.access.authentication import client_of
from featuregate_relay.refusals import RequestRefused
from featuregate_relay.views.floors import problem_after

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.states import ServedState

MOST_STREAMS: Final = 10_000
"""Streams that are open at a time."""
_RANDOM: Final = SystemRandom()
_MOST_OF_A_CLIENT: Final = 1000
_HEARTBEAT_SECONDS: Final = 15.0
"""Below the idle timeouts of most proxies."""
_AGE_SECONDS: Final = 300.0
"""Seconds after which a stream ends, so that clients spread over replicas again, and authenticate again."""
_JITTER: Final = 0.2
_SPREAD_SECONDS: Final = 0.2
"""Over which the events of all streams are spread when a cluster changes."""
_RETRY_SECONDS: Final = 5
_RETRY_MILLISECONDS: Final = (1000, 5000)
"""When a client whose stream has ended comes back, at random."""


class OpenStreams:
    """Counts the streams that are open, of each client and of all."""

    def __init__(self, *, most: int = MOST_STREAMS, most_of_a_client: int = _MOST_OF_A_CLIENT) -> None:
        self._most = most
        self._most_of_a_client = most_of_a_client
        self._open: Counter[str | None] = Counter()

    @property
    def total(self) -> int:
        """The number of open streams."""
        return self._open.total()

    @property
    def has_room(self) -> bool:
        """Whether another client may open a stream."""
        return self.total < self._most

    def problem(self, client: str | None) -> str | None:
        """Say why this client gets no further stream. A client without a name counts for the total only."""
        if not self.has_room:
            return f"{self._most} streams are open, which is as many as this relay serves"
        if client is not None and self._open[client] >= self._most_of_a_client:
            return f"{client} has {self._most_of_a_client} open streams, which is as many as a client may have"
        return None

    @contextmanager
    def one_more(self, client: str | None) -> Iterator[None]:
        """Count a stream while it is open."""
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


class EventStream(StreamingResponse):
    """A response that sends events until they or the connection end, and is counted meanwhile. HEAD has no events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], streams: OpenStreams, client: str | None) -> None:
        # nginx would keep events back until a buffer is full.
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        if scope["method"] == "HEAD":
            await Response(headers=dict(self.headers))(scope, receive, send)
            return
        with self._streams.one_more(self._client):
            await super().__call__(scope, receive, send)


def event(kind: str, data: object, *, ident: str | None = None) -> bytes:
    """Return one event. JSON has no line breaks, so that the data is one line."""
    known = "" if ident is None else f"id: {ident}\n"
    return f"{known}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


class ClusterEvents:
    """The events of a cluster for one client: view, status and gates; gates that it has seen latched stay open."""

    def __init__(self, cluster: ServedCluster, last_event_id: str | None) -> None:
        self.cluster = cluster
        self._seen = next(iter(Seen.read(last_event_id)), None)
        self._revision = (last_event_id or "").partition(".")[0]
        """What the client has; a script may send a revision alone."""

    def problem(self) -> str | None:
        """Say whether this relay is behind what the client has seen."""
        view, _ = self.cluster.features.view_and_age()  # before the state, which is not older then
        state = self.cluster.state()
        if self._seen is None:
            return None
        if view is None or state is None:
            return "no broker has answered yet, and the client has seen answers"
        if self.cluster.state.is_behind:
            return "the newest answers are not read yet"
        behind = Seen.of(view, state.revision).is_below(self._seen, datetime.now(UTC).timestamp())
        return "this relay is behind: the client has seen newer answers" if behind else None

    def of(self, state: ServedState) -> bytes:
        """Return the event of a state."""
        kind, self._revision = "view" if state.revision != self._revision else "health", state.revision
        latches = self.cluster.latches(state.cluster_id)
        self._seen = self._id(frozenset(latch for name, latch in latches.items() if state.gates[name]))
        gates = {name: is_open or latches.get(name) in self._seen.latched for name, is_open in state.gates.items()}
        return event(kind, {"cluster": self.cluster.name, **state.to_dict(), "gates": gates}, ident=self._seen.text)

    def heartbeat(self) -> bytes:
        """Return a heartbeat. The last poll has confirmed what the client has seen."""
        if self._seen is not None and self._seen.content == self._revision:
            self._seen = self._id(self._seen.latched)
        health = self.cluster.features.health()
        data = {"status": health["status"], "age_seconds": health["age_seconds"]}
        return event("heartbeat", data, ident=None if self._seen is None else self._seen.text)

    def _id(self, latched: frozenset[str]) -> Seen:
        view = self.cluster.features.view  # after the state, which is not newer then
        assert view is not None
        return Seen.of(view, self._revision, latched).joined(*(() if self._seen is None else (self._seen,)))


async def _changes(events: ClusterEvents, floor_seconds: float) -> AsyncIterator[bytes]:
    """Yield an event for the state at hand and for each further one, and heartbeats between them.

    Where the relay is behind the client, the stream ends without an event: a browser comes back then, perhaps to
    another replica, and would not after an error.
    """
    loop = asyncio.get_running_loop()
    cluster, change = events.cluster, events.cluster.next_state
    ends = loop.time() + _AGE_SECONDS * (1 - _JITTER * _RANDOM.random())
    yield f"retry: {_RANDOM.randint(*_RETRY_MILLISECONDS)}\n\n".encode()
    if await problem_after(floor_seconds, cluster, events.problem) is not None:
        return
    state, sent = cluster.state(), None
    while not change.stopped and (left := ends - loop.time()) > 0:
        if state is not None and state is not sent:
            yield events.of(state)
            sent = state
        if await change.after(sent, min(_HEARTBEAT_SECONDS, left)):
            await asyncio.sleep(_RANDOM.random() * _SPREAD_SECONDS)
        elif not change.stopped:
            # Scripts in browsers do not see comments, so that the heartbeat is an event, too.
            yield b": heartbeat\n" + events.heartbeat()
        state = change.latest()


def open_stream(request: Request, streams: OpenStreams, events: ClusterEvents, floor_seconds: float) -> EventStream:
    """Return the stream that this request opens.

    Raises RequestRefused: there are too many, of this client (429) or of all (503).
    """
    client = client_of(request).name
    if problem := streams.problem(client):
        raise RequestRefused(429 if streams.has_room else 503, problem, retry_after=_RETRY_SECONDS)
    return EventStream(_changes(events, floor_seconds), streams, client)
