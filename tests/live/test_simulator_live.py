"""The simulated controller answers as a real one, and Kafka's own tool works with a simulated cluster."""

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from asking import ask
from waiting import eventually

import featuregate as fg
from featuregate.errors import LocalKafkaError
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import Installation, write_logging
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.testing.plugin import MakeSimulatedCluster
from featuregate.testing.simulator import Kill, KRaft, Roll, Stop, UpdateFeatures, apply, downgrade, upgrade
from featuregate.testing.simulator.cluster import update_features
from featuregate.testing.simulator.kraft.cluster import KRaftCluster
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

pytestmark = [pytest.mark.proof("simulator"), pytest.mark.live, pytest.mark.slow]

BOUND = 20.0
"""Seconds for the levels to arrive at a broker, which takes milliseconds."""
COMMON = [
    UpdateFeatures({"metadata.version": 20}, upgrade_type=0),
    UpdateFeatures({"metadata.version": 20}, upgrade_type=7),
    upgrade({"metadata.version": -1}),
    upgrade({"metadata.version": 0}),
    upgrade({"metadata.version": 99}),
    upgrade({"bogus": 1}),
    downgrade({"bogus": 0}),
    upgrade({"bogus": 0}),
    upgrade({"": 1}),
    upgrade({"metadata.version": 20}),
    downgrade({"metadata.version": 20}, dry_run=True),
    downgrade({"metadata.version": 20}, version=0),
    downgrade({"metadata.version": 20}),
    downgrade({"metadata.version": 21}),
    upgrade({"metadata.version": 20}),
    upgrade({"metadata.version": 21}, dry_run=True),
    upgrade({"metadata.version": 21}, version=0),
    downgrade({"metadata.version": 16}),
    downgrade({"metadata.version": 16}, unsafe=True),
    downgrade({"metadata.version": 18}, unsafe=True),
    downgrade({"metadata.version": 17, "bogus": 1, "kraft.version": 0}),
    upgrade({"metadata.version": 21, "bogus": 1, "another": 2, "group.version": 9}),
    upgrade({"metadata.version": 21}),
    downgrade({"kraft.version": 1}),
    upgrade({"kraft.version": 2}),
]
OLD = [
    *COMMON,
    downgrade({"metadata.version": 3}),
    upgrade({"metadata.version": 22}),
    upgrade({"group.version": 1}),
    downgrade({"group.version": 0}),
    upgrade({"kraft.version": 1}, dry_run=True),
    upgrade({"kraft.version": 1}),
    upgrade({"kraft.version": 1}),
    upgrade({"kraft.version": 0}),
    downgrade({"kraft.version": 0, "metadata.version": 20}),
    upgrade({"kraft.version": 1}),
]
NEW = [
    *COMMON,
    *(upgrade({"group.version": 0}, version=version) for version in (0, 1, 2)),
    upgrade({"eligible.leader.replicas.version": 1}),
    upgrade({"eligible.leader.replicas.version": 1, "metadata.version": 23}, dry_run=True),
    upgrade({"metadata.version": 22}),
    upgrade({"eligible.leader.replicas.version": 1}),
    upgrade({"metadata.version": 25, "eligible.leader.replicas.version": 1, "group.version": 1}),
    upgrade({"transaction.version": 2, "share.version": 1}),
    downgrade({"transaction.version": 1}, version=2),
    downgrade({"transaction.version": 2}, version=2),
    downgrade({"transaction.version": 3, "share.version": 7, "group.version": 4, "streams.version": 2}, version=2),
    upgrade({"metadata.version": 29}, version=2),
    downgrade({"metadata.version": 22}),
    downgrade({"metadata.version": 22}, unsafe=True),
    downgrade({"metadata.version": 23}),
    downgrade({"eligible.leader.replicas.version": 0, "metadata.version": 21}),
    upgrade({"kraft.version": 1}, dry_run=True),
    upgrade({"kraft.version": 1}),
    upgrade({"kraft.version": 1}),
    downgrade({"kraft.version": 1}),
    downgrade({"kraft.version": 0}),
    downgrade({"group.version": 0, "share.version": 0, "transaction.version": 0}),
]


def request_of(event: UpdateFeatures) -> UpdateFeaturesRequest:
    # Over v0 a downgrade is a flag, which controllers with KRaft ignore: they take it for an upgrade.
    updates = tuple(
        FeatureUpdate(feature=name, max_version_level=level, upgrade_type=event.upgrade_type)
        for name, level in event.levels.items()
    )
    return UpdateFeaturesRequest(updates=updates, validate_only=event.validate_only)


def levels_of(kafka: LocalKafka) -> dict[str, int]:
    return dict(fg.discover(kafka.client_config()).finalized)


def controllers_levels_of(kafka: LocalKafka) -> dict[str, int]:
    return dict(fg.discover({"bootstrap.controllers": kafka.controller_bootstrap}).finalized)


def comes_to(found: Callable[[], object], expected: object) -> None:
    """Wait until a broker has read the levels."""
    eventually(found, f"{expected}", met=lambda last: last == expected)


