"""The steps with confluent-kafka. Runs on Python 3.7 and with confluent-kafka 0.11."""

from __future__ import annotations

import sys
import time

import confluent_kafka as ck
from steps import KERBEROS, PASSWORD, SETTINGS, TLS_CA, USER, AbsentError, run

WAIT = 12.0
VERSION = tuple(int(each) for each in ck.version()[0].split(".")[:3] if each.isdigit())
WAITING = {"async" if VERSION < (1, 0) else "asynchronous": False}


def config(bootstrap, client_id, **more):
    """Return the settings of a client."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "log_level": 2,
        "socket.timeout.ms": 6000,
        **SETTINGS,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def send(producer, topic, count=3, prefix="v"):
    """Deliver some records; raises if one was not."""
    failed = []
    for number in range(count):
        producer.produce(topic, f"{prefix}{number}".encode(), on_delivery=lambda error, _: failed.append(error))
    left = producer.flush(WAIT)
    errors = [error for error in failed if error]
    if errors or left or len(failed) < count:
        raise RuntimeError(errors[0].str() if errors else "no delivery report")


def consumer(bootstrap, client_id, group, **more):
    """Return a consumer."""
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return ck.Consumer(config(bootstrap, client_id, **settings))


def read(found, count):
    """Read exactly some records, or raise."""
    got, last, end = [], None, time.monotonic() + WAIT
    while len(got) < count and time.monotonic() < end:
        message = found.poll(0.2)
        if message is None:
            continue
        if message.error() and message.error().code() != ck.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            last = message.error()
        elif not message.error():
            got.append(message)
    if len(got) < count:
        raise RuntimeError(last.str() if last else f"{len(got)} of {count} records")
    return got


def produce(bootstrap, topic, client_id):
    """Deliver three records."""
    send(ck.Producer(config(bootstrap, client_id)), topic)


def consume(bootstrap, topic, client_id):
    """Read from the beginning, with a group that has no offsets."""
    found = consumer(bootstrap, client_id, client_id)
    found.subscribe([topic])
    read(found, 3)
    found.close()


def commit(bootstrap, topic, client_id):
    """Commit, and read on from there with another consumer."""
    parts = [ck.TopicPartition(topic, number, 1) for number in (0, 1)]
    first = consumer(bootstrap, client_id, client_id)
    first.commit(offsets=parts, **WAITING)
    first.close()
    second = consumer(bootstrap, client_id, client_id)
    found = [each.offset for each in second.committed(parts, timeout=WAIT)]
    second.close()
    if found != [1, 1]:
        raise RuntimeError(f"committed offsets are {found}")


def offsets(bootstrap, topic, client_id):
    """Look up the first, the last and a timed offset."""
    found = consumer(bootstrap, client_id, client_id)
    part = ck.TopicPartition(topic, 0)
    low, high = found.get_watermark_offsets(part, timeout=WAIT)
    timed = found.offsets_for_times([ck.TopicPartition(topic, 0, 1)], timeout=WAIT)
    found.close()
    if low != 0 or high < 0 or timed[0].error:
        raise RuntimeError(f"offsets {low}, {high}, {timed}")


def rebalance(bootstrap, topic, client_id):
    """Share two partitions between two members."""
    members = [consumer(bootstrap, client_id, client_id) for _ in range(2)]
    _share(members, topic)


def _share(members, topic):
    end = time.monotonic() + WAIT
    for member in members:
        member.subscribe([topic])
    while time.monotonic() < end:
        for member in members:
            member.poll(0.1)
        if [len(member.assignment()) for member in members] == [1, 1]:
            for member in members:
                member.close()
            return
    raise RuntimeError(f"the members have {[len(member.assignment()) for member in members]} partitions")


def admin(bootstrap, topic, client_id):
    """Create a topic, describe it, add a partition and delete it."""
    from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

    client = AdminClient(config(bootstrap, client_id))
    name = f"{topic}-admin"
    for asked in (
        lambda: client.create_topics([NewTopic(name, 1, 1)]),
        lambda: client.create_partitions([NewPartitions(name, 2)]),
        lambda: client.describe_configs([ConfigResource(2, name)]),
        lambda: client.delete_topics([name]),
    ):
        _done(asked)


def _done(asked):
    """Wait for an admin call; repeat it while the broker has not heard of the new topic yet."""
    end = time.monotonic() + WAIT / 2
    while True:
        pending = asked()  # librdkafka's temporary objects must outlive the futures
        try:
            for future in pending.values():
                future.result(WAIT)
        except ck.KafkaException as error:
            if error.args[0].code() != ck.KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def zstd(bootstrap, topic, client_id):
    """Deliver records that are compressed with zstd."""
    try:
        producer = ck.Producer(config(bootstrap, client_id, compression_type="zstd"))
    except ck.KafkaException as error:
        raise AbsentError(error.args[0].str()) from None
    send(producer, topic + "-zstd", 50, "v" * 100)


def transactions(bootstrap, topic, client_id):
    """Commit records and offsets in one transaction."""
    if not hasattr(ck.Producer, "init_transactions"):
        raise AbsentError("no transactions")
    reader = consumer(bootstrap, client_id, client_id)
    reader.subscribe([topic])
    read(reader, 1)
    producer = ck.Producer(config(bootstrap, client_id, transactional_id=client_id))
    producer.init_transactions(WAIT)
    producer.begin_transaction()
    producer.produce(topic + "-out", b"v")
    parts = [ck.TopicPartition(each.topic, each.partition, 1) for each in reader.assignment()]
    producer.send_offsets_to_transaction(parts, reader.consumer_group_metadata(), WAIT)
    producer.commit_transaction(WAIT)
    reader.close()


def kip848(bootstrap, topic, client_id):
    """Read and share partitions in a group of the new protocol."""
    try:
        members = [consumer(bootstrap, client_id, client_id, group_protocol="consumer") for _ in range(2)]
    except ck.KafkaException as error:
        raise AbsentError(error.args[0].str()) from None
    _share(members, topic)


def kip848_describe(bootstrap, topic, client_id):
    """Describe a group of the new protocol: the description says which kind of group it is."""
    from confluent_kafka.admin import AdminClient

    try:
        member = consumer(bootstrap, client_id, client_id, group_protocol="consumer")
    except ck.KafkaException as error:
        raise AbsentError(error.args[0].str()) from None
    member.subscribe([topic])
    end = time.monotonic() + WAIT
    while not member.assignment() and time.monotonic() < end:
        member.poll(0.1)
    admin = AdminClient(config(bootstrap, client_id))
    found = admin.describe_consumer_groups([client_id])[client_id].result(WAIT)
    if not hasattr(found, "type"):
        raise AbsentError("the description of a group has no type")
    if found.type.name != "CONSUMER" or len(found.members) != 1:
        raise RuntimeError(f"a group of type {found.type.name} with {len(found.members)} members")
    member.close()


def share(bootstrap, topic, client_id):
    """Read as a member of a share group."""
    if not hasattr(ck, "ShareConsumer"):
        raise AbsentError("no share groups")
    found = ck.ShareConsumer(config(bootstrap, client_id, group_id=client_id + "-share"))
    found.subscribe([topic])
    producer = ck.Producer(config(bootstrap, client_id))
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        send(producer, topic, 1)
        if found.poll(0.5):
            return
    raise RuntimeError("no record")


def steady(bootstrap, topic, client_id):
    """Copy records and commit their offsets until the process ends. The app goes on after an error."""
    reader = consumer(bootstrap, client_id, client_id, topic_metadata_refresh_interval_ms=1000)
    reader.subscribe([topic])
    producer = ck.Producer(config(bootstrap, client_id))
    while True:
        message = reader.poll(0.5)
        if message is None or message.error():
            continue
        try:
            send(producer, topic + "-out", 1)
            reader.commit(message=message, **WAITING)
        except (ck.KafkaException, RuntimeError) as error:
            print(error, file=sys.stderr, flush=True)


def tls(bootstrap, topic, client_id):
    """Deliver records by TLS, with a broker whose certificate is checked."""
    send(ck.Producer(config(bootstrap, client_id, security_protocol="SSL", ssl_ca_location=TLS_CA)), topic)


def sasl(bootstrap, topic, client_id, mechanism):
    """Log in, and deliver records."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        login.update({f"sasl_kerberos_{name}": value for name, value in KERBEROS.items()})
        login["sasl_kerberos_service_name"] = "kafka"
    elif mechanism == "OAUTHBEARER":
        login.update(enable_sasl_oauthbearer_unsecure_jwt=True, sasl_oauthbearer_config=f"principal={USER}")
    else:
        login.update(sasl_username=USER, sasl_password=PASSWORD)
    errors = []
    own = {"error_cb": errors.append, "message.timeout.ms": 8000}
    try:
        producer = ck.Producer({**config(bootstrap, client_id, **login), **own})
    except ck.KafkaException as error:
        if mechanism in ("OAUTHBEARER", "GSSAPI"):
            raise AbsentError(error.args[0].str()) from None
        raise
    try:
        send(producer, topic + "-sasl")
    except RuntimeError as error:
        raise RuntimeError(errors[0].str() if errors else str(error)) from None


def said(step):
    """Let a step raise what an error of librdkafka says, without its Python repr."""

    def wrapped(*arguments):
        try:
            step(*arguments)
        except ck.KafkaException as error:
            raise RuntimeError(error.args[0].str()) from None

    return wrapped


STEPS = (
    *(produce, consume, commit, offsets, rebalance, admin, zstd, transactions),
    *(kip848, kip848_describe, share, steady, tls, sasl),
)
run({step.__name__: said(step) for step in STEPS})
