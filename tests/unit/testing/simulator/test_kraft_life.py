"""Events of a simulated cluster with KRaft, and what its nodes report afterwards."""

import pickle
from dataclasses import replace

import pytest
from simulated import after

from featuregate.testing import simulator as sim
from featuregate.testing.simulator.kraft.cluster import KRaftCluster

START = sim.KRaft("3.9")
UPDATE_FEATURES, TXN_OFFSET_COMMIT = 57, 28


def rolled(cluster: KRaftCluster, build: str) -> KRaftCluster:
    return after(cluster, *(sim.Roll(node, build) for node in cluster.nodes))


def test_a_cluster_begins_with_the_levels_of_its_release() -> None:
    """With fixed voters, kraft.version stays at 0, whatever the release maps to."""
    assert START.create().levels == {"metadata.version": 21}
    assert sim.KRaft("4.2", levels={"metadata.version": 25}).create().levels == {
        "metadata.version": 25,
        "transaction.version": 2,
        "group.version": 1,
    }
    assert sim.KRaft("4.2", levels={"group.version": 0, "share.version": 0}).create().levels == {
        "metadata.version": 29,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "streams.version": 1,
    }
    with pytest.raises(sim.ScriptError, match=r"cannot run level 30 of metadata\.version: it supports 7-29"):
        sim.KRaft("4.2", levels={"metadata.version": 30}).create()


def test_the_epoch_of_brokers_rises_alone_and_that_of_controllers_does_not() -> None:
    """Both are offsets of one log: the end of what a broker read, and the last change of levels."""
    before = START.create()
    later = after(before, sim.Tick(100))
    assert later.node_state(1).epoch == before.node_state(1).epoch + 100
    assert (
        later.node_state(3000, "controller").epoch
        == before.node_state(3000, "controller").epoch
        < before.node_state(1).epoch
    )
    changed = after(later, sim.upgrade({"metadata.version": 21}))
    assert changed.node_state(1).epoch == changed.node_state(3000, "controller").epoch > later.node_state(1).epoch


def test_a_metadata_version_without_empty_records_has_a_quiet_epoch() -> None:
    """NoOpRecord came with 3.3-IV1."""
    quiet = sim.KRaft("3.9", levels={"metadata.version": 4}).create()
    assert after(quiet, sim.Tick(100)).offset == quiet.offset


def test_a_lagging_broker_reports_what_it_has_read() -> None:
    """The broker reports old levels at an old epoch until it catches up."""
    lagging = after(START, sim.Lag(2), sim.downgrade({"metadata.version": 19}), sim.Tick(3))
    assert lagging.node_state(2).finalized == {"metadata.version": 21}
    assert lagging.node_state(1).finalized == {"metadata.version": 19}
    assert lagging.node_state(2).epoch < lagging.node_state(1).epoch
    assert after(lagging, sim.CatchUp(2)).node_state(2).epoch == lagging.node_state(1).epoch
    assert sim.view_of(lagging).level("metadata.version") == 19


def test_without_a_quorum_nothing_is_updated_and_epochs_stand_still() -> None:
    """Brokers still report; an update gets no answer; the remaining controllers know no active one."""
    lost = after(START, sim.Kill(3000), sim.Kill(3001))
    assert lost.active is None
    asked = sim.apply(lost, sim.downgrade({"metadata.version": 19}))
    assert asked.response is None
    assert asked.cluster is lost
    refused = sim.apply(lost, sim.UpdateFeatures({"metadata.version": 19}, node_id=3002)).response
    assert (refused.error_code, refused.error_message) == (41, "No controller appears to be active.")
    frozen = after(lost, sim.Tick(50))
    assert frozen.node_state(1) == lost.node_state(1)
    back = after(frozen, sim.Start(3001))
    assert back.active in (3001, 3002)
    assert back.node_state(1).epoch > frozen.node_state(1).epoch


