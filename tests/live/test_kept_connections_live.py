"""Connections that a discoverer keeps, against real brokers that end them in every way."""

import time

import psutil
import pytest

import featuregate as fg
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("net"), pytest.mark.live]

BOUND = 120.0
HOUR = 3600.0
SESSION_MS = 1000
"""Brokers end a connection that is used after this without a new authentication (KIP-368)."""


def connections_to(kafka: LocalKafka, node: int) -> int:
    """Count the connections of this process to one node's listeners."""
    listeners = {
        each.laddr.port for each in psutil.Process(kafka.node(node).pid).net_connections("tcp") if not each.raddr
    }
    ours = psutil.Process().net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.raddr.port in listeners for each in ours if each.raddr)


def test_kept_connections_of_a_secured_cluster_end_and_come_back() -> None:
    """Sessions expire, brokers are killed and come back: each poll has all answers, and a killed broker is noticed."""
    properties = {"connections.max.reauth.ms": SESSION_MS}
    with (
        LocalKafka(
            "4.2.0", nodes=2, security="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", properties=properties
        ) as kafka,
        fg.Discoverer(kafka.client_config(), interval=HOUR) as features,
    ):
        assert features.wait(BOUND)
        until = time.monotonic() + 3 * SESSION_MS / 1000
        while time.monotonic() < until:
            assert features.refresh(BOUND).missing == ()
            assert [connections_to(kafka, node) for node in kafka.nodes] == [1, 1], "kept, and never two"
        kafka.kill(2)
        assert features.wait_until(lambda: [one.node_id for one in features.view.missing] == [2], BOUND)
        assert connections_to(kafka, 1) == 1
        kafka.start(2)
        assert features.wait_until(lambda: not features.refresh(BOUND).missing, BOUND)


def test_brokers_answer_api_versions_once_before_authentication() -> None:
    """A connection that could not be authenticated is not kept: each poll opens another, and has its answer."""
    with LocalKafka("4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN") as kafka:
        config = kafka.client_config({"sasl.password": "wrong"})
        with fg.Discoverer(source=fg.BrokerSource(config, broker_list="bootstrap"), interval=HOUR) as features:
            for _ in range(3):
                assert features.refresh(BOUND).missing == ()
            assert connections_to(kafka, kafka.nodes[0]) == 0
