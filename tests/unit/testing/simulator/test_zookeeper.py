"""Clusters with ZooKeeper, section by section of KIP-584."""

import pytest
from app_model.app import App
from simulated import after

from featuregate.testing import simulator as sim
from featuregate.testing.simulator.cluster import update_features
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeperCluster
from featuregate.wire.update_features import FeatureResult, FeatureUpdate, UpdateFeaturesRequest

GROUP = "group_coordinator"
INVALID_REQUEST, FEATURE_UPDATE_FAILED, NOT_CONTROLLER = 42, 96, 41
OLD, NEW = sim.ZooKeeper("v1"), sim.ZooKeeper("v1-v2")


def rolled(start: sim.ZooKeeper | ZooKeeperCluster, build: str) -> ZooKeeperCluster:
    cluster = after(start)
    return after(cluster, *(sim.Roll(node, build) for node in sorted(cluster.nodes, reverse=True)))


def refusal(cluster: ZooKeeperCluster, event: sim.UpdateFeatures) -> str | None:
    """Return the error message of an update of one feature; None if the update was made."""
    response = sim.apply(cluster, event).response
    assert response.error_code == 0
    (result,) = response.results
    assert result.error_code in (0, INVALID_REQUEST)
    return result.error_message if result.error_code else None


# ---------------------------------------------------------------- "Feature ZK node status"


def test_kip_584_status_case_1_new_cluster_bootstrap() -> None:
    """A new cluster finalizes all supported levels at once."""
    assert NEW.create().features == FeaturesNode(0, enabled=True, levels={GROUP: (1, 2)})
    assert sim.ZooKeeper("2.8").create().features == FeaturesNode(0, enabled=True, levels={})


def test_kip_584_status_case_2_cluster_upgrade() -> None:
    """With an old protocol the node is disabled and empty; with a newer one it is enabled, without levels."""
    before = sim.ZooKeeper("old-protocol").create()
    assert before.features == FeaturesNode(0, enabled=False, levels={})
    upgraded = rolled(before, "v1-v2")
    assert upgraded.features == FeaturesNode(1, enabled=True, levels={})
    assert refusal(upgraded, sim.upgrade({GROUP: 1})) is None


def test_kip_584_status_case_3_cluster_downgrade() -> None:
    """With an old protocol the node is disabled and has no levels, and its version still rises."""
    cluster = after(NEW)
    down = rolled(cluster, "old-protocol")
    assert down.features == FeaturesNode(1, enabled=False, levels={})
    assert rolled(down, "v1-v2").features == FeaturesNode(2, enabled=True, levels={})


def test_the_status_follows_the_controller_alone() -> None:
    """Brokers with another protocol do not change it."""
    mixed = after(NEW, sim.Roll(2, "old-protocol"), sim.Roll(3, "old-protocol"))
    assert mixed.controller_id == 1
    assert mixed.features.enabled
    assert not after(mixed, sim.Stop(1)).features.enabled


def test_brokers_report_no_epoch_where_the_node_is_disabled() -> None:
    """Brokers whose protocol is too old to read the node report no epoch either."""
    assert sim.ZooKeeper("old-protocol").create().node_state(1).epoch == -1
    assert sim.ZooKeeper("old-protocol").create().node_state(1).supported == {}
    mixed = after(NEW, sim.Roll(3, "old-protocol"))
    assert [mixed.node_state(node).epoch for node in (1, 2, 3)] == [0, 0, -1]
    assert sim.view_of(rolled(NEW, "old-protocol")).level(GROUP) is None


def test_an_operator_is_refused_where_versioning_is_disabled() -> None:
    """The controller refuses the whole request, because of its own protocol."""
    response = sim.apply(sim.ZooKeeper("old-protocol").create(), sim.upgrade({GROUP: 1})).response
    assert (response.error_code, response.error_message) == (INVALID_REQUEST, "Feature versioning system is disabled.")


