"""Records of coordinators: the rules of single record types."""

import dataclasses

import pytest

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    ZERO_UUID,
    CoordinatorRecord,
    CoordinatorTopic,
    UnknownKey,
    UnknownValue,
    tagged_fields,
)
from featuregate.records.classic_groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from featuregate.records.consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from featuregate.records.offsets import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from featuregate.records.share_groups import ShareSnapshotKey, ShareUpdateKey, ShareUpdateValue, StateBatch
from featuregate.records.streams_groups import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from featuregate.records.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue, TransactionState

NEWER = UnknownKey(record_type=99, data=b"\1\2")
COMMIT = OffsetCommitKey(group="g", topic="t", partition=1)
OFFSET = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9)
PRODUCER = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(0, 1)),),
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
)
MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=("t",),
    subscribed_topic_regex=None,
    server_assignor=None,
)


CASES = {
    "offset-v0": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            LegacyOffsetCommitKey(group="g", topic="t", partition=1),
            dataclasses.replace(OFFSET, leader_epoch=-1),
            0,
        ),
        "0000 0001 67 0001 74 00000001",
        "0000 0000000000000007 0001 6d 0000000000000009",
    ),
    "offset-v1": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, leader_epoch=-1, expire_timestamp=10), 1),
        "0001 0001 67 0001 74 00000001",
        "0001 0000000000000007 0001 6d 0000000000000009 000000000000000a",
    ),
    "offset-v2": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, leader_epoch=-1), 2),
        "0001 0001 67 0001 74 00000001",
        "0002 0000000000000007 0001 6d 0000000000000009",
    ),
    "offset-v3": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(COMMIT, OFFSET, 3),
        "0001 0001 67 0001 74 00000001",
        "0003 0000000000000007 00000002 0001 6d 0000000000000009",
    ),
    "offset-v4": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            COMMIT, dataclasses.replace(OFFSET, topic_id="AQIDBAUGBwgJCgsMDQ7-_w", unknown_tags={5: b"x"}), 4
        ),
        "0001 0001 67 0001 74 00000001",
        "0004 0000000000000007 00000002 02 6d 0000000000000009 02 00 10 0102030405060708090a0b0c0d0efeff 05 01 78",
    ),
    "offset-v4-without-a-topic-id": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(COMMIT, OFFSET, 4),
        "0001 0001 67 0001 74 00000001",
        "0004 0000000000000007 00000002 02 6d 0000000000000009 00",
    ),
    "group-v3": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="consumer",
                generation=1,
                protocol="range",
                leader="a",
                current_state_timestamp=9,
                members=(
                    MemberMetadata(
                        member_id="a",
                        group_instance_id="i",
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=3,
                        session_timeout=4,
                        subscription=b"\1",
                        assignment=b"\2\3",
                    ),
                ),
            ),
            3,
        ),
        "0002 0001 67",
        (
            "0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0001 61 0000000000000009 00000001"
            "0001 61 0001 69 0001 63 0002 2f68 00000003 00000004 00000001 01 00000002 0203"
        ),
    ),
    "group-v1-empty": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=()),
            1,
        ),
        "0002 0001 67",
        "0001 0000 00000000 ffff ffff 00000000",
    ),
    "tombstone": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(GroupMetadataKey(group="g"), None),
        "0002 0001 67",
        None,
    ),
    "consumer-group": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=5, metadata_hash=6), 0
        ),
        "0003 0001 67",
        "0000 00000005 01 00 08 0000000000000006",
    ),
    "consumer-group-member-that-speaks-classic": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            dataclasses.replace(
                MEMBER,
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=4, supported_protocols=(ClassicProtocol(name="p", metadata=b"\1"),)
                ),
            ),
            0,
        ),
        "0005 0001 67 0001 6d",
        "0000 00 02 72 02 63 03 2f68 02 02 74 00 ffffffff 00 01 00 0c 01 00000004 02 02 70 02 01 00 00",
    ),
    "consumer-group-assignment": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=5,
                previous_member_epoch=4,
                state=0,
                assigned_partitions=(TopicPartitions(topic_id=ZERO_UUID, partitions=(0, 1), assignment_epochs=(4, 5)),),
                partitions_pending_revocation=(),
            ),
            0,
        ),
        "0008 0001 67 0001 6d",
        (
            "0000 00000005 00000004 00 02 00000000000000000000000000000000 03 00000000 00000001"
            "01 00 09 03 00000004 00000005 01 00"
        ),
    ),
    "streams-group-member": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            StreamsGroupMemberMetadataKey(group_id="g", member_id="m"),
            StreamsGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/h",
                topology_epoch=0,
                process_id="p",
                user_endpoint=Endpoint(host="e", port=65_535),
                client_tags=(KeyValue(key="k", value="v"),),
            ),
            0,
        ),
        "0013 0001 67 0001 6d",
        "0000 00 00 02 63 03 2f68 ffffffff 00000000 02 70 01 02 65 ffff 00 02 02 6b 02 76 00 00",
    ),
    "transaction-v0": (
        TRANSACTION_STATE,
        CoordinatorRecord(TransactionLogKey(transactional_id="x"), PRODUCER, 0),
        "0000 0001 78",
        (
            "0000 00000000000003e8 0002 0000ea60 01 00000001 0001 74 00000002 00000000 00000001"
            "0000000000000009 0000000000000008"
        ),
    ),
    "transaction-v1": (
        TRANSACTION_STATE,
        CoordinatorRecord(
            TransactionLogKey(transactional_id="x"),
            dataclasses.replace(
                PRODUCER,
                previous_producer_id=999,
                next_producer_id=1001,
                client_transaction_version=2,
                next_producer_epoch=1,
                transaction_partitions=None,
            ),
            1,
        ),
        "0000 0001 78",
        (
            "0001 00000000000003e8 0002 0000ea60 01 00 0000000000000009 0000000000000008"
            "04 00 08 00000000000003e7 01 08 00000000000003e9 02 02 0002 03 02 0001"
        ),
    ),
    "share-update": (
        SHARE_GROUP_STATE,
        CoordinatorRecord(
            ShareUpdateKey(group_id="g", topic_id=ZERO_UUID, partition=1),
            ShareUpdateValue(
                snapshot_epoch=1,
                leader_epoch=2,
                start_offset=3,
                delivery_complete_count=4,
                state_batches=(StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1),),
            ),
            0,
        ),
        "0001 0001 67 00000000000000000000000000000000 00000001",
        "0000 00000001 00000002 0000000000000003 02 0000000000000003 0000000000000004 02 0001 00 01 00 04 00000004",
    ),
}


