"""What the tables say, added up: the input of every check. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.paths import UnreadFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How often a client used one version of an API, on all brokers and days."""

    outcome: Literal["completed", "refused", "cut"]
    """A line that was cut has its head alone: no principal, no listener, no software."""
    forwarded: bool | None
    principal: str | None
    client_id: str | None
    client_host: str | None
    listener: str | None
    """None for a refused request."""
    software_name: str | None
    software_version: str | None
    api_key: int
    version: int
    count: int
    first_seen: datetime
    last_seen: datetime

    @property
    def software(self) -> str:
        """The name and the version of the client's software; empty if the client did not say it."""
        return " ".join(part for part in (self.software_name, self.software_version) if part)

    @property
    def names(self) -> tuple[str, str]:
        """The principal and the client id, each empty where it is not known."""
        return self.principal or "", self.client_id or ""

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The listener and the principal."""
        return self.listener, self.principal


class RefusedVersion(NamedTuple):
    """What a broker refused: of which host, which version of which API."""

    client_host: str | None
    api_key: int
    version: int


class RefusedClient(NamedTuple):
    """A client that asked for API versions on a connection before a broker closed it."""

    client_id: str | None
    principal: str | None
    software: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLog:
    """What is known of one broker's request log at DEBUG or TRACE, the levels at which it has all requests."""

    hours: int
    """The number of hours with requests."""
    requests: int
    first_seen: datetime
    last_seen: datetime
    covered_seconds: float | None = None
    """How long it logged, without the hours that have no request; None if just the hours are known."""


class UsageAt(NamedTuple):
    """How often one software used one version of an API on a day."""

    software: str
    """Empty where no client said it."""
    api_key: int
    version: int
    at: datetime
    """When the day begins, in UTC."""
    requests: int