def test_another_controller_is_elected_and_the_others_name_it() -> None:
    """The error is NOT_CONTROLLER, with the id of the active controller."""
    there = after(START, sim.Kill(3000))
    assert there.active == 3001
    refused = sim.apply(there, sim.UpdateFeatures({"metadata.version": 19}, 2, node_id=3002)).response
    assert (refused.error_code, refused.error_message) == (41, "The active controller appears to be node 3001.")
    assert sim.apply(there, sim.UpdateFeatures({"metadata.version": 19}, 2, node_id=3001)).response.error_code == 0
    assert sim.apply(there, sim.UpdateFeatures({"metadata.version": 19}, 2, node_id=1)).response.error_code == 0


def test_a_controller_without_a_quorum_reports_a_level_that_is_not_finalized() -> None:
    """The controller reports its lowest level without an epoch; 4.4 reports none (KAFKA-19964)."""
    for build, told in (("4.2", {"metadata.version": 7}), ("4.4", {})):
        alone = after(sim.KRaft(build), sim.Kill(3000), sim.Kill(3001), sim.Kill(3002), sim.Start(3002))
        assert (alone.node_state(3002, "controller").finalized, alone.node_state(3002, "controller").epoch) == (
            told,
            -1,
        )
        found = after(alone, sim.Start(3001)).node_state(3002, "controller")
        assert found.epoch >= 0
        assert found.finalized == sim.KRaft(build).create().levels


def test_a_partition_leaves_the_minority_behind() -> None:
    """The majority elects a controller; the minority reads no news, and its controller refuses updates."""
    parted = after(START, sim.Partition((1, 3000)), sim.downgrade({"metadata.version": 19}))
    assert parted.active == 3001
    assert parted.node_state(1).finalized == {"metadata.version": 21}
    assert parted.node_state(2).finalized == {"metadata.version": 19}
    assert sim.apply(parted, sim.UpdateFeatures({"metadata.version": 20}, node_id=1)).response is None
    assert sim.apply(parted, sim.UpdateFeatures({"metadata.version": 20}, node_id=3000)).response.error_code == 41
    healed = after(parted, sim.Heal())
    assert healed.node_state(1).finalized == {"metadata.version": 19}
    assert healed.active == 3001


@pytest.mark.parametrize(("event", "at_once"), [(sim.Stop(2), True), (sim.Kill(2), False), (sim.Pause(2), False)])
def test_a_broker_that_is_gone_is_fenced(event, at_once) -> None:
    """The controller fences it at once after a clean stop, otherwise after nine seconds, until the broker is back."""
    gone = after(START, event)
    assert gone.listed_brokers == {1: False, 2: at_once, 3: False}
    assert after(gone, sim.Tick(17)).listed_brokers[2] is at_once
    assert after(gone, sim.Tick(18)).listed_brokers[2] is True
    back = sim.Resume(2) if isinstance(event, sim.Pause) else sim.Start(2)
    assert after(gone, sim.Tick(18), back).listed_brokers == {1: False, 2: False, 3: False}


def test_a_broker_without_a_controller_starts_when_it_reaches_one() -> None:
    """Until then the broker accepts no connections."""
    waiting = after(START, sim.Stop(1), sim.Kill(3000), sim.Kill(3001), sim.Start(1))
    assert (waiting.nodes[1].status, waiting.nodes[1].accepts_connections("broker")) == ("starting", False)
    assert after(waiting, sim.Start(3000)).nodes[1].status == "running"
    assert after(waiting, sim.Tick(119), sim.Start(3000)).nodes[1].status == "running"
    dead = after(waiting, sim.Tick(120), sim.Start(3000)).nodes[1]
    assert (dead.status, dead.reason) == (
        "died",
        "Shutting down because we were unable to register with the controller quorum.",
    )


def test_a_broker_that_does_not_support_a_level_is_not_let_in() -> None:
    """The broker accepts no connections, is fenced and stays registered; with the newer build it starts."""
    new = after(rolled(START.create(), "4.2"), sim.upgrade({"transaction.version": 2}))
    narrow = replace(
        sim.release_build("4.2"), supported={**sim.release_build("4.2").supported, "transaction.version": (0, 1)}
    )
    refused = after(replace(new, spec=replace(START, builds={"narrow": narrow})), sim.Roll(1, "narrow"))
    assert refused.nodes[1].status == "refused"
    assert refused.nodes[1].reason == (
        "Unable to register because the broker does not support finalized version 2 of transaction.version. The broker "
        "wants a version between 0 and 1, inclusive."
    )
    assert not refused.nodes[1].accepts_connections("broker")
    assert refused.listed_brokers[1] is True
    assert refused.registered[1] == new.registered[1]
    assert after(refused, sim.Stop(1), sim.Start(1, "4.2")).listed_brokers[1] is False


