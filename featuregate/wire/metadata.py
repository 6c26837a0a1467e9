"""Metadata (key 3): the brokers of a cluster that are alive.

Every broker since 0.10.0 answers it. Source: ``MetadataRequest.json`` and its response of Apache Kafka 4.4.0.

The request names no topics and asks for no authorized operations. v0 is not supported, because there an empty list of
topics means all of them.
"""

from typing import Annotated, Any, ClassVar, Final, Self

from featuregate.errors import RemoteWireError
from featuregate.wire.cluster import NOT_ASKED, Node
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import Boolean, FixedVersion, Int16, Int32, Scalar, Versions, structure
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

    RESPONSE = MetadataResponse

    topics: _NoTopics = ()
    allow_auto_topic_creation: Annotated[Boolean, Versions(4)] = False
    include_cluster_authorized_operations: Annotated[Boolean, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[Boolean, Versions(8)] = False