@pytest.mark.parametrize(("log", "record", "key", "value"), CASES.values(), ids=CASES)
def test_records_have_kafkas_bytes(
    log: CoordinatorTopic, record: CoordinatorRecord, key: str, value: str | None
) -> None:
    """Each field lies where Kafka's schema puts it."""
    encoded = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert log.encode(record) == encoded
    assert log.decode(*encoded) == record


def test_a_legacy_key_is_a_key_of_an_offset_too() -> None:
    """A search for offsets finds those of old brokers, and the two keys are not equal."""
    legacy = LegacyOffsetCommitKey(group="g", topic="t", partition=1)
    assert isinstance(legacy, OffsetCommitKey)
    assert legacy != COMMIT
    assert CONSUMER_OFFSETS.decode_key(CONSUMER_OFFSETS.encode(CoordinatorRecord(legacy, None))[0]) == legacy


def test_topics_have_their_own_numbers() -> None:
    """In each topic the same first bytes are another type of record."""
    data = bytes.fromhex("0000 0001 78")
    assert TRANSACTION_STATE.decode_key(data) == TransactionLogKey(transactional_id="x")
    with pytest.raises(RemoteWireError, match=r"^LegacyOffsetCommitKey: topic at byte 5: "):
        CONSUMER_OFFSETS.decode_key(data)
    with pytest.raises(RemoteWireError, match=r"^ShareSnapshotKey: topic_id at byte 5: "):
        SHARE_GROUP_STATE.decode_key(data)


