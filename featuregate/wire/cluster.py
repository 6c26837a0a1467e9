"""Metadata (key 3) and DescribeCluster (key 60): the nodes of a cluster.

Every broker since 0.10.0 answers Metadata; DescribeCluster (KIP-700) came with 2.8, learned to describe controllers in
v1 (KIP-919) and fenced brokers in v2 (KIP-1073). Source: ``MetadataRequest.json``, ``DescribeClusterRequest.json`` and
their responses of Apache Kafka 4.4.0.

The requests name no topics and ask for no authorized operations. Metadata v0 is not supported, because there an empty
list of topics means all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from featuregate.errors import RemoteWireError
from featuregate.wire.message import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from featuregate.wire.readers import Reader
    from featuregate.wire.writers import Writer

__all__ = [
    "BROKERS",
    "CONTROLLERS",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "MetadataRequest",
    "MetadataResponse",
    "Node",
]

BROKERS: Final = 1
"""``EndpointType`` of brokers."""
CONTROLLERS: Final = 2
"""``EndpointType`` of controllers."""

_NOT_ASKED: Final = -(2**31)
"""Value for authorized operations that were not requested; Metadata of 2.4 has 0."""
_SMALLEST_NODE: Final = 10
"""Bytes: two numbers, an empty host, no rack."""
_NO_TAGS: Final = b"\0"
_NO_TAGS_TWICE: Final = b"\0\0"

# Versions of Metadata in which a field begins, or for which it exists.
_CLUSTER_ID_FROM: Final = 2
_THROTTLE_FROM: Final = 3
_AUTO_CREATION_FROM: Final = 4
_TOPIC_OPERATIONS_FROM: Final = 8
_CLUSTER_OPERATIONS: Final = range(8, 11)
_ERROR_CODE_FROM: Final = 13

# And of DescribeCluster.
_ENDPOINT_TYPE_FROM: Final = 1
_FENCED_FROM: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker or controller, and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False
    """Registered but not in use; only in DescribeCluster v2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse(Response):
    """The brokers that are alive."""

    API_KEY: ClassVar = 3
    NAME: ClassVar = "Metadata"
    VERSIONS: ClassVar = (1, 13)
    FLEXIBLE_FROM: ClassVar = 9

    brokers: tuple[Node, ...]
    cluster_id: str | None = None
    """v2 and newer."""
    controller_id: int = -1
    """In KRaft a broker names any live broker, not the controller."""
    throttle_time_ms: int = 0
    """v3 and newer."""
    cluster_authorized_operations: int = _NOT_ASKED
    """v8 to v10."""
    error_code: int = 0
    """v13 and newer."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

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

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32("throttle_time_ms") if version >= _THROTTLE_FROM else 0
        brokers = reader.array("brokers", _SMALLEST_NODE, lambda: _read_node(reader, fenced=False))
        cluster_id = reader.nullable_string("cluster_id") if version >= _CLUSTER_ID_FROM else None
        controller_id = reader.int32("controller_id")
        _read_no_topics(reader)
        operations = reader.int32("cluster_authorized_operations") if version in _CLUSTER_OPERATIONS else _NOT_ASKED
        error_code = reader.int16("error_code") if version >= _ERROR_CODE_FROM else 0
        return cls(
            brokers=brokers,
            cluster_id=cluster_id,
            controller_id=controller_id,
            throttle_time_ms=throttle_time_ms,
            cluster_authorized_operations=operations,
            error_code=error_code,
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        if version >= _THROTTLE_FROM:
            writer.int32(self.throttle_time_ms, "throttle_time_ms")
        writer.array(self.brokers, lambda node: _write_node(writer, node, fenced=False))
        if version >= _CLUSTER_ID_FROM:
            writer.nullable_string(self.cluster_id, "cluster_id")
        writer.int32(self.controller_id, "controller_id")
        writer.length(0)
        if version in _CLUSTER_OPERATIONS:
            writer.int32(self.cluster_authorized_operations, "cluster_authorized_operations")
        if version >= _ERROR_CODE_FROM:
            writer.int16(self.error_code, "error_code")
        writer.tags(self.unknown_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest(Request[MetadataResponse]):
    """Request the brokers of a cluster, without topics."""

    API_KEY: ClassVar = 3
    NAME: ClassVar = "Metadata"
    VERSIONS: ClassVar = (1, 13)
    FLEXIBLE_FROM: ClassVar = 9
    RESPONSE = MetadataResponse

    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        _read_no_topics(reader)
        if version >= _AUTO_CREATION_FROM:
            reader.boolean("allow_auto_topic_creation")
        if version in _CLUSTER_OPERATIONS:
            reader.boolean("include_cluster_authorized_operations")
        if version >= _TOPIC_OPERATIONS_FROM:
            reader.boolean("include_topic_authorized_operations")
        return cls(unknown_tags=reader.tags())

    def _write(self, writer: Writer, version: int) -> None:
        writer.length(0)
        if version >= _AUTO_CREATION_FROM:
            writer.boolean(value=False)
        if version in _CLUSTER_OPERATIONS:
            writer.boolean(value=False)
        if version >= _TOPIC_OPERATIONS_FROM:
            writer.boolean(value=False)
        writer.tags(self.unknown_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterResponse(Response):
    """The brokers or the controllers of a cluster."""

    API_KEY: ClassVar = 60
    NAME: ClassVar = "DescribeCluster"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 0

    error_code: int = 0
    """114 (MISMATCHED_ENDPOINT_TYPE): the request was for controllers and reached a broker, or the reverse."""
    error_message: str | None = None
    endpoint_type: int = BROKERS
    """v1 and newer."""
    cluster_id: str = ""
    controller_id: int = -1
    """From a controller: the leader. From a broker: any live broker."""
    brokers: tuple[Node, ...] = ()
    """The nodes; controllers where the request was for them."""
    cluster_authorized_operations: int = _NOT_ASKED
    throttle_time_ms: int = 0
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32("throttle_time_ms")
        error_code = reader.int16("error_code")
        error_message = reader.nullable_string("error_message")
        endpoint_type = reader.int8("endpoint_type") if version >= _ENDPOINT_TYPE_FROM else BROKERS
        cluster_id = reader.string("cluster_id")
        controller_id = reader.int32("controller_id")
        fenced = version >= _FENCED_FROM
        brokers = reader.array("brokers", _SMALLEST_NODE, lambda: _read_node(reader, fenced=fenced))
        operations = reader.int32("cluster_authorized_operations")
        return cls(
            error_code=error_code,
            error_message=error_message,
            endpoint_type=endpoint_type,
            cluster_id=cluster_id,
            controller_id=controller_id,
            brokers=brokers,
            cluster_authorized_operations=operations,
            throttle_time_ms=throttle_time_ms,
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms, "throttle_time_ms")
        writer.int16(self.error_code, "error_code")
        writer.nullable_string(self.error_message, "error_message")
        if version >= _ENDPOINT_TYPE_FROM:
            writer.int8(self.endpoint_type, "endpoint_type")
        elif self.endpoint_type != BROKERS:
            raise writer.error("versions before v1 describe brokers only", "endpoint_type")
        writer.string(self.cluster_id, "cluster_id")
        writer.int32(self.controller_id, "controller_id")
        fenced = version >= _FENCED_FROM
        writer.array(self.brokers, lambda node: _write_node(writer, node, fenced=fenced))
        writer.int32(self.cluster_authorized_operations, "cluster_authorized_operations")
        writer.tags(self.unknown_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Request the brokers or the controllers of a cluster."""

    API_KEY: ClassVar = 60
    NAME: ClassVar = "DescribeCluster"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 0
    RESPONSE = DescribeClusterResponse

    endpoint_type: int = BROKERS
    """`BROKERS` or `CONTROLLERS`; v1 and newer; older versions have brokers only."""
    include_fenced_brokers: bool = False
    """Whether to include registered brokers that are not in use; v2 and newer, older versions leave them out."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        reader.boolean("include_cluster_authorized_operations")
        return cls(
            endpoint_type=reader.int8("endpoint_type") if version >= _ENDPOINT_TYPE_FROM else BROKERS,
            include_fenced_brokers=version >= _FENCED_FROM and reader.boolean("include_fenced_brokers"),
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.boolean(value=False)
        if version >= _ENDPOINT_TYPE_FROM:
            writer.int8(self.endpoint_type, "endpoint_type")
        elif self.endpoint_type != BROKERS:
            raise writer.error("versions before v1 describe brokers only", "endpoint_type")
        if version >= _FENCED_FROM:
            writer.boolean(value=self.include_fenced_brokers)
        elif self.include_fenced_brokers:
            raise writer.error("versions before v2 cannot include fenced brokers", "include_fenced_brokers")
        writer.tags(self.unknown_tags)


def _read_no_topics(reader: Reader) -> None:
    """Read the list of topics, which must be empty; null would mean all topics."""
    start = reader.at
    if count := reader.count("topics", 1):
        raise reader.error(f"{count} topics, but the request names none", "topics", start)


def _read_node(reader: Reader, *, fenced: bool) -> Node:
    node_id = reader.int32("brokers.node_id")
    host = reader.string("brokers.host")
    port = reader.int32("brokers.port")
    rack = reader.nullable_string("brokers.rack")
    is_fenced = fenced and reader.boolean("brokers.is_fenced")
    reader.tagged()
    return Node(node_id=node_id, host=host, port=port, rack=rack, is_fenced=is_fenced)


def _write_node(writer: Writer, node: Node, *, fenced: bool) -> None:
    writer.int32(node.node_id, "brokers.node_id")
    writer.string(node.host, "brokers.host")
    writer.int32(node.port, "brokers.port")
    writer.nullable_string(node.rack, "brokers.rack")
    if fenced:
        writer.boolean(value=node.is_fenced)
    writer.tags({})