def test_a_broker_that_does_not_know_a_finalized_feature_is_not_let_in_until_the_level_goes_back() -> None:
    """The process of the broker runs, and repeats the registration."""
    new = after(rolled(START.create(), "4.2"), sim.upgrade({"group.version": 1}))
    assert new.levels == {"metadata.version": 21, "group.version": 1}
    refused = after(new, sim.Roll(1, "3.9"))
    assert refused.nodes[1].status == "refused"
    assert refused.nodes[1].reason.endswith("of group.version. The broker wants a version between 0 and 0, inclusive.")
    assert after(refused, sim.Tick(119), sim.downgrade({"group.version": 0})).nodes[1].status == "running"
    assert after(refused, sim.Tick(120), sim.downgrade({"group.version": 0})).nodes[1].status == "died"


def test_a_broker_that_does_not_know_the_metadata_version_dies() -> None:
    """The broker ends when it reads the log; it is fenced, and stays registered."""
    new = after(rolled(START.create(), "4.2"), sim.upgrade({"metadata.version": 29}))
    dead = after(new, sim.Roll(1, "3.9"))
    assert (dead.nodes[1].status, dead.nodes[1].reason) == ("died", "No MetadataVersion with feature level 29")
    assert dead.listed_brokers[1] is True
    assert dead.registered[1] == new.registered[1]
    assert after(dead, sim.Start(1, "4.2")).listed_brokers[1] is False


def test_a_controller_that_cannot_read_the_log_dies() -> None:
    """The controller ends at its start, or when it reads a level after a partition."""
    new = after(rolled(START.create(), "4.2"), sim.upgrade({"metadata.version": 29}))
    dead = after(new, sim.Roll(3002, "3.9"))
    assert (dead.nodes[3002].status, dead.active) == ("died", 3000)
    assert dead.nodes[3002].reason == "it cannot replay level 29 of metadata.version: it supports 1-21"
    # Below 3.7-IV0 controllers do not register: the active one does not know that one which is cut off is too old.
    unknowing = after(
        sim.KRaft("3.3"), sim.Partition((3002,)), *(sim.Roll(node, "3.9") for node in (3000, 3001, 1, 2, 3))
    )
    agreed = after(unknowing, sim.upgrade({"metadata.version": 8}))
    assert agreed.nodes[3002].status == "running"
    assert (
        after(agreed, sim.Heal()).nodes[3002].reason == "it cannot replay level 8 of metadata.version: it supports 1-7"
    )


def test_a_roll_back_before_the_upgrade_is_finalized_is_free() -> None:
    """The old build supports every finalized level."""
    there = rolled(START.create(), "4.2")
    back = rolled(there, "3.9")
    assert all(node.status == "running" for node in back.nodes.values())
    assert back.levels == START.create().levels


def test_apis_that_are_forwarded_are_those_of_the_controller_too() -> None:
    """Old controllers limit forwarded APIs and no other APIs; without a controller no API is limited."""
    mixed = after(START, sim.Roll(1, "4.2"))
    own = mixed.build(1).broker_apis
    assert own[UPDATE_FEATURES] == (0, 2)
    assert mixed.node_state(1).api_ranges[UPDATE_FEATURES] == (0, 1)
    assert mixed.node_state(1).api_ranges[TXN_OFFSET_COMMIT] == own[TXN_OFFSET_COMMIT] == (0, 5)
    assert after(mixed, sim.Partition((1,))).node_state(1).api_ranges == own