def test_all_record_types_of_kafka_are_known() -> None:
    """Kafka gave up 9 and 18 before a release supported them."""
    assert sorted(CONSUMER_OFFSETS.records) == [*range(9), *range(10, 18), *range(19, 24)]
    assert TRANSACTION_STATE.records == {0: (TransactionLogKey, TransactionLogValue)}
    assert sorted(SHARE_GROUP_STATE.records) == [ShareSnapshotKey.RECORD_TYPE, ShareUpdateKey.RECORD_TYPE]
    for log in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE):
        for key, value in log.records.values():
            assert (key.__name__.removesuffix("Key"), value.__name__.removesuffix("Value")) in {
                ("LegacyOffsetCommit", "OffsetCommit"),
                (value.__name__.removesuffix("Value"), value.__name__.removesuffix("Value")),
            }


@pytest.mark.parametrize(("key", "value"), [(b"", None), (b"\0", None), (b"\0\2\0\0", b""), (b"\0\2\0\0", b"\0")])
def test_a_key_or_value_without_its_number_is_refused(key: bytes, value: bytes | None) -> None:
    """The first two bytes are the type of a key, or the version of a value."""
    with pytest.raises(RemoteWireError, match=r"^__consumer_offsets: (key|value) at byte 0: wanted 2 bytes, "):
        CONSUMER_OFFSETS.decode(key, value)


def test_an_error_names_the_field_inside_of_others() -> None:
    """The error counts bytes from the beginning of the value."""
    key, value = CONSUMER_OFFSETS.encode(
        CoordinatorRecord(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="",
                generation=0,
                protocol=None,
                leader=None,
                members=(
                    MemberMetadata(
                        member_id="", client_id="", client_host="", session_timeout=0, subscription=b"", assignment=b"1"
                    ),
                ),
            ),
            3,
        )
    )
    assert value is not None
    with pytest.raises(RemoteWireError, match=r"^GroupMetadataValue v3: members\.assignment at byte 48: wanted 1 byte"):
        CONSUMER_OFFSETS.decode(key, value[:-1])


def test_a_count_that_cannot_be_is_refused_before_anything_is_allocated() -> None:
    """The decoder compares the count with the bytes that are left."""
    key, _ = TRANSACTION_STATE.encode(CoordinatorRecord(TransactionLogKey(transactional_id="x"), None))
    head = bytes.fromhex("0000 00000000000003e8 0002 0000ea60 01")
    with pytest.raises(RemoteWireError, match="2147483647 elements cannot fit into 4 bytes"):
        TRANSACTION_STATE.decode(key, head + bytes.fromhex("7fffffff 00000000"))
    with pytest.raises(RemoteWireError, match="negative count -2"):
        TRANSACTION_STATE.decode(key, head + bytes.fromhex("fffffffe 00000000"))


def test_a_structure_counts_with_all_that_it_must_have() -> None:
    """Three topics of a transaction need more than eight bytes, because each has a name, a list and tags."""
    key, _ = TRANSACTION_STATE.encode(CoordinatorRecord(TransactionLogKey(transactional_id="x"), None))
    head = bytes.fromhex("0001 00000000000003e8 0002 0000ea60 01")
    with pytest.raises(RemoteWireError, match="3 elements cannot fit into 8 bytes"):
        TRANSACTION_STATE.decode(key, head + bytes.fromhex("04 01 01 00 01 01 00 01 01"))


def test_a_structure_is_there_where_the_byte_before_it_is_not_negative() -> None:
    """Kafka writes 1 before a structure, and reads any byte that is not negative."""
    key = bytes.fromhex("0013 0001 67 0001 6d")
    for there in ("00", "01", "7f"):
        value = f"0000 00 00 02 63 03 2f68 ffffffff 00000000 02 70 {there} 02 65 ffff 00 01 00"
        read = CONSUMER_OFFSETS.decode(key, bytes.fromhex(value)).value
        assert isinstance(read, StreamsGroupMemberMetadataValue)
        assert read.user_endpoint == Endpoint(host="e", port=65_535)
    nowhere = bytes.fromhex("0000 00 00 02 63 03 2f68 ffffffff 00000000 02 70 ff 01 00")
    record = CONSUMER_OFFSETS.decode(key, nowhere)
    assert isinstance(record.value, StreamsGroupMemberMetadataValue)
    assert record.value.user_endpoint is None
    assert CONSUMER_OFFSETS.encode(record) == (key, nowhere)


