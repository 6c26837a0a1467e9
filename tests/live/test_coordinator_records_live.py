"""Records that real coordinators wrote: all of them are read, and they say what the admin clients say."""

import contextlib
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
    Key,
    UnknownKey,
    UnknownValue,
    Value,
    tagged_fields,
)
from featuregate.records.releases import coordinator_release
from featuregate.records.schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from featuregate.testing import LocalKafka
from featuregate_confluent.member.membership import leave_group

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaAdminClient
from waiting import BOUND, eventually

pytestmark = [pytest.mark.proof("records"), pytest.mark.live, pytest.mark.slow]

TOPIC = "orders"
PARTITIONS = 3
PREVIEW = {"group.coordinator.rebalance.protocols": "classic,consumer"}
"""What lets 3.9 speak KIP-848."""


@dataclass
class Read:
    """What an internal topic holds."""

    records: list[CoordinatorRecord]
    """In the order of each partition."""

    @property
    def newest(self) -> dict[Key | UnknownKey, Value | UnknownValue | None]:
        """What is left after compaction."""
        return {record.key: record.value for record in self.records}

    def versions(self, key: type[Key]) -> set[int | None]:
        """In which versions values of a type were written, tombstones aside."""
        return {record.version for record in self.records if type(record.key) is key and record.value is not None}


@dataclass
class Cluster:
    """A cluster with the groups and transactions that the tests look at; the members live until it is closed."""

    kafka: LocalKafka
    admin: AdminClient
    topic_id: str
    kept: dict[tuple[str, str], Read] = field(default_factory=dict)

    def client(self, **more: Any) -> dict[str, Any]:
        """Configure a client."""
        return self.kafka.client_config(
            {"log_level": 0, **{name.replace("_", "."): value for name, value in more.items()}}
        )

    def read(self, log: CoordinatorTopic, isolation: str = "read_uncommitted") -> Read:
        """Read an internal topic once for all tests."""
        if (log.topic, isolation) not in self.kept:
            self.kept[log.topic, isolation] = self.read_now(log, isolation)
        return self.kept[log.topic, isolation]

    def read_now(self, log: CoordinatorTopic, isolation: str = "read_uncommitted") -> Read:
        """Read an internal topic from its beginning to its end, and decode each record."""
        with Consumer(self.client(group_id="reader", isolation_level=isolation, enable_partition_eof=True)) as consumer:
            parts = consumer.list_topics(log.topic, timeout=BOUND).topics[log.topic].partitions
            consumer.assign([TopicPartition(log.topic, number, 0) for number in parts])
            left, records, until = set(parts), [], time.monotonic() + BOUND
            while left:
                assert time.monotonic() < until, "the topic does not end"
                for message in consumer.consume(500, 0.1):
                    if message.error():
                        left.discard(message.partition())
                    else:
                        key, value = message.key(), message.value()
                        record = log.decode(key, value)
                        assert log.encode(record) == (key, value), "what a broker wrote is written back byte by byte"
                        records.append(record)
        return Read(records)

    def describe(self, group: str) -> Any:
        """Ask the admin client about a group."""
        return self.admin.describe_consumer_groups([group])[group].result(BOUND)

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """Ask the admin client for the committed offsets of a group."""
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(BOUND)
        return {(each.topic, each.partition): (each.offset, each.metadata or "") for each in asked.topic_partitions}


def joined(stack: contextlib.ExitStack, config: dict[str, Any], topic: str) -> Consumer:
    """Start a member that has read something, and so has partitions."""
    consumer = Consumer({"auto.offset.reset": "earliest", "enable.auto.commit": False, **config})
    stack.callback(leave_group, consumer)
    consumer.subscribe([topic])
    eventually(lambda: (message := consumer.poll(0.2)) and not message.error(), f"{config['group.id']} reads nothing")
    return consumer


