"""A KRaft controller's answers to updates, check by check in Kafka's order and words (KIP-778, KIP-1022)."""

import pytest
from simulated import after

from featuregate.testing.simulator import KRaft, Roll, Stop, UpdateFeatures, apply, downgrade, upgrade
from featuregate.testing.simulator.cluster import update_features
from featuregate.testing.simulator.kraft.cluster import KRaftCluster
from featuregate.testing.simulator.kraft.controller import in_map_order
from featuregate.wire.update_features import FeatureResult, FeatureUpdate, UpdateFeaturesRequest

OLD, NEW = KRaft("3.9", brokers=2, controllers=0), KRaft("4.2", brokers=2, controllers=0)
FOR_ALL = "The update failed for all features since the following feature had an error: "
INVALID_UPDATE_VERSION = 95


def refusal(start: KRaft | KRaftCluster, event: UpdateFeatures) -> str | None:
    """Return the error message of an update of one feature; None if the update was made."""
    happened = apply(after(start), event)
    response = happened.response
    if response.results:
        (result,) = response.results
        assert result.error_code == (INVALID_UPDATE_VERSION if result.error_code else 0)
        return result.error_message if result.error_code else None
    assert response.error_code in (0, INVALID_UPDATE_VERSION)
    return response.error_message.removeprefix(FOR_ALL) if response.error_code else None


GENERAL = [
    # The order of these rows is the order of the checks: each breaks its own rule and all that come later.
    (
        UpdateFeatures({"metadata.version": -1}, 7),
        (
            "Invalid update version -1 for feature metadata.version. The controller does not support the given "
            "upgrade type."
        ),
    ),
    (
        UpdateFeatures({"metadata.version": -1}),
        "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0.",
    ),
    (
        UpdateFeatures({"nonsense.version": 3}),
        "Invalid update version 3 for feature nonsense.version. Local controller 1 does not support this feature.",
    ),
]


@pytest.mark.parametrize("start", [OLD, NEW], ids=["3.9", "4.2"])
@pytest.mark.parametrize(("event", "message"), GENERAL)
def test_checks_that_every_release_makes(start: KRaft, event: UpdateFeatures, message: str) -> None:
    """The controller checks the upgrade type, then the sign of the level, then its own support."""
    assert refusal(start, event) == message


def test_the_controller_names_its_own_range() -> None:
    """The active controller refuses a level outside its own range, whatever brokers support."""
    assert refusal(OLD, upgrade({"metadata.version": 22})) == (
        "Invalid update version 22 for feature metadata.version. Local controller 1 only supports versions 1-21"
    )
    assert refusal(NEW, downgrade({"metadata.version": 0})) == (
        "Invalid update version 0 for feature metadata.version. Local controller 1 only supports versions 7-29"
    )


def test_a_registered_broker_that_is_down_counts() -> None:
    """A fenced broker with an old range still counts; the error names the first one that lacks the level."""
    mixed = after(KRaft("3.9"), *(Roll(node, "4.2") for node in (3000, 3001, 3002, 1)), Stop(2))
    assert mixed.nodes[2].fenced
    assert refusal(mixed, upgrade({"metadata.version": 25})) == (
        "Invalid update version 25 for feature metadata.version. Broker 2 only supports versions 1-21"
    )
    assert refusal(mixed, upgrade({"group.version": 1})) == (
        "Invalid update version 1 for feature group.version. Broker 2 does not support this feature."
    )


def test_a_registered_controller_counts() -> None:
    """Controllers are checked after brokers, all except the active one."""
    mixed = after(KRaft("3.9"), *(Roll(node, "4.2") for node in (1, 2, 3, 3000, 3001)))
    assert mixed.active == 3000
    assert refusal(mixed, upgrade({"metadata.version": 25})) == (
        "Invalid update version 25 for feature metadata.version. Controller 3002 only supports versions 1-21"
    )


def test_a_voter_that_never_registered_counts() -> None:
    """Controllers register from 3.7-IV0; a voter that is down since then has not."""
    there = after(KRaft("3.9", levels={"metadata.version": 14}), Stop(3002), upgrade({"metadata.version": 15}))
    assert refusal(there, upgrade({"metadata.version": 21})) == (
        "Invalid update version 21 for feature metadata.version. controller 3002 has not registered, and may not "
        "support this feature"
    )