def test_an_assignment_may_have_a_tag_for_each_of_many_topics() -> None:
    """A record of a megabyte holds some 30,000 tags, more than any other message."""
    topics = tuple(
        TopicPartitions(topic_id=ZERO_UUID, partitions=(0,), assignment_epochs=(epoch,)) for epoch in range(17_000)
    )
    assignment = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=topics,
        partitions_pending_revocation=(),
    )
    record = CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), assignment, 0)
    assert CONSUMER_OFFSETS.decode(*CONSUMER_OFFSETS.encode(record)) == record


def test_tagged_fields_of_inner_structures_are_kept() -> None:
    """A newer coordinator may add a tagged field to any structure (KIP-915)."""
    record = CoordinatorRecord(
        TransactionLogKey(transactional_id="x"),
        dataclasses.replace(
            PRODUCER,
            transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(0,), unknown_tags={9: b"new"}),),
            unknown_tags={77: b""},
        ),
        1,
    )
    assert TRANSACTION_STATE.decode(*TRANSACTION_STATE.encode(record)) == record


def test_a_tagged_field_is_read_to_its_end() -> None:
    """The decoder refuses bytes behind the value of a tagged field."""
    with pytest.raises(RemoteWireError, match=r"^ConsumerGroupMetadataValue v0: end at byte 17: 1 byte left over"):
        CONSUMER_OFFSETS.decode(
            bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 00000005 01 00 09 0000000000000006 00")
        )


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("00", ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())),
        ("01 00 01 00", None),
        ("01 00 07 01 00000004 01 00", ClassicMemberMetadata(session_timeout_ms=4, supported_protocols=())),
    ],
)
def test_a_tagged_null_is_another_thing_than_a_tagged_field_that_is_not_there(
    tags: str, said: ClassicMemberMetadata | None
) -> None:
    """Kafka reads the default of an absent field, and here the default is not null."""
    key = bytes.fromhex("0005 0001 67 0001 6d")
    value = bytes.fromhex(f"0000 00 02 72 02 63 03 2f68 02 02 74 00 ffffffff 00 {tags}")
    record = CONSUMER_OFFSETS.decode(key, value)
    assert record.value == dataclasses.replace(MEMBER, classic_member_metadata=said)
    assert CONSUMER_OFFSETS.encode(record) == (key, value)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_what_an_older_version_may_drop_is_dropped(version: int) -> None:
    """The encoder follows the schema, like a broker with an old metadata.version."""
    full = dataclasses.replace(OFFSET, expire_timestamp=10, topic_id="AQIDBAUGBwgJCgsMDQ7-_w")
    value = CONSUMER_OFFSETS.decode(*CONSUMER_OFFSETS.encode(CoordinatorRecord(COMMIT, full, version))).value
    assert value == dataclasses.replace(
        OFFSET, leader_epoch=2 if version == 3 else -1, expire_timestamp=10 if version == 1 else -1
    )


@pytest.mark.parametrize(
    "field",
    ["previous_producer_id", "next_producer_id", "next_producer_epoch", "client_transaction_version"],
)
def test_what_an_older_version_may_not_drop_is_refused(field: str) -> None:
    """Kafka's encoder refuses these fields, too: without them the record would be about another transaction."""
    record = CoordinatorRecord(TransactionLogKey(transactional_id="x"), dataclasses.replace(PRODUCER, **{field: 2}), 0)
    with pytest.raises(LocalWireError, match=rf"^TransactionLogValue v0: {field}: this version has no such field"):
        TRANSACTION_STATE.encode(record)


