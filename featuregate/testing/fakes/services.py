"""Services other than Apache Kafka that speak its protocol, and proxies: what they report and how they differ.

Each is from public reports, which its entry names. They do not tell everything: an API range that no report shows is
not in the table, and a service changes when its operator updates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from featuregate.testing.fakes.releases import ReleaseFacts, release_facts
from featuregate.wire.api_versions import ApiVersionsRequest

_API_VERSIONS: Final = ApiVersionsRequest.API_KEY
_UP_TO_3: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How a service or a proxy differs from the brokers of a release of Kafka."""

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
