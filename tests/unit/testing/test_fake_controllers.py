"""The controllers of a fake cluster: their answers in Kafka's order and words (KIP-778, KIP-1022), and their quorum."""

import pytest

from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.testing import FakeCluster
from featuregate.testing.fakes.controllers import INVALID_UPDATE_VERSION, in_map_order
from featuregate.wire.update_features import FeatureResult, FeatureUpdate, UpdateFeaturesRequest

FOR_ALL = "The update failed for all features since the following feature had an error: "
CONTROLLERS = (3000, 3001, 3002)


def old() -> FakeCluster:
    """Return a cluster whose controllers decide each update by itself."""
    return FakeCluster(2, release="3.9")


def new() -> FakeCluster:
    """Return a cluster whose controllers carry out all updates or none."""
    return FakeCluster(2, release="4.2")


def refusal(cluster: FakeCluster, updates: tuple[Update, ...], *, dry_run: bool = False) -> str | None:
    """Return the error message of an update of one feature; None if the update was made."""
    response = cluster.update(updates, dry_run=dry_run)
    assert response is not None
    if response.results:
        (result,) = response.results
        assert result.error_code in (0, INVALID_UPDATE_VERSION)
        return result.error_message if result.error_code else None
    assert response.error_code in (0, INVALID_UPDATE_VERSION)
    return (response.error_message or "").removeprefix(FOR_ALL) if response.error_code else None


