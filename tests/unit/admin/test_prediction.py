"""What a controller will say, rule by rule (``FeatureControlManager`` of Apache Kafka 4.3.1 and 3.9.2).

The texts of ``predictions.txt`` are those that real controllers sent; tests/live/test_admin_live.py asks some again.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import sections

from featuregate.admin.kraft_rules import Controller, RequestedUpdate, rule_problems
from featuregate.admin.prediction import ClusterState, predict
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.catalog import features
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange

SUPPORTED = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
FINALIZED = {"metadata.version": 29, "transaction.version": 2}


def node(node_id: int, supported: Mapping[str, tuple[int, int]] | None = None, *, role: str = "broker") -> BrokerAnswer:
    ranges = {name: SupportedRange(*levels) for name, levels in (supported or SUPPORTED).items()}
    return BrokerAnswer(node_id=node_id, host=f"n{node_id}", port=9, role=role, supported=ranges, asked_version=4)  # type: ignore[arg-type]  # broker or controller


def cluster_state(**changed: object) -> ClusterState:
    base = ClusterState(finalized=FINALIZED, brokers=(node(1), node(2)), speaks=ApiRange(0, 2))
    return replace(base, **changed)  # type: ignore[arg-type]  # as the test says


def before_4_0(level: int) -> ClusterState:
    brokers = (node(1, {"metadata.version": (1, 21)}),)
    return ClusterState(finalized={"metadata.version": level}, brokers=brokers, speaks=ApiRange(0, 1))


OF_3_3 = node(8, {"metadata.version": (1, 14), "transaction.version": (0, 4)}, role="controller")
OF_3_2 = node(9, {"metadata.version": (1, 13)}, role="controller")


def of_3_3(broker: BrokerAnswer) -> ClusterState:
    return replace(before_4_0(7), brokers=(broker,), controllers=(OF_3_3,), leader=8)


CONTROLLER = {"controllers": (node(8, role="controller"),), "leader": 8}


def at(release_level: int, levels: Mapping[str, int], *, newest: int = 2) -> ClusterState:
    supported = {**SUPPORTED, "metadata.version": (7, release_level)}
    ranges = {57: ApiRange(0, newest)}
    broker = replace(node(1, supported), api_ranges=ranges)
    leader = replace(node(8, supported, role="controller"), api_ranges=ranges)
    return ClusterState(
        finalized=levels, brokers=(broker,), controllers=(leader,), leader=8, speaks=ApiRange(0, newest)
    )


def silent(node_id: int, role: str = "broker") -> BrokerAnswer:
    return replace(node(node_id, role=role), failure=Failure("TimedOut", "said nothing"))


def beside(supported: tuple[int, int] | None) -> ClusterState:
    other = {name: said for name, said in SUPPORTED.items() if name != "group.version"}
    if supported is not None:
        other["group.version"] = supported
    return cluster_state(brokers=(node(1, {**SUPPORTED, "group.version": (0, 9)}), node(2, other)))


def registered(metadata_level: int) -> ClusterState:
    controllers = (node(8, role="controller"), node(9, {"metadata.version": (7, 29)}, role="controller"))
    return cluster_state(finalized={"metadata.version": metadata_level}, controllers=controllers, leader=8)


def voting(voters: set[int] | None, other: BrokerAnswer) -> ClusterState:
    quorum = Quorum(voters=None if voters is None else frozenset(voters))
    return cluster_state(controllers=(node(8, role="controller"), other), leader=8, quorum=quorum)


def with_own_controller(where: ClusterState) -> ClusterState:
    return replace(where, controllers=(replace(where.brokers[0], node_id=8, role="controller"),), leader=8)


def with_zookeeper(speaks: int) -> ClusterState:
    brokers = (node(1, {"group_coordinator": (1, 2)}),)
    return ClusterState(finalized={}, brokers=brokers, leader=1, speaks=ApiRange(0, speaks))


def metadata(level: int, **changed: object) -> ClusterState:
    return cluster_state(finalized={"metadata.version": level}, **changed)


ASKED, OF_3_9 = node(9, role="controller"), node(8, {"metadata.version": (1, 21)}, role="controller")
OF_4_0 = node(9, {**SUPPORTED, "metadata.version": (7, 25)}, role="controller")
OF_4_1 = node(9, {**SUPPORTED, "metadata.version": (7, 27)}, role="controller")
POOR = node(8, {"metadata.version": (7, 29)}, role="controller")
ELR, KRAFT, GROUP = (upgrade({f"{name}.version": 1}) for name in ("eligible.leader.replicas", "kraft", "group"))
SCENES = {
    "what is allowed": (GROUP, cluster_state(**CONTROLLER)),
    **{
        f"the level of now by {kind}": ((Update("transaction.version", 2, kind),), cluster_state())  # type: ignore[arg-type]  # one of three
        for kind in ("upgrade", "safe_downgrade", "unsafe_downgrade")
    },
    "a broker supports less": (upgrade({"group.version": 2}), beside((0, 1))),
    "a broker supports one level": (upgrade({"group.version": 2}), beside((1, 1))),
    "a broker supports higher levels alone": (GROUP, beside((2, 3))),
    "a broker supports level 0 alone": (GROUP, beside((0, 0))),
    "a broker does not have the feature": (GROUP, beside(None)),
    "a broker is silent": (GROUP, cluster_state(brokers=(node(1), silent(2)))),
    "a refusal outweighs a silent broker": (upgrade({"group.version": 9}), cluster_state(brokers=(silent(1), node(2)))),
    "a broker hides features": (
        GROUP,
        cluster_state(brokers=(replace(node(2, {"metadata.version": (1, 21)}), asked_version=3),)),
    ),
    "the active controller speaks first": (
        upgrade({"metadata.version": 30}),
        cluster_state(brokers=(node(1, {"metadata.version": (7, 28)}),), controllers=(POOR,), leader=8),
    ),
    "before 3.7-IV0 other controllers do not register": (upgrade({"metadata.version": 30}), registered(14)),
    "from 3.7-IV0 on they count (KIP-919)": (upgrade({"metadata.version": 30}), registered(15)),
    "without the levels none is known to": (
        upgrade({"metadata.version": 30}),
        replace(registered(15), finalized=None),
    ),
    "down by an upgrade": (upgrade({"transaction.version": 1}), cluster_state()),
    "up by a downgrade": (downgrade({"group.version": 1}), cluster_state()),
    "levels are unknown": (GROUP, cluster_state(finalized=None)),
    "down over no level that changed records": (downgrade({"metadata.version": 27}), metadata(29)),
    "down to one that did (KIP-778)": (downgrade({"metadata.version": 23}), metadata(27)),
    "down over one that did": (downgrade({"metadata.version": 22}), metadata(27)),
    "down from one that did": (downgrade({"metadata.version": 29}), metadata(30)),
    "unsafe is refused too (KAFKA-13896)": (downgrade({"metadata.version": 22}, unsafe=True), metadata(27)),
    "3.9 begins otherwise": (downgrade({"metadata.version": 12}), before_4_0(21)),
    "3.9 refuses unsafe too": (downgrade({"metadata.version": 12}, unsafe=True), before_4_0(21)),
    "3.9 sets no level without feature records": (downgrade({"metadata.version": 3}), before_4_0(5)),
    "a level on the way is newer than the table": (
        downgrade({"metadata.version": 35}),
        metadata(40, brokers=(node(1, {"metadata.version": (7, 40)}),)),
    ),
    "a dependency is not met (KIP-1022)": (ELR, metadata(22, **CONTROLLER)),
    "any level needs 3.3-IV3": (GROUP, metadata(6, **CONTROLLER)),
    "which is finalized nowhere": (GROUP, cluster_state(finalized={}, **CONTROLLER)),
    "level 0 does not": (disable("group.version"), metadata(6, **CONTROLLER)),
    "the same request meets it": ((*ELR, *upgrade({"metadata.version": 23})), metadata(22, **CONTROLLER)),
    "3.9 asks for no dependency": (
        ELR,
        metadata(
            20,
            speaks=ApiRange(0, 1),
            controllers=(
                node(8, {"metadata.version": (1, 21), "eligible.leader.replicas.version": (0, 1)}, role="controller"),
            ),
            leader=8,
        ),
    ),
    "an unknown feature is disabled": (disable("bogus"), cluster_state()),
    "an unknown feature is disabled in 3.9": (
        disable("bogus"),
        replace(before_4_0(20), controllers=(OF_3_9,), leader=8),
    ),
    "a level is newer than the table": (
        upgrade({"group.version": 5}),
        cluster_state(brokers=(node(1, {**SUPPORTED, "group.version": (0, 7)}),)),
    ),
    "the voter supports kraft.version": (KRAFT, voting({8}, ASKED)),
    "each voter does (KAFKA-16538)": (KRAFT, voting({8, 9}, ASKED)),
    "a voter is silent": (KRAFT, voting({8, 9}, silent(9, "controller"))),
    "a voter of 4.0 does not tell the leader": (KRAFT, voting({8, 9}, OF_4_0)),
    "one of 4.1 does": (KRAFT, voting({8, 9}, OF_4_1)),
    "a voter that no controller lists": (KRAFT, voting({8, 9, 10}, ASKED)),
    "voters are not known": (KRAFT, voting(None, ASKED)),
    "kraft.version is there": (KRAFT, cluster_state(finalized={**FINALIZED, "kraft.version": 1})),
    "kraft.version goes down": (
        downgrade({"kraft.version": 0}),
        cluster_state(finalized={**FINALIZED, "kraft.version": 1}),
    ),
    "kraft.version is down": (downgrade({"kraft.version": 0}), cluster_state()),
    "before 2.7": (upgrade({"a": 1}), cluster_state(speaks=None)),
    "before 3.7 a broker runs its highest level": (
        upgrade({"metadata.version": 14}),
        metadata(
            11,
            speaks=ApiRange(0, 1),
            brokers=(node(1, {"metadata.version": (1, 14)}),),
            controllers=(node(8, {"metadata.version": (1, 14)}, role="controller"),),
            leader=8,
        ),
    ),
    "with ZooKeeper": (upgrade({"group_coordinator": 1}), with_zookeeper(0)),
    "with ZooKeeper, and upgrade types": (upgrade({"group_coordinator": 1}), with_zookeeper(1)),
    "kraft.version in 4.0": (KRAFT, at(25, {"metadata.version": 25})),
    "it depends on 3.9-IV0 there": (KRAFT, at(25, {"metadata.version": 20})),
    "not in 4.1, where the quorum checks it": (KRAFT, at(27, {"metadata.version": 20})),
    "4.0 takes both in one request": (
        upgrade({"kraft.version": 1, "metadata.version": 21}),
        at(25, {"metadata.version": 20}),
    ),
    "4.0 lowers it, which it counts as 0": (
        disable("kraft.version"),
        at(25, {"metadata.version": 25, "kraft.version": 1}),
    ),
    "4.0 refuses the level of now, which it counts as 0": (
        downgrade({"kraft.version": 1}),
        at(25, {"metadata.version": 25, "kraft.version": 1}),
    ),
    **{
        f"{release} disables {name}": (disable(name), at(level, {"metadata.version": 25}))
        for release, level in (("4.0", 25), ("4.1", 27))
        for name in ("share.version", "streams.version")
    },
    **{
        f"words of {release}": (
            downgrade({"metadata.version": 10}),
            at(level, {"metadata.version": 14}, newest=1 if level < 25 else 2),
        )
        for release, level in (("3.3.2", 14), ("3.9.2", 21), ("4.0.0", 25), ("4.1.1", 27), ("4.2.0", 29))
    },
    "3.3 refuses to disable what a broker lacks": (
        disable("bogus"),
        with_own_controller(replace(before_4_0(7), brokers=(node(1, {"metadata.version": (1, 14)}),))),
    ),
    "3.9 does not": (disable("bogus"), with_own_controller(before_4_0(7))),
    "3.3 names both levels of a broker": (
        upgrade({"transaction.version": 1}),
        of_3_3(node(1, {"metadata.version": (1, 14), "transaction.version": (2, 4)})),
    ),
    "3.3 asks the controllers that it is connected to": (
        upgrade({"metadata.version": 14}),
        replace(of_3_3(node(1, {"metadata.version": (1, 14)})), controllers=(OF_3_3, OF_3_2)),
    ),
    "a broker of 3.3 is silent": (upgrade({"transaction.version": 1}), of_3_3(silent(1))),
    "controllers that were not asked may differ": (
        disable("share.version"),
        replace(at(25, {"metadata.version": 25}), controllers=(), leader=None),
    ),
}
SAID = sections(__file__, "predictions.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_an_update_is_judged_in_the_words_of_the_controller(scene: str) -> None:
    """With the level of now; what is accepted has no words."""
    updates, where = SCENES[scene]
    said = (f"{one.judgement}, now {one.current}: {one.text}".strip() for one in predict(updates, where))
    assert "\n".join(said) == SAID[scene]


def test_what_featuregate_does_not_send_is_refused_by_every_release() -> None:
    """A fake controller may be asked by any client: for a type that there is not, or a level below 0."""
    controller = Controller(release=(4, 2), own=None, brokers=(), levels={"metadata.version": 25})
    said = next(rule_problems(RequestedUpdate("group.version", -1, "sideways"), controller, {})).text
    assert said.endswith("-1 for feature group.version. The controller does not support the given upgrade type.")
    said = next(rule_problems(RequestedUpdate("group.version", -1, "upgrade"), controller, {})).text
    assert said.endswith("-1 for feature group.version. A feature version cannot be less than 0.")


@pytest.mark.parametrize(("newest", "whole"), [(2, True), (1, False)])
def test_whether_it_is_all_or_nothing_the_active_controller_knows_best(newest: int, *, whole: bool) -> None:
    """During a rolling upgrade the release of the controller decides, not that of the broker that forwards."""
    leader = replace(node(8, role="controller"), api_ranges={57: ApiRange(0, newest)})
    for speaks in (1, 2):
        where = cluster_state(controllers=(leader,), leader=8, speaks=ApiRange(0, speaks))
        assert where.all_or_nothing is whole


NAMES = st.sampled_from([*features(), "bogus"])
KINDS = st.sampled_from(["upgrade", "safe_downgrade", "unsafe_downgrade"])
LEVELS = st.integers(0, 40)
RANGES = st.dictionaries(NAMES, st.tuples(st.integers(-1, 9), st.integers(-1, 40)))


@given(
    wanted=st.lists(st.tuples(NAMES, LEVELS, KINDS), max_size=4),
    finalized=st.none() | st.dictionaries(NAMES, LEVELS),
    brokers=st.lists(RANGES, max_size=3),
    controllers=st.lists(RANGES, max_size=2),
    speaks=st.none() | st.integers(0, 9),
)
def test_every_update_of_every_cluster_is_judged(
    wanted: list[tuple[str, int, str]],
    finalized: dict[str, int] | None,
    brokers: list[dict[str, tuple[int, int]]],
    controllers: list[dict[str, tuple[int, int]]],
    speaks: int | None,
) -> None:
    updates = [Update(name, max(level, kind == "upgrade"), kind) for name, level, kind in wanted]  # type: ignore[arg-type]  # one of three
    where = ClusterState(
        finalized=finalized,
        brokers=tuple(node(at, ranges) for at, ranges in enumerate(brokers)),
        controllers=tuple(node(at, ranges, role="controller") for at, ranges in enumerate(controllers)),
        leader=0,
        speaks=None if speaks is None else ApiRange(0, speaks),
    )
    for prediction in predict(updates, where):
        assert bool(prediction.text) == (prediction.judgement != "accepted")
