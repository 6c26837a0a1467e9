"""API keys by name, and names by key.

Source: ``ApiKeys.java`` of Apache Kafka 4.4.0 (``org.apache.kafka.common.protocol.ApiKeys``), printed by the class
itself from the released kafka-clients jar. A key never changes its meaning; a name may: key 74 was
``ListClientMetricsResources`` before 4.1. Python rather than JSON, because presets need it at import.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Final

from featuregate.errors import UnknownApi

_ROWS: Final = (
    (0, "Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica"),
    (6, "UpdateMetadata ControlledShutdown OffsetCommit OffsetFetch FindCoordinator JoinGroup"),
    (12, "Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake"),
    (18, "ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch"),
    (24, "AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit DescribeAcls"),
    (30, "CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs"),
    (36, "SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken"),
    (41, "DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments"),
    (46, "ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas"),
    (50, "DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch EndQuorumEpoch"),
    (55, "DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster"),
    (61, "DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions"),
    (66, "ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration"),
    (71, "GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources DescribeTopicPartitions"),
    (76, "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter RemoveRaftVoter"),
    (82, "UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState"),
    (87, "ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets"),
    (91, "AlterShareGroupOffsets DeleteShareGroupOffsets StreamsGroupTopologyDescriptionUpdate UnregisterController"),
)
"""The key of the first name, and the names, whose keys follow each other."""

API_NAMES: Final[dict[int, str]] = {first + at: name for first, names in _ROWS for at, name in enumerate(names.split())}
"""API key to the current name."""

_DIGITS: Final = 5
"""A key has five at most. Python refuses to read a number of thousands of digits."""
FORMER_API_NAMES: Final[dict[str, int]] = {"ListClientMetricsResources": 74}
"""Names of older releases, which texts may still use."""


def api_name(key: int) -> str:
    """Return the name of an API key, such as ``Fetch`` for 1; ``api:99`` for a key that is newer than this table."""
    return API_NAMES.get(key) or f"api:{key}"


def api_key(api: str | int) -> int:
    """Return the key of an API.

    A name may be spelled as in the protocol (``TxnOffsetCommit``), as in Kafka's log lines (``TXN_OFFSET_COMMIT``) or
    in any mix of cases; a name of an older release is accepted too. ``api:99`` is key 99, and so is 99.

    Raises `UnknownApi`: the name is unknown. The error has similar names.
    """
    if isinstance(api, int):
        return api
    key = _keys().get(_folded(api))
    if key is None:
        prefix, _, number = api.partition(":")
        if prefix == "api" and number.isascii() and number.isdigit() and len(number) <= _DIGITS:
            return int(number)
        raise UnknownApi(api, close_to(api, API_NAMES.values()))
    return key


def close_to(name: str, known: Iterable[str], *, alike: float = 0.8) -> tuple[str, ...]:
    """Return up to three known names that are similar in any case, the closest first.

    ``alike`` says how similar they are, from 0 to 1, by the letters that they share in order. A name in which two
    neighbours are exchanged is close in any case: of a short one like ``zsdt`` too few others would be left.
    """
    import difflib  # noqa: PLC0415 - only errors need it

    folded = _folded(name)
    by_folded = {_folded(candidate): candidate for candidate in known}
    longest = max(map(len, by_folded), default=0)
    if len(folded) * alike > longest * (2 - alike):
        return ()  # it shares too few letters with any name; to compare a text of many kilobytes takes seconds
    exchanged = [swapped for swapped in _with_neighbours_exchanged(folded) if swapped in by_folded]
    similar = difflib.get_close_matches(folded, by_folded, n=3, cutoff=alike)
    return tuple(by_folded[close] for close in dict.fromkeys([*exchanged, *similar]))[:3]


def _with_neighbours_exchanged(word: str) -> Iterator[str]:
    for at in range(len(word) - 1):
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


@functools.cache
def _keys() -> dict[str, int]:
    return {_folded(name): key for name, key in (*FORMER_API_NAMES.items(), *((n, k) for k, n in API_NAMES.items()))}
