"""What metrics say of the clients of a cluster, as values that a table may hold: a row for each broker and hour. Pure.

A count is never more than what happened: what the metrics do not show, or may show twice, is left out.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from featuregate.catalog import captured
from featuregate.catalog.apis import API_NAMES
from featuregate_fleet.metrics.spellings import UNKNOWN, Deprecated, Requests
from featuregate_fleet.readiness.api_ranges import is_internal

HOUR_SECONDS: Final = 3600
SCRAPE_SECONDS: Final = 60
"""The longest time between two samples that is usual: a shorter time may have none."""
MOST_PAIRS: Final = 100
"""The pairs of software and version that one network thread of a broker counts; it forgets or hides all others."""
FETCH, BY_CLIENTS, BY_FOLLOWERS = "Fetch", "FetchConsumer", "FetchFollower"
KEYS: Final = {name: key for key, name in API_NAMES.items()} | dict.fromkeys((BY_CLIENTS, BY_FOLLOWERS), 1)
OF_NODES: Final = frozenset({BY_FOLLOWERS, "AddPartitionsToTxnVerification", "WriteTxnMarkers"})
"""What brokers send to brokers, apart from the APIs that have no other use."""
_OFTEN_ALONE: Final = frozenset({"Metadata", "Produce", FETCH, BY_CLIENTS, BY_FOLLOWERS, "OffsetCommit"})
"""What rules let through that name a few APIs."""


@dataclass(frozen=True, slots=True)
class RequestCount:
    """The requests of an API and version that a broker answered in a time, at least."""

    broker: str
    api: str
    """As in the metric: also FetchFollower, and what is not in the catalog."""
    version: int
    count: int
    after: datetime | None
    """They were answered after this: the sample before, or the start of the broker. None: that is not known."""
    until: datetime

    @property
    def key(self) -> int | None:
        """The API key; None for a name that is not in the catalog."""
        return KEYS.get(self.api)

    @property
    def of_nodes(self) -> bool:
        """Whether only brokers and controllers send it."""
        return self.api in OF_NODES or (self.key is not None and is_internal(self.key))


@dataclass(frozen=True, slots=True)
class SoftwareSeen:
    """A software that was connected to a listener of a broker in an hour."""

    broker: str
    listener: str
    name: str
    version: str
    hour: datetime
    connections: int
    """The most connections at a sample. 0: it was connected since the broker started, and at no sample of the hour."""


@dataclass(frozen=True, slots=True)
class SoftwareUse:
    """One release of a software on one listener of all brokers."""

    name: str
    version: str
    listener: str
    brokers: tuple[str, ...]
    connections: dict[datetime, int]
    """By the begin of each hour in which it was connected, the most connections to all brokers at a sample."""
    requests: dict[datetime, int] = field(default_factory=dict)
    """By the begin of each day, its requests in the logs of a table."""

    @property
    def is_named(self) -> bool:
        """Whether the client says what it is (KIP-511)."""
        return self.name != UNKNOWN

    @property
    def text(self) -> str:
        """Name and version, as far as the client says them."""
        name = self.name if self.is_named else "software without a name"
        version = "without a version" if self.is_named and self.version == UNKNOWN else self.version
        return name if version == UNKNOWN else f"{name} {version}".strip()

    @property
    def most(self) -> int:
        """The most connections at a sample; 0: it was connected since the brokers started, and at no sample."""
        return max(self.connections.values(), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCoverage:
    """One target, and what of it was seen."""

    broker: str
    hosts: tuple[str, ...] = ()
    """The names of its machine or container, by which a broker of the cluster may be found again."""
    started: datetime | None = None
    """The newest start. None: no metric has it, so that a restart may hide requests."""
    hours: int = 0
    """The hours of the window of which its counters are known without a hole."""
    of_hours: int = 0
    holes: tuple[datetime, ...] = ()
    """Those that are not covered."""
    by_log: int = 0
    """The hours of these that the request log of the broker covers, and its metrics do not."""
    restarts: int = 0
    """In the window; before each, up to an interval of samples is lost."""
    is_broker: bool = True
    """False: a controller, a broker without clients, or one of which the exporter shows a few APIs alone."""
    has_requests: bool = True
    has_software: bool = True
    full_listeners: tuple[str, ...] = ()
    """Those at which a network thread has as many pairs of software and version as it counts."""
    unusable: tuple[str, ...] = ()
    """Labels that the rules of the exporter dropped."""
    unread: int = 0
    """Lines of these metrics that are not in the text format."""
    interval: float | None = None
    """Seconds between two samples; None for a page."""
    converted: tuple[tuple[str, str], ...] = ()
    """Call, ``fetch`` or ``produce``, and topic of which messages were converted."""
    problem: str = ""
    """Why nothing of it could be read, or may be believed."""


@dataclass(frozen=True, kw_only=True)
class MetricsEvidence:
    """All that was read about one cluster."""

    since: datetime
    until: datetime
    brokers: tuple[BrokerCoverage, ...]
    requests: tuple[RequestCount, ...] = ()
    deprecated: tuple[Deprecated, ...] = ()
    software: tuple[SoftwareSeen, ...] = ()

    @property
    def listeners(self) -> tuple[str, ...]:
        """The listeners to which a software was connected."""
        return tuple(sorted({one.listener for one in self.software}))

    @property
    def software_in_use(self) -> list[SoftwareUse]:
        """The software in the order of its names. What two exporters say of one broker counts once."""
        found: defaultdict[tuple[str, str, str], dict[tuple[datetime, str], int]] = defaultdict(dict)
        for one in self.software:
            of_brokers, at = found[one.name, one.version, one.listener], (one.hour, one.broker)
            of_brokers[at] = max(one.connections, of_brokers.get(at, 0))
        uses: list[SoftwareUse] = []
        for software, of_brokers in sorted(found.items()):
            connections: defaultdict[datetime, int] = defaultdict(int)
            for (hour, _), count in sorted(of_brokers.items()):
                connections[hour] += count
            uses.append(SoftwareUse(*software, tuple(sorted({broker for _, broker in of_brokers})), {**connections}))
        return uses

    @functools.cached_property
    def releases(self) -> dict[str, str]:
        """The oldest release that each broker may run, by what it answered."""
        answered: dict[str, set[tuple[str, int]]] = {one.broker: set() for one in self.brokers}
        for one in self.requests:
            answered.setdefault(one.broker, set()).add((one.api, one.version))
        return {broker: oldest_release(frozenset(pairs)) for broker, pairs in answered.items()}


_EXACT: Final = 2**53
"""Above this a float does not count exactly."""


def whole(value: float) -> int | None:
    """Return the value of a counter; None for what no counter is, such as NaN, or one that rules scale below 1."""
    return int(value) if 0 <= value < _EXACT and value % 1 == 0 else None


def host_names(address: str) -> set[str]:
    """Return the host of an address in small letters, and its first part where that is a name."""
    host = address.lower() if address.startswith("[") else address.lower().partition(":")[0]
    first = host.partition(".")[0]
    return {host, host if first.isdecimal() else first} - {""}


def is_of_broker(pairs: Iterable[Requests]) -> bool:
    """Return whether these are all requests of a broker: it answers Metadata, and not only what rules often name.

    A broker counts each Fetch once more as of a consumer or of a follower: one without the other was left out by rules.
    """
    apis = {pair.api for pair in pairs}
    has_parts = bool(apis & {BY_CLIENTS, BY_FOLLOWERS})
    return "Metadata" in apis and not apis <= _OFTEN_ALONE and (FETCH in apis) == has_parts


def named_by(found: Iterable[Deprecated]) -> tuple[Deprecated, ...]:
    """Return the software of deprecated requests, once for Fetch and its part."""
    merged = {one._replace(api=FETCH) if one.api == BY_CLIENTS else one for one in found}
    return tuple(sorted(one for one in merged if one.api not in OF_NODES))


@functools.cache
def oldest_release(answered: frozenset[tuple[str, int]]) -> str:
    """Return the oldest release that serves the API versions which a broker answered; 2.0 has the metric first.

    ApiVersions is answered in any version. What is in no release of the catalog says nothing.
    """
    releases = list(captured().values())
    oldest = next(at for at, release in enumerate(releases) if release.release == "2.0")
    for api, version in answered:
        key = None if api == "ApiVersions" else KEYS.get(api)
        serving = [at for at, one in enumerate(releases) if key is not None and one.serves(key, version)]
        oldest = max(oldest, serving[0] if serving else 0)
    return releases[oldest].release
