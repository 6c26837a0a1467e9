"""What new nodes of each release report, as captured from real nodes, when they start, and other services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from featuregate.catalog.levels import METADATA_VERSION, release_levels
from featuregate.catalog.load import load
from featuregate.catalog.releases import CapturedRelease, captured
from featuregate.wire.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from featuregate.roles import Role

_KRAFT_VERSION: Final = "kraft.version"
_FIRST_WITH_FEATURES: Final = (2, 7)
_NOT_SERVED: Final = (0, -1)
_DISABLED: Final = (0, 0)
_FORWARDED: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81})
"""The APIs that ApiKeys.java of Apache Kafka 3.9 marks as forwardable, by key."""
_FIRST_EPOCH: Final = 100
"""An arbitrary offset of the metadata log of a KRaft cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """What a node of one release reports, in a new cluster of this release."""

    release: str
    """The captured one, such as ``3.9``."""
    api_ranges: Mapping[Role, Mapping[int, tuple[int, int]]]
    """API key to lowest and highest version, for brokers and, with KRaft, for controllers."""
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int
    """-1 before 2.7, the first release with features; 0 with ZooKeeper, where no feature was ever finalized."""

    def ranges(self, role: Role) -> Mapping[int, tuple[int, int]]:
        """Return the API ranges of a node of this role; ValueError where the release has no such nodes."""
        if role not in self.api_ranges:
            raise ValueError(f"{self.release} was captured with ZooKeeper, so it has no controllers")
        return self.api_ranges[role]


def release_facts(release: str) -> ReleaseFacts:
    """Return the facts of a release, such as ``"3.9"``. A patch release such as ``"3.9.2"`` counts as its minor one.

    Raises `ValueError`: no broker of this release was captured.
    """
    known = next((row for row in captured().values() if f"{release}.".startswith(f"{row.release}.")), None)
    if known is None:
        raise ValueError(f"no broker of release {release} was captured, only of {', '.join(captured())}")
    supported = known.features
    levels = release_levels(supported[METADATA_VERSION][1]) if METADATA_VERSION in supported else {}
    # With a fixed set of voters, kafka-storage leaves kraft.version at 0 in every release.
    finalized = {name: level for name, level in levels.items() if level > 0 and name != _KRAFT_VERSION}
    controllers = load("api_ranges")[known.release].get("controller_apis")
    by_role: dict[Role, Mapping[int, tuple[int, int]]] = {"broker": known.apis}
    if controllers is not None:
        by_role["controller"] = {int(key): (lowest, highest) for key, (lowest, highest) in controllers.items()}
    return ReleaseFacts(
        release=known.release,
        api_ranges=by_role,
        supported=supported,
        finalized={name: level for name, level in finalized.items() if level <= supported.get(name, (0, 0))[1]},
        epoch=_first_epoch(known),
    )


def _first_epoch(known: CapturedRelease) -> int:
    if known.features:
        return _FIRST_EPOCH
    return 0 if tuple(map(int, known.release.split("."))) >= _FIRST_WITH_FEATURES else -1


