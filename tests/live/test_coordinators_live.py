"""What the table says that coordinators make of newer records, beside what real ones make of them."""

import re
import time
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import BOUND, eventually

from featuregate.records import CONSUMER_OFFSETS, CoordinatorRecord, UnknownKey, UnknownValue
from featuregate.records.releases import coordinator_release
from featuregate.records.schemas import OffsetCommitKey, OffsetCommitValue
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("records"), pytest.mark.live, pytest.mark.slow]

TOPIC = "orders"
MAY_WRITE = {"client.id": "__admin_client", "log_level": 0}
"""The name that brokers let write to internal topics."""
NEW_TYPE = CoordinatorRecord(UnknownKey(record_type=99, data=b"new"), UnknownValue(data=b"new"), 0)
NEW_VERSION = CoordinatorRecord(
    OffsetCommitKey(group="whatever", topic=TOPIC, partition=0), UnknownValue(data=b"\0\0\0\0\0\0\0\1and more"), 9
)


def group_in(partition: int, prefix: str) -> str:
    """Find a group whose state is kept in one of the two partitions, as ``Utils.abs(String.hashCode())`` has it."""
    for number in range(100):
        code = 0
        for letter in (name := f"{prefix}-{number}"):
            code = 31 * code + ord(letter) & 0xFFFF_FFFF
        if (code & 0x7FFF_FFFF) % 2 == partition:
            return name
    raise AssertionError("a hash that never changes")


def offset_of(kafka: LocalKafka, group: str) -> int | str:
    """Ask for a committed offset; the name of the error where the coordinator does not answer."""
    with Consumer(kafka.client_config({"group.id": group, "log_level": 0})) as consumer:
        try:
            (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=5)
        except KafkaException as error:
            return error.args[0].name()
        return found.error.name() if found.error else found.offset


def write(kafka: LocalKafka, partition: int, *records: CoordinatorRecord) -> None:
    """Write records to the internal topic, as a newer coordinator would."""
    producer = Producer(kafka.client_config(MAY_WRITE))
    refused: list[Any] = []
    for record in records:
        key, value = CONSUMER_OFFSETS.encode(record)
        producer.produce(
            CONSUMER_OFFSETS.topic,
            value,
            key,
            partition,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert (producer.flush(BOUND), refused) == (0, [])


def committed(group: str) -> CoordinatorRecord:
    """An offset of ours, in a version that all these releases read."""
    value = OffsetCommitValue(offset=7, metadata="ours", commit_timestamp=int(time.time_ns() / 1e6))
    return CoordinatorRecord(OffsetCommitKey(group=group, topic=TOPIC, partition=0), value, 3)


@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.2.0"])
def test_coordinators_do_with_newer_records_what_the_table_says(release: str) -> None:
    """One partition holds a new type of record, the other a new version of a value, each before an offset of ours."""
    before = [group_in(partition, "before") for partition in (0, 1)]
    after = [group_in(partition, "after") for partition in (0, 1)]
    with LocalKafka(release, properties={"offsets.topic.num.partitions": "2"}) as kafka:
        admin = AdminClient(kafka.client_config({"log_level": 0}))
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(BOUND)
        for group in before:
            with Consumer(kafka.client_config({"group.id": group, "log_level": 0})) as consumer:
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=False)
        for partition, newer in enumerate((NEW_TYPE, NEW_VERSION)):
            write(kafka, partition, newer, committed(after[partition]))
        kafka.stop(1)
        kafka.start(1)
        for partition, (newer, number) in enumerate(((NEW_TYPE, 99), (NEW_VERSION, 9))):
            reader = coordinator_release(release)
            loss = reader.loss(CONSUMER_OFFSETS.topic, newer.record_type, newer.version)
            assert loss is not None
            stopped = "refused" if reader.consumer_protocol else "empty"
            expected = {"skips": "loaded", "stops": stopped}[loss.kind]
            complaint = re.compile(rf"[Uu]nknown .*\b{number}\b")
            eventually(lambda said=complaint: said.search(kafka.logs(1, 2000)), "the coordinator does not complain")
            groups = before[partition], after[partition]
            eventually(lambda groups=groups, it=expected: outcome(kafka, *groups) == it, f"it is never {expected}")


def outcome(kafka: LocalKafka, *groups: str) -> str:
    """Say what became of a partition: of the offset before the newer record, and of the one behind it."""
    found = tuple(offset_of(kafka, group) for group in groups)
    if all(isinstance(each, str) for each in found):
        return "refused"
    return {(5, 7): "loaded", (5, OFFSET_INVALID): "cut", (OFFSET_INVALID, OFFSET_INVALID): "empty"}.get(found, "mixed")
