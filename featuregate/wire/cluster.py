"""Metadata (key 3) and DescribeCluster (key 60): the nodes of a cluster.

Every broker since 0.10.0 answers Metadata; DescribeCluster (KIP-700) came with 2.8, learned to describe controllers in
v1 (KIP-919) and fenced brokers in v2 (KIP-1073). Source: ``MetadataRequest.json``, ``DescribeClusterRequest.json`` and
their responses of Apache Kafka 4.4.0.

The requests name no topics and ask for no authorized operations. Metadata v0 is not supported, because there an empty
list of topics means all of them.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self

from featuregate.errors import RemoteWireError
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import (
    Boolean,
    FixedVersion,
    Flexible,
    Int8,
    Int16,
    Int32,
    Scalar,
    Versions,
)
from featuregate.wire.writers import Writer

BROKERS: Final = 1
"""``EndpointType`` of brokers."""
CONTROLLERS: Final = 2
"""``EndpointType`` of controllers."""

_NOT_ASKED: Final = -(2**31)
"""Value for authorized operations that were not requested; Metadata of 2.4 has 0."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node(Flexible):
    """One broker or controller, and where it listens."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: Annotated[Boolean, Versions(2)] = False
    """Registered but not in use; only in DescribeCluster v2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse(Response):
    """The brokers that are alive."""

    API_KEY: ClassVar = 3
    NAME: ClassVar = "Metadata"
    VERSIONS: ClassVar = (1, 13)
    FLEXIBLE_FROM: ClassVar = 9

    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    brokers: Annotated[tuple[Node, ...], FixedVersion(0)]
    cluster_id: Annotated[str | None, Versions(2)] = None
    controller_id: Int32 = -1
    """In KRaft a broker names any live broker, not the controller."""
    topics: _NoTopics = ()
    cluster_authorized_operations: Annotated[Int32, Versions(8, 10)] = _NOT_ASKED
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest(Request[MetadataResponse]):
    """Request the brokers of a cluster, without topics."""

    RESPONSE = MetadataResponse

    topics: _NoTopics = ()
    allow_auto_topic_creation: Annotated[Boolean, Versions(4)] = False
    include_cluster_authorized_operations: Annotated[Boolean, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[Boolean, Versions(8)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse(Response):
    """The brokers or the controllers of a cluster."""

    API_KEY: ClassVar = 60
    NAME: ClassVar = "DescribeCluster"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    """114 (MISMATCHED_ENDPOINT_TYPE): the request was for controllers and reached a broker, or the reverse."""
    error_message: str | None = None
    endpoint_type: Annotated[Int8, Versions(1, ignorable=False)] = BROKERS
    cluster_id: str = ""
    controller_id: Int32 = -1
    """From a controller: the leader. From a broker: any live broker."""
    brokers: tuple[Node, ...] = ()
    """The nodes; controllers where the request was for them."""
    cluster_authorized_operations: Int32 = _NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Request the brokers or the controllers of a cluster."""

    RESPONSE = DescribeClusterResponse

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Annotated[Int8, Versions(1, ignorable=False)] = BROKERS
    """`BROKERS` or `CONTROLLERS`; older versions describe brokers only."""
    include_fenced_brokers: Annotated[Boolean, Versions(2, ignorable=False)] = False
    """Whether to include registered brokers that are not in use; older versions leave them out."""