def test_3_9_decides_each_update_by_itself() -> None:
    """One update fails and the other is made; results are sorted, and the response has no error."""
    happened = apply(OLD.create(), downgrade({"metadata.version": 19, "bogus": 1}))
    assert happened.response.error_code == 0
    assert happened.response.error_message == ""
    assert [(result.feature, result.error_code) for result in happened.response.results] == [
        ("bogus", INVALID_UPDATE_VERSION),
        ("metadata.version", 0),
    ]
    assert happened.cluster.levels["metadata.version"] == 19


def test_4_0_makes_all_updates_or_none() -> None:
    """One update fails, and no update is made; the response has no results."""
    happened = apply(NEW.create(), downgrade({"transaction.version": 1, "bogus": 1}))
    assert happened.response.error_code == INVALID_UPDATE_VERSION
    assert happened.response.error_message.startswith(FOR_ALL + "Invalid update version 1 for feature bogus.")
    assert happened.response.results == ()
    assert happened.cluster.levels == NEW.create().levels


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_results_of_a_success_depend_on_the_version(version: int) -> None:
    """v0 and v1 have a result for each feature, whose message is NONE; v2 has none."""
    response = apply(NEW.create(), upgrade({"group.version": 1}, version=version)).response
    expected = (FeatureResult(feature="group.version", error_message="NONE"),) if version < 2 else ()
    assert response.results == expected


def test_a_dry_run_changes_nothing() -> None:
    """The answer is the usual one, and neither the levels nor the log change."""
    cluster = NEW.create()
    assert apply(cluster, downgrade({"group.version": 0}, dry_run=True)).cluster == cluster
    assert refusal(cluster, upgrade({"group.version": 2}, dry_run=True)) is not None


def test_v0_cannot_downgrade() -> None:
    """KRaft controllers ignore the flag of v0, and treat every update as an upgrade."""
    update = FeatureUpdate(feature="group.version", max_version_level=0, upgrade_type=2)
    response = update_features(NEW.create(), UpdateFeaturesRequest(updates=(update,)), 0).response
    assert "without setting the upgrade type" in response.error_message


def test_of_a_feature_that_is_named_twice_the_last_update_counts() -> None:
    """Controllers read a request into a map."""
    updates = tuple(FeatureUpdate(feature="group.version", max_version_level=level, upgrade_type=2) for level in (7, 0))
    happened = update_features(NEW.create(), UpdateFeaturesRequest(updates=updates), 2)
    assert happened.response.error_code == 0
    assert "group.version" not in happened.cluster.levels


def test_an_empty_request_succeeds() -> None:
    """The response has no error."""
    for start in (OLD, NEW):
        assert update_features(start.create(), UpdateFeaturesRequest(updates=()), 1).response.error_code == 0


def test_kraft_version_is_raised_by_the_quorum_itself() -> None:
    """The level only rises, and has no record, so that the epoch of controllers does not change."""
    before = NEW.create()
    raised = apply(before, upgrade({"kraft.version": 1})).cluster
    assert (
        raised.node_state(1).finalized["kraft.version"]
        == raised.node_state(1, "controller").finalized["kraft.version"]
        == 1
    )
    assert raised.node_state(1, "controller").epoch == before.node_state(1, "controller").epoch
    assert refusal(raised, downgrade({"kraft.version": 0})) == (
        "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."
    )
    assert refusal(raised, downgrade({"kraft.version": 1})) is None


def test_a_refusal_does_not_stop_the_quorum_from_4_1_on() -> None:
    """Updates are applied in the order of Java's map, and the quorum keeps its level (seen: 4.1.1)."""
    both = upgrade({"kraft.version": 1, "transaction.version": 9})
    happened = apply(NEW.create(), both)
    assert happened.response.error_code == INVALID_UPDATE_VERSION
    assert happened.cluster.levels == {**NEW.create().levels, "kraft.version": 1}
    # What is refused before it comes to kraft.version leaves it alone, and so does a dry run.
    before = upgrade({"kraft.version": 1, "group.version": 9})
    dry = upgrade({"kraft.version": 1, "transaction.version": 9}, dry_run=True)
    assert [apply(NEW.create(), each).cluster.kraft_version for each in (before, dry)] == [0, 0]