class LevelAt(NamedTuple):
    """The finalized level of a feature when brokers were asked."""

    feature: str
    level: int | None
    """0 for a feature that is not finalized; None if it is not known."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLevel:
    """What a broker reported of its request log when it was asked."""

    broker: str
    level: str | None
    """None if the broker did not report it."""
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordUse:
    """Records of coordinators that are alike: of one kind and version, about one group or transactional id."""

    topic: str
    record_type: int | None
    kind: str | None
    """The name of Kafka's schema; None for a type that this release does not know."""
    version: int | None
    """The version of the value; None for tombstones."""
    reason: str | None
    """Why key or value was not decoded."""
    group: str | None
    protocol: str | None
    transactional_id: str | None
    tagged_fields: tuple[str, ...]
    model: str | None
    client_ids: tuple[str, ...]
    current: bool
    """Whether these are the last records of their keys. Others may be in the log until it is compacted."""
    count: int
    """The number of keys."""
    first_seen: datetime
    """When the oldest of them was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateUse:
    """What the instances of an app said last of one gate: in the ten minutes before its newest report was read."""

    app: str
    software: str
    gate: str | None
    """None: the app reports, and has no gates."""
    requirement: str | None
    policy: str | None
    states: tuple[str, ...]
    """Those of the instances, which may differ."""
    latched: bool
    """Whether any instance is latched."""
    levels: Mapping[str, int | None]
    """The finalized level of each feature in the requirement, as the report with the highest epoch has it."""
    instances: int
    closed: bool
    """Whether all instances said that they end."""
    count: int
    """The number of reports."""
    first_seen: datetime
    """The time of the record, by default by the clock of the app; never later than it was read."""
    last_seen: datetime
    """Likewise."""
    held: int = 0
    """The instances in which an operator holds the gate closed."""
    open_after: float = 0.0
    """The seconds of the burn-in; 0 without one."""

    @property
    def is_open(self) -> bool:
        """Whether it is open in an instance, be it because of its latch alone."""
        return not {"open", "held"}.isdisjoint(self.states)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppUsage:
    """All usage reports of the apps of one cluster."""

    gates: tuple[GateUse, ...] = ()
    read: int = 0
    """Records of the topic: ``read = rows + quarantined``."""
    rows: int = 0
    quarantined: int = 0
    unread: int = 0
    """How many of those that are in quarantine could not be read."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All evidence of one cluster."""

    usage: tuple[Usage, ...] = ()
    node_usage: tuple[Usage, ...] = ()
    """The requests of brokers and controllers, without those of clients."""
    cut: tuple[Usage, ...] = ()
    """The requests whose lines were cut, by what their heads say. They are in quarantine, too."""
    refused_clients: Mapping[RefusedVersion, frozenset[RefusedClient]] = field(default_factory=dict)
    """The clients of refused requests, where the connection shows the client. Others may exist."""
    brokers: Mapping[str, BrokerLog] = field(default_factory=dict)
    """By broker; a broker that logged deprecated requests alone is missing."""
    hourly: Mapping[str, Mapping[datetime, int]] = field(default_factory=dict)
    """By broker, the requests at DEBUG in each hour that has some."""
    deprecated: Mapping[str, Mapping[datetime, int]] = field(default_factory=dict)
    """The same of requests at INFO, which are deprecated ones alone."""
    log_levels: tuple[LogLevel, ...] = ()
    """The oldest first."""
    over_time: tuple[UsageAt, ...] = ()
    levels: tuple[LevelAt, ...] = ()
    """Finalized levels as they were seen, the oldest first."""
    expected: frozenset[str] = frozenset()
    """The brokers that must have evidence: those with a folder, and those that the cluster listed."""
    unread_files: tuple[UnreadFile, ...] = ()
    """What the last run has left unread, and no row of a source says."""
    view: View | None = None
    """What the brokers answered when they were asked last; None if they never were."""
    levels_unchanged: bool | None = None
    """Whether brokers have the levels that they had when the records were read; None where that is not known."""
    records: tuple[RecordUse, ...] = ()
    records_read: datetime | None = None
    """When the records of coordinators were read to their end; None if they never were."""
    apps: AppUsage | None = None
    """None: no topic of usage reports was read."""
    reports_expected: bool = False
    """Whether there may be apps that have gates, so that their reports are missed."""
    read: int = 0
    """Lines: ``read = rows + lines_quarantined``."""
    rows: int = 0
    lines_quarantined: int = 0
    """Lines of all times, also those whose rows were deleted."""
    quarantined: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    """Lines that are in quarantine by broker and reason; a file that cannot be read counts as one."""
    has_metrics: bool = False
    """Whether runs have kept metrics, too."""
    since: datetime | None = None
    """The hour before which requests do not count; None where all do."""
    version: int | None = None
    """The version of the table that was read; None where nothing was committed yet."""

    @cached_property
    def levels_of(self) -> defaultdict[str, list[LogLevel]]:
        """What each broker reported of its log: there are some for each of its hours."""
        found: defaultdict[str, list[LogLevel]] = defaultdict(list)
        for one in self.log_levels:
            found[one.broker].append(one)
        return found

    @property
    def completed(self) -> list[Usage]:
        """The requests of clients that brokers have served."""
        return [usage for usage in self.usage if usage.outcome == "completed"]

    @property
    def completed_by_nodes(self) -> list[Usage]:
        """The same of brokers and controllers."""
        return [usage for usage in self.node_usage if usage.outcome == "completed"]

    @property
    def brokers_known(self) -> list[str]:
        """The brokers that have evidence or must have it, in the order of their ids."""
        return sorted(self.expected | self.brokers.keys(), key=lambda broker: (len(broker), broker))


def hosts_of(view: View) -> dict[str, str]:
    """Return the hosts of brokers by their ids; an address that did not answer has none."""
    return {str(one.node_id): one.host for one in view.brokers if one.node_id is not None}


def confirmed(evidence: Evidence, now: View) -> Evidence:
    """Return evidence with the levels that brokers have now.

    Records are not read again. Where the levels are those of before, clients cannot have begun to write other kinds.
    """
    at = datetime.fromtimestamp(now.seen_at, UTC)
    features = {one.feature for one in evidence.levels} | now.finalized.keys()
    levels = tuple(
        LevelAt(name, now.finalized.get(name, 0) if now.epoch >= 0 else None, at) for name in sorted(features)
    )
    before = evidence.view
    unchanged = None
    if before is not None and before.epoch >= 0 <= now.epoch:
        unchanged = dict(before.finalized) == dict(now.finalized)
    return replace(evidence, view=now, levels=evidence.levels + levels, levels_unchanged=unchanged)
