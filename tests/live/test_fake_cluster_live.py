"""The controller of a fake cluster answers as a real one, and Kafka's own tool works with a fake cluster."""

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asked_updates import Asked, down, up
from asking import ask
from waiting import eventually

import featuregate as fg
from featuregate.errors import LocalKafkaError
from featuregate.testing import FakeCluster, LocalKafka
from featuregate.testing.local_kafka.commands import Installation, write_logging
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.testing.plugin import MakeFakeCluster
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]

BOUND = 20.0
"""Seconds for the levels to arrive at a broker, which takes milliseconds."""
COMMON = [
    Asked({"metadata.version": 20}, upgrade_type=0),
    Asked({"metadata.version": 20}, upgrade_type=7),
    up({"metadata.version": -1}),
    up({"metadata.version": 0}),
    up({"metadata.version": 99}),
    up({"bogus": 1}),
    down({"bogus": 0}),
    up({"bogus": 0}),
    up({"": 1}),
    up({"metadata.version": 20}),
    down({"metadata.version": 20}, dry_run=True),
    down({"metadata.version": 20}, version=0),
    down({"metadata.version": 20}),
    down({"metadata.version": 21}),
    up({"metadata.version": 20}),
    up({"metadata.version": 21}, dry_run=True),
    up({"metadata.version": 21}, version=0),
    down({"metadata.version": 16}),
    down({"metadata.version": 16}, unsafe=True),
    down({"metadata.version": 18}, unsafe=True),
    down({"metadata.version": 17, "bogus": 1, "kraft.version": 0}),
    up({"metadata.version": 21, "bogus": 1, "another": 2, "group.version": 9}),
    up({"metadata.version": 21}),
    down({"kraft.version": 1}),
    up({"kraft.version": 2}),
]
OLD = [
    *COMMON,
    down({"metadata.version": 3}),
    up({"metadata.version": 22}),
    up({"group.version": 1}),
    down({"group.version": 0}),
    up({"kraft.version": 1}, dry_run=True),
    up({"kraft.version": 1}),
    up({"kraft.version": 1}),
    up({"kraft.version": 0}),
    down({"kraft.version": 0, "metadata.version": 20}),
    up({"kraft.version": 1}),
]
NEW = [
    *COMMON,
    *(up({"group.version": 0}, version=version) for version in (0, 1, 2)),
    up({"eligible.leader.replicas.version": 1}),
    up({"eligible.leader.replicas.version": 1, "metadata.version": 23}, dry_run=True),
    up({"metadata.version": 22}),
    up({"eligible.leader.replicas.version": 1}),
    up({"metadata.version": 25, "eligible.leader.replicas.version": 1, "group.version": 1}),
    up({"transaction.version": 2, "share.version": 1}),
    down({"transaction.version": 1}, version=2),
    down({"transaction.version": 2}, version=2),
    down({"transaction.version": 3, "share.version": 7, "group.version": 4, "streams.version": 2}, version=2),
    up({"metadata.version": 29}, version=2),
    down({"metadata.version": 22}),
    down({"metadata.version": 22}, unsafe=True),
    down({"metadata.version": 23}),
    down({"eligible.leader.replicas.version": 0, "metadata.version": 21}),
    up({"kraft.version": 1}, dry_run=True),
    up({"kraft.version": 1}),
    up({"kraft.version": 1}),
    down({"kraft.version": 1}),
    down({"kraft.version": 0}),
    down({"group.version": 0, "share.version": 0, "transaction.version": 0}),
]


def levels_of(kafka: LocalKafka) -> dict[str, int]:
    return dict(fg.discover(kafka.client_config()).finalized)


def controllers_levels_of(kafka: LocalKafka) -> dict[str, int]:
    return dict(fg.discover({"bootstrap.controllers": kafka.controller_bootstrap}).finalized)


def comes_to(found: Callable[[], object], expected: object) -> None:
    """Wait until a broker has read the levels."""
    eventually(found, f"{expected}", met=lambda last: last == expected)