def ask(cluster: FakeCluster, level: int, upgrade_type: int, *, feature: str = "metadata.version", version: int = 1):
    """Send an update that featuregate itself would not send; return the first error."""
    update = FeatureUpdate(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    controller = cluster.controller(1, "broker")
    assert controller is not None
    response = controller(UpdateFeaturesRequest(updates=(update,)), version)
    texts = [each.error_message for each in (response, *response.results) if each.error_code]
    return texts[0].removeprefix(FOR_ALL) if texts else None


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("make", [old, new])
def test_checks_that_every_release_makes(make) -> None:
    """The controller checks the upgrade type, then the sign of the level, then its own support."""
    invalid = "Invalid update version -1 for feature metadata.version."
    assert ask(make(), -1, 7) == f"{invalid} The controller does not support the given upgrade type."
    assert ask(make(), -1, 1) == f"{invalid} A feature version cannot be less than 0."
    assert refusal(make(), upgrade({"nonsense.version": 3})) == (
        "Invalid update version 3 for feature nonsense.version. Local controller 1 does not support this feature."
    )


def test_a_registered_node_that_is_down_counts() -> None:
    """Brokers first, then controllers, with what they registered; the error names the first that lacks the level."""
    cluster = FakeCluster(3, controllers=3, release="3.9")
    for node_id in (3000, 3001, 1):
        cluster.roll(node_id, "4.2")
    cluster.stop(2)
    cluster.stop(3002)
    only = "Invalid update version 25 for feature metadata.version. {} only supports versions 1-21"
    assert refusal(cluster, upgrade({"metadata.version": 25})) == only.format("Broker 2")
    assert refusal(cluster, upgrade({"group.version": 1})) == (
        "Invalid update version 1 for feature group.version. Broker 2 does not support this feature."
    )
    for node_id in (2, 3):
        cluster.roll(node_id, "4.2")
    assert refusal(cluster, upgrade({"metadata.version": 25})) == only.format("Controller 3002")


def test_controllers_before_3_7_count_those_that_run() -> None:
    """The messages are those of a real 3.3.2. A broker that lacks a feature refuses to disable it."""
    cluster = FakeCluster(2, controllers=3, release="3.5")
    for node_id in (3000, 3001, 1, 2):
        cluster.roll(node_id, "3.6")
    assert refusal(cluster, disable("bogus")) == (
        "Invalid update version 0 for feature bogus. Broker 1 does not support this feature."
    )
    assert "Controller 3002 only supports versions" in refusal(cluster, upgrade({"metadata.version": 14}))
    cluster.stop(3002)
    assert refusal(cluster, upgrade({"metadata.version": 14})) is None


def test_3_9_decides_each_update_by_itself() -> None:
    cluster = old()
    response = cluster.update(downgrade({"metadata.version": 19, "bogus": 1}))
    assert (response.error_code, response.error_message) == (0, "")
    assert [(result.feature, result.error_code) for result in response.results] == [
        ("bogus", INVALID_UPDATE_VERSION),
        ("metadata.version", 0),
    ]
    assert cluster.finalized["metadata.version"] == 19


def test_4_0_makes_all_updates_or_none() -> None:
    cluster = new()
    response = cluster.update(downgrade({"transaction.version": 1, "bogus": 1}))
    assert (response.error_code, response.results) == (INVALID_UPDATE_VERSION, ())
    assert response.error_message.startswith(FOR_ALL + "Invalid update version 1 for feature bogus.")
    assert cluster.finalized == new().finalized


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_results_of_a_success_depend_on_the_version(version: int) -> None:
    """v0 and v1 have a result for each feature, whose message is NONE; v2 has none."""
    expected = (FeatureResult(feature="group.version", error_message="NONE"),) if version < 2 else ()
    assert new().update(upgrade({"group.version": 1}), version=version).results == expected


def test_a_dry_run_changes_nothing() -> None:
    cluster = new()
    assert refusal(cluster, disable("group.version"), dry_run=True) is None
    assert refusal(cluster, upgrade({"group.version": 2}), dry_run=True) is not None
    assert (cluster.finalized, cluster.epoch) == (new().finalized, new().epoch)


def test_requests_that_only_other_clients_send() -> None:
    """v0 cannot downgrade, of a feature that is named twice the last update counts, and an empty request succeeds."""
    assert "without setting the upgrade type" in ask(new(), 0, 2, feature="group.version", version=0)
    twice = tuple(FeatureUpdate(feature="group.version", max_version_level=level, upgrade_type=2) for level in (7, 0))
    for updates, disabled in ((twice, True), ((), False)):
        cluster = new()
        assert cluster.controller(1, "broker")(UpdateFeaturesRequest(updates=updates), 2).error_code == 0
        assert ("group.version" not in cluster.finalized) is disabled


def test_the_first_failure_is_that_of_javas_order() -> None:
    """The expected orders are the output of java.util.HashMap."""
    known = ["metadata.version", "group.version", "transaction.version", "kraft.version"]
    assert in_map_order(known) == ["group.version", "kraft.version", "metadata.version", "transaction.version"]
    # More than a small table holds, more than one name in a bucket, and letters that Java counts as two.
    assert [int(name[8:]) for name in in_map_order(f"feature-{n}" for n in range(14))] == [
        *(9, 8, 7, 6, 5, 4, 3, 2, 11, 1, 10, 0, 13, 12)
    ]
    assert in_map_order(["bé😀", "AaBB", "BBAa", "AaAa", "x"]) == ["bé😀", "x", "AaBB", "BBAa", "AaAa"]
    assert "group.version. Local" in refusal(new(), downgrade({"transaction.version": 9, "group.version": 9}))


# ------------------------------------------------------------------ kraft.version


def test_a_refusal_does_not_stop_the_quorum_from_4_1_on() -> None:
    """Updates are applied in the order of Java's map, and the quorum keeps its level (seen: 4.1.1)."""
    for updates, dry_run, level in (
        (upgrade({"kraft.version": 1, "transaction.version": 9}), False, 1),
        (upgrade({"kraft.version": 1, "group.version": 9}), False, 0),  # refused before it comes to kraft.version
        (upgrade({"kraft.version": 1, "transaction.version": 9}), True, 0),
    ):
        cluster = new()
        assert cluster.update(updates, dry_run=dry_run).error_code == INVALID_UPDATE_VERSION
        assert cluster.finalized.get("kraft.version", 0) == level


def test_a_voter_that_cannot_run_it_stops_the_quorum() -> None:
    """Controllers do not register before 3.7-IV0, so that only the quorum checks them; the level never falls again."""
    cluster = FakeCluster(1, controllers=3, release="3.8", finalized={"metadata.version": 14})
    for node_id in (3000, 3001, 1):
        cluster.roll(node_id, "4.2")
    assert refusal(cluster, upgrade({"kraft.version": 1})) == (
        "Invalid upgrade of kraft.version to 1 because not all of the voters support it"
    )
    cluster.voters = (3000, 3001)
    assert refusal(cluster, upgrade({"kraft.version": 1})) is None
    assert refusal(cluster, disable("kraft.version")) == (
        "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."
    )


def test_4_0_takes_kraft_version_for_a_feature_like_others_and_for_0() -> None:
    """The level depends on metadata.version 3.9-IV0, and its record has no effect (seen: 4.0.0)."""
    cluster = FakeCluster(2, release="4.0", finalized={"metadata.version": 20})
    assert refusal(cluster, upgrade({"kraft.version": 1})) == (
        "Invalid update version 1 for feature kraft.version. kraft.version could not be set to 1 because it depends on "
        "metadata.version level 21"
    )
    assert cluster.update(upgrade({"kraft.version": 1, "metadata.version": 21})).error_code == 0
    assert cluster.finalized == {"metadata.version": 21}
    assert refusal(cluster, downgrade({"kraft.version": 1})) == (
        "Invalid update version 1 for feature kraft.version. Can't downgrade to a newer version."
    )


# ------------------------------------------------------------------ the quorum


def test_a_majority_elects_and_the_active_controller_stays() -> None:
    """Another one takes over when it stops or hangs; without a majority none is active, and nothing is updated."""
    cluster = FakeCluster(1, controllers=3)
    assert cluster.controller_id == 3000
    cluster.broker(3000).pause()
    cluster.broker(3000).resume()
    assert cluster.controller_id == 3001
    cluster.roll(3001, "4.3")
    assert cluster.controller_id == 3000
    cluster.elect(3002)
    assert cluster.controller_id == 3002
    cluster.stop(3002)
    cluster.stop(3001)
    assert (cluster.controller_id, cluster.update(disable("group.version"))) == (None, None)
    cluster.broker(3001).start()
    assert cluster.controller_id in (3000, 3001)
    assert cluster.update(disable("group.version")).error_code == 0


def test_voters_make_the_majority_and_others_do_not() -> None:
    cluster = FakeCluster(1, controllers=3)
    cluster.voters = (3002,)
    cluster.stop(3000)
    assert cluster.controller_id == 3002


def test_without_controllers_the_first_broker_that_runs_decides() -> None:
    """The cluster shows no controllers; there is one as long as a broker runs."""
    cluster = FakeCluster(3)
    cluster.stop(1)
    assert cluster.controller_id == 2
    assert "Local controller 2 only" in refusal(cluster, upgrade({"group.version": 7}))
    cluster.stop(2)
    cluster.stop(3)
    assert cluster.controller_id is None
    assert FakeCluster(1, release="2.8").controller(1, "broker") is None


# ------------------------------------------------------------------ rolls


@pytest.mark.parametrize(
    ("levels", "node_id", "release", "problem"),
    [
        ({"metadata.version": 29}, 1, "3.9", "No MetadataVersion with feature level 29"),
        (
            {"metadata.version": 21, "group.version": 1},
            1,
            "3.9",
            (
                "Unable to register because the broker does not support finalized version 1 of group.version. The "
                "broker wants a version between 0 and 0, inclusive."
            ),
        ),
        ({"metadata.version": 29}, 3002, "3.9", "it cannot replay level 29 of metadata.version: it supports 1-21"),
        ({"metadata.version": 21}, 1, "3.9", ""),
        ({"metadata.version": 21}, 3002, "3.9", ""),
    ],
)
def test_a_node_that_cannot_run_the_levels_stays_down(levels: dict, node_id: int, release: str, problem: str) -> None:
    """In Kafka's words. The broker is fenced, and counts with what it registered; the newer release starts."""
    cluster = FakeCluster(3, controllers=3, finalized=levels)
    cluster.roll(node_id, release)
    node = cluster.broker(node_id)
    assert (node.problem, node.running, node.node.is_fenced) == (problem, not problem, bool(problem))
    assert cluster.controller_id == 3000
    cluster.roll(node_id, "4.2")
    assert (node.problem, node.running, node.node.is_fenced) == ("", True, False)


def test_apis_that_are_forwarded_are_those_of_the_controller_too() -> None:
    """Old controllers limit forwarded APIs and no other APIs; without a controller no API is limited."""
    cluster = FakeCluster(1, controllers=1, release="3.9")
    cluster.roll(1, "4.2")
    shown = cluster.broker(1).state.api_ranges
    assert (shown[57], shown[28]) == ((0, 1), (0, 5))
    cluster.stop(3000)
    assert cluster.broker(1).state.api_ranges[57] == (0, 2)
    cluster.broker(1).set(api_ranges={18: (0, 4), 57: (0, 2)})
    cluster.broker(3000).start()
    assert cluster.broker(1).state.api_ranges[57] == (0, 2)


def test_a_view_needs_no_network() -> None:
    """A cluster half-way in a roll, with a broker that lags, one that hangs, and one that is gone."""
    cluster = FakeCluster(4, controllers=3, release="3.9")
    before = cluster.view()
    for node_id in (3000, 3001, 3002, 1):
        cluster.roll(node_id, "4.2")
    cluster.broker(2).lag()
    cluster.broker(3).pause()
    cluster.stop(4)
    assert cluster.update(downgrade({"metadata.version": 20})).error_code == 0
    cluster.advance_epoch(5)
    seen = cluster.view(previous=before, now=7.0)
    assert [(b.node_id, b.failure and b.failure.kind) for b in seen.brokers] == [
        (1, None),
        (2, None),
        (3, "TimedOut"),
        (4, "ConnectFailed"),
    ]
    assert (seen.level("metadata.version"), seen.epoch, seen.seen_at) == (20, before.epoch + 6, 7.0)
    assert (seen.brokers[1].finalized["metadata.version"], seen.brokers[1].epoch) == (21, before.epoch)
    assert seen.api("TxnOffsetCommit").max == 4
    controllers = cluster.view("controller")
    assert (controllers.role, controllers.controller_id, controllers.epoch) == ("controller", 3000, before.epoch + 1)
