"""Metadata (key 3): the brokers of a cluster that are alive.

Every broker since 0.10.0 answers it. Source: ``MetadataRequest.json`` and its response of Apache Kafka 4.4.0.

The request names no topics and asks for no authorized operations. v0 is not supported, because there an empty list of
topics means all of them.
"""

from typing import Annotated, Any, Final, Self

from featuregate.errors import RemoteWireError
from featuregate.wire.cluster import NOT_ASKED, Node
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import (
    ZERO_UUID,
    Boolean,
    FixedVersion,
    Flexible,
    Int16,
    Int32,
    Scalar,
    Uuid,
    Versions,
    structure,
)
from featuregate.wire.writers import Writer

_NO_TAGS: Final = b"\0"
_NO_TAGS_TWICE: Final = b"\0\0"


def _read_no_topics(reader: Reader, label: str) -> tuple[()]:
    start = reader.at
    if count := reader.count(label, 1):
        raise reader.error(f"{count} topics, but the request names none", label, start)
    return ()


def _write_no_topics(writer: Writer, _topics: Any, _: str) -> None:
    writer.length(0)


_NoTopics = Annotated[tuple[()], Scalar("topics", _read_no_topics, _write_no_topics, 1)]
"""A list of topics, which must be empty; null would mean all topics."""


@structure
class MetadataResponse(Response, api=(3, "Metadata"), versions=(1, 13), flexible_from=9):
    """The brokers that are alive."""

    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    brokers: Annotated[tuple[Node, ...], FixedVersion(0)]
    cluster_id: Annotated[str | None, Versions(2)] = None
    controller_id: Int32 = -1
    """In KRaft a broker names any live broker, not the controller."""
    topics: _NoTopics = ()
    cluster_authorized_operations: Annotated[Int32, Versions(8, 10)] = NOT_ASKED
    error_code: Annotated[Int16, Versions(13)] = 0

    @classmethod
    def decode_answer(cls, asked: int, body: bytes) -> tuple[Self, int]:
        """Decode the response to a request of version ``asked``, which is the version of the body too.

        librdkafka's mock cluster ends flexible versions with a second, empty list of tagged fields. Only that one byte
        is accepted.
        """
        try:
            return cls.decode(asked, body), asked
        except RemoteWireError:
            if not (cls.is_flexible(asked) and body.endswith(_NO_TAGS_TWICE)):
                raise
        return cls.decode(asked, body.removesuffix(_NO_TAGS)), asked


@structure
class MetadataRequest(Request[MetadataResponse]):
    """Request the brokers of a cluster, without topics."""

    topics: _NoTopics = ()
    allow_auto_topic_creation: Annotated[Boolean, Versions(4)] = False
    include_cluster_authorized_operations: Annotated[Boolean, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[Boolean, Versions(8)] = False


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
class ListTopicsResponse(Response, api=(3, "Metadata"), versions=(12, 13), flexible_from=9):
    """The topics, and the brokers that are alive."""

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

    topics: tuple[NamedTopic, ...] | None = None
    allow_auto_topic_creation: Boolean = False
    include_topic_authorized_operations: Boolean = False