# ---------------------------------------------------------------- "Validations"

UPGRADED = after(rolled(OLD, "v1-v2"))
NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."
INCOMPATIBLE = "Could not apply finalized feature update because brokers were found to have incompatible versions"
VALIDATIONS = [
    # upgrade, downgrade and deletion as the KIP lists them, then each refusal in the order of the checks
    (UPGRADED, sim.upgrade({GROUP: 2}), None),
    (after(NEW), sim.downgrade({GROUP: 1}), None),
    (after(NEW), sim.downgrade({GROUP: 0}), None),
    (after(NEW), sim.upgrade({"": 1}), "Feature name can not be empty."),
    (after(NEW), sim.downgrade({"bogus": 0}), "Can not delete non-existing finalized feature."),
    (
        after(NEW),
        sim.upgrade({GROUP: 0}),
        (
            "Can not provide maxVersionLevel: 0 less than 1 without setting the allowDowngrade flag to true in the "
            "request."
        ),
    ),
    (
        after(NEW),
        sim.upgrade({GROUP: 2}),
        "Can not upgrade a finalized feature from existing maxVersionLevel:2 to the same value.",
    ),
    (
        after(NEW),
        sim.downgrade({GROUP: 2}),
        "Can not downgrade a finalized feature from existing maxVersionLevel:2 to the same value.",
    ),
    (
        after(NEW),
        sim.upgrade({GROUP: 1}),
        (
            "Can not downgrade finalized feature from existing maxVersionLevel:2 to provided maxVersionLevel:1 without "
            "setting the allowDowngrade flag in the request."
        ),
    ),
    (
        after(NEW),
        sim.downgrade({GROUP: 3}),
        (
            "When the allowDowngrade flag set in the request, the provided maxVersionLevel:3 can not be greater than "
            "existing maxVersionLevel:2."
        ),
    ),
    (
        after(NEW, sim.Roll(3, "v2")),
        sim.downgrade({GROUP: 1}),
        (
            "Can not downgrade finalized feature to maxVersionLevel:1 because it's lower than the existing "
            "minVersionLevel:2."
        ),
    ),
    (after(NEW), sim.upgrade({"bogus": 1}), NOT_SUPPORTED),
    (
        after(sim.ZooKeeper("v2"), sim.downgrade({GROUP: 0})),
        sim.upgrade({GROUP: 1}),
        (
            "Could not apply finalized feature update because the provided maxVersionLevel:1 is lower than the "
            "supported minVersion:2."
        ),
    ),
    (after(NEW), sim.upgrade({GROUP: 3}), f"{INCOMPATIBLE} for the feature."),
]


@pytest.mark.parametrize(("cluster", "event", "message"), VALIDATIONS)
def test_kip_584_validations(cluster: ZooKeeperCluster, event: sim.UpdateFeatures, message: str | None) -> None:
    """The three allowed cases and each refusal come in the order of the KIP."""
    assert refusal(cluster, event) == message


def test_every_live_broker_must_support_the_level() -> None:
    """A broker that is down does not count, unlike with KRaft; a broker without the feature does."""
    mixed = after(OLD, sim.Roll(1, "v1-v2"), sim.Roll(2, "v1-v2"))
    assert refusal(mixed, sim.upgrade({GROUP: 2})) == f"{INCOMPATIBLE} for the feature."
    assert refusal(after(mixed, sim.Stop(3)), sim.upgrade({GROUP: 2})) is None
    lacking = after(
        sim.ZooKeeper("old-protocol"), *(sim.Roll(node, "v1") for node in (1, 2)), sim.Stop(3), sim.Start(3, "2.8")
    )
    assert refusal(lacking, sim.upgrade({GROUP: 1})) == f"{INCOMPATIBLE} for the feature."


