"""Clients of brokers whose evidence is read: members of groups, producers, and one that only speaks old versions."""

import socket
import struct
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer, TopicPartition
from waiting import BOUND, eventually

from featuregate.testing import LocalKafka
from featuregate_confluent.member.membership import leave_group

ANCIENT = b"ancient"
TOPIC = "orders"
RECORDS_TOPIC = "records-in-tables"


def copy_one_record(kafka: LocalKafka) -> None:
    producer = Producer(kafka.client_config({"client.id": 'bill"ing', "log_level": 0}))
    producer.produce(TOPIC, b"one")
    assert producer.flush(60) == 0
    names = {"client.id": "audit", "group.id": "audit", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(kafka.client_config(names))
    consumer.subscribe([TOPIC])
    record = consumer.poll(60)
    assert record is not None
    consumer.close()


def ask(host: str, port: int, *requests: tuple[int, int, bytes], client_id: bytes = ANCIENT) -> list[bytes]:
    """Send requests on one connection: API, version, and the body behind a header of version 1.

    Return the first bytes of each answer; none if it is refused.
    """
    answers = []
    with socket.create_connection((host, port), timeout=60) as connection:
        for api_key, version, body in requests:
            header = struct.pack(">hhih", api_key, version, 7, len(client_id)) + client_id
            connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            answers.append(connection.recv(1024))
    return answers


def joined(stack: ExitStack, kafka: LocalKafka, group: str, **more: str) -> Consumer:
    names = {"group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest", "log_level": 0}
    options = {name.replace("_", "."): value for name, value in more.items()}
    options["max.poll.interval.ms"] = "3600000"  # the members wait while Spark reads the evidence
    consumer = Consumer(kafka.client_config({**names, "enable.auto.commit": False, **options}))
    stack.callback(leave_group, consumer)
    consumer.subscribe([TOPIC])
    eventually(lambda: (message := consumer.poll(0.2)) and not message.error(), f"{group} reads nothing")
    consumer.commit(asynchronous=False)
    return consumer


def transaction(kafka: LocalKafka, text: bytes) -> None:
    producer = Producer(kafka.client_config({"transactional.id": "app", "log_level": 0}))
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    producer.produce(TOPIC, text)
    producer.commit_transaction(BOUND)


def reads_on(consumer: Consumer) -> bytes | None:
    """Return the value of the next record that a member gets, which it has committed."""
    message = eventually(lambda: consumer.poll(0.2), "the member gets neither a record nor an error")
    assert not message.error(), message.error()
    consumer.commit(message, asynchronous=False)
    return message.value()


def is_stopped(consumer: Consumer) -> bool:
    """Return whether a heartbeat has told a member that brokers do not serve its protocol."""
    message = consumer.poll(0.2)
    error = message and message.error()
    assert not error or "ConsumerGroupHeartbeat" in error.str(), error
    return bool(error)


def commit_offsets(kafka: LocalKafka) -> None:
    """Commit offsets as a member of a group with a mark, in a transaction that is committed, and in one that is not."""
    producer = Producer(kafka.client_config({"transactional.id": "records-app", "log_level": 0}))
    producer.init_transactions(240)
    producer.begin_transaction()
    producer.produce(RECORDS_TOPIC, b"one")
    producer.commit_transaction(240)
    names = {"group.id": "records-group", "client.id": "records-client#fg=v2", "auto.offset.reset": "earliest"}
    consumer = Consumer(kafka.client_config({**names, "enable.auto.commit": False, "log_level": 0}))
    consumer.subscribe([RECORDS_TOPIC])
    message = consumer.poll(240)
    assert message is not None
    assert not message.error()
    for metadata, commit in (("fg1;model=v2|of the app", True), ("aborted", False)):
        producer.begin_transaction()
        offsets = [TopicPartition(RECORDS_TOPIC, 0, 1, metadata)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 240)
        (producer.commit_transaction if commit else producer.abort_transaction)(240)
    consumer.close()
