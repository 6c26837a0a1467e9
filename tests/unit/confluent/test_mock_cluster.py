"""librdkafka's mock cluster, which many tests of Python apps use, as a cluster like any other."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

import featuregate as fg
from featuregate.gating.decisions import evaluate


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    config = {"bootstrap.servers": "ignored:9092", "test.mock.num.brokers": 3, "log_level": 0}
    producer = Producer(config)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=10).brokers.values())
    producer.purge()


def test_invariant_6_a_mock_cluster_gives_a_view(bootstrap: str) -> None:
    """Each mock broker refuses ApiVersions v5 with bytes that do not parse, and answers v0."""
    view = fg.discover(bootstrap)
    assert [(broker.node_id, broker.failure, broker.asked_version) for broker in view.brokers] == [
        (node_id, None, 0) for node_id in (1, 2, 3)
    ]
    assert view.cluster_id is not None
    assert view.cluster_id.startswith("mockCluster")
    assert view.epoch == -1


def test_gates_open_on_a_mock_cluster(bootstrap: str) -> None:
    """Requirements on API ranges are decided; mock brokers have no features, so those stay unknown."""
    with fg.Discoverer(bootstrap) as features:
        zstd = features.gate("zstd", fg.presets.zstd)
        assert zstd.wait(30), zstd.decision
        assert features.gate("offsets", "TxnOffsetCommit>=3").open
        assert features.gate("groups", "group.version>=1").decision.verdict == "unknown"


def test_a_mock_cluster_may_be_listed(bootstrap: str) -> None:
    """A listed mock broker is asked for ApiVersions only."""
    assert not fg.discover(bootstrap, broker_list="bootstrap").incomplete


def test_what_the_how_to_says_of_a_mock_cluster_is_so(bootstrap: str) -> None:
    """The how-to lists the presets and releases that its API ranges prove, and those that they do not."""
    view = fg.discover(bootstrap)
    assert [preset.name for preset in fg.presets.all() if evaluate(view, preset).open] == ["zstd"]
    assert evaluate(view, fg.presets.kip447).summary.startswith("closed: OffsetFetch>=7")
    assert evaluate(view, fg.Release("0.10.0")).verdict == "closed"