def test_an_update_may_be_carried_out_in_part() -> None:
    """Each update has its own result, and the version rises once."""
    happened = sim.apply(after(NEW), sim.downgrade({GROUP: 1, "bogus": 1}))
    assert happened.response.results == (
        FeatureResult(feature=GROUP, error_message="NONE"),
        FeatureResult(feature="bogus", error_code=INVALID_REQUEST, error_message=NOT_SUPPORTED),
    )
    assert happened.cluster.features == FeaturesNode(1, enabled=True, levels={GROUP: (1, 1)})


def test_an_update_without_a_change_writes_nothing() -> None:
    """The version of the node does not change."""
    cluster = after(NEW)
    assert sim.apply(cluster, sim.upgrade({GROUP: 7})).cluster == cluster


def test_only_the_controller_is_asked() -> None:
    """Brokers do not forward updates, and a broker that is down does not answer."""
    cluster = after(NEW, sim.Stop(3))
    response = sim.apply(cluster, sim.UpdateFeatures({GROUP: 1}, 2, node_id=2)).response
    assert (response.error_code, response.error_message) == (
        NOT_CONTROLLER,
        "This is not the correct controller for this cluster.",
    )
    assert sim.apply(cluster, sim.UpdateFeatures({GROUP: 1}, 2, node_id=3)).response is None
    assert sim.apply(after(NEW, *map(sim.Stop, (1, 2, 3))), sim.upgrade({GROUP: 1})).response is None


def test_the_flag_of_v0_counts() -> None:
    """The flag of v0 allows a downgrade."""
    update = FeatureUpdate(feature=GROUP, max_version_level=1, upgrade_type=2)
    happened = update_features(after(NEW), UpdateFeaturesRequest(updates=(update,)), 0)
    assert happened.response.results[0].error_code == 0
    assert happened.cluster.levels == {GROUP: 1}


def test_the_controller_makes_one_update_after_the_other() -> None:
    """Of two operators who raise the level from 1 to 2, the second is refused: the level is 2."""
    first = sim.apply(UPGRADED, sim.upgrade({GROUP: 2}))
    assert first.response.results[0].error_code == 0
    assert "from existing maxVersionLevel:2 to the same value" in refusal(first.cluster, sim.upgrade({GROUP: 2}))


def test_a_controller_that_does_not_read_its_own_change_reports_a_failure() -> None:
    """The update is made although the answer is a failure, so the operator must check."""
    happened = sim.apply(after(NEW, sim.Lag(1)), sim.downgrade({GROUP: 1}))
    (result,) = happened.response.results
    assert result.error_code == FEATURE_UPDATE_FAILED
    assert result.error_message == "Unable to update finalized features due to an unexpected server error."
    assert happened.cluster.levels == {GROUP: 1}


# ---------------------------------------------------------------- "Feature version deprecation"


def test_the_first_build_that_deprecates_a_level_raises_the_minimum() -> None:
    """The minimum rises to the highest one of a broker; old brokers that know the level keep running."""
    cluster = after(NEW, sim.Roll(3, "v2"))
    assert cluster.features == FeaturesNode(1, enabled=True, levels={GROUP: (2, 2)})
    assert cluster.node_state(1).lowest == {GROUP: 2}
    assert all(node.status == "running" for node in cluster.nodes.values())
    assert after(cluster, sim.Stop(3)).features.levels == {GROUP: (2, 2)}


# ---------------------------------------------------------------- "Broker protections against race conditions"


def test_kip_584_protection_1_a_broker_validates_when_it_starts() -> None:
    """The broker reads the levels before it registers, and ends if it does not support them."""
    cluster = after(NEW, sim.Roll(3, "v1"))
    assert cluster.nodes[3].status == "died"
    assert cluster.nodes[3].reason == "level 2 of group_coordinator is finalized, and this broker supports 1-1"
    assert 3 not in cluster.advertised
    lacking = after(NEW, sim.Roll(3, "2.8"))
    assert lacking.nodes[3].reason == "level 2 of group_coordinator is finalized, and this broker does not know it"


