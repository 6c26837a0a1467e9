"""Updates of finalized levels: where the admin sends them, what it returns, and what it never sends twice."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import HANG_UP, SILENCE, ScriptedCluster, ScriptedNode
from transcripts import sections

from featuregate import Admin
from featuregate.admin.outcomes import Outcome
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    DiscoveryError,
    InvalidUpdate,
    LevelsNotReached,
    LocalWireError,
    TimedOut,
    UnsupportedVersion,
    UpdateRefused,
    UpdateUncertain,
)
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType

GROUP = upgrade({"group.version": 1})
NOT_CONTROLLER = UpdateFeaturesResponse(error_code=41)
TOLD = sections(__file__, "outcomes.txt")


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(3) as made:
        yield made


def test_an_update_goes_to_the_controller_and_is_applied(cluster: ScriptedCluster) -> None:
    """The admin sends one request, in the version that controllers of all releases from 3.3 on have."""
    outcome = Admin(cluster.bootstrap).update(GROUP)
    (received,) = cluster.received
    assert (received.node_id, received.version, received.request.validate_only) == (1, 1, False)
    assert [(one.feature, one.max_version_level, one.upgrade_type) for one in received.request.updates] == [
        ("group.version", 1, 1)
    ]
    assert (outcome.done, outcome.cluster_id, outcome.read_back) == (True, "scripted", False)


@pytest.mark.parametrize(
    ("updates", "number"),
    [
        (upgrade({"a": 1}), 1),
        (downgrade({"a": 1}), 2),
        (disable("a"), 2),
        (downgrade({"a": 1}, unsafe=True), 3),
        (disable("a", unsafe=True), 3),
    ],
)
def test_each_direction_has_its_number(cluster: ScriptedCluster, updates: tuple, number: int) -> None:
    """The numbers are the upgrade types of KIP-778."""
    Admin(cluster.bootstrap).update(updates)
    assert cluster.received[0].request.updates[0].upgrade_type == number


def test_a_dry_run_changes_nothing(cluster: ScriptedCluster) -> None:
    outcome = Admin(cluster.bootstrap).dry_run(upgrade({"share.version": 5}))
    assert outcome.dry_run
    assert cluster.received[0].request.validate_only
    assert cluster.nodes[1].finalized["share.version"] != 5


def test_controllers_may_be_asked_instead_of_brokers() -> None:
    with ScriptedCluster(3, role="controller") as cluster:
        cluster.controller_id = 2
        Admin({"bootstrap.controllers": cluster.bootstrap}).update(GROUP)
    assert [received.node_id for received in cluster.received] == [2]


@pytest.mark.parametrize("gone", [False, True])
def test_an_update_follows_the_controller_that_has_moved(cluster: ScriptedCluster, *, gone: bool) -> None:
    """It is found though the bootstrap broker is gone: the admin also asks the nodes that an earlier answer listed."""

    def moved(request: UpdateFeaturesRequest, node: ScriptedNode) -> UpdateFeaturesResponse:
        if node.node_id == 1:
            cluster.controller_id = 3
            if gone:
                node.api_ranges[18] = (0, -1)  # from here on the node refuses every client
            return NOT_CONTROLLER
        return cluster.agree(request, node)

    cluster.says = moved
    assert Admin(cluster.nodes[1].address).update(GROUP).done
    assert [received.node_id for received in cluster.received] == [1, 3]


def test_the_search_for_a_controller_ends_after_the_timeout(cluster: ScriptedCluster) -> None:
    """A dry run then raises Kafka's own NOT_CONTROLLER."""
    cluster.says = lambda *_: NOT_CONTROLLER
    with pytest.raises(BrokerError, match="NOT_CONTROLLER"):
        Admin(cluster.bootstrap, timeout=2).dry_run(GROUP)
    assert 1 < len(cluster.received) < 50