def compare(kafka: LocalKafka, cluster: FakeCluster, asked: Asked) -> None:
    """Send an update to a real and to the fake controller, and compare the answers and the levels."""
    real = ask(kafka.bootstrap.split(",")[0], asked.request, asked.version, seconds=BOUND)
    said = asked.of(cluster)
    assert said is not None
    assert (real.error_code, real.error_message) == (said.error_code, said.error_message), asked
    assert real.results == said.results, asked
    comes_to(lambda: levels_of(kafka), dict(cluster.finalized))
    comes_to(lambda: controllers_levels_of(kafka), dict(cluster.finalized))


@pytest.mark.parametrize(("version", "updates"), [("3.9.2", OLD), ("4.2.0", NEW)])
def test_a_real_controller_says_the_same(version: str, updates: list[Asked]) -> None:
    """Error codes, messages, results and the resulting levels are equal, update by update."""
    levels = {"metadata.version": 21}
    with LocalKafka(version, nodes=1, release_version="3.9") as kafka:
        cluster = FakeCluster(1, release=version.rpartition(".")[0], finalized=levels)
        assert levels_of(kafka) == levels
        for asked in updates:
            compare(kafka, cluster, asked)


def test_what_3_9_wrote_of_kraft_version_means_nothing_to_4_2() -> None:
    """The record has level 1, the quorum is at 0, and the newer build reports 0 (KAFKA-18979)."""
    with LocalKafka("3.9.2", nodes=1) as kafka:
        assert ask(kafka.bootstrap, up({"kraft.version": 1}).request, seconds=BOUND).results[0].error_code == 0
        comes_to(lambda: levels_of(kafka), {"metadata.version": 21, "kraft.version": 1})
        kafka.roll(1, "4.2.0")
        comes_to(lambda: levels_of(kafka), {"metadata.version": 21})


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
    updates = [up({"metadata.version": 25}), up({"group.version": 1}), up({"metadata.version": 21})]
    with LocalKafka("3.9.2", nodes=3) as kafka:
        cluster = FakeCluster(3, release="3.9")

        def compare_all(*asked: Asked) -> None:
            for each in asked:
                cluster.elect(active(kafka))
                compare(kafka, cluster, each)

        for node in kafka.nodes:
            kafka.roll(node, "4.2.0")
            cluster.roll(node, "4.2")
            compare_all(*updates)
            if node in (kafka.nodes[0], kafka.nodes[-1]):
                continue
            # Registered and down, a broker still stands in the way; as a voter, too.
            down_now = kafka.nodes[-1]
            kafka.stop(down_now)
            cluster.stop(down_now)
            compare_all(*updates)
            kafka.start(down_now)
            cluster.broker(down_now).start()
        compare_all(up({"metadata.version": 29, "share.version": 1}))
        # And there is no way back for a node: the older build cannot read what was agreed upon.
        gone = kafka.nodes[0]
        with pytest.raises(LocalKafkaError):
            kafka.roll(gone, "3.9.2")
        cluster.roll(gone, "3.9")
        assert cluster.broker(gone).problem == "No MetadataVersion with feature level 29"
        # Its controller and its broker both stumble over a record, of 25 or of 29 already: either may end the process.
        ends = ("Tried to apply FeatureLevelRecord", "No MetadataVersion with feature level")
        said = kafka.logs(gone, last=400)
        assert any(text in said for text in ends), said
        answered = {broker.node_id: broker.answered for broker in cluster.view().brokers}
        comes_to(lambda: {b.node_id: b.answered for b in fg.discover(kafka.client_config()).brokers}, answered)


def agree(kafka: LocalKafka, cluster: FakeCluster) -> None:
    """Wait until brokers accept connections and are fenced as those of the fake cluster."""
    there = kafka.bootstrap.split(",")[0]
    request = DescribeClusterRequest(include_fenced_brokers=True)
    fenced = {broker.node_id: broker.node.is_fenced for broker in cluster.brokers}
    comes_to(lambda: {n.node_id: n.is_fenced for n in ask(there, request, seconds=BOUND).brokers}, fenced)
    answered = {broker.node_id: broker.answered for broker in cluster.view().brokers}
    comes_to(lambda: {b.node_id: b.answered for b in fg.discover(kafka.client_config()).brokers}, answered)