def commit(consumer: Consumer, metadata: str) -> None:
    """Commit an offset of our own choice for each partition that a member has."""
    offsets = [TopicPartition(each.topic, each.partition, 2, metadata, 0) for each in consumer.assignment()]
    consumer.commit(offsets=offsets, asynchronous=False)


def transactions(stack: contextlib.ExitStack, cluster: Cluster, member: Consumer) -> None:
    """Commit one transaction with offsets, abort another, and leave a third one open."""
    for name, end in (("committed", "commit"), ("aborted", "abort"), ("open", None)):
        producer = Producer(cluster.client(transactional_id=name, linger_ms=0))
        producer.init_transactions(BOUND)
        producer.begin_transaction()
        producer.produce(TOPIC, b"in a transaction", partition=1)
        if end:
            offsets = [TopicPartition(TOPIC, 1, 3 if end == "commit" else 99)]
            producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), BOUND)
            getattr(producer, f"{end}_transaction")(BOUND)
        else:
            assert producer.flush(BOUND) == 0
            stack.callback(producer.abort_transaction, BOUND)


def modern_of_java(kafka: LocalKafka) -> None:
    """Read in a group of KIP-848 with Kafka's own consumer: librdkafka wants the protocol of 4.0 for that."""
    properties = ("group.protocol=consumer", "client.id=modern-client", "group.instance.id=static-2")
    arguments = ["--bootstrap-server", kafka.bootstrap, "--topic", TOPIC, "--group", "modern", "--max-messages", "12"]
    for each in (*properties, "auto.offset.reset=earliest"):
        arguments += ["--consumer-property", each]
    done = kafka.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, "--timeout-ms", "40000")
    assert done.returncode == 0, done.stderr


def share(kafka: LocalKafka, cluster: Cluster) -> None:
    """Read a record in a share group, with Kafka's own consumer; it sees only what comes while it is there."""
    arguments = ["--bootstrap-server", kafka.bootstrap, "--topic", TOPIC, "--group", "sharers", "--max-messages", "1"]
    done: list[Any] = []
    tool = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    reader = threading.Thread(target=lambda: done.append(kafka.run_tool(tool, *arguments, "--timeout-ms", "40000")))
    reader.start()
    producer = Producer(cluster.client(linger_ms=0))
    while reader.is_alive():
        producer.produce(TOPIC, b"shared")
        assert producer.flush(BOUND) == 0
        reader.join(0.2)
    assert done[0].returncode == 0, done[0].stderr


