"""Discovery against real clusters, old and new, beside what Kafka's own tools say of the same brokers."""

import re
from collections.abc import Callable

import pytest

import featuregate as fg
from featuregate.catalog import level_name
from featuregate.gating.events import Changed
from featuregate.testing import LocalKafka

pytestmark = pytest.mark.live

BOUND = 60.0
HOUR = 3600.0
NEW_TXN = (fg.Api("TxnOffsetCommit") >= 5) & (fg.Api("EndTxn") >= 5)


def _ranges_by_kafka(kafka: LocalKafka, version: str) -> list[dict[int, tuple[int, int]]]:
    """Parse what kafka-broker-api-versions prints of each broker: ``Fetch(1): 0 to 17 [usable: 17],``."""
    tool = f"{'org.apache.kafka.tools' if version.startswith('4') else 'kafka.admin'}.BrokerApiVersionsCommand"
    done = kafka.run_tool(tool, "--bootstrap-server", kafka.bootstrap, version=version)
    assert done.returncode == 0, done.stderr
    brokers = []
    for block in done.stdout.split("(id: ")[1:]:
        rows = re.findall(r"\((\d+)\): (\d+)(?: to (\d+))?", block)
        brokers.append({int(key): (int(low), int(high or low)) for key, low, high in rows})
    return brokers


def _features_by_kafka(kafka: LocalKafka, version: str) -> dict[str, tuple[str, ...]]:
    """Parse what kafka-features describe prints, padded or with tabs."""
    done = kafka.kafka_features("describe", version=version)
    assert done.returncode == 0, done.stderr
    columns = ("Feature", "SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
    rows = re.findall(r"\s+".join([*(f"{column}: (.+?)" for column in columns), "Epoch"]), done.stdout)
    return {name: tuple(levels) for name, *levels in rows}


def _features_by_us(view: fg.View) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(level_name(name, level) for level in (low, high, view.level(name) or 0))
        for name, (low, high) in view.supported.items()
    }


@pytest.mark.parametrize(("version", "nodes"), [("2.4.1", 1), ("2.8.2", 2), ("3.9.2", 3), ("4.2.0", 3)])
@pytest.mark.proof("net")
def test_every_range_and_feature_is_what_kafkas_own_tools_say(version: str, nodes: int) -> None:
    """API ranges of each broker, supported ranges and finalized levels, field by field."""
    with LocalKafka(version, nodes=nodes) as kafka:
        view = fg.discover(kafka.client_config())
        assert [broker.node_id for broker in view.brokers] == list(kafka.nodes)
        assert view.missing == ()
        assert view.cluster_id == kafka.cluster_id
        ours = [{key: tuple(said) for key, said in broker.api_ranges.items()} for broker in view.brokers]
        theirs = _ranges_by_kafka(kafka, version)
        assert len(theirs) == nodes
        for broker in ours:
            assert broker in theirs
        if version.startswith(("3", "4")):
            assert _features_by_us(view) == _features_by_kafka(kafka, version)
            assert view.epoch > 0
        elif version.startswith("2.8"):  # ZooKeeper's /features: enabled, and nothing in it
            assert view.epoch >= 0
            assert view.level("metadata.version") == 0
            said = kafka.kafka_features("--describe", version=version)
            assert (said.returncode, said.stdout.strip(), dict(view.supported)) == (0, "", {})
        else:
            assert view.epoch == -1
            assert view.level("metadata.version") is None


@pytest.mark.proof("net")
def test_the_oldest_broker_that_knows_apiversions(shared_kafka: Callable[[str], LocalKafka]) -> None:
    """0.10.0.1: error 35 and v0, no cluster id, no features: requirements on them are unknown, on APIs closed."""
    view = fg.discover(shared_kafka("0.10.0.1").bootstrap)
    (broker,) = view.brokers
    assert (view.cluster_id, view.epoch, broker.asked_version) == (None, -1, 0)
    assert view.api("ApiVersions") == (0, 0)
    assert view.api("Produce") == (0, 2)
    assert view.api("TxnOffsetCommit") is None
    assert fg.evaluate(view, fg.presets.kip447).verdict == "closed"
    assert fg.evaluate(view, fg.Feature("group.version") >= 1).verdict == "unknown"


def test_invariant_3_a_gate_opens_exactly_when_the_last_broker_of_a_real_roll_qualifies() -> None:
    """3.9.2 to 4.2.0, node by node; then the features, and an operator who goes back."""
    with LocalKafka("3.9.2", nodes=3) as kafka, fg.Discoverer(kafka.client_config(), interval=HOUR) as features:
        apis, tv2 = features.gate("apis", NEW_TXN), features.gate("tv2", fg.presets.kip890)
        live = features.gate("live", fg.Feature("transaction.version") >= 2, policy="live")
        for node in kafka.nodes:
            features.refresh(BOUND)
            assert not apis.open, apis.decision
            kafka.stop(node)
            view = features.refresh(BOUND)
            assert [broker.node_id for broker in view.missing] == [node]
            assert not apis.open, apis.decision
            kafka.roll(node, "4.2.0")
        _until(features, apis)
        assert not tv2.open
        kafka.finalize({"metadata.version": 29})
        kafka.finalize({"transaction.version": 2})
        _until(features, tv2)
        _until(features, live)
        # The level may fall, and the view with it. What was latched does not.
        kafka.downgrade({"transaction.version": 1})
        while features.refresh(BOUND).level("transaction.version") != 1:
            pass
        assert not live.open
        assert tv2.open
        assert "held open: finalized level fell to 1 at epoch" in str(tv2.decision)
        assert features.latched["transaction.version"] == 2


def _until(features: fg.Discoverer, gate: fg.Gate) -> None:
    """Brokers hear of what the controller has done a moment later; each look is a new question."""
    for _ in range(200):
        features.refresh(BOUND)
        if gate.open:
            return
    pytest.fail(f"still closed: {gate.decision}")


@pytest.mark.proof("net")
def test_a_node_that_is_paused_killed_or_rebuilt() -> None:
    """One deaf broker is data; another cluster under the same addresses starts afresh."""
    config = {"socket.timeout.ms": 1500, "socket.connection.setup.timeout.ms": 1500}
    heard: list[Changed] = []
    with LocalKafka("4.2.0", nodes=3) as kafka, fg.Discoverer(kafka.client_config(config), interval=HOUR) as features:
        features.on_change(heard.append)
        gate = features.gate("apis", NEW_TXN)
        more = features.gate("more", fg.Api("Fetch") >= 18, policy="live")
        features.refresh(BOUND)
        assert gate.open
        assert more.open

        kafka.pause(3)
        (paused,) = features.refresh(BOUND).missing
        assert (paused.node_id, paused.failure.kind if paused.failure else None) == (3, "TimedOut")
        assert gate.open
        assert not more.open
        assert features.health()["status"] == "degraded"

        kafka.resume(3)
        kafka.kill(2)
        (killed,) = features.refresh(BOUND).missing
        assert (killed.node_id, killed.failure.kind if killed.failure else None) == (2, "ConnectFailed")
        kafka.start(2)
        assert features.refresh(BOUND).missing == ()

        before = features.view
        assert before is not None
        kafka.rebuild("3.9.2")
        after = features.refresh(BOUND)
        assert after.cluster_id == kafka.cluster_id != before.cluster_id
        assert after.epoch < before.epoch
        assert not gate.open
        assert any("cluster" in str(change.differences) for change in heard), "other brokers came after it"
