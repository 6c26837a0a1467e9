"""Configs of brokers: who is asked for them, when, and what a refusal means."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import featuregate as fg
from featuregate.testing import FakeCluster

BOUND = 30.0
HOUR = 3600.0
NAME = "group.coordinator.rebalance.protocols"
CLASSIC = {NAME: "classic"}
NO_RESULT = b"\0\0\0\x0b\0\0\0\x01\0\0\0\0\0\x01\0"
"""A response to the second request of a connection (DescribeConfigs v4), without a result."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Start three brokers."""
    with FakeCluster(3) as made:
        yield made


def asked(cluster: FakeCluster) -> list[int]:
    """Return the brokers that were asked for configs."""
    return [request.broker for request in cluster.requests if request.api == "DescribeConfigs"]


def test_without_a_gate_that_needs_it_no_config_is_asked_for(cluster: FakeCluster) -> None:
    """Many apps have no right to it."""
    with fg.Discoverer(cluster.bootstrap, interval=HOUR) as features:
        features.gate("eos", "kip447").wait(BOUND)
        features.refresh(BOUND)
    fg.discover(cluster.bootstrap)
    assert asked(cluster) == []


def test_one_broker_without_the_value_keeps_the_gate_closed(cluster: FakeCluster) -> None:
    """Each broker may coordinate the group."""
    cluster.broker(2).set(configs=CLASSIC)
    with fg.Discoverer(cluster.bootstrap, interval=HOUR) as features:
        gate = features.gate("groups", "kip848", policy="live")
        features.refresh(BOUND)
        assert (gate.open, gate.decision.verdict) == (False, "closed")
        assert f"broker 2 ({cluster.broker(2).address}) has {NAME}=classic" in gate.decision.summary
        cluster.broker(2).set(configs={NAME: "classic,consumer"})
        features.refresh(BOUND)
        assert gate.open


def test_a_broker_without_the_config_is_decided_by_its_level(cluster: FakeCluster) -> None:
    """Kafka 5.0 removes it (KIP-1237), and an older broker of the same cluster may still switch the protocol off."""
    cluster.broker(1).set(configs={})
    view = fg.discover(cluster.bootstrap, configs=[NAME])
    assert not view.brokers[0].configs[NAME].exists
    assert (fg.evaluate(view, "kip848").open, fg.evaluate(view, "kip1071").open) == (True, True)
    assert fg.evaluate(replace(view, finalized={"metadata.version": 30}), "kip848").verdict == "closed"
    cluster.broker(2).set(configs=CLASSIC)
    assert fg.evaluate(fg.discover(cluster.bootstrap, configs=[NAME]), "kip848").verdict == "closed"


FAULTS = ("cut", "garbage", "too long", "not printable", "no right", "another error", "no result")


@pytest.mark.parametrize("fault", FAULTS)
def test_what_fails_is_unknown_and_the_answer_counts(cluster: FakeCluster, fault: str) -> None:
    """A broker that tells nothing of its configs has answered ApiVersions."""
    broker = cluster.broker(1)
    match fault:
        case "cut":
            broker.cut_once(api="DescribeConfigs")
        case "garbage":
            broker.garbage_once(b"\0\0\0\4abcd", api="DescribeConfigs")
        case "no right":
            broker.error_once(31, api="DescribeConfigs")
        case "another error":
            broker.error_once(42, api="DescribeConfigs")
        case "no result":
            broker.garbage_once(NO_RESULT, api="DescribeConfigs")
        case _:
            values = {"too long": {NAME: "x" * 2000}, "not printable": {NAME: "a\x1b"}}
            broker.set(configs=values[fault])
    view = fg.discover(cluster.bootstrap, configs=[NAME])
    assert view.missing == ()
    found = view.brokers[0].configs[NAME]
    assert (found.value, bool(found.problem), found.exists) == (None, True, True)
    assert fg.evaluate(view, f"config:{NAME} has consumer").verdict == "unknown"


def test_a_bootstrap_list_has_no_ids_to_ask_by(cluster: FakeCluster) -> None:
    """Only the id of a broker names its configs."""
    view = fg.discover(cluster.bootstrap, configs=[NAME], broker_list="bootstrap")
    assert "no node ids" in view.brokers[0].configs[NAME].problem
    assert asked(cluster) == []


def test_what_is_evaluated_is_asked_for_by_the_next_poll(cluster: FakeCluster) -> None:
    """The first decision says that nobody asked."""
    with fg.Discoverer(cluster.bootstrap, interval=HOUR) as features:
        features.refresh(BOUND)
        assert "was not asked" in features.evaluate("kip848").summary
        features.refresh(BOUND)
        assert features.evaluate("kip848").open


def test_brokers_that_need_a_login_tell_it_after_the_login() -> None:
    """ApiVersions needs none."""
    with FakeCluster(2, passwords={"app": "hush"}) as cluster:
        config = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "app",
            "sasl.password": "hush",
        }
        view = fg.discover(config, configs=[NAME])
    assert {broker.configs[NAME].value for broker in view.brokers} == {"classic,consumer,streams"}
