"""Records of coordinators: those that Kafka's own classes encoded, and transcripts of the rules for all of them."""

import dataclasses
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from record_strategies import LOGS
from transcripts import retold, sections

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    ZERO_UUID,
    CoordinatorRecord,
    UnknownKey,
    UnknownValue,
    tagged_fields,
)
from featuregate.records.schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareUpdateKey,
    StreamsGroupMemberMetadataValue,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from featuregate.wire.codec import StructureCodec

ClassicMemberMetadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
TopicPartitions = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions

NEWER = UnknownKey(record_type=99, data=b"\1\2")
COMMIT = OffsetCommitKey(group="g", topic="t", partition=1)
OFFSET = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9)
PRODUCER = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=(TransactionLogValue.PartitionsSchema(topic="t", partition_ids=(0,)),),
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
)
OF_KAFKA = {
    f"{path.stem}-{sample['topic']}-{sample['type']}-v{sample['version']}-{number % 2}": sample
    for path in sorted((Path(__file__).parents[2] / "data" / "records").glob("*.json"))
    for number, sample in enumerate(json.loads(path.read_text(encoding="utf-8")))
}
"""By ``scripts/capture_records.py``: two records of each type and version, with the JSON and the bytes of Kafka."""


def as_json(said: Any, shape: Any) -> Any:
    """Write a field as Kafka's JSON does; a structure has the fields of this version only."""
    if isinstance(said, bytes):
        return b64encode(said).decode()
    if isinstance(said, tuple):
        return [as_json(each, inner) for each, inner in zip(said, shape, strict=True)]
    if dataclasses.is_dataclass(said):
        names = {camel(field.name): field.name for field in dataclasses.fields(said)}
        assert shape.keys() <= names.keys()
        return {name: as_json(getattr(said, names[name]), inner) for name, inner in shape.items()}
    return said


def camel(name: str) -> str:
    """Spell a field as Kafka's JSON does."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("sample", OF_KAFKA.values(), ids=OF_KAFKA)
def test_records_are_those_of_kafkas_own_classes(sample: dict[str, Any]) -> None:
    """The decoder reads every field from Kafka's bytes, and the encoder writes the same bytes."""
    (log,) = (log for log in LOGS if log.topic == sample["topic"])
    key, value = bytes.fromhex(sample["key_bytes"]), bytes.fromhex(sample["value_bytes"])
    record = log.decode(key, value)
    assert as_json(record.key, sample["key"]) == sample["key"]
    assert as_json(record.value, sample["value"]) == sample["value"]
    assert (record.record_type, record.version) == (sample["type"], sample["version"])
    assert log.encode(record) == (key, value)


def test_every_type_and_version_is_among_them() -> None:
    """Kafka gave up 9 and 18 before a release supported them; its classes write legacy offsets in version 0 alone."""
    assert {(sample["topic"], sample["type"], sample["version"]) for sample in OF_KAFKA.values()} == {
        (log.topic, number, version)
        for log in LOGS
        for number, (key, value) in log.records.items()
        for version in range(1 if key.__name__ == "LegacyOffsetCommitKey" else value.VERSIONS[1] + 1)
    }
    assert sorted(CONSUMER_OFFSETS.records) == [*range(9), *range(10, 18), *range(19, 24)]


def refusal_of(text: str) -> str:
    topic, key, value = text.split(" / ")
    (log,) = (log for log in LOGS if log.topic == topic)
    with pytest.raises(RemoteWireError) as caught:
        log.decode(bytes.fromhex(key), None if value == "tombstone" else bytes.fromhex(value))
    return str(caught.value)


def test_bytes_that_do_not_parse_are_refused_at_their_place() -> None:
    """The error names the field, inside of others too, before anything is allocated for a count that cannot be."""
    (kept,) = sections(__file__, "refused_bytes.txt").values()
    assert retold(kept, refusal_of) == kept


def test_an_assignment_may_have_a_tag_for_each_of_many_topics() -> None:
    """A record of a megabyte holds some 30,000 tags, more than any other message."""
    topics = tuple(
        TopicPartitions(topic_id=ZERO_UUID, partitions=(0,), assignment_epochs=(epoch,)) for epoch in range(17_000)
    )
    assignment = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1, previous_member_epoch=0, state=0, assigned_partitions=topics, partitions_pending_revocation=()
    )
    record = CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), assignment, 0)
    assert CONSUMER_OFFSETS.decode(*CONSUMER_OFFSETS.encode(record)) == record


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("00", ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())),
        ("01 00 01 00", None),
        ("01 00 07 01 00000004 01 00", ClassicMemberMetadata(session_timeout_ms=4, supported_protocols=())),
    ],
)
def test_a_tagged_null_is_another_thing_than_a_tagged_field_that_is_not_there(tags: str, said: object) -> None:
    """Kafka reads the default of an absent field, and here the default is not null."""
    key = bytes.fromhex("0005 0001 67 0001 6d")
    value = bytes.fromhex(f"0000 00 02 72 02 63 03 2f68 02 02 74 00 ffffffff 00 {tags}")
    record: Any = CONSUMER_OFFSETS.decode(key, value)
    assert record.value.classic_member_metadata == said
    assert CONSUMER_OFFSETS.encode(record) == (key, value)


