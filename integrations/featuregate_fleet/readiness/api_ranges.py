"""Which API versions brokers serve after a move, and to whom. Pure.

The ranges of releases are those of the catalog, which were captured from real brokers. What a broker serves differs
from what it advertises in the few cases below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol, Self

from featuregate.catalog import CapturedRelease, api_name, captured
from featuregate_fleet.evidence.lines.request import API_VERSIONS

_TELEMETRY: Final = frozenset({71, 72})
"""Served only where a broker has an exporter. Clients that find none go on without (KIP-714)."""

OLDER_API: Final = {60: "Metadata", 69: "DescribeGroups", 75: "Metadata"}
"""What admin clients ask for where a broker does not have DescribeCluster, ConsumerGroupDescribe or
DescribeTopicPartitions (``KafkaAdminClient``, ``DescribeConsumerGroupsHandler``; librdkafka for groups)."""

_INTERNAL: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, *range(83, 88)})
"""APIs that brokers and controllers alone use: LeaderAndIsr to ControlledShutdown, the Raft quorum, the registration,
heartbeats and forwarding of brokers, and the state of share groups (``listeners`` in Kafka's request schemas, and the
APIs that need CLUSTER_ACTION). Nodes use what the other node has, so that the check of clients does not apply."""


class Served(NamedTuple):
    """The versions of an API that a release serves."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


def is_internal(api_key: int) -> bool:
    """Return whether only brokers and controllers use an API."""
    return api_key in _INTERNAL


class _Apis(Protocol):
    def served(self, api_key: int) -> Served | None: ...

    def lacks(self, api_key: int, version: int) -> bool:
        """Return whether a version is not served."""
        has = self.served(api_key)
        return has is None or not has.lowest <= version <= has.highest


@dataclass(frozen=True, slots=True)
class ReleaseApis(_Apis):
    """What a release serves."""

    among_nodes: ClassVar = False
    """Whether the move may change what brokers get of one another: they use what the other one has."""
    release: CapturedRelease

    @property
    def brokers(self) -> str:
        """What the brokers are called once the move is done: ``Kafka 4.2``."""
        return f"Kafka {self.release.release}"

    @property
    def step(self) -> str:
        """What the brokers do: ``move to 4.2``."""
        return f"move to {self.release.release}"

    @property
    def source(self) -> str:
        """Where the ranges come from: the broker that was asked."""
        return self.release.captured_from

    def concerns(self, api_key: int) -> bool:
        """Return whether the move may change what clients get of an API."""
        return not is_internal(api_key)

    def served(self, api_key: int) -> Served | None:
        """Return which versions of an API are served to clients; None if the brokers do not have the API."""
        if api_key in _TELEMETRY:
            return Served(0, 2**15)
        if (found := self.release.served(api_key)) is None:
            return None
        # Any version of ApiVersions is answered, so that a client can negotiate (KIP-511).
        return Served(0, 2**15) if api_key == API_VERSIONS else Served(*found)

    def lowest(self, api_key: int) -> int:
        """Return the oldest version that is served; 0 where none is."""
        return has.lowest if (has := self.served(api_key)) else 0

    def describe(self, api_key: int, versions: tuple[int, ...]) -> str:
        """Say what is served of an API to a client that uses some versions, lowest first."""
        has, name = self.served(api_key), api_name(api_key)
        serves = f"has no {name}" if has is None else f"serves {name} {has}"
        since = self.dropped_in(api_key, versions[0])
        dropped = f"; releases from {since} on do not serve version {versions[0]}" if since else ""
        too_old = has is not None and versions[-1] < has.lowest
        needs = f": it needs {name} {has.lowest} or newer" if has is not None and too_old else ""
        return f"{self.brokers} {serves}, and the client uses {', '.join(map(str, versions))}{needs}{dropped}."

    def dropped_in(self, api_key: int, version: int) -> str | None:
        """Return the release that stopped serving a version, up to this one; None if that is not in the catalog."""
        own = _numbers(self.release.release)
        releases = [release for release in captured().values() if _numbers(release.release) <= own]
        serving = [not ReleaseApis(release).lacks(api_key, version) for release in releases]
        last = max((number for number, serves in enumerate(serving) if serves), default=-1)
        return releases[last + 1].release if 0 <= last < len(releases) - 1 else None


@dataclass(frozen=True, slots=True)
class DropApi(_Apis):
    """Brokers stop serving the versions of an API below ``lowest`` (KIP-896), and are as they are otherwise."""

    KIND: ClassVar = "drop-api"
    among_nodes: ClassVar = True
    """A broker does without the versions for other brokers, too."""
    source: ClassVar = "as given"
    """The operator gave the version."""
    api_key: int
    lowest: int

    @property
    def target(self) -> str:
        """The versions that are dropped."""
        return f"{api_name(self.api_key)}<{self.lowest}"

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"without {self._dropped}"

    @property
    def brokers(self) -> str:
        """Brokers, and what they do without."""
        return f"a broker without {self._dropped}"

    @property
    def step(self) -> str:
        """What the brokers do."""
        return f"drop {self._dropped}"

    @property
    def _dropped(self) -> str:
        return f"{api_name(self.api_key)} below {self.lowest}"

    @property
    def apis(self) -> Self:
        """What brokers serve then."""
        return self

    def concerns(self, api_key: int) -> bool:
        """Return whether this is the API."""
        return api_key == self.api_key

    def served(self, api_key: int) -> Served:
        """Return what is left of the API, and all of the others."""
        return Served(self.lowest if api_key == self.api_key else 0, 2**15)

    def describe(self, api_key: int, versions: tuple[int, ...]) -> str:
        """Say which versions the client uses."""
        return f"The client uses {api_name(api_key)} {', '.join(map(str, versions))}."

    def dropped_in(self, api_key: int, version: int) -> None:  # noqa: ARG002 - as in ReleaseApis
        """Return None: the operator drops the versions, and no release."""
        return


ServedApis = ReleaseApis | DropApi
"""What brokers serve once a move is done."""


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