def compare(kafka: LocalKafka, cluster: KRaftCluster, event: UpdateFeatures) -> KRaftCluster:
    """Send an update to a real and to the simulated controller, and compare the answers."""
    request = request_of(event)
    real = ask(kafka.bootstrap.split(",")[0], request, event.version, seconds=BOUND)
    happened = update_features(cluster, request, event.version)
    said = happened.response
    assert (real.error_code, real.error_message) == (said.error_code, said.error_message), event
    assert real.results == said.results, event
    comes_to(lambda: levels_of(kafka), dict(happened.cluster.node_state(1).finalized))
    comes_to(lambda: controllers_levels_of(kafka), dict(happened.cluster.node_state(1, "controller").finalized))
    return happened.cluster


@pytest.mark.parametrize(("version", "events"), [("3.9.2", OLD), ("4.2.0", NEW)])
def test_a_real_controller_says_the_same(version: str, events: list[UpdateFeatures]) -> None:
    """Error codes, messages, results and the resulting levels are equal, update by update."""
    release = version.rpartition(".")[0]
    with LocalKafka(version, nodes=1, release_version="3.9") as kafka:
        cluster = KRaft(release, brokers=1, controllers=0, levels={"metadata.version": 21}).create()
        assert levels_of(kafka) == cluster.node_state(1).finalized
        for event in events:
            cluster = compare(kafka, cluster, event)


def test_what_3_9_wrote_of_kraft_version_means_nothing_to_4_2() -> None:
    """The record has level 1, the quorum is at 0, and the newer build reports 0."""
    with LocalKafka("3.9.2", nodes=1) as kafka:
        cluster = compare(kafka, KRaft("3.9", brokers=1, controllers=0).create(), upgrade({"kraft.version": 1}))
        kafka.roll(1, "4.2.0")
        cluster = apply(cluster, Roll(1, "4.2")).cluster
        comes_to(lambda: levels_of(kafka), dict(cluster.node_state(1).finalized))
        for event in (downgrade({"kraft.version": 0}), upgrade({"kraft.version": 1}), upgrade({"group.version": 1})):
            cluster = compare(kafka, cluster, event)


def active(kafka: LocalKafka) -> int:
    """Wait until a controller reports a running node as the active one."""
    where = kafka.controller_bootstrap.split(",")[0]
    running = {node_id for node_id in kafka.controllers if kafka.node(node_id).state == "running"}
    end = time.monotonic() + BOUND
    while True:
        found = ask(
            where, DescribeClusterRequest(endpoint_type=CONTROLLERS), role="controller", seconds=BOUND
        ).controller_id
        if found in running:
            return found
        assert time.monotonic() < end, f"{found} is not one of {running}"


def test_a_real_upgrade_from_3_9_to_4_2_is_refused_for_the_same_reasons() -> None:
    """With nodes of both releases and one down, both errors name the same node; later all updates are made."""
    updates = [upgrade({"metadata.version": 25}), upgrade({"group.version": 1}), upgrade({"metadata.version": 21})]
    with LocalKafka("3.9.2", nodes=3) as kafka:
        cluster = KRaft("3.9", brokers=3, controllers=0).create()
        for node in kafka.nodes:
            kafka.roll(node, "4.2.0")
            cluster = apply(cluster, Roll(node, "4.2")).cluster
            for event in updates:
                cluster = compare(kafka, replace(cluster, active=active(kafka)), event)
            if node == kafka.nodes[0]:
                continue
            # Registered and down, a broker still stands in the way; as a voter, too.
            down = kafka.nodes[-1] if node != kafka.nodes[-1] else None
            if down is not None:
                kafka.stop(down)
                stopped = apply(cluster, Stop(down)).cluster
                for event in updates:
                    compare(kafka, replace(stopped, active=active(kafka)), event)
                kafka.start(down)
        there = replace(cluster, active=active(kafka))
        cluster = compare(kafka, there, upgrade({"metadata.version": 29, "share.version": 1}))
        # And there is no way back for a node: the older build cannot read what was agreed upon.
        gone = kafka.nodes[0]
        with pytest.raises(LocalKafkaError):
            kafka.roll(gone, "3.9.2")
        cluster = apply(cluster, Roll(gone, "3.9")).cluster
        assert cluster.nodes[gone].status == "died"
        # Its controller and its broker both stumble over a record, of 25 or of 29 already: either may end the process.
        ends = ("Tried to apply FeatureLevelRecord", "No MetadataVersion with feature level")
        said = kafka.logs(gone, last=400)
        assert any(text in said for text in ends), said
        expected = {node_id: cluster.nodes[node_id].accepts_connections("broker") for node_id in cluster.listed_brokers}
        comes_to(lambda: {b.node_id: b.answered for b in fg.discover(kafka.client_config()).brokers}, expected)


