"""What a plan says about a simulated cluster, its simulated controller does.

Both ask the same rules, so this is about all that lies between the rules and an operator: what a node shows of itself,
what a view keeps of it, which possibilities that leaves, and in which order a controller goes through a request.
``tests/live/test_prediction_live.py`` holds plan and simulator to real controllers.
"""

from held_plans import INVALID_UPDATE_VERSION, Said, answers_of, held_to, request_of
from hypothesis import event, given
from hypothesis import strategies as st

from featuregate.admin.plans import plan
from featuregate.admin.updates import Update
from featuregate.catalog import features
from featuregate.kafka_errors import INVALID_REQUEST
from featuregate.testing.simulator import Kill, KRaft, Roll, Stop, ZooKeeper, apply, downgrade, release_build, upgrade
from featuregate.testing.simulator.cluster import update_features
from featuregate.testing.simulator.kraft.cluster import KRaftCluster
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeperCluster
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

KRAFT_RELEASES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
UPDATE_FEATURES = 57
API_VERSIONS = 18


# ------------------------------------------------------------------ what an operator sees


def seen(cluster: KRaftCluster | ZooKeeperCluster, role: str) -> View:
    """Probe every node of one role; nodes that are down do not answer."""
    ids = cluster.listed_brokers if role == "broker" or isinstance(cluster, ZooKeeperCluster) else cluster.voters
    return merge(
        [answer(cluster, node_id, role) for node_id in ids],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        role=role,  # type: ignore[arg-type]  # broker or controller
        seen_at=1.0,
    )


def answer(cluster: KRaftCluster | ZooKeeperCluster, node_id: int, role: str) -> BrokerAnswer:
    place = {"node_id": node_id, "host": f"n{node_id}", "port": 9, "role": role, "answered_at": 1.0}
    node = cluster.nodes.get(node_id)
    if node is None or not node.accepts_connections(role) or node.status == "paused":  # type: ignore[arg-type]  # broker or controller
        return BrokerAnswer(**place, failure=Failure("TimedOut", "said nothing"))  # type: ignore[arg-type]  # see place
    tells = cluster.node_state(node_id, role) if isinstance(cluster, KRaftCluster) else cluster.node_state(node_id)  # type: ignore[arg-type]  # broker or controller
    asked = min(5, tells.api_ranges[API_VERSIONS][1])
    return BrokerAnswer(
        **place,  # type: ignore[arg-type]  # see place
        api_ranges={key: ApiRange._make(found) for key, found in tells.api_ranges.items()},
        supported={name: SupportedRange._make(r) for name, r in tells.supported.items() if asked >= 4 or r[0] > 0},
        finalized={name: found if isinstance(found, int) else found[1] for name, found in tells.finalized.items()},
        finalized_min=tells.lowest,
        epoch=tells.epoch,
        asked_version=asked,
    )


# ------------------------------------------------------------------ what is made up

KINDS = st.sampled_from(["upgrade", "safe_downgrade", "unsafe_downgrade"])
NAMES = st.sampled_from([*features(), "bogus"])


@st.composite
def wanted(draw: st.DrawFn, cluster: KRaftCluster) -> tuple[Update, ...]:
    """Draw updates of one to four features, mostly known ones, by one or two levels."""
    known = st.sampled_from(sorted(cluster.spec.find_build(cluster.spec.build).supported))
    found = draw(st.lists(known | known | known | NAMES, min_size=1, max_size=4, unique=True))
    return tuple(draw(updates_of(name, cluster.levels.get(name, 0))) for name in found)


@st.composite
def updates_of(draw: st.DrawFn, name: str, current: int) -> Update:
    """Draw an update of one feature."""
    near = st.integers(max(current - 2, 0), current + 1)
    level = draw(near | near | near | near | st.integers(0, 35))
    fitting = "safe_downgrade" if level < current or not level else "upgrade"
    kind = draw(st.just(fitting) | st.just(fitting) | st.just(fitting) | KINDS)
    return Update(name, max(level, int(kind == "upgrade")), kind)  # type: ignore[arg-type]  # one of three


def moved(draw: st.DrawFn, cluster: KRaftCluster, most: int) -> KRaftCluster:
    """Apply a few updates, for other starting levels."""
    for _ in range(draw(st.integers(0, most))):
        levels = cluster.levels
        update = draw(st.one_of(*(updates_of(name, levels.get(name, 0)) for name in features())))
        cluster = update_features(cluster, request_of((update,), dry_run=False), 1).cluster
    return cluster


@st.composite
def kraft_clusters(draw: st.DrawFn, *, rolled: bool) -> KRaftCluster:
    """Draw a cluster of any release at any levels, and if it may be in a roll, of two, with nodes down."""
    release = draw(st.sampled_from(KRAFT_RELEASES))
    lowest, highest = release_build(release).supported["metadata.version"]
    metadata = {"metadata.version": draw(st.integers(max(lowest, 4), highest))}
    cluster = KRaft(release, brokers=2, controllers=draw(st.sampled_from([0, 1, 3])), levels=metadata).create()
    cluster = moved(draw, cluster, 4)
    if not rolled:
        return cluster
    other = draw(st.sampled_from(KRAFT_RELEASES))
    for node_id in draw(st.lists(st.sampled_from(sorted(cluster.nodes)), max_size=4, unique=True)):
        cluster = apply(cluster, Roll(node_id, other)).cluster
    for node_id in draw(st.lists(st.sampled_from(sorted(cluster.nodes)), max_size=1)):
        cluster = apply(cluster, draw(st.sampled_from([Stop, Kill]))(node_id)).cluster
    return moved(draw, cluster, 2)


