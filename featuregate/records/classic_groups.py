"""Groups of the classic protocol: record type 2 of ``__consumer_offsets``.

Source: ``GroupMetadataKey.json`` and ``GroupMetadataValue.json`` of Apache Kafka 4.4.0 (``group-coordinator``), the
same in 3.9.2.
"""

from typing import Annotated, ClassVar, Final

from featuregate.records.key_value import Key, Value
from featuregate.wire.schema import Flexible, Int32, Int64, Versions, structure


@structure
class GroupMetadataKey(Key):
    """Key of a classic group."""

    RECORD_TYPE: ClassVar[int] = 2

    group: str


@structure
class MemberMetadata(Flexible):
    """A member of a classic group, at the start of the generation."""

    member_id: str
    group_instance_id: Annotated[str | None, Versions(3)] = None
    """The group.instance.id of a static member (KIP-345)."""
    client_id: str
    client_host: str
    """With a leading slash, as Java prints addresses."""
    rebalance_timeout: Annotated[Int32, Versions(1)] = -1
    """Milliseconds."""
    session_timeout: Int32
    """Milliseconds."""
    subscription: bytes
    """From JoinGroup: for consumers, Kafka's ``ConsumerProtocolSubscription``."""
    assignment: bytes
    """From the leader: for consumers, Kafka's ``ConsumerProtocolAssignment``."""


@structure
class GroupMetadataValue(Value):
    """A generation of a classic group. Brokers write version 3; none has written 4 up to 4.4 (KIP-915)."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    protocol_type: str
    """``consumer``, ``connect``, or empty for a group that only commits."""
    generation: Int32
    protocol: str | None
    """The chosen assignor; None for an empty group."""
    leader: str | None
    """Member id of the leader; None for an empty group."""
    current_state_timestamp: Annotated[Int64, Versions(2)] = -1
    """Milliseconds since 1970."""
    members: tuple[MemberMetadata, ...]


RECORDS: Final = ((GroupMetadataKey, GroupMetadataValue),)
"""The classes of key and value of each record type."""