def agree(kafka: LocalKafka, cluster: KRaftCluster) -> None:
    """Wait until brokers accept connections and are fenced as in the simulation."""
    there = kafka.bootstrap.split(",")[0]
    request = DescribeClusterRequest(include_fenced_brokers=True)
    comes_to(
        lambda: {n.node_id: n.is_fenced for n in ask(there, request, seconds=BOUND).brokers}, cluster.listed_brokers
    )
    listens = {node_id: cluster.nodes[node_id].accepts_connections("broker") for node_id in cluster.listed_brokers}
    comes_to(lambda: {b.node_id: b.answered for b in fg.discover(kafka.client_config()).brokers}, listens)


def test_a_real_broker_that_is_too_old_and_a_real_quorum_that_is_lost() -> None:
    """The fenced broker's registration counts until the level is lowered; without a quorum updates wait."""
    with LocalKafka("4.2.0", nodes=2, controllers=1, release_version="3.9", log_level="INFO") as kafka:
        there = kafka.bootstrap.split(",")[0]
        first = KRaft("4.2", brokers=2, controllers=1, levels={"metadata.version": 21}).create()
        cluster = compare(kafka, first, upgrade({"group.version": 1}))
        with ThreadPoolExecutor(1) as pool:
            rolling = pool.submit(kafka.roll, 2, "3.9.2")  # returns when the broker serves
            refused = apply(cluster, Roll(2, "3.9")).cluster
            assert refused.nodes[2].status == "refused"
            comes_to(lambda: refused.nodes[2].reason in kafka.logs(*kafka.controllers, last=3000), expected=True)
            agree(kafka, refused)
            # It was registered as 4.2 last, and so the operator may do what it could not live with.
            cluster = compare(kafka, refused, upgrade({"transaction.version": 1}))
            cluster = compare(kafka, cluster, downgrade({"group.version": 0, "transaction.version": 0}))
            assert cluster.nodes[2].status == "running"
            rolling.result(120)
        agree(kafka, cluster)

        kafka.kill(*kafka.controllers)
        before = fg.discover({"bootstrap.servers": there}).epoch
        lost = apply(apply(cluster, Kill(3000)).cluster, upgrade({"group.version": 1}))
        assert lost.response is None
        with pytest.raises(fg.FeatureGateError, match="timed out"):
            ask(there, request_of(upgrade({"group.version": 1})), seconds=3)
        assert fg.discover({"bootstrap.servers": there}).epoch == before
        assert lost.cluster.node_state(1).epoch == cluster.node_state(1).epoch


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return kafka-features of 4.3.1."""
    folder: Path = tmp_path_factory.mktemp("tools")
    write_logging(folder, "ERROR")
    recipe = recipe_for("4.3.1")
    installed = Installation.of("4.3.1", folder)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = installed.tool(recipe.features_tool, arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_kafka_features_describes_and_updates_a_simulated_cluster(
    tool: Callable[..., subprocess.CompletedProcess[str]], simulated_kafka: MakeSimulatedCluster
) -> None:
    """The output is that for real brokers and controllers."""
    cluster = simulated_kafka(KRaft("4.2", levels={"metadata.version": 25}))
    brokers = ("--bootstrap-server", cluster.bootstrap)
    described = tool(*brokers, "describe").stdout.splitlines()
    row = next(line for line in described if "metadata.version" in line)
    assert row.split() == [
        *("Feature:", "metadata.version", "SupportedMinVersion:", "3.3-IV3", "SupportedMaxVersion:", "4.2-IV1"),
        *("FinalizedVersionLevel:", "4.0-IV3", "Epoch:", str(cluster.current.offset)),
    ]
    done = tool(*brokers, "upgrade", "--release-version", "4.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "share.version was upgraded to 1." in done.stdout
    assert cluster.current.levels["metadata.version"] == 29
    refused = tool(*brokers, "downgrade", "--feature", "metadata.version=22")
    assert refused.returncode == 1
    assert "Unsupported metadata.version downgrade from 29 to 22. Refusing to perform" in refused.stdout
    assert cluster.current.levels["metadata.version"] == 29
    dry = tool(
        "--bootstrap-controller", cluster.bootstrap_controllers, "disable", "--feature", "group.version", "--dry-run"
    )
    assert dry.stdout == "group.version can be disabled.\n"
    disabled = tool("--bootstrap-controller", cluster.bootstrap_controllers, "disable", "--feature", "group.version")
    assert disabled.stdout == "group.version was disabled.\n"
    assert "group.version" not in cluster.current.levels


def test_kafka_features_describes_and_updates_an_old_simulated_cluster(
    tool: Callable[..., subprocess.CompletedProcess[str]], simulated_kafka: MakeSimulatedCluster
) -> None:
    """One update fails and the other is made, as up to 3.9."""
    cluster = simulated_kafka(KRaft("3.9"))
    done = tool(
        *("--bootstrap-server", cluster.bootstrap, "downgrade"),
        *("--feature", "metadata.version=19", "--feature", "group.version=1"),
    )
    assert done.returncode == 1
    assert done.stdout == (
        "Could not downgrade group.version to 1. Invalid update version 1 for feature group.version. Local controller "
        "3000 does not support this feature.\nmetadata.version was downgraded to 19.\n"
    )
    assert cluster.current.levels == {"metadata.version": 19}
