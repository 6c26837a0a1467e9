"""Other clients work with a fake cluster. They share no code with it."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient

import featuregate
from featuregate.testing import FakeCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in a way that has grown old
    from kafka import KafkaAdminClient


def test_librdkafka_finds_every_broker(fake_kafka: FakeCluster) -> None:
    admin = AdminClient({"bootstrap.servers": fake_kafka.bootstrap})
    found = admin.list_topics(timeout=20)
    assert {node.id: node.port for node in found.brokers.values()} == {
        broker.node_id: broker.port for broker in fake_kafka.brokers
    }
    assert (found.cluster_id, found.topics) == (fake_kafka.cluster_id, {})


def test_librdkafka_logs_in_with_a_password() -> None:
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster:
        admin = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ann",
                "sasl.password": "secret",
            }
        )
        assert admin.list_topics(timeout=20).cluster_id == cluster.cluster_id


def test_kafka_python_describes_the_cluster(fake_kafka: FakeCluster) -> None:
    """It sends DescribeCluster, and gets fenced brokers too."""
    admin = KafkaAdminClient(bootstrap_servers=fake_kafka.bootstrap)
    try:
        described = admin.describe_cluster()
    finally:
        admin.close()
    assert described["cluster_id"] == fake_kafka.cluster_id
    assert [broker["broker_id"] for broker in described["brokers"]] == [1, 2, 3]


@pytest.fixture(scope="module")
def keywords() -> Iterator[tuple[FakeCluster, dict[str, Any]]]:
    """Return a cluster with passwords, and the keyword arguments by which apps reach it."""
    with FakeCluster(brokers=2, passwords={"ann": "secret"}) as cluster:
        yield (
            cluster,
            {
                "bootstrap_servers": cluster.bootstrap.split(","),
                "client_id": "app",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "ann",
                "sasl_plain_password": "secret",
            },
        )


def test_kafka_python_and_featuregate_take_the_same_keywords(keywords: tuple[FakeCluster, dict[str, Any]]) -> None:
    """An app keeps its configuration in one dict."""
    cluster, config = keywords
    admin = KafkaAdminClient(**config)
    try:
        assert admin.describe_cluster()["cluster_id"] == cluster.cluster_id
    finally:
        admin.close()
    assert featuregate.discover(config).cluster_id == cluster.cluster_id


async def test_aiokafka_and_featuregate_take_the_same_keywords(keywords: tuple[FakeCluster, dict[str, Any]]) -> None:
    """An app keeps its configuration in one dict."""
    cluster, config = keywords
    client = AIOKafkaClient(**config)
    await client.bootstrap()
    try:
        assert {broker.nodeId for broker in client.cluster.brokers()} == {1, 2}
    finally:
        await client.close()
    assert (await featuregate.adiscover(config)).cluster_id == cluster.cluster_id