def test_kip_584_protection_2_a_broker_validates_when_the_node_changes() -> None:
    """A lagging broker that is too old ends when it reads the level."""
    cluster = after(UPGRADED, sim.HoldRegistrations(), sim.Roll(3, "v1"), sim.Lag(3), sim.upgrade({GROUP: 2}))
    assert cluster.nodes[3].status == "running"
    assert after(cluster, sim.CatchUp(3)).nodes[3].status == "died"


def test_kip_584_race_of_an_incompatible_broker_step_by_step() -> None:
    """E1: the broker registers; E2: the controller finalizes a level that it lacks before it processes E1."""
    began = after(UPGRADED, sim.Stop(3), sim.HoldRegistrations())
    e1 = after(began, sim.Start(3, "v1"), sim.Lag(3))
    assert (e1.nodes[3].status, e1.advertised[3], e1.queued) == ("running", {GROUP: (1, 1)}, (3,))
    assert 3 not in e1.listed_brokers
    happened = sim.apply(e1, sim.upgrade({GROUP: 2}))
    e2 = happened.cluster
    assert happened.response.results[0].error_code == 0
    noticed = after(e2, sim.ReleaseRegistrations())
    # The controller skips its registration, and for a moment it lingers, telling what was.
    assert (noticed.ignored, noticed.nodes[3].status, 3 in noticed.listed_brokers) == ({3}, "running", False)
    assert (noticed.node_state(3).finalized, noticed.node_state(1).finalized) == ({GROUP: 1}, {GROUP: 2})
    e3 = after(noticed, sim.CatchUp(3))
    assert (e3.nodes[3].status, 3 in e3.advertised, e3.ignored) == ("died", False, frozenset())


def test_without_the_race_the_update_is_refused() -> None:
    """The controller processes the registration first."""
    there = after(UPGRADED, sim.Roll(3, "v1"))
    assert refusal(there, sim.upgrade({GROUP: 2})) == f"{INCOMPATIBLE} for the feature."


def test_a_registration_that_was_held_counts_once_it_is_released() -> None:
    """A compatible broker is only listed later."""
    held = after(UPGRADED, sim.HoldRegistrations(), sim.Join(4, "v1-v2"))
    assert 4 not in held.listed_brokers
    assert 4 in after(held, sim.ReleaseRegistrations()).listed_brokers
    elected = after(held, sim.Stop(held.controller_id))
    assert elected.controller_id != held.controller_id
    assert 4 in elected.listed_brokers, "a new controller reads the list anew"


# ---------------------------------------------------------------- eventual consistency, and the life of brokers


def test_a_broker_that_lags_reports_an_older_version() -> None:
    """The version of the node is the epoch, by which clients order answers."""
    lagging = after(NEW, sim.Lag(2), sim.downgrade({GROUP: 1}))
    assert [(lagging.node_state(node).epoch, lagging.node_state(node).finalized[GROUP]) for node in (1, 2)] == [
        (1, 1),
        (0, 2),
    ]
    assert sim.view_of(lagging).level(GROUP) == 1
    assert after(lagging, sim.CatchUp(2)).node_state(2).epoch == 1


def test_time_alone_moves_no_epoch() -> None:
    """Epochs rise only with writes, unlike with KRaft."""
    assert after(NEW, sim.Tick(1000)).node_state(1).epoch == 0
    with pytest.raises(sim.ScriptError, match="time does not go back"):
        after(NEW, sim.Tick(-1))


@pytest.mark.parametrize("event", [sim.Kill(2), sim.Pause(2), sim.Partition((2,))])
def test_a_session_outlives_its_broker_for_a_while(event) -> None:
    """The broker stays listed for eighteen seconds, and is listed again after its return."""
    gone = after(NEW, event)
    assert 2 in after(gone, sim.Tick(35)).listed_brokers
    assert 2 not in after(gone, sim.Tick(36)).listed_brokers
    back = {sim.Kill: sim.Start(2), sim.Pause: sim.Resume(2), sim.Partition: sim.Heal()}[type(event)]
    assert 2 in after(gone, sim.Tick(36), back).listed_brokers