@pytest.mark.parametrize("gone", [False, True])
def test_an_update_that_only_met_not_controller_is_read_back(cluster: ScriptedCluster, *, gone: bool) -> None:
    """A controller that loses its leadership answers so, although its successor may still commit the record."""
    spoken = cluster.nodes[1].api_ranges[18]
    timer = threading.Timer(1.0 if gone else 0.0, let_nodes_speak, (cluster, spoken))

    def resign(request: UpdateFeaturesRequest, node: ScriptedNode) -> UpdateFeaturesResponse:
        cluster.agree(request, node)
        if gone:
            let_nodes_speak(cluster, (0, -1))
        if len(cluster.received) == 1:
            timer.start()
        return NOT_CONTROLLER

    cluster.says = resign
    outcome = Admin(cluster.bootstrap, timeout=0.6, read_back=30).update(upgrade({"share.version": 7}))
    timer.join()
    assert (outcome.done, outcome.read_back) == (True, True)


def let_nodes_speak(cluster: ScriptedCluster, versions: tuple[int, int]) -> None:
    """Let every node serve these versions of ApiVersions; with ``(0, -1)`` a node refuses every client."""
    for node in cluster.nodes.values():
        node.api_ranges[18] = versions


def test_a_controller_that_cannot_be_reached_is_looked_for_again(cluster: ScriptedCluster) -> None:
    """The admin has sent no update, so it cannot apply one twice."""
    cluster.shut(1)
    timer = threading.Timer(0.3, setattr, (cluster, "controller_id", 2))
    timer.start()
    assert Admin(cluster.bootstrap).update(GROUP).done
    timer.join()
    assert [received.node_id for received in cluster.received] == [2]


# ------------------------------------------------------------------ refusals


def results(message: str | None = None, **errors: int) -> UpdateFeaturesResponse:
    told = (FeatureResult(feature=name, error_code=code, error_message=message) for name, code in errors.items())
    return UpdateFeaturesResponse(results=tuple(told))


ANSWERED = {
    # from 4.0 on a controller applies all updates of a request or none
    "all are refused": ({"a": 1, "b": 2}, UpdateFeaturesResponse(error_code=95, error_message="no")),
    "the code alone is told in Kafka's words": ({"a": 1}, UpdateFeaturesResponse(error_code=31)),
    # before, each stands by itself
    "one is refused": ({"a": 1, "b": 2}, results("no", a=0, b=95)),
    "the word NONE is no error": ({"a": 1}, results("NONE", a=0)),
    "no result is uncertain": ({"a": 1, "b": 2}, results(a=0)),
    "what is uncertain is read back": ({"a": 1, "b": 2, "told": 7}, results("no", a=0, b=95, told=7)),
    "and stays so where it is not there": ({"a": 1, "b": 2, "c": 3}, results("no", a=0, b=95, c=7)),
}


@pytest.mark.parametrize("scene", ANSWERED)
def test_each_answer_of_a_controller_is_told(cluster: ScriptedCluster, scene: str) -> None:
    levels, answer = ANSWERED[scene]

    def says(*_: object) -> UpdateFeaturesResponse:
        cluster.apply({"told": 7})
        return answer

    cluster.says = says
    if answer.results:
        cluster.speak(0, 1)
    assert str(what_came_of(Admin(cluster.bootstrap, read_back=2.0), upgrade(levels))) == TOLD[scene]


# ------------------------------------------------------------------ versions


@pytest.mark.parametrize(
    ("updates", "kind"), [(GROUP, None), (downgrade({"group.version": 0}), UpgradeType.SAFE_DOWNGRADE)]
)
def test_an_update_goes_over_v0(
    cluster: ScriptedCluster, updates: tuple[Update, ...], kind: UpgradeType | None
) -> None:
    """Kafka 2.7 to 3.2 serve no newer version, and check the flag of a downgrade."""
    cluster.speak(0, 0)
    cluster.says = lambda *_: UpdateFeaturesResponse(results=(FeatureResult(feature="group.version"),))
    assert Admin(cluster.bootstrap).update(updates).done
    assert cluster.received[0].version == 0
    assert kind in {None, cluster.received[0].request.updates[0].upgrade_type}


def test_a_dry_run_over_v0_is_not_sent(cluster: ScriptedCluster) -> None:
    """The controller would change the levels."""
    cluster.speak(0, 0)
    with pytest.raises(LocalWireError, match="v0 has no dry run"):
        Admin(cluster.bootstrap).dry_run(GROUP)
    assert cluster.received == []