def test_a_voter_that_cannot_run_it_stops_the_quorum() -> None:
    """Controllers do not register before 3.7-IV0, so that only the quorum checks them."""
    mixed = after(KRaft("3.8", levels={"metadata.version": 14}), *(Roll(node, "4.2") for node in (3000, 3001, 1, 2, 3)))
    assert mixed.active == 3000
    assert refusal(mixed, upgrade({"kraft.version": 1})) == (
        "Invalid upgrade of kraft.version to 1 because not all of the voters support it"
    )
    assert refusal(after(mixed, Roll(3002, "4.2")), upgrade({"kraft.version": 1})) is None


def test_4_0_takes_kraft_version_for_a_feature_like_others_and_for_0() -> None:
    """The level depends on metadata.version 3.9-IV0, and its record has no effect (seen: 4.0.0)."""
    cluster = KRaft("4.0", brokers=2, controllers=0, levels={"metadata.version": 20}).create()
    assert refusal(cluster, upgrade({"kraft.version": 1})) == (
        "Invalid update version 1 for feature kraft.version. kraft.version could not be set to 1 because it depends on "
        "metadata.version level 21"
    )
    raised = after(cluster, upgrade({"kraft.version": 1, "metadata.version": 21}))
    assert raised.levels == {"metadata.version": 21}
    assert "kraft.version" not in raised.node_state(1).finalized
    assert refusal(raised, downgrade({"kraft.version": 1})) == (
        "Invalid update version 1 for feature kraft.version. Can't downgrade to a newer version."
    )
    assert refusal(raised, downgrade({"kraft.version": 0})) is None


def test_up_to_3_6_a_broker_that_lacks_a_feature_refuses_to_disable_it() -> None:
    """The messages are those of a real 3.3.2."""
    old = KRaft("3.6", brokers=2, controllers=0)
    assert refusal(old, downgrade({"bogus": 0})) == (
        "Invalid update version 0 for feature bogus. Broker 1 does not support this feature."
    )
    mixed = after(KRaft("3.5"), *(Roll(node, "3.6") for node in (3000, 3001, 3002)))
    assert refusal(mixed, upgrade({"metadata.version": 14})) == (
        "Invalid update version 14 for feature metadata.version. Broker 1 does not support the given version. It "
        "supports 1 to 11."
    )


def test_3_9_writes_a_record_of_kraft_version_that_the_quorum_does_not_go_by() -> None:
    """Nodes of 3.9 report the requested level, and nodes of 4.2 that of the quorum (KAFKA-18979)."""
    happened = apply(OLD.create(), upgrade({"kraft.version": 1}))
    assert happened.response.results[0].error_code == 0
    mixed = after(happened.cluster, Roll(2, "4.2"))
    assert (
        mixed.node_state(1).finalized["kraft.version"]
        == mixed.node_state(1, "controller").finalized["kraft.version"]
        == 1
    )
    assert "kraft.version" not in mixed.node_state(2).finalized
    assert mixed.kraft_version == 0


def test_the_first_failure_is_that_of_javas_order() -> None:
    """The expected orders are the output of java.util.HashMap."""
    known = ["metadata.version", "group.version", "transaction.version", "kraft.version"]
    assert in_map_order(known) == ["group.version", "kraft.version", "metadata.version", "transaction.version"]
    # More than a small table holds, more than one name in a bucket, and letters that Java counts as two.
    assert [int(name[8:]) for name in in_map_order(f"feature-{n}" for n in range(14))] == [
        *(9, 8, 7, 6, 5, 4, 3, 2, 11, 1, 10, 0, 13, 12)
    ]
    assert in_map_order(["bé😀", "AaBB", "BBAa", "AaAa", "x"]) == ["bé😀", "x", "AaBB", "BBAa", "AaAa"]
    both = downgrade({"transaction.version": 9, "group.version": 9})
    assert "group.version. Local" in apply(NEW.create(), both).response.error_message