def start_problem(role: Role, supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> str:
    """Return why a node cannot start in a cluster with these levels, in Kafka's words; empty if it can.

    A controller ends when it reads a record that it does not support, a broker when its registration is refused.
    """
    if METADATA_VERSION not in supported:
        return ""  # a node from before KRaft goes by no level
    for name in dict.fromkeys((METADATA_VERSION, *supported, *levels)):
        lowest, highest = supported.get(name, _DISABLED)
        level = levels.get(name, 0)
        if lowest <= level <= highest or (name not in levels and (role == "controller" or name == METADATA_VERSION)):
            continue
        if role == "controller":
            return f"it cannot replay level {level} of {name}: it supports {lowest}-{highest}"
        if name == METADATA_VERSION:
            return f"No MetadataVersion with feature level {level}"
        return (
            f"Unable to register because the broker does not support finalized version {level} of {name}. The broker "
            f"wants a version between {lowest} and {highest}, inclusive."
        )
    return ""


def forwarded(
    broker: Mapping[int, tuple[int, int]], controller: Mapping[int, tuple[int, int]]
) -> Mapping[int, tuple[int, int]]:
    """Return the ranges of a broker, whose forwarded APIs are those that the active controller serves, too."""
    ranges = {}
    for key, own in broker.items():
        other = controller.get(key, _NOT_SERVED) if key in _FORWARDED else own
        common = max(own[0], other[0]), min(own[1], other[1])
        if common[0] <= common[1]:
            ranges[key] = common
    return ranges


_API_VERSIONS: Final = ApiVersionsRequest.API_KEY
_UP_TO_3: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How a service or a proxy differs from the brokers of a release of Kafka, by public reports.

    They do not tell everything: an API range that no report shows is not in the table, and a service changes when its
    operator updates it.
    """

    release: str
    """The release of Kafka behind a proxy; for another service the release that it resembles most."""
    api_ranges: Mapping[int, tuple[int, int]] | None = None
    """What the service serves; it reports no features then. None for a proxy: it passes on what brokers report."""
    newest_api_versions: int | None = None
    """The newest version of ApiVersions that a proxy lists, whatever the brokers behind it serve."""
    closes_above: int | None = None
    """Closes the connection on a newer version of ApiVersions, in place of error 35."""
    refuses_with_all_apis: bool = False
    """Whether error 35 comes with all APIs in v0, and not only with the versions of ApiVersions."""
    hides_in_describe_cluster: bool = False
    """Whether DescribeCluster passes on addresses that clients cannot reach; Metadata has those of the proxy."""
    renumbers: int = 0
    """How much higher a broker's own id is than the one that the proxy lists it with."""

    def facts(self) -> ReleaseFacts:
        """Return what its nodes report."""
        facts = release_facts(self.release)
        if self.api_ranges is not None:
            return replace(facts, api_ranges={"broker": self.api_ranges}, supported={}, finalized={}, epoch=-1)
        if self.newest_api_versions is None:
            return facts
        listed = {**facts.ranges("broker"), _API_VERSIONS: (0, self.newest_api_versions)}
        return replace(facts, api_ranges={**facts.api_ranges, "broker": listed})


# fmt: off
_EVENT_HUBS: Final = {
    0: (0, 7), 1: (4, 6), 2: (0, 8), 3: (0, 5), 8: (0, 8), 9: (0, 8), 10: (0, 4), 11: (0, 9), 12: (0, 4), 13: (0, 5),
    14: (0, 1), 15: (0, 1), 16: (0, 1), 17: (0, 1), 18: (0, 3), 19: (0, 2), 20: (0, 2), 22: (0, 1), 23: (0, 0),
    32: (0, 2), 36: (0, 1), 37: (0, 1), 42: (0, 0),
}
"""Keys 0 to 13 from 2024 (oliveigah/klife#13), the others from 2022 (Azure/azure-event-hubs-for-kafka#209), without
APIs of transactions; ApiVersions from 2025, when it answered v3 and reset the connection on v4
(twmb/franz-go#1022)."""
_REDPANDA: Final = {
    0: (0, 7), 1: (4, 11), 2: (0, 4), 3: (0, 8), 9: (1, 7), 10: (0, 3), 13: (0, 4), 17: (0, 1), 18: (0, 3), 21: (0, 2),
    22: (0, 3), 24: (0, 3), 25: (0, 1), 28: (0, 3), 31: (0, 2), 35: (0, 2), 47: (0, 0),
}
"""From platformatic/kafka#51 (2025), the handlers in redpanda-data/redpanda (src/v/kafka/server/handlers), and the log
of a client in confluentinc/confluent-kafka-python#1610."""
# fmt: on

SERVICES: Final[Mapping[str, Service]] = MappingProxyType(
    {
        # twmb/franz-go#1022 and #1025, dpkp/kafka-python#2602: "connection reset by peer" on ApiVersions v4.
        "event-hubs": Service(release="1.0", api_ranges=MappingProxyType(_EVENT_HUBS), closes_above=_UP_TO_3),
        # redpanda-data/redpanda, src/v/kafka/server/handlers/api_versions.cc: no feature, and error 35 has all APIs.
        "redpanda": Service(release="2.8", api_ranges=MappingProxyType(_REDPANDA), refuses_with_all_apis=True),
        # kroxylicious/kroxylicious#1611 (0.8 and 0.9): "Can't size version 4 of ApiVersion", and the connection is
        # closed; repaired by #1635.
        "kroxylicious": Service(release="3.8", newest_api_versions=_UP_TO_3, closes_above=_UP_TO_3),
        # Brokers of Amazon MSK are those of Apache Kafka. A proxy before several clusters gives their brokers other
        # ids, as in kroxylicious/kroxylicious#4227; brokers from 4.4 refuse requests that name these (KIP-1242).
        "msk-proxy": Service(release="4.4", renumbers=1000),
        # grepplabs/kafka-proxy rewrites the responses of Metadata and FindCoordinator, and passes DescribeCluster on
        # (proxy/protocol/responses.go).
        "kafka-proxy": Service(release="4.2", hides_in_describe_cluster=True),
    }
)


def service_named(name: str) -> Service:
    """Return a service by its name; ValueError where there is none."""
    if name not in SERVICES:
        raise ValueError(f"there is no service {name!r}, only {', '.join(SERVICES)}")
    return SERVICES[name]