def test_a_cluster_that_is_too_old_is_told(cluster: ScriptedCluster) -> None:
    """The error has the message of Kafka's Admin client."""
    for node in cluster.nodes.values():
        del node.api_ranges[57]
    with pytest.raises(UnsupportedVersion, match="The node does not support UpdateFeatures"):
        Admin(cluster.bootstrap).update(GROUP)


# ------------------------------------------------------------------ lost answers


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_answer_is_read_back(cluster: ScriptedCluster, *, applied: bool) -> None:
    """The admin never repeats the update, which might undo a change that another operator made meanwhile."""

    def lose(request: UpdateFeaturesRequest, node: ScriptedNode) -> str:
        if applied:
            cluster.agree(request, node)
        return HANG_UP

    cluster.says = lose
    admin = Admin(cluster.bootstrap)
    updates = upgrade({"share.version": 7})
    if applied:
        outcome = admin.update(updates)
        assert (outcome.done, outcome.read_back) == (True, True)
    else:
        with pytest.raises(UpdateUncertain, match="may or may not have been applied") as caught:
            Admin(cluster.bootstrap, read_back=2.0).update(updates)
        assert caught.value.seen == {"share.version": cluster.nodes[1].finalized["share.version"]}
        assert isinstance(caught.value.__cause__.cause, ConnectionLost)
    assert len(cluster.received) == 1


TELLS_NOTHING = {
    -1: "UNKNOWN_SERVER_ERROR",
    7: "REQUEST_TIMED_OUT",
    13: "NETWORK_EXCEPTION",
    96: "FEATURE_UPDATE_FAILED",
    999: "UNKNOWN_CODE_999",
}


@pytest.mark.parametrize("code", TELLS_NOTHING)
@pytest.mark.parametrize("applied", [True, False])
def test_invariant_11_an_answer_that_does_not_tell_is_read_back(
    cluster: ScriptedCluster, code: int, *, applied: bool
) -> None:
    """The controller may have written the record and then timed out while it waited for the quorum."""

    def fail(request: UpdateFeaturesRequest, node: ScriptedNode) -> UpdateFeaturesResponse:
        if applied:
            cluster.agree(request, node)
        return UpdateFeaturesResponse(error_code=code)

    cluster.says = fail
    admin = Admin(cluster.bootstrap, read_back=20.0 if applied else 0.2)
    if applied:
        outcome = admin.update(upgrade({"share.version": 7}))
        assert (outcome.done, outcome.read_back) == (True, True)
        assert outcome.features[0].answer.name == TELLS_NOTHING[code]
    else:
        with pytest.raises(UpdateUncertain, match=f"the controller answered {TELLS_NOTHING[code]}") as caught:
            admin.update(upgrade({"share.version": 7}))
        assert caught.value.seen["share.version"] != 7
        assert caught.value.outcome.features[0].error.code == code
    assert len(cluster.received) == 1


def test_all_that_leaves_something_open_is_told_once(cluster: ScriptedCluster) -> None:
    codes = {"a": 7, "b": -1, "c": 7}
    results = tuple(FeatureResult(feature=name, error_code=code, error_message="x.") for name, code in codes.items())
    cluster.speak(0, 1)
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    said = r"answered REQUEST_TIMED_OUT \(error 7\): x and UNKNOWN_SERVER_ERROR \(error -1\): x(?! and)"
    with pytest.raises(UpdateUncertain, match=said):
        Admin(cluster.bootstrap, read_back=0.2).update(upgrade(dict.fromkeys(codes, 1)))


OUTCOMES = st.sampled_from([(0, True), (95, False), (31, False)]) | st.tuples(
    st.sampled_from(sorted(TELLS_NOTHING)), st.booleans()
)
"""A code, and whether the level was changed: success changes it, a refusal does not, other codes may do either."""