@pytest.mark.parametrize(("there", "port"), [("00 02 65 ffff 00", 65_535), ("7f 02 65 ffff 00", 65_535), ("ff", None)])
def test_a_structure_is_there_where_the_byte_before_it_is_not_negative(there: str, port: int | None) -> None:
    """Kafka writes 1 before a structure, and reads any byte that is not negative."""
    value = bytes.fromhex(f"0000 00 00 02 63 03 2f68 ffffffff 00000000 02 70 {there} 01 00")
    record: Any = CONSUMER_OFFSETS.decode(bytes.fromhex("0013 0001 67 0001 6d"), value)
    assert getattr(record.value.user_endpoint, "port", None) == port


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_what_an_older_version_may_drop_is_dropped(version: int) -> None:
    """The encoder follows the schema, like a broker with an old metadata.version."""
    full = dataclasses.replace(OFFSET, expire_timestamp=10, topic_id="AQIDBAUGBwgJCgsMDQ7-_w")
    value = CONSUMER_OFFSETS.decode(*CONSUMER_OFFSETS.encode(CoordinatorRecord(COMMIT, full, version))).value
    assert value == dataclasses.replace(
        OFFSET, leader_epoch=2 if version == 3 else -1, expire_timestamp=10 if version == 1 else -1
    )


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


NO_RECORD = [
    (CoordinatorRecord(TransactionLogKey(transactional_id="x"), None), "__consumer_offsets has no TransactionLogKey"),
    (CoordinatorRecord(ShareUpdateKey(group_id="", topic_id=ZERO_UUID, partition=0), None), "has no ShareUpdateKey"),
    (CoordinatorRecord(GroupMetadataKey(group="g"), OFFSET, 3), "has no OffsetCommitValue under this key"),
    (CoordinatorRecord(NEWER, OFFSET, 3), "__consumer_offsets has no OffsetCommitValue under this key"),
    (CoordinatorRecord(COMMIT, OFFSET), "OffsetCommitValue: give the version to write"),
    (CoordinatorRecord(COMMIT, OFFSET, 5), "OffsetCommitValue: version 5 is not one of 0 to 4"),
    (CoordinatorRecord(COMMIT, OFFSET, -1), "OffsetCommitValue: version -1 is not one of 0 to 4"),
    (CoordinatorRecord(COMMIT, UnknownValue(data=b""), 40_000), "40000 does not fit into 16 bits"),
    (CoordinatorRecord(UnknownKey(record_type=40_000, data=b""), None), "40000 does not fit into 16 bits"),
    (CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, offset=2**63), 3), "OffsetCommitValue v3: offset: "),
    (CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, topic_id="short"), 4), "topic_id: 'short' is not 16 bytes"),
    (CoordinatorRecord(COMMIT, dataclasses.replace(OFFSET, unknown_tags={0: b""}), 4), "unknown_tags: [0] are known"),
]


@pytest.mark.parametrize(("record", "problem"), NO_RECORD, ids=[problem for _, problem in NO_RECORD])
def test_records_that_kafka_has_no_bytes_for_are_refused(record: CoordinatorRecord, problem: str) -> None:
    """The encoder raises an error, and returns no bytes."""
    with pytest.raises(LocalWireError) as caught:
        CONSUMER_OFFSETS.encode(record)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "field", ["previous_producer_id", "next_producer_id", "next_producer_epoch", "client_transaction_version"]
)
def test_what_an_older_version_may_not_drop_is_refused(field: str) -> None:
    """Kafka's encoder refuses these fields, too: without them the record would be about another transaction."""
    record = CoordinatorRecord(TransactionLogKey(transactional_id="x"), dataclasses.replace(PRODUCER, **{field: 2}), 0)
    with pytest.raises(LocalWireError, match=rf"^TransactionLogValue v0: {field}: this version has no such field"):
        TRANSACTION_STATE.encode(record)


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
    assert tagged_fields(assignment) == ("assigned_partitions.tag 9", "assigned_partitions.assignment_epochs", "tag 7")
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=(),
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=4, supported_protocols=(), unknown_tags={1: b""}
        ),
    )
    assert tagged_fields(member) == ("classic_member_metadata", "classic_member_metadata.tag 1")
    assert tagged_fields(OFFSET) == ()


def test_transaction_states_have_kafkas_numbers() -> None:
    """The states have the numbers 0 to 7."""
    assert TransactionState(PRODUCER.transaction_status).name == "ONGOING"
    assert [state.value for state in TransactionState] == list(range(8))


@pytest.mark.parametrize("cls", [ConsumerGroupMemberMetadataValue, StreamsGroupMemberMetadataValue])
def test_a_structure_that_may_be_null_takes_a_byte(cls: type[Any]) -> None:
    """In a tagged field, and in one that is not. Codecs are made once, most often by another test."""
    fields = {each.name for each in dataclasses.fields(cls)}
    assert fields & {"classic_member_metadata", "user_endpoint"}
    assert StructureCodec(cls, 0, flexible=True).smallest >= len(fields) - 1
