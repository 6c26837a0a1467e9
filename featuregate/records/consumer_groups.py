"""Groups of the consumer protocol (KIP-848): record types 3 to 8 and 16 of ``__consumer_offsets``.

Source: ``ConsumerGroup*.json`` of Apache Kafka 4.4.0 (``group-coordinator``), the same in 3.9.2 but where a field
says otherwise. Releases before 3.8 used other schemas under the same numbers: an early access, from which no cluster
could be upgraded.
"""

from typing import Annotated, ClassVar, Final

from featuregate.records.key_value import Key, Value
from featuregate.wire.schema import Flexible, Int8, Int32, Int64, Tag, Uuid, structure


@structure
class GroupKey(Key):
    """Base of the keys that name a group."""

    group_id: str


@structure
class MemberKey(Key):
    """Base of the keys that name a member of a group."""

    group_id: str
    member_id: str


class ConsumerGroupMetadataKey(GroupKey):
    """Key of a group epoch."""

    __slots__ = ()
    RECORD_TYPE = 3


@structure
class ConsumerGroupMetadataValue(Value):
    """The epoch of a group."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0
    """From 4.1 on: over all topics of the group, in the place of `ConsumerGroupPartitionMetadataValue`."""


class ConsumerGroupPartitionMetadataKey(GroupKey):
    """Key of the topic metadata of a group."""

    __slots__ = ()
    RECORD_TYPE = 4


@structure
class PartitionMetadata(Flexible):
    """The racks of a partition."""

    partition: Int32
    racks: tuple[str, ...]


@structure
class TopicMetadata(Flexible):
    """A topic, as the group knew it last."""

    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: tuple[PartitionMetadata, ...]


@structure
class ConsumerGroupPartitionMetadataValue(Value):
    """The topics that a group subscribes to. Only brokers up to 4.0 write it."""

    topics: tuple[TopicMetadata, ...]


class ConsumerGroupMemberMetadataKey(MemberKey):
    """Key of the description of a member."""

    __slots__ = ()
    RECORD_TYPE = 5


@structure
class ClassicProtocol(Flexible):
    """An assignor of a classic member, with its ``ConsumerProtocolSubscription``."""

    name: str
    metadata: bytes


@structure
class ClassicMemberMetadata(Flexible):
    """The subscription of a member that still uses the classic protocol."""

    session_timeout_ms: Int32
    supported_protocols: tuple[ClassicProtocol, ...]


@structure
class ConsumerGroupMemberMetadataValue(Value):
    """The description of a member, as the member sent it."""

    instance_id: str | None
    """The group.instance.id of a static member (KIP-345)."""
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
    """None where the member uses the consumer protocol. Brokers always write the field; this is Kafka's default."""


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of the target assignment of a group."""

    __slots__ = ()
    RECORD_TYPE = 6


@structure
class ConsumerGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0
    """Milliseconds since 1970; from 4.3 on."""


class ConsumerGroupTargetAssignmentMemberKey(MemberKey):
    """Key of the target assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 7


@structure
class TopicPartition(Flexible):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]


@structure
class ConsumerGroupTargetAssignmentMemberValue(Value):
    """The target assignment of a member."""

    topic_partitions: tuple[TopicPartition, ...]


class ConsumerGroupCurrentMemberAssignmentKey(MemberKey):
    """Key of the current assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 8


@structure
class TopicPartitions(Flexible):
    """Partitions of one topic that a member has."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Tag(0)] = ()
    """From 4.3 on: the epoch in which each of the partitions was assigned."""


@structure
class ConsumerGroupCurrentMemberAssignmentValue(Value):
    """The current assignment of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    """The state as in ``MemberState.java``: 0 stable, 1 must revoke partitions, 2 waits for other members."""
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...]


@structure
class ConsumerGroupRegularExpressionKey(Key):
    """Key of a resolved regular expression."""

    RECORD_TYPE: ClassVar[int] = 16

    group_id: str
    regular_expression: str
    """In RE2's syntax, from the subscriptions of members."""


@structure
class ConsumerGroupRegularExpressionValue(Value):
    """The topics that match a regular expression. From 4.0 on."""

    topics: tuple[str, ...]
    version: Int64
    """The version of the metadata image that was searched."""
    timestamp: Int64
    """Milliseconds since 1970."""


RECORDS: Final = (
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
"""The classes of key and value of each record type."""