@pytest.mark.slow
@given(st.lists(OUTCOMES, min_size=1, max_size=3))
@settings(max_examples=40)
def test_invariant_11_what_an_update_is_told_to_have_done_is_what_the_cluster_shows(
    outcomes: list[tuple[int, bool]],
) -> None:
    """Done means changed, refused means not changed, and any other answer of the controller is uncertain."""
    said = {f"f{at}": code for at, (code, _) in enumerate(outcomes)}
    applied = {f"f{at}": 1 for at, (_, changed) in enumerate(outcomes) if changed}

    def answer(*_: object) -> UpdateFeaturesResponse:
        cluster.apply(applied)
        results = (FeatureResult(feature=name, error_code=code) for name, code in said.items())
        return UpdateFeaturesResponse(results=tuple(results))

    with ScriptedCluster(1) as cluster:
        cluster.speak(0, 1)
        cluster.says = answer
        came = what_came_of(Admin(cluster.bootstrap, read_back=0.0), upgrade(dict.fromkeys(said, 1)))
        if isinstance(came, UpdateUncertain):
            assert set(came.wanted) == {name for name, code in said.items() if code in TELLS_NOTHING}
            assert any(name not in applied or came.seen[name] is None for name in came.wanted)
        else:
            assert {one.update.feature for one in came.features if one.done} == set(applied)


def what_came_of(admin: Admin, updates: tuple[Update, ...]) -> Outcome | UpdateUncertain:
    try:
        return admin.update(updates)
    except UpdateRefused as refused:
        return refused.outcome
    except UpdateUncertain as uncertain:
        return uncertain


def test_a_lost_answer_that_cannot_be_read_back_is_uncertain(cluster: ScriptedCluster) -> None:
    cluster.says = cluster.lose
    with pytest.raises(UpdateUncertain, match=r"connection lost while .*; then no broker answered: ") as caught:
        Admin(cluster.bootstrap, read_back=0.2).update(GROUP)
    assert (caught.value.wanted, caught.value.seen) == ({"group.version": 1}, {"group.version": None})
    assert caught.value.outcome is None


def test_reading_back_outlasts_a_cluster_that_is_down(cluster: ScriptedCluster) -> None:
    spoken = cluster.nodes[1].api_ranges[18]
    timer = threading.Timer(0.5, let_nodes_speak, (cluster, spoken))

    def lose(request: UpdateFeaturesRequest, node: ScriptedNode) -> str:
        cluster.agree(request, node)
        let_nodes_speak(cluster, (0, -1))
        timer.start()
        return HANG_UP

    cluster.says = lose
    outcome = Admin(cluster.bootstrap, read_back=30).update(GROUP)
    timer.join()
    assert (outcome.done, outcome.read_back) == (True, True)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (HANG_UP, ConnectionLost, "connection lost"),
        (UpdateFeaturesResponse(error_code=7), UpdateRefused, "REQUEST_TIMED_OUT"),
    ],
)
def test_a_dry_run_has_nothing_to_read_back(
    cluster: ScriptedCluster, answer: object, error: type[Exception], words: str
) -> None:
    """It changes no level, so a timeout counts as a refusal."""
    cluster.says = lambda *_: answer
    with pytest.raises(error, match=words):
        Admin(cluster.bootstrap).dry_run(GROUP)


@pytest.mark.timeout(20)
def test_a_silent_controller_costs_the_timeout_of_the_admin(cluster: ScriptedCluster) -> None:
    """The request was sent, so the update is uncertain; the timeout of other requests does not apply."""
    cluster.says = lambda *_: SILENCE
    config = {"bootstrap.servers": cluster.bootstrap, "request.timeout.ms": 120_000}
    with pytest.raises(UpdateUncertain, match="timed out"):
        Admin(config, timeout=0.5, read_back=0.2).update(upgrade({"share.version": 9}))


# ------------------------------------------------------------------ waiting


def test_every_broker_is_waited_for(cluster: ScriptedCluster) -> None:
    cluster.apply({"group.version": 7})
    cluster.nodes[2].finalized["group.version"] = 1
    timer = threading.Timer(0.3, cluster.apply, ({"group.version": 7},))
    timer.start()
    view = Admin(cluster.bootstrap).wait_for_levels({"group.version": 7}, 30)
    timer.join()
    assert {broker.finalized["group.version"] for broker in view.brokers} == {7}