# ------------------------------------------------------------------ what must hold


def cannot_tell(cluster: KRaftCluster, update: Update) -> bool:
    """Say whether a plan may call an update unknown, though it saw every node.

    That is so of ``kraft.version`` alone, where the quorum itself is to raise it: its leader decides.
    """
    if update.feature != "kraft.version" or cluster.active is None:
        return False
    by_quorum = cluster.build(cluster.active).numbers >= (4, 1)
    return by_quorum and update.upgrade_type == "upgrade" and update.level > cluster.kraft_version


@given(cluster=kraft_clusters(rolled=False), data=st.data(), dry_run=st.booleans())
def test_a_plan_for_a_whole_cluster_agrees_with_its_controller(
    cluster: KRaftCluster, data: st.DataObject, *, dry_run: bool
) -> None:
    """The plan has the controller's decision and words, for any release, levels and features."""
    updates = data.draw(wanted(cluster))
    made = plan(seen(cluster, "broker"), updates, controllers=seen(cluster, "controller"))
    event(made.judgement)
    version = seen(cluster, "broker").api_ranges[UPDATE_FEATURES].max
    happened = update_features(cluster, request_of(updates, dry_run=dry_run), version)
    assert happened.response is not None
    held_to(made, answers_of(happened.response, updates))
    for each in made.updates:
        assert each.judgement != "unknown" or cannot_tell(cluster, each.update), each
    assert made.all_or_nothing == (version >= 2)


def objects_as_a_controller(said: dict[str, Said], name: str) -> bool:
    """Return whether a refusal depends on the support of a controller that the plan did not ask."""
    message = said[""].message if "" in said else said[name].message
    return "ocal controller " in message or "ontroller " in message.partition(" feature ")[2]


@given(cluster=kraft_clusters(rolled=True), data=st.data(), controllers=st.booleans())
def test_a_plan_for_a_part_of_a_cluster_never_contradicts_its_controller(
    cluster: KRaftCluster, data: st.DataObject, *, controllers: bool
) -> None:
    """In a roll, with nodes down, with or without controllers: refused is refused, and accepted accepted.

    The one exception is told in a note: a controller that was not asked, or a voter that never registered, may object.
    """
    updates = data.draw(wanted(cluster))
    brokers = seen(cluster, "broker")
    made = plan(brokers, updates, controllers=seen(cluster, "controller") if controllers else None)
    event(made.judgement)
    happened = update_features(cluster, request_of(updates, dry_run=False), 1)
    if cluster.active is None:
        assert happened.response is None
        return
    assert happened.response is not None
    said = answers_of(happened.response, updates)
    blind = {
        update.feature
        for update in updates
        if objects_as_a_controller(said, update.feature) and (not controllers or "not registered" in str(said))
    }
    if "" in said:
        refused = any(each.judgement != "accepted" for each in made.updates)
        assert refused or blind, said
        return
    for each in made.updates:
        code, message = said[each.update.feature]
        if each.judgement == "refused":
            # From 4.0 on one that is refused refuses all: then there is no result at all.
            assert code == INVALID_UPDATE_VERSION, each
        elif each.judgement == "accepted":
            assert code == 0 or each.update.feature in blind, message


# ------------------------------------------------------------------ controllers with ZooKeeper (KIP-584)

GROUP_COORDINATOR = "group_coordinator"


@st.composite
def zookeeper_clusters(draw: st.DrawFn) -> ZooKeeperCluster:
    """Draw a cluster of the KIP's example, with some brokers rolled and some levels changed."""
    builds = st.sampled_from(["v1", "v1-v2", "v2"])
    cluster = ZooKeeper(draw(builds)).create()
    for node_id in draw(st.lists(st.sampled_from([1, 2, 3]), unique=True)):
        cluster = apply(cluster, Roll(node_id, draw(builds))).cluster
    changes = st.tuples(st.integers(0, 3), st.sampled_from([upgrade, downgrade]))
    for level, change in draw(st.lists(changes, max_size=3)):
        cluster = apply(cluster, change({GROUP_COORDINATOR: level}, version=0)).cluster
    return cluster


@given(
    cluster=zookeeper_clusters(),
    names=st.lists(st.sampled_from([GROUP_COORDINATOR, "bogus"]), min_size=1, unique=True),
    data=st.data(),
)
def test_kip_584_a_plan_agrees_with_a_controller_with_zookeeper(
    cluster: ZooKeeperCluster, names: list[str], data: st.DataObject
) -> None:
    """The updates have v0 and its flag, and levels down to the finalized minimum."""
    levels = seen(cluster, "broker").finalized
    updates = tuple(data.draw(updates_of(name, levels.get(name, 0))) for name in names)
    made = plan(seen(cluster, "broker"), updates)
    event(made.judgement)
    happened = update_features(cluster, request_of(updates, dry_run=False), 0)
    if happened.response is None:
        assert cluster.controller_id is None
        return
    held_to(made, answers_of(happened.response, updates), INVALID_REQUEST)
    assert made.judgement != "unknown"
