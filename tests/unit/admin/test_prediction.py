"""What a controller will say, rule by rule (``FeatureControlManager`` of Apache Kafka 4.3.1 and 3.9.2).

The texts are those that real controllers sent; tests/live/test_admin_live.py asks some again.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.admin.prediction import ClusterState, Prediction, predict
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.catalog import features, level_name, metadata_levels
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
    """Return the answer of one node, with the levels that it supports."""
    ranges = {name: SupportedRange(*levels) for name, levels in (supported or SUPPORTED).items()}
    return BrokerAnswer(node_id=node_id, host=f"n{node_id}", port=9, role=role, supported=ranges, asked_version=4)  # type: ignore[arg-type]  # broker or controller


def cluster_state(**changed: object) -> ClusterState:
    """Return a cluster of 4.3 with two brokers, and these changes."""
    base = ClusterState(finalized=FINALIZED, brokers=(node(1), node(2)), speaks=ApiRange(0, 2))
    return replace(base, **changed)  # type: ignore[arg-type]  # as the test says


def before_4_0(level: int) -> ClusterState:
    """Return a cluster of 3.9 at a ``metadata.version``."""
    brokers = (node(1, {"metadata.version": (1, 21)}),)
    return ClusterState(finalized={"metadata.version": level}, brokers=brokers, speaks=ApiRange(0, 1))


CONTROLLER = {"controllers": (node(8, role="controller"),), "leader": 8}


def one(update: Update, where: ClusterState | None = None) -> Prediction:
    """Predict one update."""
    (prediction,) = predict((update,), where or cluster_state())
    return prediction


def test_what_is_allowed_is_accepted() -> None:
    """The prediction has the current level."""
    prediction = one(*upgrade({"group.version": 1}), cluster_state(**CONTROLLER))
    assert (prediction.judgement, prediction.text, prediction.current) == ("accepted", "", 0)


@pytest.mark.parametrize("kind", ["upgrade", "safe_downgrade", "unsafe_downgrade"])
def test_the_level_of_now_is_accepted_in_any_direction(kind: str) -> None:
    """The current level is neither an upgrade nor a downgrade."""
    assert one(Update("transaction.version", 2, kind)).judgement == "accepted"  # type: ignore[arg-type]  # one of three


@pytest.mark.parametrize(
    ("level", "supported", "words"),
    [
        (2, (0, 1), "Broker 2 only supports versions 0-1"),
        (2, (1, 1), "Broker 2 only supports versions 1"),
        (1, (0, 0), "Broker 2 does not support this feature."),
        (1, None, "Broker 2 does not support this feature."),
    ],
)
def test_every_registered_broker_must_support_it(level: int, supported: tuple[int, int] | None, words: str) -> None:
    """The prediction has the message of QuorumFeatures, which prints a range of one level as one number."""
    ranges = {**SUPPORTED, "group.version": (0, 9)}
    other = {name: said for name, said in SUPPORTED.items() if name != "group.version"}
    if supported is not None:
        other["group.version"] = supported
    prediction = one(*upgrade({"group.version": level}), cluster_state(brokers=(node(1, ranges), node(2, other))))
    assert prediction.text == f"Invalid update version {level} for feature group.version. {words}"
    assert prediction.judgement == "refused"


def test_a_silent_broker_makes_it_unknown() -> None:
    """The controller checks the levels that the broker registered, which the prediction does not know."""
    silent = replace(node(2), failure=Failure("TimedOut", "said nothing"))
    prediction = one(*upgrade({"group.version": 1}), cluster_state(brokers=(node(1), silent)))
    text = "broker 2 (n2:9) is silent, and counts with the levels of its registration"
    assert (prediction.judgement, prediction.text) == ("unknown", text)


def test_a_refusal_outweighs_a_silent_broker() -> None:
    """The controller refuses the update, whatever the silent broker supports."""
    silent = replace(node(1), failure=Failure("TimedOut", "said nothing"))
    prediction = one(*upgrade({"group.version": 9}), cluster_state(brokers=(silent, node(2))))
    assert (prediction.judgement, "Broker 2" in prediction.text) == ("refused", True)


def test_a_broker_that_hides_features_makes_it_unknown() -> None:
    """ApiVersions v3 leaves out features that start at 0 (KAFKA-17011)."""
    hiding = replace(node(2, {"metadata.version": (1, 21)}), asked_version=3)
    text = "broker 2 (n2:9) does not report features that start at 0 (KAFKA-17011)"
    assert one(*upgrade({"group.version": 1}), cluster_state(brokers=(hiding,)))[2:] == ("unknown", text)


def test_the_active_controller_speaks_first() -> None:
    """The active controller checks its own range before that of any broker."""
    poor = node(8, {"metadata.version": (7, 29)}, role="controller")
    where = cluster_state(brokers=(node(1, {"metadata.version": (7, 28)}),), controllers=(poor,), leader=8)
    prediction = one(*upgrade({"metadata.version": 30}), where)
    assert prediction.text.endswith("Local controller 8 only supports versions 7-29")


@pytest.mark.parametrize(("metadata_level", "judgement"), [(14, "accepted"), (15, "refused")])
def test_other_controllers_count_once_they_register(metadata_level: int, judgement: str) -> None:
    """Controllers register from metadata.version 3.7-IV0 on (KIP-919)."""
    controllers = (node(8, role="controller"), node(9, {"metadata.version": (7, 29)}, role="controller"))
    where = cluster_state(finalized={"metadata.version": metadata_level}, controllers=controllers, leader=8)
    prediction = one(*upgrade({"metadata.version": 30}), where)
    assert prediction.judgement == judgement
    assert ("Controller 9 only supports versions 7-29" in prediction.text) is (judgement == "refused")


def test_the_direction_must_be_said() -> None:
    """The controller refuses a downgrade sent as an upgrade, and the reverse."""
    down = one(*upgrade({"transaction.version": 1}))
    assert down.text == (
        "Invalid update version 1 for feature transaction.version. Can't downgrade the version of this feature "
        "without setting the upgrade type to either safe or unsafe downgrade."
    )
    up = one(*downgrade({"group.version": 1}))
    assert up.text == "Invalid update version 1 for feature group.version. Can't downgrade to a newer version."


def test_unknown_finalized_levels_make_it_unknown() -> None:
    """Without the current levels the prediction cannot know what the controller checks."""
    prediction = one(*upgrade({"group.version": 1}), cluster_state(finalized=None))
    assert (prediction.judgement, prediction.current) == ("unknown", None)


# ------------------------------------------------------------------ the level of the metadata itself, by KIP-778


@pytest.mark.parametrize(
    ("current", "target", "judgement"),
    [(29, 27, "accepted"), (27, 23, "accepted"), (27, 22, "refused"), (30, 29, "refused")],
)
def test_kip_778_a_downgrade_must_not_cross_a_level_that_changed_the_metadata(
    current: int, target: int, judgement: str
) -> None:
    """Real controllers of 4.2 and 4.3 gave these answers."""
    prediction = one(*downgrade({"metadata.version": target}), cluster_state(finalized={"metadata.version": current}))
    assert prediction.judgement == judgement


@pytest.mark.parametrize(
    ("unsafe", "why"),
    [
        (False, "Refusing to perform the requested downgrade because it might delete metadata information."),
        (True, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_kip_778_unsafe_is_refused_too(*, unsafe: bool, why: str) -> None:
    """Kafka documents unsafe downgrades, but lacks them (KAFKA-13896). 4.0 and 3.9 begin the message otherwise."""
    update = downgrade({"metadata.version": 22}, unsafe=unsafe)
    now = {"metadata.version": 27}
    assert one(*update, cluster_state(finalized=now)).text == (
        f"Unsupported metadata.version downgrade from 27 to 22. {why}"
    )
    old = cluster_state(
        finalized={"metadata.version": 21}, speaks=ApiRange(0, 1), brokers=(node(1, {"metadata.version": (1, 21)}),)
    )
    assert one(*downgrade({"metadata.version": 12}, unsafe=unsafe), old).text == f"Invalid metadata.version 12. {why}"


def test_before_4_0_the_lowest_level_is_the_first_with_feature_records() -> None:
    """Brokers of 3.9 report support for level 1, but only for reading."""
    old = cluster_state(
        finalized={"metadata.version": 5}, speaks=ApiRange(0, 1), brokers=(node(1, {"metadata.version": (1, 21)}),)
    )
    prediction = one(*downgrade({"metadata.version": 3}), old)
    assert prediction.text == "Invalid metadata.version 3. Unable to set a metadata.version less than 3.3-IV0"


def test_a_level_that_is_newer_than_the_table_makes_it_unknown() -> None:
    """The table does not know whether the level changed the metadata."""
    where = cluster_state(finalized={"metadata.version": 40}, brokers=(node(1, {"metadata.version": (7, 40)}),))
    prediction = one(*downgrade({"metadata.version": 35}), where)
    newest = level_name("metadata.version", max(metadata_levels()))
    text = f"a level on the way is newer than this featuregate knows (up to {newest})"
    assert (prediction.judgement, prediction.text) == ("unknown", text)


# ------------------------------------------------------------------ other features (KIP-1022)


def test_a_dependency_must_be_met() -> None:
    """A finalized level or another update of the request meets a dependency."""
    low = cluster_state(finalized={"metadata.version": 22}, **CONTROLLER)
    alone = upgrade({"eligible.leader.replicas.version": 1})
    assert one(*alone, low).text == (
        "Invalid update version 1 for feature eligible.leader.replicas.version. eligible.leader.replicas.version "
        "could not be set to 1 because it depends on metadata.version level 23"
    )
    together = predict((*alone, *upgrade({"metadata.version": 23})), low)
    assert [prediction.judgement for prediction in together] == ["accepted", "accepted"]


def test_before_4_0_nothing_is_asked_of_dependencies() -> None:
    """A controller of 3.9 does not check dependencies."""
    supported = {"metadata.version": (1, 21), "eligible.leader.replicas.version": (0, 1)}
    controller = {"controllers": (node(8, supported, role="controller"),), "leader": 8}
    old = cluster_state(finalized={"metadata.version": 20}, speaks=ApiRange(0, 1), **controller)
    assert one(*upgrade({"eligible.leader.replicas.version": 1}), old).judgement == "accepted"


def test_an_unknown_feature_can_not_be_disabled_from_4_0_on() -> None:
    """The controller skips the range check for level 0, and refuses the unknown name."""
    prediction = one(*disable("bogus"))
    assert prediction.text == "Invalid update version 0 for feature bogus. Feature bogus not found."
    asked = node(8, {"metadata.version": (1, 21)}, role="controller")
    assert one(*disable("bogus"), replace(before_4_0(20), controllers=(asked,), leader=8)).judgement == "accepted"


def test_a_level_that_the_table_does_not_know_is_unknown() -> None:
    """A newer cluster has levels that the table lacks."""
    where = cluster_state(brokers=(node(1, {**SUPPORTED, "group.version": (0, 7)}),))
    text = "group.version 5 is newer than this featuregate knows, and so is what it depends on"
    assert one(*upgrade({"group.version": 5}), where)[2:] == ("unknown", text)


@pytest.mark.parametrize(
    ("voters", "other", "judgement"),
    [
        ({8}, SUPPORTED, "accepted"),
        ({8, 9}, SUPPORTED, "accepted"),
        ({8, 9}, None, "unknown"),  # it is silent
        ({8, 9}, {**SUPPORTED, "metadata.version": (7, 25)}, "unknown"),  # 4.0 does not tell the leader
        ({8, 9, 10}, SUPPORTED, "unknown"),  # a voter that no controller lists
        (None, SUPPORTED, "unknown"),  # no right to ask
    ],
)
def test_the_version_of_the_quorum_goes_up_where_every_voter_said_that_it_supports_it(
    voters: set[int] | None, other: Mapping[str, tuple[int, int]] | None, judgement: str
) -> None:
    """Only the leader knows it otherwise: voters tell it from 4.1 on (KAFKA-16538)."""
    silent = replace(node(9, role="controller"), failure=Failure("TimedOut", "said nothing"))
    controllers = (node(8, role="controller"), node(9, other, role="controller") if other else silent)
    quorum = Quorum(voters=None if voters is None else frozenset(voters))
    where = cluster_state(**CONTROLLER | {"controllers": controllers}, quorum=quorum)
    assert one(*upgrade({"kraft.version": 1}), where).judgement == judgement


@pytest.mark.parametrize(
    ("now", "update", "judgement"),
    [
        (0, upgrade({"kraft.version": 1}), "unknown"),
        (1, upgrade({"kraft.version": 1}), "accepted"),
        (1, downgrade({"kraft.version": 0}), "refused"),
        (0, downgrade({"kraft.version": 0}), "accepted"),
    ],
)
def test_the_version_of_the_quorum_never_goes_down(now: int, update: tuple[Update, ...], judgement: str) -> None:
    """Only the leader of the quorum knows whether the version can go up."""
    found = one(*update, cluster_state(finalized={**FINALIZED, "kraft.version": now}))
    assert found.judgement == judgement
    assert found.text.endswith("Can't downgrade the version of this feature.") is (judgement == "refused")


@pytest.mark.parametrize(("newest", "whole"), [(2, True), (1, False)])
def test_whether_it_is_all_or_nothing_the_active_controller_knows_best(newest: int, *, whole: bool) -> None:
    """During a rolling upgrade the release of the controller decides, not that of the broker that forwards."""
    leader = replace(node(8, role="controller"), api_ranges={57: ApiRange(0, newest)})
    for speaks in (1, 2):
        where = cluster_state(controllers=(leader,), leader=8, speaks=ApiRange(0, speaks))
        assert where.all_or_nothing is whole


# ------------------------------------------------------------------ old controllers


def test_a_cluster_without_update_features_refuses() -> None:
    """Kafka has had features since 2.7."""
    assert one(*upgrade({"a": 1}), cluster_state(speaks=None)).judgement == "refused"


@pytest.mark.parametrize(("speaks", "known"), [(0, "group_coordinator"), (1, "group_coordinator")])
def test_what_a_controller_with_zookeeper_answers_is_unknown(speaks: int, known: str) -> None:
    """No release of Kafka has a feature for it, so none of its answers was ever seen."""
    cluster = ClusterState(finalized={}, brokers=(node(1, {known: (1, 2)}),), leader=1, speaks=ApiRange(0, speaks))
    text = "no release of Kafka has a feature for a controller with ZooKeeper, which alone knows"
    assert one(*upgrade({known: 1}), cluster)[2:] == ("unknown", text)


# ------------------------------------------------------------------ what a release does otherwise


def at(release_level: int, levels: Mapping[str, int], *, newest: int = 2) -> ClusterState:
    """Return a cluster of a controller and a broker that support ``metadata.version`` up to a level."""
    supported = {**SUPPORTED, "metadata.version": (7, release_level)}
    ranges = {57: ApiRange(0, newest)}
    broker = replace(node(1, supported), api_ranges=ranges)
    leader = replace(node(8, supported, role="controller"), api_ranges=ranges)
    return ClusterState(
        finalized=levels, brokers=(broker,), controllers=(leader,), leader=8, speaks=ApiRange(0, newest)
    )


@pytest.mark.parametrize(
    ("levels", "update", "judgement"),
    [
        ({"metadata.version": 25}, upgrade({"kraft.version": 1}), "accepted"),
        ({"metadata.version": 20}, upgrade({"kraft.version": 1}), "refused"),
        ({"metadata.version": 20}, upgrade({"kraft.version": 1, "metadata.version": 21}), "accepted"),
        ({"metadata.version": 25, "kraft.version": 1}, disable("kraft.version"), "accepted"),
        ({"metadata.version": 25, "kraft.version": 1}, downgrade({"kraft.version": 1}), "refused"),
    ],
)
def test_to_4_0_kraft_version_is_a_feature_like_others(
    levels: dict[str, int], update: tuple[Update, ...], judgement: str
) -> None:
    """It depends on metadata.version 3.9-IV0, may go down, and counts as 0 whatever nodes report (seen: 4.0.0)."""
    assert predict(update, at(25, levels))[0].judgement == judgement


def test_4_0_names_the_level_that_kraft_version_depends_on() -> None:
    """Controllers of 4.1 and newer leave the check to the quorum."""
    low = {"metadata.version": 20}
    assert one(*upgrade({"kraft.version": 1}), at(25, low)).text == (
        "Invalid update version 1 for feature kraft.version. kraft.version could not be set to 1 because it depends on "
        "metadata.version level 21"
    )
    assert one(*upgrade({"kraft.version": 1}), at(27, low)).judgement == "unknown"


@pytest.mark.parametrize("name", ["share.version", "streams.version"])
def test_4_0_does_not_know_the_features_of_4_1(name: str) -> None:
    """A controller of 4.0 cannot disable these features either."""
    levels = {"metadata.version": 25}
    assert one(*disable(name), at(25, levels)).text.endswith(f"Feature {name} not found.")
    assert one(*disable(name), at(27, levels)).judgement == "accepted"


@pytest.mark.parametrize(
    ("release_level", "newest", "head", "tail"),
    [
        (
            14,
            1,
            "Invalid metadata.version 10.",
            " Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed.",
        ),
        (21, 1, "Invalid metadata.version 10.", ""),
        (25, 2, "Invalid metadata.version 10.", ""),
        (27, 2, "Invalid metadata.version 10.", ""),
        (29, 2, "Unsupported metadata.version downgrade from 14 to 10.", ""),
    ],
)
def test_each_release_refuses_a_downgrade_in_its_own_words(
    release_level: int, newest: int, head: str, tail: str
) -> None:
    """Real controllers of 3.3.2, 3.9.2, 4.0.0, 4.1.1 and 4.2.0 sent these messages."""
    prediction = one(*downgrade({"metadata.version": 10}), at(release_level, {"metadata.version": 14}, newest=newest))
    why = "Refusing to perform the requested downgrade because it might delete metadata information."
    assert prediction.text == f"{head} {why}{tail}"


def test_before_3_7_a_broker_that_lacks_a_feature_refuses_even_to_disable_it() -> None:
    """Seen with 3.3.2. From 3.7 on controllers skip the range check for level 0."""
    old, newer = (replace(before_4_0(7), brokers=(node(1, {"metadata.version": (1, top)}),)) for top in (14, 21))
    asked = [
        replace(where, controllers=(replace(where.brokers[0], node_id=8, role="controller"),), leader=8)
        for where in (old, newer)
    ]
    assert [one(*disable("bogus"), where).judgement for where in asked] == ["refused", "accepted"]
    assert "Broker 1 does not support this feature." in one(*disable("bogus"), asked[0]).text


def test_releases_that_disagree_make_it_unknown_where_controllers_were_not_asked() -> None:
    """A controller behind brokers of 4.0 may be of 4.0, which refuses this, or of 4.2, which accepts it."""
    where = replace(at(25, {"metadata.version": 25}), controllers=(), leader=None)
    prediction = one(*disable("share.version"), where)
    text = "the answer depends on the release of the controllers, which were not asked: name them, too (--controllers)"
    assert (prediction.judgement, prediction.text) == ("unknown", text)


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
    """Each prediction that is not accepted has a text."""
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
