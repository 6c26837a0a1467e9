"""Share groups (KIP-932): record types 10 to 15 of ``__consumer_offsets``, and the two of ``__share_group_state``.

Source: ``ShareGroup*.json`` (``group-coordinator``), ``ShareSnapshot*.json`` and ``ShareUpdate*.json``
(``share-coordinator``) of Apache Kafka 4.4.0, the same from 4.1 on but for what says otherwise. The early access of
4.0 had other layouts under the same numbers.
"""

from typing import Annotated, Final

from featuregate.records.consumer_groups import GroupKey, MemberKey, TopicPartition
from featuregate.records.key_value import Key, Value
from featuregate.wire.schema import Flexible, Int8, Int16, Int32, Int64, Tag, Uuid, structure


class ShareGroupMemberMetadataKey(MemberKey):
    """Key of the description of a member."""

    __slots__ = ()
    RECORD_TYPE = 10


@structure
class ShareGroupMemberMetadataValue(Value):
    """The description of a member, as the member sent it."""

    rack_id: str | None
    client_id: str
    client_host: str
    """With a leading slash, as Java prints addresses."""
    subscribed_topic_names: tuple[str, ...]


class ShareGroupMetadataKey(GroupKey):
    """Key of a group epoch."""

    __slots__ = ()
    RECORD_TYPE = 11


@structure
class ShareGroupMetadataValue(Value):
    """The epoch of a group."""

    epoch: Int32
    metadata_hash: Int64
    """Over all topics of the group."""


class ShareGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of the target assignment of a group."""

    __slots__ = ()
    RECORD_TYPE = 12


@structure
class ShareGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0
    """Milliseconds since 1970; from 4.3 on."""


class ShareGroupTargetAssignmentMemberKey(MemberKey):
    """Key of the target assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 13


@structure
class ShareGroupTargetAssignmentMemberValue(Value):
    """The target assignment of a member."""

    topic_partitions: tuple[TopicPartition, ...]


class ShareGroupCurrentMemberAssignmentKey(MemberKey):
    """Key of the current assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 14


@structure
class ShareGroupCurrentMemberAssignmentValue(Value):
    """The current assignment of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    """The state as in ``MemberState.java``: 0 stable."""
    assigned_partitions: tuple[TopicPartition, ...]


class ShareGroupStatePartitionMetadataKey(GroupKey):
    """Key of the state partitions of a group."""

    __slots__ = ()
    RECORD_TYPE = 15


@structure
class TopicPartitionsInfo(Flexible):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: str
    partitions: tuple[Int32, ...]


@structure
class TopicInfo(Flexible):
    """A topic."""

    topic_id: Uuid
    topic_name: str


@structure
class ShareGroupStatePartitionMetadataValue(Value):
    """The partitions that have a state in ``__share_group_state``."""

    initializing_topics: tuple[TopicPartitionsInfo, ...]
    initialized_topics: tuple[TopicPartitionsInfo, ...]
    deleting_topics: tuple[TopicInfo, ...]


@structure
class SharePartitionKey(Key):
    """Base of the keys of ``__share_group_state``: a share-partition."""

    group_id: str
    topic_id: Uuid
    partition: Int32


@structure
class StateBatch(Flexible):
    """Offsets in the same state."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    """The state as in ``PersisterStateBatch``: 0 available, 2 acknowledged, 4 archived."""
    delivery_count: Int16


class ShareSnapshotKey(SharePartitionKey):
    """Key of the snapshot of a share-partition."""

    __slots__ = ()
    RECORD_TYPE = 0


@structure
class ShareSnapshotValue(Value):
    """The complete state of a share-partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Tag(0)] = -1
    """From 4.2 on."""
    create_timestamp: Int64
    """Milliseconds since 1970."""
    write_timestamp: Int64
    """Milliseconds since 1970."""
    state_batches: tuple[StateBatch, ...]


class ShareUpdateKey(SharePartitionKey):
    """Key of an update of a share-partition."""

    __slots__ = ()
    RECORD_TYPE = 1


@structure
class ShareUpdateValue(Value):
    """The changes since the snapshot."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Tag(0)] = -1
    """From 4.2 on."""
    state_batches: tuple[StateBatch, ...]


GROUP_RECORDS: Final = (
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
"""The classes of key and value of each record type of ``__consumer_offsets``."""

STATE_RECORDS: Final = (
    (ShareSnapshotKey, ShareSnapshotValue),
    (ShareUpdateKey, ShareUpdateValue),
)
"""The classes of key and value of each record type of ``__share_group_state``."""
