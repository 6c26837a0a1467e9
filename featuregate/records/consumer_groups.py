"""Groups of the consumer protocol (KIP-848): record types 3 to 8 and 16 of ``__consumer_offsets``.

Source: ``ConsumerGroup*.json`` of Apache Kafka 4.4.0 (``group-coordinator``), the same in 3.9.2 but for what says
otherwise. Releases before 3.8 had other layouts under the same numbers; they were an early access, which no cluster
could be upgraded from.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from featuregate.records.schema import Flexible, Int8, Int32, Int64, Key, Tag, Uuid, Value

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupKey",
    "MemberKey",
    "PartitionMetadata",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitions",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey(Key):
    """What keys have in common whose record is about a whole group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey(Key):
    """What keys have in common whose record is about a member."""

    group_id: str
    member_id: str


class ConsumerGroupMetadataKey(GroupKey):
    """Which group an epoch is of."""

    __slots__ = ()
    RECORD_TYPE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue(Value):
    """The epoch of a group."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0
    """From 4.1 on: over all topics of the group, in the place of `ConsumerGroupPartitionMetadataValue`."""


class ConsumerGroupPartitionMetadataKey(GroupKey):
    """Which group the metadata of topics is of."""

    __slots__ = ()
    RECORD_TYPE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata(Flexible):
    """The racks of a partition."""

    partition: Int32
    racks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata(Flexible):
    """A topic, as the group saw it last."""

    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue(Value):
    """The topics that a group subscribes to. Only brokers up to 4.0 write it."""

    topics: tuple[TopicMetadata, ...]


class ConsumerGroupMemberMetadataKey(MemberKey):
    """Which member a description is of."""

    __slots__ = ()
    RECORD_TYPE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol(Flexible):
    """An assignor of a classic member, with its ``ConsumerProtocolSubscription``."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata(Flexible):
    """What a member said that still speaks the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(Value):
    """What a member said about itself."""

    instance_id: str | None
    """Of a static member (KIP-345)."""
    rack_id: str | None
    client_id: str
    client_host: str
    """With a leading slash, as Java prints addresses."""
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tag(0)] = ClassicMemberMetadata(
        session_timeout_ms=0, supported_protocols=()
    )
    """None where the member speaks the consumer protocol itself. Brokers always say which; Kafka's default is this."""


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey):
    """Which group a target assignment is of."""

    __slots__ = ()
    RECORD_TYPE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0
    """Milliseconds since 1970; from 4.3 on."""


class ConsumerGroupTargetAssignmentMemberKey(MemberKey):
    """Which member a target assignment is of."""

    __slots__ = ()
    RECORD_TYPE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition(Flexible):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue(Value):
    """The partitions that a member shall get."""

    topic_partitions: tuple[TopicPartition, ...]


class ConsumerGroupCurrentMemberAssignmentKey(MemberKey):
    """Which member an assignment is of."""

    __slots__ = ()
    RECORD_TYPE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions(Flexible):
    """Partitions of one topic that a member has."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Tag(0)] = ()
    """From 4.3 on: the epoch in which each of the partitions was assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(Value):
    """The partitions that a member has."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    """Of ``MemberState.java``: 0 stable, 1 has to give partitions up, 2 waits for others to do so."""
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey(Key):
    """Which regular expression a resolution is of."""

    RECORD_TYPE: ClassVar[int] = 16

    group_id: str
    regular_expression: str
    """As the members subscribed with it, in RE2's syntax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(Value):
    """The topics that match a regular expression. From 4.0 on."""

    topics: tuple[str, ...]
    version: Int64
    """Of the metadata image that was searched."""
    timestamp: Int64
    """Milliseconds since 1970."""
