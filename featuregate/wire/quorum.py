"""DescribeQuorum (key 55, KIP-595): the voters and the observers of a quorum of controllers.

Brokers forward it to the active controller. v1 (KIP-836) has times of fetches, v2 (KIP-853) directories and the
listeners of controllers. It needs DESCRIBE on the cluster. Source: ``DescribeQuorumRequest.json`` and its response of
Apache Kafka 4.4.0.
"""

from typing import Annotated, Final

from featuregate.wire.message import Request, Response
from featuregate.wire.schema import ZERO_UUID, Flexible, Int16, Int32, Int64, UInt16, Uuid, Versions, structure

METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic whose one partition is the metadata log."""


@structure
class QuorumPartition(Flexible):
    """The partition whose quorum is requested."""

    partition_index: Int32 = 0


@structure
class QuorumTopic(Flexible):
    """A topic and its partitions."""

    topic_name: str
    partitions: tuple[QuorumPartition, ...]


@structure
class ReplicaState(Flexible):
    """One voter or observer."""

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, Versions(2)] = ZERO_UUID
    log_end_offset: Int64 = -1
    last_fetch_timestamp: Annotated[Int64, Versions(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Versions(1)] = -1


@structure
class QuorumOfPartition(Flexible):
    """The quorum of one partition, or why it is not known."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(2)] = None
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    high_watermark: Int64 = -1
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@structure
class QuorumOfTopic(Flexible):
    """The quorums of a topic."""

    topic_name: str
    partitions: tuple[QuorumOfPartition, ...]


@structure
class ControllerListener(Flexible):
    """Where a controller listens."""

    name: str
    host: str
    port: UInt16


@structure
class ControllerNode(Flexible):
    """A voter, and its listeners."""

    node_id: Int32
    listeners: tuple[ControllerListener, ...] = ()


@structure
class DescribeQuorumResponse(Response, api=(55, "DescribeQuorum"), versions=(0, 2), flexible_from=0):
    """The quorum of each partition that was requested."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, Versions(2)] = None
    topics: tuple[QuorumOfTopic, ...] = ()
    nodes: Annotated[tuple[ControllerNode, ...], Versions(2)] = ()


@structure
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Request the quorum of partitions."""

    topics: tuple[QuorumTopic, ...] = (QuorumTopic(topic_name=METADATA_TOPIC, partitions=(QuorumPartition(),)),)
