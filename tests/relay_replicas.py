"""Replicas of a relay without sockets, and a cluster of which some know more than others, with a client behind them."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from apps_in_process import call
from waiting import BOUND

import featuregate as fg
from featuregate.sources.seen import Floor
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app

EVENTS = "/v1/clusters/default/events"
FLAGS = "/ofrep/v1/evaluate/flags"
LEVEL = "level.group.version"
STICKY = {"groups": "group.version>=2", "produce": "Produce>=13"}
LIVE = {"live": "Produce>=13"}


def view(level: int, epoch: int, *, release: str = "4.2", seen_at: float = 0.0, **changed: Any) -> fg.View:
    of_release = release_view(release, finalized={"group.version": level}, epoch=epoch)
    return replace(of_release, seen_at=seen_at, **changed)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def values(self) -> dict[str, object]:
        return {flag["key"]: flag.get("value") for flag in self.body["flags"]}


class Replica:
    def __init__(self, view: fg.View | None = None, *, floor_seconds: float = 0.0) -> None:
        self.features = StaticFeatures(view)
        gates = [self.features.gate(name, text) for name, text in STICKY.items()]
        gates += [self.features.gate(name, text, policy="live") for name, text in LIVE.items()]
        self.app = make_app({"default": PolledCluster(self.features, tuple(gates))}, floor_seconds=floor_seconds)

    def get(self, path: str, floor: Floor | None = None) -> tuple[int, dict[str, str], bytes]:
        query = {} if floor is None else floor.to_query()
        return asyncio.run(call(self.app, f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"))

    def flags(self, etag: str | None = None) -> Answer:
        return asyncio.run(self.answer(etag))

    async def answer(self, etag: str | None) -> Answer:
        headers = {} if etag is None else {"If-None-Match": etag}
        status, found, body = await call(self.app, FLAGS, headers, method="POST", body=b'{"context": {}}')
        return Answer(status, found, json.loads(body) if body else None)

    def listen(self, last_event_id: str = "") -> tuple[str, dict[str, Any]] | None:
        """Return the id and the data of the first event that a client hears; None: the stream ends without one."""
        return asyncio.run(self.first_event(last_event_id))

    async def first_event(self, last_event_id: str) -> tuple[str, dict[str, Any]] | None:
        heard = bytearray()
        event = asyncio.Event()

        def hear(piece: bytes) -> None:
            heard.extend(piece)
            if b"data: " in heard:
                event.set()

        stream = asyncio.create_task(call(self.app, EVENTS, {"Last-Event-ID": last_event_id}, hear=hear))
        first = asyncio.create_task(event.wait())
        async with asyncio.timeout(BOUND):
            await asyncio.wait([stream, first], return_when=asyncio.FIRST_COMPLETED)
        for task in (stream, first):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await stream
        fields = dict(line.split(": ", 1) for line in heard.decode().splitlines() if ": " in line)
        return (fields["id"], json.loads(fields["data"])) if "data" in fields else None


class State(NamedTuple):
    epoch: int
    level: int
    release: str


Order = tuple[float, ...]


@dataclass
class World:
    """A cluster, replicas behind a balancer, and one client of flags or of events, with a token of what it has seen."""

    client: str
    keeps_token: bool = True
    now: float = 1000.0
    closed: list[str] = field(default_factory=list)
    falls: list[tuple[Order, Order]] = field(default_factory=list)
    answered: int = 0

    def __post_init__(self) -> None:
        self.history = [State(epoch=1, level=1, release="3.9")]
        self.replicas = [Replica() for _ in range(2)]
        self.token = ""
        self.gates: dict[str, object] = {}
        self.content: object = None
        self.floor: Order = (-1.0,)

    def move(self, by: int, release: str) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, max(state.level + by, 0), release))

    def poll(self, replica: int, behind: int) -> None:
        """Let a replica ask brokers: their levels are those of some epochs ago, and the software is that of now."""
        self.now += 1
        state = self.history[max(0, len(self.history) - 1 - behind)]
        found = view(state.level, state.epoch, release=self.history[-1].release, seen_at=self.now)
        self.replicas[replica].features.show(found)

    def restart(self, replica: int) -> None:
        self.replicas[replica] = Replica()

    def ask(self, replica: int) -> None:
        """Let the client ask the replica that the balancer picks, and note what moves back."""
        asked = self.replicas[replica]
        shown = asked.features.view
        if shown is None and not self.token:
            return
        if self.client == "flags":
            answer = asked.flags(self.token or None)
            if answer.status != 503:
                values = answer.values if answer.status == 200 else self.gates
                self._note(answer.headers["etag"], values, values[LEVEL], (shown.epoch,))
        elif (event := asked.listen(self.token)) is not None:
            ident, data = event
            self._note(ident, data["gates"], data["revision"], (shown.epoch, shown.seen_at))

    def _note(self, token: str, gates: dict[str, object], content: object, order: Order) -> None:
        self.answered += 1
        self.closed += [gate for gate in STICKY if self.gates.get(gate) and not gates[gate]]
        if content != self.content and order < self.floor:
            self.falls.append((self.floor, order))
        self.floor = max(self.floor, order) if self.keeps_token else order
        self.token, self.gates, self.content = token if self.keeps_token else "", gates, content
