"""What a plan says about a fake cluster, its controller does.

Both ask the same rules, so this is about all that lies between the rules and an operator: what a node shows of itself,
what a view keeps of it, which possibilities that leaves, and in which order a controller goes through a request.
``tests/live/test_prediction_live.py`` holds plans and fake clusters to real controllers.
"""

from held_plans import INVALID_UPDATE_VERSION, Said, answers_of, held_to
from hypothesis import event, given
from hypothesis import strategies as st

from featuregate.admin.plans import plan
from featuregate.admin.updates import Update
from featuregate.catalog import features, release_levels
from featuregate.testing import FakeCluster

KRAFT_RELEASES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
UPDATE_FEATURES = 57


# ------------------------------------------------------------------ what is made up

KINDS = st.sampled_from(["upgrade", "safe_downgrade", "unsafe_downgrade"])
NAMES = st.sampled_from([*features(), "bogus"])


@st.composite
def wanted(draw: st.DrawFn, cluster: FakeCluster) -> tuple[Update, ...]:
    known = st.sampled_from(sorted(cluster.brokers[0].supported))
    found = draw(st.lists(known | known | known | NAMES, min_size=1, max_size=4, unique=True))
    return tuple(draw(updates_of(name, cluster.finalized.get(name, 0))) for name in found)


@st.composite
def updates_of(draw: st.DrawFn, name: str, current: int) -> Update:
    near = st.integers(max(current - 2, 0), current + 1)
    level = draw(near | near | near | near | st.integers(0, 35))
    fitting = "safe_downgrade" if level < current or not level else "upgrade"
    kind = draw(st.just(fitting) | st.just(fitting) | st.just(fitting) | KINDS)
    return Update(name, max(level, int(kind == "upgrade")), kind)  # type: ignore[arg-type]  # one of three


def move(draw: st.DrawFn, cluster: FakeCluster, most: int) -> None:
    for _ in range(draw(st.integers(0, most))):
        levels = cluster.finalized
        cluster.update([draw(st.one_of(*(updates_of(name, levels.get(name, 0)) for name in features())))])


@st.composite
def kraft_clusters(draw: st.DrawFn, *, rolled: bool) -> FakeCluster:
    release = draw(st.sampled_from(KRAFT_RELEASES))
    lowest, highest = FakeCluster(1, release=release).broker(1).supported["metadata.version"]
    metadata = draw(st.integers(max(lowest, 4), highest))
    levels = {name: level for name, level in release_levels(metadata).items() if level and name != "kraft.version"}
    cluster = FakeCluster(2, controllers=draw(st.sampled_from([1, 3])), release=release, finalized=levels)
    move(draw, cluster, 4)
    if not rolled:
        return cluster
    other, nodes = draw(st.sampled_from(KRAFT_RELEASES)), [1, 2, *(node.node_id for node in cluster.controllers)]
    for node_id in draw(st.lists(st.sampled_from(nodes), max_size=4, unique=True)):
        cluster.roll(node_id, other)
    for node_id in draw(st.lists(st.sampled_from(nodes), max_size=1)):
        cluster.stop(node_id)
    move(draw, cluster, 2)
    return cluster


# ------------------------------------------------------------------ what must hold


def cannot_tell(cluster: FakeCluster, update: Update) -> bool:
    """Say whether a plan may call an update unknown, though it saw every node.

    That is so of ``kraft.version`` alone, where the quorum itself is to raise it: its leader decides.
    """
    if update.feature != "kraft.version" or cluster.controller_id is None:
        return False
    by_quorum = cluster.broker(cluster.controller_id).release >= (4, 1)
    return by_quorum and update.upgrade_type == "upgrade" and update.level > cluster.finalized.get("kraft.version", 0)


@given(cluster=kraft_clusters(rolled=False), data=st.data(), dry_run=st.booleans())
def test_a_plan_for_a_whole_cluster_agrees_with_its_controller(
    cluster: FakeCluster, data: st.DataObject, *, dry_run: bool
) -> None:
    """The plan has the controller's decision and words, for any release, levels and features."""
    updates = data.draw(wanted(cluster))
    before = cluster.view()
    made = plan(before, updates, controllers=cluster.view("controller"))
    event(made.judgement)
    version = before.api_ranges[UPDATE_FEATURES].max
    hidden = {update for update in updates if cannot_tell(cluster, update)}
    answer = cluster.update(updates, dry_run=dry_run, version=version)
    assert answer is not None
    held_to(made, answers_of(answer, updates))
    for each in made.updates:
        assert each.judgement != "unknown" or each.update in hidden, each
    assert made.all_or_nothing == (version >= 2)


def objects_as_a_controller(said: dict[str, Said], name: str) -> bool:
    message = said[""].message if "" in said else said[name].message
    return "ocal controller " in message or "ontroller " in message.partition(" feature ")[2]


@given(cluster=kraft_clusters(rolled=True), data=st.data(), controllers=st.booleans())
def test_a_plan_for_a_part_of_a_cluster_never_contradicts_its_controller(
    cluster: FakeCluster, data: st.DataObject, *, controllers: bool
) -> None:
    """In a roll, with nodes down, with or without controllers: refused is refused, and accepted accepted.

    The one exception is told in a note: a controller that was not asked, or a voter that never registered, may object.
    """
    updates = data.draw(wanted(cluster))
    made = plan(cluster.view(), updates, controllers=cluster.view("controller") if controllers else None)
    event(made.judgement)
    answer = cluster.update(updates)
    if cluster.controller_id is None:
        assert answer is None
        return
    assert answer is not None
    said = answers_of(answer, updates)
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