def test_the_controller_moves_when_it_is_gone() -> None:
    """Another broker becomes the controller at once, if one is left."""
    assert after(NEW, sim.Stop(1)).controller_id == 2
    assert after(NEW, sim.Partition((1,))).controller_id == 2
    assert after(NEW, *map(sim.Kill, (1, 2, 3))).controller_id is None
    assert after(NEW, *map(sim.Stop, (1, 2, 3)), sim.Start(3)).controller_id == 3


def test_brokers_join_and_leave_and_clusters_are_rebuilt() -> None:
    """The rules are those of KRaft."""
    assert sorted(after(NEW, sim.Join(4, "v2")).listed_brokers) == [1, 2, 3, 4]
    assert sorted(after(NEW, sim.Leave(2)).nodes) == [1, 3]
    with pytest.raises(sim.ScriptError, match="there is a node 2 already"):
        after(NEW, sim.Join(2, "v2"))
    rebuilt = after(NEW, sim.downgrade({GROUP: 1}), sim.Rebuild())
    assert (rebuilt.cluster_id, rebuilt.features.version) == ("simulated-cluster-0002", 0)


def test_builds_and_releases_have_names() -> None:
    """A name is that of a build of the test, of the KIP, or of a release of the catalog."""
    own = sim.Build(
        release="2.8", broker_apis=sim.release_build("2.8").broker_apis, controller_apis={}, supported={"txn": (1, 4)}
    )
    assert sim.ZooKeeper("own", builds={"own": own}).create().levels == {"txn": 4}
    assert sim.ZooKeeper("2.4").create().node_state(1).api_ranges == sim.release_build("2.4").broker_apis
    with pytest.raises(sim.ScriptError, match="no broker of release v9"):
        after(NEW, sim.Roll(1, "v9"))
    with pytest.raises(sim.ScriptError, match="there is no node 9"):
        after(NEW, sim.Stop(9))


def test_an_event_of_the_other_kind_of_cluster_is_an_error() -> None:
    """Each kind refuses the events of the other."""
    from featuregate.testing.simulator import KRaft  # noqa: PLC0415 - this one fact is about both

    with pytest.raises(sim.ScriptError, match="cannot happen to a KRaftCluster"):
        sim.apply(KRaft("4.2").create(), sim.HoldRegistrations())


# ---------------------------------------------------------------- the KIP's own use case


def test_kip_584_use_case_from_t0_to_t5() -> None:
    """The app switches at T3-4; neither stale brokers at T5 nor a downgrade revoke that."""
    app = App([f"feature:{GROUP}>=2"])
    (gate,) = app.sticky.values()
    t0 = after(OLD)
    app.poll(t0)
    assert app.view.level(GROUP) == 1
    t1 = rolled(t0, "v1-v2")
    app.poll(t1)
    assert t1.features == t0.features, "T2: the roll alone changes nothing"
    assert not gate.open
    t3 = after(t1, sim.Lag(1), sim.Lag(3), sim.upgrade({GROUP: 2}))
    assert t3.controller_id == 2
    app.poll(t3)
    assert gate.open, "T3-4: one broker that knows is enough"
    app.restart()
    (gate,) = app.sticky.values()
    stale = after(t3, sim.Kill(2), sim.Tick(36))
    app.poll(stale)
    assert (app.view.level(GROUP), gate.open) == (1, True), "T5: only stale brokers answer, after a restart"
    down = after(t3, sim.CatchUp(1), sim.CatchUp(3), sim.downgrade({GROUP: 1}))
    app.poll(down)
    assert (app.view.level(GROUP), gate.open) == (1, True)
    assert "fell to 1" in gate.decision.held