def test_brokers_that_lag_are_named(cluster: ScriptedCluster) -> None:
    cluster.apply({"group.version": 7})
    cluster.nodes[1].finalized["group.version"] = 1
    cluster.shut(2)
    cluster.nodes[3].epoch = -1
    with pytest.raises(LevelsNotReached) as caught:
        Admin(cluster.nodes[1].address).wait_for_levels({"group.version": 7}, 3)
    old, silent, unaware = caught.value.laggards
    assert old.endswith("shows group.version 1")
    assert re.match(r"broker 2 .* is silent", silent)
    assert unaware.endswith("does not know what is finalized")


def test_a_cluster_that_is_away_is_waited_for(cluster: ScriptedCluster) -> None:
    for node_id in cluster.nodes:
        cluster.shut(node_id)
    with pytest.raises(DiscoveryError):
        Admin(cluster.bootstrap).wait_for_levels({"group.version": 1}, 0.3)
    timer = threading.Timer(0.3, lambda: [cluster.open(node_id) for node_id in cluster.nodes])
    timer.start()
    assert Admin(cluster.bootstrap).wait_for_levels({"group.version": 1}, 30).level("group.version") == 1
    timer.join()


def test_a_level_of_0_is_an_absent_one(cluster: ScriptedCluster) -> None:
    """Brokers never list a finalized level of 0."""
    cluster.apply({"group.version": 0})
    assert Admin(cluster.bootstrap).wait_for_levels({"group.version": 0}, 5).level("group.version") == 0


# ------------------------------------------------------------------ the front


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(DiscoveryError, match=r"127\.0\.0\.1:1: failed while connecting"):
        Admin("127.0.0.1:1", timeout=5).update(GROUP)


def test_invalid_updates_are_not_sent(cluster: ScriptedCluster) -> None:
    admin = Admin(cluster.bootstrap)
    for wrong in ((), (*GROUP, *GROUP)):
        for ask in (admin.update, admin.dry_run, admin.plan):
            with pytest.raises(InvalidUpdate):
                ask(wrong)
    assert cluster.received == []


async def test_the_blocking_door_works_in_a_running_loop(cluster: ScriptedCluster) -> None:
    """A notebook runs an event loop while it calls the admin."""
    assert asyncio.get_running_loop().is_running()
    assert Admin(cluster.bootstrap).update(GROUP).done


def test_a_plan_asks_controllers_too_where_they_are_named(cluster: ScriptedCluster) -> None:
    """A controller refuses a level that it does not support."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.nodes[1].supported["group.version"] = (0, 0)
        made = Admin(cluster.bootstrap).plan(GROUP, controllers=quorum.bootstrap)
    (prediction,) = made.updates
    assert prediction.text == (
        "Invalid update version 1 for feature group.version. Local controller 1 does not support this feature."
    )


def test_brokers_are_no_controllers(cluster: ScriptedCluster) -> None:
    text = r"^bootstrap\.controllers: is missing: these are to be controllers, not brokers$"
    with pytest.raises(ConfigError, match=text):
        Admin(cluster.bootstrap).plan(GROUP, controllers={"bootstrap.servers": cluster.bootstrap})


def test_a_plan_of_controllers_says_that_brokers_were_not_asked() -> None:
    with ScriptedCluster(1, role="controller") as quorum:
        made = Admin({"bootstrap.controllers": quorum.bootstrap}).plan(GROUP)
    assert made.judgement == "accepted"
    assert any(note.startswith("brokers were not asked") for note in made.notes)


def test_an_admin_shows_no_more_than_addresses() -> None:
    """The configuration of an admin may contain secrets."""
    config = {"bootstrap.servers": "b:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
    admin = Admin({**config, "sasl.username": "u", "sasl.password": "hush"})
    assert repr(admin) == "<Admin of b:1>"


def test_a_controller_that_hangs_takes_no_longer_than_the_timeout(cluster: ScriptedCluster) -> None:
    """It still takes connections, and each request on one has a bound of its own, of five seconds."""
    cluster.nodes[1].receive = lambda *_: None  # type: ignore[method-assign]  # it is the controller
    began = time.monotonic()
    with pytest.raises(TimedOut, match="looking for the controller: the 1 s in total have passed"):
        Admin(cluster.bootstrap, timeout=1).update(GROUP)
    assert time.monotonic() - began < 4
    assert cluster.received == []
