"""The steps with kafka-python. Runs with kafka-python 1.4."""

from __future__ import annotations

import importlib
import sys
import time

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from steps import PASSWORD, SETTINGS, TLS_CA, USER, AbsentError, run, token

WAIT = 12.0
TIMES = {"request_timeout_ms": 9000}
if "api_version_auto_timeout_ms" in KafkaConsumer.DEFAULT_CONFIG:
    TIMES["api_version_auto_timeout_ms"] = 8000  # two seconds are few where several clients start at once
if "api_version" in SETTINGS:
    TIMES["api_version"] = tuple(int(part) for part in SETTINGS["api_version"].split("."))
FIELDS = len(OffsetAndMetadata._fields)
OLD_CONSUMER = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}


def send(producer, topic, count=3, value=b"v"):
    """Deliver some records; raises if one was not."""
    pending = [producer.send(topic, value) for _ in range(count)]
    for future in pending:
        future.get(WAIT)


def producer_of(bootstrap, client_id, **more):
    """Return a producer."""
    return KafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, acks="all", **TIMES, **more)


def consumer(bootstrap, client_id, group, **more):
    """Return a consumer."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **TIMES, **OLD_CONSUMER, **more}
    return KafkaConsumer(bootstrap_servers=bootstrap, client_id=client_id, group_id=group, **settings)


def read(found, count):
    """Read some records, or raise."""
    got, end = 0, time.monotonic() + WAIT
    while got < count and time.monotonic() < end:
        got += sum(len(records) for records in found.poll(200).values())
    if got < count:
        raise RuntimeError(f"{got} of {count} records")


def at(offset):
    """Return an offset to commit."""
    return OffsetAndMetadata(*(offset, "", -1)[:FIELDS])


def produce(bootstrap, topic, client_id):
    """Deliver three records."""
    send(producer_of(bootstrap, client_id), topic)


def consume(bootstrap, topic, client_id):
    """Read from the beginning, with a group that has no offsets."""
    found = consumer(bootstrap, client_id, client_id)
    found.subscribe([topic])
    read(found, 3)
    found.close()


def commit(bootstrap, topic, client_id):
    """Commit, and look the offset up with another consumer."""
    part = TopicPartition(topic, 0)
    first = consumer(bootstrap, client_id, client_id)
    first.assign([part])
    first.commit({part: at(1)})
    first.close()
    second = consumer(bootstrap, client_id, client_id)
    found = second.committed(part)
    second.close()
    if found != 1:
        raise RuntimeError(f"the committed offset is {found}")


def offsets(bootstrap, topic, client_id):
    """Look up the first, the last and a timed offset."""
    found = consumer(bootstrap, client_id, client_id)
    part = TopicPartition(topic, 0)
    low, high = found.beginning_offsets([part])[part], found.end_offsets([part])[part]
    found.offsets_for_times({part: 1})
    found.close()
    if low != 0 or high < 0:
        raise RuntimeError(f"offsets {low}, {high}")


def rebalance(bootstrap, topic, client_id):
    """Share two partitions between two members."""
    share_between([consumer(bootstrap, client_id, client_id) for _ in range(2)], topic)


def share_between(members, topic):
    """Poll two members until each has a partition."""
    import threading

    stop = threading.Event()

    def poll(member):
        member.subscribe([topic])
        while not stop.is_set():
            member.poll(100)

    threads = [threading.Thread(target=poll, args=(member,), daemon=True) for member in members]
    for thread in threads:
        thread.start()
    end = time.monotonic() + WAIT
    while time.monotonic() < end and [len(member.assignment()) for member in members] != [1, 1]:
        time.sleep(0.1)
    found = [len(member.assignment()) for member in members]
    stop.set()
    for thread, member in zip(threads, members):  # noqa: B905 - Python 3.7
        thread.join(3)
        member.close()
    if found != [1, 1]:
        raise RuntimeError(f"the members have {found} partitions")


def admin(bootstrap, topic, client_id):
    """Create a topic, describe it, add a partition and delete it."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id, **TIMES)
    name = f"{topic}-admin"
    client.create_topics([NewTopic(name, 1, 1)])
    for asked in (
        lambda: client.create_partitions({name: NewPartitions(2)}),
        lambda: client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]),
        lambda: client.delete_topics([name]),
    ):
        end = time.monotonic() + WAIT / 3
        while True:
            try:
                asked()
                break
            except kafka.errors.UnknownTopicOrPartitionError:  # the broker has not heard of it yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
    client.close()


