"""API keys and their names.

Source: ``ApiKeys.java`` of Apache Kafka 4.4.0 (``org.apache.kafka.common.protocol.ApiKeys``), printed by the class
itself from the released kafka-clients jar. A key never changes its meaning; a name may: key 74 was
``ListClientMetricsResources`` before 4.1. Python rather than JSON, because presets need it at import.
"""

from __future__ import annotations

from typing import Final

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

FORMER_API_NAMES: Final[dict[str, int]] = {"ListClientMetricsResources": 74}
"""Names of older releases, which texts may still use."""