@pytest.fixture(scope="module", params=["3.9.2", "4.2.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node with groups of both protocols, static members, offsets with metadata, and transactions."""
    old = request.param == "3.9.2"
    with LocalKafka(request.param, properties=PREVIEW if old else None) as kafka, contextlib.ExitStack() as stack:
        admin = AdminClient(kafka.client_config({"log_level": 0}))
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(BOUND)
        eventually(lambda: not admin.list_topics(TOPIC, BOUND).topics[TOPIC].error, "the broker learns of no topic")
        topic = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(BOUND)
        topic_id = str(topic.topic_id).replace("+", "-").replace("/", "_")  # librdkafka's base64 is not Kafka's
        cluster = Cluster(kafka, admin, topic_id)
        producer = Producer(cluster.client(linger_ms=0))
        for number in range(12):
            producer.produce(TOPIC, b"order", partition=number % PARTITIONS)
        assert producer.flush(BOUND) == 0
        classic = joined(
            stack, cluster.client(group_id="classic", client_id="classic-client", group_instance_id="static-1"), TOPIC
        )
        commit(classic, "said by the client")
        if old:
            modern_of_java(kafka)
        else:
            modern = {"group_id": "modern", "client_id": "modern-client", "group_instance_id": "static-2"}
            commit(joined(stack, cluster.client(**modern, group_protocol="consumer"), "^ord.*"), "by KIP-848")
        with contextlib.ExitStack() as short:
            commit(joined(short, cluster.client(group_id="doomed"), TOPIC), "")
        eventually(lambda: not cluster.describe("doomed").members, "the member does not leave")
        admin.delete_consumer_groups(["doomed"])["doomed"].result(BOUND)
        transactions(stack, cluster, classic)
        if not old:
            share(kafka, cluster)
        yield cluster


def test_every_record_is_read_to_its_last_byte(cluster: Cluster) -> None:
    """Reading asserts that each is decoded and comes back; nothing in them is unknown."""
    logs = [CONSUMER_OFFSETS, TRANSACTION_STATE]
    topics = cluster.admin.list_topics(timeout=BOUND).topics
    logs += [SHARE_GROUP_STATE] if SHARE_GROUP_STATE.topic in topics else []
    seen = {log.topic: {record.record_type for record in check(cluster, log)} for log in logs}
    assert seen[TRANSACTION_STATE.topic] == {0}
    if is_old(cluster):
        assert seen[CONSUMER_OFFSETS.topic] == {1, 2, 3, 4, 5, 6, 7, 8}
    else:
        assert seen[CONSUMER_OFFSETS.topic] == {1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16}
        assert 0 in seen[SHARE_GROUP_STATE.topic]


def check(cluster: Cluster, log: CoordinatorTopic) -> list[CoordinatorRecord]:
    """Read a topic, and hold it against the table of what its coordinators read."""
    records = cluster.read(log).records
    reader = coordinator_release(cluster.kafka.node(1).version, consumer_protocol=True)
    for record in records:
        assert not isinstance(record.key, UnknownKey)
        assert record.value is None or isinstance(record.value, Value)
        tagged = tagged_fields(record.value) if isinstance(record.value, Value) else ()
        assert not any("tag " in name for name in tagged)
        assert reader.loss(log.topic, record.record_type, record.version, tagged) is None
    return records


def test_values_have_the_versions_that_the_release_writes(cluster: Cluster) -> None:
    """3.9 writes classic ones, as KIP-915 wants it; 4.2 flexible ones."""
    offsets, states = cluster.read(CONSUMER_OFFSETS), cluster.read(TRANSACTION_STATE)
    old = is_old(cluster)
    assert offsets.versions(OffsetCommitKey) == ({3} if old else {4})
    assert offsets.versions(GroupMetadataKey) == {3}
    assert states.versions(TransactionLogKey) == ({0} if old else {1})


def test_committed_offsets_are_those_of_the_admin_client(cluster: Cluster) -> None:
    """With the client's metadata; of transactions, only what was committed."""
    newest = cluster.read(CONSUMER_OFFSETS, "read_committed").newest
    metadata = {"classic": "said by the client", "modern": "" if is_old(cluster) else "by KIP-848"}
    for group, text in metadata.items():
        found = {
            (key.topic, key.partition): (value.offset, value.metadata.rstrip("\0"))  # librdkafka commits that one too
            for key, value in newest.items()
            if isinstance(key, OffsetCommitKey) and key.group == group and isinstance(value, OffsetCommitValue)
        }
        assert found == cluster.offsets(group)
        assert len(found) == PARTITIONS
        assert text in {said for _, said in found.values()}
    assert cluster.offsets("classic")[TOPIC, 1][0] == 3
    aborted = [record.value.offset for record in cluster.read(CONSUMER_OFFSETS).records if is_offset(record)]
    assert 99 in aborted


def is_offset(record: CoordinatorRecord) -> bool:
    """Tell commits of offsets from all else."""
    return isinstance(record.value, OffsetCommitValue)


def test_a_deleted_group_leaves_tombstones(cluster: Cluster) -> None:
    """The coordinator writes tombstones of the group and of its offsets."""
    newest = cluster.read(CONSUMER_OFFSETS).newest
    gone = {key for key, value in newest.items() if getattr(key, "group", None) == "doomed" and value is None}
    assert gone == {
        GroupMetadataKey(group="doomed"),
        *(OffsetCommitKey(group="doomed", topic=TOPIC, partition=number) for number in range(PARTITIONS)),
    }


def test_a_classic_group_is_that_of_the_admin_client(cluster: Cluster) -> None:
    """Its assignor, and its static member with client id and host."""
    value = cluster.read(CONSUMER_OFFSETS).newest[GroupMetadataKey(group="classic")]
    described = cluster.describe("classic")
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.protocol) == ("consumer", described.partition_assignor)
    (ours,), (theirs,) = value.members, described.members
    assert (ours.member_id, ours.client_id, ours.client_host, ours.group_instance_id) == (
        theirs.member_id,
        "classic-client",
        theirs.host,
        "static-1",
    )
    assert value.leader == theirs.member_id


def test_a_consumer_group_is_that_of_the_admin_client(cluster: Cluster) -> None:
    """Its static member with client id, host and subscription, and the partitions that it has."""
    records = cluster.read(CONSUMER_OFFSETS).records
    member, current = (
        said_of(records, ConsumerGroupMemberMetadataKey),
        said_of(records, ConsumerGroupCurrentMemberAssignmentKey),
    )
    assert (member.client_id, member.instance_id, member.classic_member_metadata) == ("modern-client", "static-2", None)
    assigned = {(each.topic_id, number) for each in current.assigned_partitions for number in each.partitions}
    assert assigned == {(cluster.topic_id, number) for number in range(PARTITIONS)}
    if is_old(cluster):  # where the member has left again
        assert member.subscribed_topic_names == (TOPIC,)
        return
    resolved = said_of(records, ConsumerGroupRegularExpressionKey)
    assert (member.subscribed_topic_regex, resolved.topics) == ("(^ord.*)", (TOPIC,))  # as librdkafka wraps it
    (theirs,) = cluster.describe("modern").members
    key = ConsumerGroupMemberMetadataKey(group_id="modern", member_id=theirs.member_id)
    assert Read(records).newest[key] == member
    assert member.client_host == theirs.host
    assert {number for _, number in assigned} == {each.partition for each in theirs.assignment.topic_partitions}


def said_of(records: list[CoordinatorRecord], key: type[Key]) -> Any:
    """Give the last value of a type that is about the group of KIP-848, tombstones aside."""
    (*_, last) = (
        record.value
        for record in records
        if type(record.key) is key and getattr(record.key, "group_id", None) == "modern" and record.value
    )
    return last


def is_old(cluster: Cluster) -> bool:
    """Tell 3.9, whose KIP-848 is a preview, from 4.2."""
    return cluster.kafka.node(1).version.startswith("3.")


def test_transactions_are_those_of_an_admin_client(cluster: Cluster) -> None:
    """Producer id, epoch, state, timeout, and the partitions of one that is open."""
    ended = {"committed": TransactionState.COMPLETE_COMMIT, "aborted": TransactionState.COMPLETE_ABORT}
    expected = {**ended, "open": TransactionState.ONGOING}
    eventually(lambda: states(cluster) == expected, "the transactions do not end")
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka.bootstrap)
    try:
        described = admin.describe_transactions(list(expected))
    finally:
        admin.close()
    for key, value in logged(cluster).items():
        theirs = described[key]
        assert (value.producer_id, value.producer_epoch) == (theirs.producer_id, theirs.producer_epoch)
        assert value.transaction_timeout_ms == theirs.transaction_timeout_ms
        assert TransactionState(value.transaction_status).name == theirs.state.name
        parts = value.transaction_partitions or ()
        assert {(each.topic, number) for each in parts for number in each.partition_ids} == theirs.topic_partitions


def states(cluster: Cluster) -> dict[str, int]:
    """Read the states of transactions, by their ids."""
    return {name: value.transaction_status for name, value in logged(cluster).items()}


def logged(cluster: Cluster) -> dict[str, TransactionLogValue]:
    """Read transactions, by their ids."""
    newest = cluster.read_now(TRANSACTION_STATE).newest
    return {
        key.transactional_id: value
        for key, value in newest.items()
        if isinstance(key, TransactionLogKey) and isinstance(value, TransactionLogValue)
    }