def zstd(bootstrap, topic, client_id):
    """Deliver records that are compressed with zstd."""
    try:
        producer = producer_of(bootstrap, client_id, compression_type="zstd")
    except (AssertionError, ValueError) as error:
        if "zstd" not in str(error).lower() and "Not supported codec" not in str(error):
            raise
        raise AbsentError(str(error)) from None
    send(producer, topic + "-zstd", 50, b"v" * 100)


def transactions(bootstrap, topic, client_id):
    """Commit records and offsets in one transaction."""
    if "transactional_id" not in KafkaProducer.DEFAULT_CONFIG:
        raise AbsentError("no transactions")
    reader = consumer(bootstrap, client_id, client_id)
    reader.subscribe([topic])
    read(reader, 1)
    producer = producer_of(bootstrap, client_id, transactional_id=client_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic + "-out", b"v")
    commits = {part: at(1) for part in reader.assignment()}
    group = reader.group_metadata() if hasattr(reader, "group_metadata") else client_id
    producer.send_offsets_to_transaction(commits, group)
    producer.commit_transaction()
    reader.close()


def kip848(bootstrap, topic, client_id):
    """Share partitions in a group of the new protocol."""
    if "group_protocol" not in KafkaConsumer.DEFAULT_CONFIG:
        raise AbsentError("no group_protocol")
    share_between([consumer(bootstrap, client_id, client_id, group_protocol="consumer") for _ in range(2)], topic)


def kip848_describe(*_):
    """No release has the protocol."""
    if "group_protocol" not in KafkaConsumer.DEFAULT_CONFIG:
        raise AbsentError("no group_protocol")


def share(*_):
    """Share groups: none has them."""
    if not hasattr(kafka, "KafkaShareConsumer"):
        raise AbsentError("no share groups")


def provider():
    """Return what gives the client its token."""
    for home in ("kafka.oauth", "kafka.sasl.oauth", "kafka.net.sasl.oauth"):
        try:
            base = importlib.import_module(home).AbstractTokenProvider
        except ImportError:
            continue
        return type("Provider", (base,), {"token": lambda _: token()})()
    raise AbsentError("no provider of tokens")


def steady(bootstrap, topic, client_id):
    """Copy records and commit their offsets until the process ends. The app goes on after an error."""
    reader = consumer(bootstrap, client_id, client_id, metadata_max_age_ms=1000)
    reader.subscribe([topic])
    producer = producer_of(bootstrap, client_id)
    while True:
        try:
            for records in reader.poll(500).values():
                send(producer, topic + "-out", len(records))
                reader.commit()
        except kafka.errors.KafkaError as error:
            print(repr(error), file=sys.stderr, flush=True)


def tls(bootstrap, topic, client_id):
    """Deliver records by TLS, with a broker whose certificate is checked."""
    send(producer_of(bootstrap, client_id, security_protocol="SSL", ssl_cafile=TLS_CA, max_block_ms=8000), topic)


def sasl(bootstrap, topic, client_id, mechanism):
    """Log in, and deliver records."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "max_block_ms": 8000}
    if mechanism == "GSSAPI":
        login["sasl_kerberos_service_name"] = "kafka"
    elif mechanism == "OAUTHBEARER":
        login["sasl_oauth_token_provider"] = provider()
    else:
        login.update(sasl_plain_username=USER, sasl_plain_password=PASSWORD)
    try:
        producer = producer_of(bootstrap, client_id, **login)
    except AssertionError as error:
        if "sasl_mechanism" in str(error):
            raise AbsentError(str(error)) from None
        raise
    send(producer, topic + "-sasl")


STEPS = (
    *(produce, consume, commit, offsets, rebalance, admin, zstd, transactions),
    *(kip848, kip848_describe, share, steady, tls, sasl),
)
run({step.__name__: step for step in STEPS})