def test_a_real_broker_that_is_too_old_and_a_real_quorum_that_is_lost() -> None:
    """The fenced broker's registration counts until the level is lowered; without a quorum updates wait."""
    with LocalKafka("4.2.0", nodes=2, controllers=1, release_version="3.9", log_level="INFO") as kafka:
        there = kafka.bootstrap.split(",")[0]
        cluster = FakeCluster(2, controllers=1, release="4.2", finalized={"metadata.version": 21})
        compare(kafka, cluster, up({"group.version": 1}))
        with ThreadPoolExecutor(1) as pool:
            rolling = pool.submit(kafka.roll, 2, "3.9.2")  # returns when the broker serves
            cluster.roll(2, "3.9")
            problem = cluster.broker(2).problem
            assert problem
            comes_to(lambda: problem in kafka.logs(*kafka.controllers, last=3000), expected=True)
            agree(kafka, cluster)
            # The fake broker is down, so its operator starts it; the real one repeats its registration.
            compare(kafka, cluster, down({"group.version": 0, "transaction.version": 0}))
            cluster.broker(2).start()
            rolling.result(120)
        agree(kafka, cluster)

        kafka.kill(*kafka.controllers)
        cluster.stop(3000)
        before = fg.discover({"bootstrap.servers": there}).epoch
        assert up({"group.version": 1}).of(cluster) is None
        with pytest.raises(fg.FeatureGateError, match="timed out"):
            ask(there, up({"group.version": 1}).request, seconds=3)
        assert fg.discover({"bootstrap.servers": there}).epoch == before


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


def test_kafka_features_describes_and_updates_a_fake_cluster(
    tool: Callable[..., subprocess.CompletedProcess[str]], fake_cluster: MakeFakeCluster
) -> None:
    """The output is that for real brokers and controllers."""
    cluster = fake_cluster(
        3, controllers=3, finalized={"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    )
    brokers = ("--bootstrap-server", cluster.bootstrap)
    described = tool(*brokers, "describe").stdout.splitlines()
    row = next(line for line in described if "metadata.version" in line)
    assert row.split() == [
        *("Feature:", "metadata.version", "SupportedMinVersion:", "3.3-IV3", "SupportedMaxVersion:", "4.2-IV1"),
        *("FinalizedVersionLevel:", "4.0-IV3", "Epoch:", str(cluster.epoch)),
    ]
    done = tool(*brokers, "upgrade", "--release-version", "4.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "share.version was upgraded to 1." in done.stdout
    assert cluster.finalized["metadata.version"] == 29
    refused = tool(*brokers, "downgrade", "--feature", "metadata.version=22")
    assert refused.returncode == 1
    assert "Unsupported metadata.version downgrade from 29 to 22. Refusing to perform" in refused.stdout
    assert cluster.finalized["metadata.version"] == 29
    dry = tool(
        "--bootstrap-controller", cluster.bootstrap_controllers, "disable", "--feature", "group.version", "--dry-run"
    )
    assert dry.stdout == "group.version can be disabled.\n"
    disabled = tool("--bootstrap-controller", cluster.bootstrap_controllers, "disable", "--feature", "group.version")
    assert disabled.stdout == "group.version was disabled.\n"
    assert "group.version" not in cluster.finalized


def test_kafka_features_describes_and_updates_an_old_fake_cluster(
    tool: Callable[..., subprocess.CompletedProcess[str]], fake_cluster: MakeFakeCluster
) -> None:
    """One update fails and the other is made, as up to 3.9."""
    cluster = fake_cluster(3, controllers=3, release="3.9")
    done = tool(
        *("--bootstrap-server", cluster.bootstrap, "downgrade"),
        *("--feature", "metadata.version=19", "--feature", "group.version=1"),
    )
    assert done.returncode == 1
    assert done.stdout == (
        "Could not downgrade group.version to 1. Invalid update version 1 for feature group.version. Local controller "
        "3000 does not support this feature.\nmetadata.version was downgraded to 19.\n"
    )
    assert cluster.finalized == {"metadata.version": 19}
