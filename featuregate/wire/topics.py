"""Metadata (key 3), asked for the names of all topics.

Source: ``MetadataRequest.json`` and its response of Apache Kafka 4.4.0. Only v12 and v13 are supported: who asks for
topics asks about a level that came with Kafka 4.0.
"""

from typing import Annotated, ClassVar

from featuregate.wire.cluster import NOT_ASKED, Node
from featuregate.wire.message import Request, Response
from featuregate.wire.schema import (
    ZERO_UUID,
    Boolean,
    FixedVersion,
    Flexible,
    Int16,
    Int32,
    Uuid,
    Versions,
    structure,
)


@structure
class ListedPartition(Flexible):
    """One partition, and its replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: tuple[Int32, ...] = ()


@structure
class ListedTopic(Flexible):
    """One topic that the client may describe."""

    error_code: Int16 = 0
    name: str | None
    topic_id: Uuid = ZERO_UUID
    is_internal: Boolean = False
    partitions: tuple[ListedPartition, ...] = ()
    topic_authorized_operations: Int32 = NOT_ASKED


@structure
class ListTopicsResponse(Response):
    """The topics, and the brokers that are alive."""

    API_KEY: ClassVar = 3
    NAME: ClassVar = "Metadata"
    VERSIONS: ClassVar = (12, 13)
    FLEXIBLE_FROM: ClassVar = 9

    throttle_time_ms: Int32 = 0
    brokers: Annotated[tuple[Node, ...], FixedVersion(0)] = ()
    cluster_id: str | None = None
    controller_id: Int32 = -1
    topics: tuple[ListedTopic, ...] = ()
    error_code: Annotated[Int16, Versions(13)] = 0


@structure
class NamedTopic(Flexible):
    """A topic that is requested by its name or its id."""

    topic_id: Uuid = ZERO_UUID
    name: str | None


@structure
class ListTopicsRequest(Request[ListTopicsResponse]):
    """Request all topics. Those that the client may not describe are left out of the response."""

    RESPONSE = ListTopicsResponse

    topics: tuple[NamedTopic, ...] | None = None
    allow_auto_topic_creation: Boolean = False
    include_topic_authorized_operations: Boolean = False
