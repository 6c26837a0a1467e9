"""Streams groups (KIP-1071): record types 17 and 19 to 23 of ``__consumer_offsets``.

Source: ``StreamsGroup*.json`` of Apache Kafka 4.4.0 (``group-coordinator``), the same from 4.1 on but for what says
otherwise.
"""

from typing import Annotated, Final

from featuregate.records.consumer_groups import GroupKey, MemberKey
from featuregate.records.key_value import Value
from featuregate.wire.schema import Flexible, Int8, Int16, Int32, Int64, Tag, UInt16, structure


@structure
class KeyValue(Flexible):
    """A client tag or a config, with its value."""

    key: str
    value: str


class StreamsGroupMetadataKey(GroupKey):
    """Key of a group epoch."""

    __slots__ = ()
    RECORD_TYPE = 17


@structure
class StreamsGroupMetadataValue(Value):
    """The epoch of a group."""

    epoch: Int32
    metadata_hash: Int64
    """Over all topics of the group."""
    validated_topology_epoch: Annotated[Int32, Tag(0)] = -1
    """From 4.2 on."""
    last_assignment_configs: Annotated[tuple[KeyValue, ...] | None, Tag(1)] = ()
    """From 4.2 on."""
    stored_description_topology_epoch: Annotated[Int32, Tag(2)] = -1
    """From 4.4 on."""
    failed_description_topology_epoch: Annotated[Int32, Tag(3)] = -1
    """From 4.4 on."""


class StreamsGroupMemberMetadataKey(MemberKey):
    """Key of the description of a member."""

    __slots__ = ()
    RECORD_TYPE = 19


@structure
class Endpoint(Flexible):
    """Address at which an instance serves interactive queries."""

    host: str
    port: UInt16


@structure
class StreamsGroupMemberMetadataValue(Value):
    """The description of a member, as the member sent it."""

    instance_id: str | None
    """The group.instance.id of a static member (KIP-345)."""
    rack_id: str | None
    client_id: str
    client_host: str
    """With a leading slash, as Java prints addresses."""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: str
    """The id of the Streams instance, which may have several members."""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...]


class StreamsGroupTargetAssignmentMetadataKey(GroupKey):
    """Key of the target assignment of a group."""

    __slots__ = ()
    RECORD_TYPE = 20


@structure
class StreamsGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0
    """Milliseconds since 1970; from 4.3 on."""


class StreamsGroupTargetAssignmentMemberKey(MemberKey):
    """Key of the target assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 21


@structure
class TaskIds(Flexible):
    """Tasks of one subtopology."""

    subtopology_id: str
    partitions: tuple[Int32, ...]


@structure
class StreamsGroupTargetAssignmentMemberValue(Value):
    """The target assignment of a member."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]


class StreamsGroupCurrentMemberAssignmentKey(MemberKey):
    """Key of the current assignment of a member."""

    __slots__ = ()
    RECORD_TYPE = 22


@structure
class CurrentTaskIds(Flexible):
    """Tasks of one subtopology that a member has; ``TaskIds`` too in Kafka's schema."""

    subtopology_id: str
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Tag(0)] = ()
    """From 4.2 on: the epoch in which each of the tasks was assigned."""


@structure
class StreamsGroupCurrentMemberAssignmentValue(Value):
    """The current assignment of a member."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: tuple[CurrentTaskIds, ...]
    standby_tasks: tuple[CurrentTaskIds, ...]
    warmup_tasks: tuple[CurrentTaskIds, ...]
    active_tasks_pending_revocation: tuple[CurrentTaskIds, ...]
    standby_tasks_pending_revocation: tuple[CurrentTaskIds, ...]
    warmup_tasks_pending_revocation: tuple[CurrentTaskIds, ...]


class StreamsGroupTopologyKey(GroupKey):
    """Key of the topology of a group."""

    __slots__ = ()
    RECORD_TYPE = 23


@structure
class TopologyTopic(Flexible):
    """An internal topic of a topology; ``TopicInfo`` in Kafka's schema."""

    name: str
    partitions: Int32
    """0 where the brokers derive it."""
    replication_factor: Int16
    """0 for the brokers' default."""
    topic_configs: tuple[KeyValue, ...]


@structure
class CopartitionGroup(Flexible):
    """Topics with the same number of partitions, as indexes into the lists of the subtopology."""

    source_topics: tuple[Int16, ...]
    source_topic_regex: tuple[Int16, ...]
    repartition_source_topics: tuple[Int16, ...]


@structure
class Subtopology(Flexible):
    """A part of a topology that reads its own topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopologyTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopologyTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@structure
class StreamsGroupTopologyValue(Value):
    """The topology of a group."""

    epoch: Int32
    subtopologies: tuple[Subtopology, ...]


RECORDS: Final = (
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
"""The classes of key and value of each record type."""
