"""Committed offsets: record types 0 and 1 of ``__consumer_offsets``.

Source: ``OffsetCommitKey.json``, ``OffsetCommitValue.json`` and ``LegacyOffsetCommit*.json`` of Apache Kafka 4.4.0
(``group-coordinator``), the same in 3.9.2 but for the topic id.
"""

from typing import Annotated, ClassVar, Final

from featuregate.records.key_value import Key, Value
from featuregate.wire.schema import ZERO_UUID, Int32, Int64, Tag, Uuid, Versions, structure


@structure
class OffsetCommitKey(Key):
    """Key of a committed offset: group, topic and partition."""

    RECORD_TYPE: ClassVar[int] = 1

    group: str
    topic: str
    partition: Int32


class LegacyOffsetCommitKey(OffsetCommitKey):
    """Key that brokers up to 0.8.2 wrote; Kafka 4.1 and newer read only values of version 0 under it."""

    __slots__ = ()
    RECORD_TYPE = 0


@structure
class OffsetCommitValue(Value):
    """The offset that a group committed for a partition.

    Brokers write version 1 where the commit has an expiry of its own, else 3 up to 4.0, and 4 from 4.1 on.
    """

    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    offset: Int64
    """The next record to read."""
    leader_epoch: Annotated[Int32, Versions(3)] = -1
    """Epoch of the last record that was read (KIP-320); -1 where the client sent none."""
    metadata: str
    """Text from the client."""
    commit_timestamp: Int64
    """Milliseconds since 1970."""
    expire_timestamp: Annotated[Int64, Versions(1, 1)] = -1
    """Milliseconds since 1970; -1 where the broker's retention decides. Only version 1 has it."""
    topic_id: Annotated[Uuid, Versions(4), Tag(0)] = ZERO_UUID
    """From 4.1 on, where the client committed with topic ids (KIP-848)."""


RECORDS: Final = (
    (OffsetCommitKey, OffsetCommitValue),
    (LegacyOffsetCommitKey, OffsetCommitValue),
)
"""The classes of key and value of each record type."""