def test_brokers_join_and_leave() -> None:
    """A broker that left is not listed; voters cannot leave."""
    more = after(START, sim.Join(4, "4.2"))
    assert more.listed_brokers == dict.fromkeys((1, 2, 3, 4), False)
    assert more.registered[4]["metadata.version"] == (7, 29)
    assert 4 not in after(more, sim.Leave(4)).nodes
    with pytest.raises(sim.ScriptError, match="is a voter"):
        after(START, sim.Leave(3000))
    with pytest.raises(sim.ScriptError, match="there is a node 1 already"):
        after(START, sim.Join(1, "3.9"))


def test_a_rebuilt_cluster_is_another_one() -> None:
    """The cluster has another id, and the first levels and epochs."""
    there = after(START, sim.Tick(500), sim.downgrade({"metadata.version": 19}), sim.Roll(1, "4.2"))
    rebuilt = after(there, sim.Rebuild())
    assert rebuilt.cluster_id != there.cluster_id
    assert len(rebuilt.cluster_id) == 22
    assert (rebuilt.levels, rebuilt.offset) == (START.create().levels, START.create().offset)


@pytest.mark.parametrize("controllers", [0, 1, 3])
def test_combined_nodes_are_brokers_and_voters(controllers: int) -> None:
    """In combined mode, brokers are the voters, and a majority of them is a quorum."""
    start = sim.KRaft("4.2", brokers=3, controllers=controllers)
    assert start.create().voters == ((1, 2, 3) if not controllers else tuple(range(3000, 3000 + controllers)))
    combined = after(sim.KRaft("4.2", brokers=3, controllers=0), sim.Stop(1), sim.Stop(2))
    assert combined.active is None
    assert after(combined, sim.Start(1)).nodes[1].status == "running"


def test_a_thousand_brokers_are_rolled() -> None:
    """All nodes are rolled one by one before the operator finalizes."""
    large = rolled(sim.KRaft("3.9", brokers=1000).create(), "4.2")
    assert sim.apply(large, sim.upgrade({"group.version": 1})).response.error_code == 0
    assert set(large.listed_brokers.values()) == {False}


@pytest.mark.parametrize("node_id", [9, 2999])
@pytest.mark.parametrize(
    "event", [sim.Stop, sim.Kill, sim.Start, sim.Pause, sim.Resume, sim.Lag, sim.CatchUp, sim.Leave]
)
def test_an_unknown_node_is_an_error(event, node_id: int) -> None:
    """A script with a misspelled node would test nothing."""
    with pytest.raises(sim.ScriptError, match=f"there is no node {node_id}, only"):
        sim.apply(START.create(), event(node_id))


def test_an_unknown_build_is_an_error() -> None:
    """A build without controllers is an error too, and so is a negative time."""
    for event in (sim.Roll(1, "5.0"), sim.Start(1, "7.1"), sim.Join(4, "0.9")):
        with pytest.raises(sim.ScriptError, match="no broker of release"):
            after(START, sim.Stop(1), event)
    with pytest.raises(sim.ScriptError, match=r"2\.8 has no KRaft controllers"):
        sim.KRaft("2.8").create()
    with pytest.raises(sim.ScriptError, match="time does not go back"):
        after(START, sim.Tick(-1))


def test_events_that_change_nothing_are_no_error() -> None:
    """A stopped node may be stopped again, so that a script stays valid without some of its events."""
    stopped = after(START, sim.Stop(1))
    assert after(stopped, sim.Stop(1), sim.Kill(1), sim.Pause(1), sim.Resume(1), sim.Lag(1), sim.CatchUp(1)) == stopped
    assert after(START, sim.Start(1), sim.Resume(1)) == START.create()


def test_the_same_script_gives_the_same() -> None:
    """The steps of two runs are equal, and later events do not change earlier clusters."""
    script = sim.Script(
        START, (sim.Roll(1, "4.2"), sim.upgrade({"metadata.version": 25}), sim.Kill(3000), sim.Tick(30))
    )
    first, second = sim.run(script), sim.run(script)
    assert first == second
    kept = pickle.dumps([step.cluster for step in first])
    after(first[0].cluster, sim.Rebuild(), sim.Tick(3))
    assert pickle.loads(kept) == [step.cluster for step in first]
    assert eval(repr(script), dict(vars(sim))) == script