@pytest.mark.parametrize(
    ("key", "value", "record"),
    [
        ("00630102", "00070a", CoordinatorRecord(NEWER, UnknownValue(data=b"\n"), 7)),
        ("00630102", None, CoordinatorRecord(NEWER, None)),
        ("0001 0001 67 0001 74 00000001", "00630a", CoordinatorRecord(COMMIT, UnknownValue(data=b"\n"), 99)),
    ],
    ids=["type", "type of a tombstone", "version"],
)
def test_a_record_of_a_newer_release_is_kept_as_bytes(key: str, value: str | None, record: CoordinatorRecord) -> None:
    """Since KIP-915 coordinators skip it, too."""
    assert CONSUMER_OFFSETS.decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == record


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (
            CoordinatorRecord(TransactionLogKey(transactional_id="x"), None),
            "__consumer_offsets has no TransactionLogKey",
        ),
        (
            CoordinatorRecord(ShareUpdateKey(group_id="g", topic_id=ZERO_UUID, partition=0), None),
            "has no ShareUpdateKey",
        ),
        (
            CoordinatorRecord(GroupMetadataKey(group="g"), OFFSET, 3),
            "__consumer_offsets has no OffsetCommitValue under this key",
        ),
        (CoordinatorRecord(UnknownKey(record_type=99, data=b""), OFFSET, 3), "has no OffsetCommitValue under this key"),
        (CoordinatorRecord(COMMIT, OFFSET), "OffsetCommitValue: give the version to write"),
        (CoordinatorRecord(COMMIT, OFFSET, 5), "OffsetCommitValue: version 5 is not one of 0 to 4"),
        (CoordinatorRecord(COMMIT, OFFSET, -1), "OffsetCommitValue: version -1 is not one of 0 to 4"),
        (CoordinatorRecord(COMMIT, UnknownValue(data=b""), 40_000), "40000 does not fit into 16 bits"),
        (CoordinatorRecord(UnknownKey(record_type=40_000, data=b""), None), "40000 does not fit into 16 bits"),
        (CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, offset=2**63), 3), "OffsetCommitValue v3: offset: "),
        (
            CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, topic_id="short"), 4),
            "topic_id: 'short' is not 16 bytes",
        ),
        (
            CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, unknown_tags={0: b""}), 4),
            r"unknown_tags: \[0\] are known",
        ),
    ],
)
def test_records_that_kafka_has_no_bytes_for_are_refused(record: CoordinatorRecord, problem: str) -> None:
    """The encoder raises an error, and returns no bytes."""
    with pytest.raises(LocalWireError, match=problem):
        CONSUMER_OFFSETS.encode(record)


def test_tagged_fields_are_named_with_the_fields_that_they_lie_in() -> None:
    """Each name occurs once, however many structures have the field; a default counts as absent."""
    topics = tuple(
        TopicPartitions(topic_id=ZERO_UUID, partitions=(0,), assignment_epochs=epochs, unknown_tags={9: b""})
        for epochs in (None, (), (1,), (2,))
    )
    assignment = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=topics,
        partitions_pending_revocation=(),
        unknown_tags={7: b""},
    )
    assert tagged_fields(assignment) == (
        "assigned_partitions.tag 9",
        "assigned_partitions.assignment_epochs",
        "tag 7",
    )
    classic = ClassicMemberMetadata(session_timeout_ms=4, supported_protocols=(), unknown_tags={1: b""})
    assert tagged_fields(dataclasses.replace(MEMBER, classic_member_metadata=classic)) == (
        "classic_member_metadata",
        "classic_member_metadata.tag 1",
    )
    assert tagged_fields(OFFSET) == ()


def test_records_can_be_matched_by_type() -> None:
    """A match statement selects the records that an app needs."""
    found = []
    for record in (
        CoordinatorRecord(COMMIT, OFFSET, 3),
        CoordinatorRecord(COMMIT, None),
        CoordinatorRecord(GroupMetadataKey(group="g"), None),
    ):
        match record:
            case CoordinatorRecord(OffsetCommitKey(group=group), OffsetCommitValue(offset=offset)):
                found.append((group, offset))
            case CoordinatorRecord(OffsetCommitKey(group=group), None):
                found.append((group, None))
    assert found == [("g", 7), ("g", None)]


def test_transaction_states_have_kafkas_numbers() -> None:
    """The states have the numbers 0 to 7."""
    assert TransactionState(PRODUCER.transaction_status).name == "ONGOING"
    assert [state.value for state in TransactionState] == list(range(8))
