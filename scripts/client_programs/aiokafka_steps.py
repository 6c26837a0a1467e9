"""The steps with aiokafka. Runs with aiokafka 0.7."""

from __future__ import annotations

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context
from steps import PASSWORD, SETTINGS, TLS_CA, USER, AbsentError, run, token

WAIT = 12.0
SET = {"request_timeout_ms": 8000, **SETTINGS}


async def started(client):
    """Start a client."""
    await asyncio.wait_for(client.start(), WAIT)
    return client


async def producer_of(bootstrap, client_id, **more):
    """Return a producer that runs."""
    settings = {**SET, **more}
    return await started(AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, **settings))


async def consumer(bootstrap, client_id, *topics, **more):
    """Return a consumer that runs."""
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **SET, **more}
    made = AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, client_id=client_id, group_id=client_id, **settings)
    return await started(made)


async def send(producer, topic, count=3, value=b"v"):
    """Deliver some records."""
    for _ in range(count):
        await asyncio.wait_for(producer.send_and_wait(topic, value), WAIT)


async def read(found, count):
    """Read some records, or raise."""
    got, end = 0, time.monotonic() + WAIT
    while got < count and time.monotonic() < end:
        got += sum(len(records) for records in (await found.getmany(timeout_ms=200)).values())
    if got < count:
        raise RuntimeError(f"{got} of {count} records")


async def produce(bootstrap, topic, client_id):
    """Deliver three records."""
    producer = await producer_of(bootstrap, client_id)
    await send(producer, topic)
    await producer.stop()


async def consume(bootstrap, topic, client_id):
    """Read from the beginning, with a group that has no offsets."""
    found = await consumer(bootstrap, client_id, topic)
    await read(found, 3)
    await found.stop()


async def commit(bootstrap, topic, client_id):
    """Commit, and look the offset up with another consumer."""
    part = TopicPartition(topic, 0)
    first = await consumer(bootstrap, client_id)
    first.assign([part])
    await asyncio.wait_for(first.commit({part: 1}), WAIT)
    await first.stop()
    second = await consumer(bootstrap, client_id)
    found = await asyncio.wait_for(second.committed(part), WAIT)
    await second.stop()
    if found != 1:
        raise RuntimeError(f"the committed offset is {found}")


async def offsets(bootstrap, topic, client_id):
    """Look up the first, the last and a timed offset."""
    found = await consumer(bootstrap, client_id, topic)
    part = TopicPartition(topic, 0)
    low = await asyncio.wait_for(found.beginning_offsets([part]), WAIT)
    high = await asyncio.wait_for(found.end_offsets([part]), WAIT)
    await asyncio.wait_for(found.offsets_for_times({part: 1}), WAIT)
    await found.stop()
    if low[part] != 0 or high[part] < 0:
        raise RuntimeError(f"offsets {low}, {high}")


async def rebalance(bootstrap, topic, client_id):
    """Share two partitions between two members."""
    members = [await consumer(bootstrap, client_id, topic, heartbeat_interval_ms=500) for _ in range(2)]
    end = time.monotonic() + WAIT
    while time.monotonic() < end and [len(member.assignment()) for member in members] != [1, 1]:
        await asyncio.gather(*(member.getmany(timeout_ms=100) for member in members))
    found = [len(member.assignment()) for member in members]
    for member in members:
        await member.stop()
    if found != [1, 1]:
        raise RuntimeError(f"the members have {found} partitions")


async def admin(bootstrap, topic, client_id):
    """Create a topic, describe it, add a partition and delete it."""
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    client = await started(AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id))
    name = f"{topic}-admin"
    await client.create_topics([NewTopic(name, 1, 1)])
    await client.create_partitions({name: NewPartitions(2)})
    await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    await client.delete_topics([name])
    await client.close()


async def zstd(bootstrap, topic, client_id):
    """Deliver records that are compressed with zstd."""
    try:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=client_id, compression_type="zstd")
    except ValueError as error:
        raise AbsentError(str(error)) from None
    await started(producer)
    await send(producer, topic + "-zstd", 10, b"v" * 100)
    await producer.stop()


async def transactions(bootstrap, topic, client_id):
    """Commit records and offsets in one transaction."""
    reader = await consumer(bootstrap, client_id, topic)
    await read(reader, 1)
    producer = await producer_of(bootstrap, client_id, transactional_id=client_id)
    await asyncio.wait_for(producer.begin_transaction(), WAIT)
    await producer.send(topic + "-out", b"v")
    await asyncio.wait_for(producer.send_offsets_to_transaction(dict.fromkeys(reader.assignment(), 1), client_id), WAIT)
    await asyncio.wait_for(producer.commit_transaction(), WAIT)
    await producer.stop()
    await reader.stop()


class Provider(AbstractTokenProvider):
    """Gives the client its token."""

    async def token(self):
        """Return it."""
        return token()


async def steady(bootstrap, topic, client_id):
    """Copy records and commit their offsets until the process ends. The app goes on after an error."""
    reader = await consumer(bootstrap, client_id, topic, metadata_max_age_ms=1000)
    producer = await producer_of(bootstrap, client_id)
    while True:
        try:
            for records in (await reader.getmany(timeout_ms=500)).values():
                await send(producer, topic + "-out", len(records))
                await asyncio.wait_for(reader.commit(), WAIT)
        except (KafkaError, asyncio.TimeoutError) as error:
            print(repr(error), file=sys.stderr, flush=True)


async def tls(bootstrap, topic, client_id):
    """Deliver records by TLS, with a broker whose certificate is checked."""
    login = {"security_protocol": "SSL", "ssl_context": create_ssl_context(cafile=TLS_CA)}
    producer = await producer_of(bootstrap, client_id, **login)
    await send(producer, topic)
    await producer.stop()


async def sasl(bootstrap, topic, client_id, mechanism):
    """Log in, and deliver records."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        login["sasl_kerberos_service_name"] = "kafka"
    elif mechanism == "OAUTHBEARER":
        login["sasl_oauth_token_provider"] = Provider()
    else:
        login.update(sasl_plain_username=USER, sasl_plain_password=PASSWORD)
    producer = await producer_of(bootstrap, client_id, **login)
    await send(producer, topic + "-sasl")
    await producer.stop()


STEPS = (produce, consume, commit, offsets, rebalance, admin, zstd, transactions, steady, tls, sasl)
run({step.__name__: lambda *arguments, step=step: asyncio.run(step(*arguments)) for step in STEPS})
