"""Which updates can be sent, and the messages of Kafka's Admin client for the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.admin.no_return import stays_in_log
from featuregate.admin.updates import (
    LeftOut,
    Update,
    checked,
    disable,
    downgrade,
    kraft_version_is_only_recorded,
    moving,
    to_release,
    upgrade,
)
from featuregate.catalog import release_levels
from featuregate.errors import InvalidUpdate
from featuregate.testing import FakeCluster, release_view


@pytest.mark.parametrize(
    ("feature", "level", "kind", "words"),
    [
        ("", 1, "upgrade", "Provided feature can not be empty."),
        (" \t", 1, "upgrade", "Provided feature can not be empty."),
        ("a", -1, "upgrade", "Cannot specify a negative version level."),
        ("a", -1, "safe_downgrade", "Cannot specify a negative version level."),
        (
            "a",
            0,
            "upgrade",
            (
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
                "maxVersionLevel:0 is < 1."
            ),
        ),
        ("a", 32768, "upgrade", "32768 is not a level: the highest is 32767"),
    ],
)
def test_an_invalid_update_is_refused(feature: str, level: int, kind: str, words: str) -> None:
    with pytest.raises(InvalidUpdate) as raised:
        Update(feature, level, kind)  # type: ignore[arg-type]  # one of the three
    assert str(raised.value) == words
    assert Update("a", 32767).level == 32767


def test_level_0_is_a_downgrade() -> None:
    assert disable("a", "b") == downgrade({"a": 0, "b": 0})
    assert [update.upgrade_type for update in disable("a", unsafe=True)] == ["unsafe_downgrade"]


def test_a_release_is_a_level_of_each_feature() -> None:
    """As in kafka-features, a release has no update for a feature whose level is 0."""
    assert {update.feature: update.level for update in to_release("3.9")} == {
        "metadata.version": 21,
        "kraft.version": 1,
    }
    assert to_release("4.1") == upgrade(
        {
            "metadata.version": 27,
            "kraft.version": 1,
            "transaction.version": 2,
            "group.version": 1,
            "eligible.leader.replicas.version": 1,
        }
    )


def test_an_unknown_release_is_refused() -> None:
    """to_release() does not guess the levels of a release that the table lacks."""
    why = "no metadata.version is called '9.9', such as 4.2-IV1, and no release, such as 4.2"
    with pytest.raises(InvalidUpdate, match=f"^{why}$"):
        to_release("9.9")


def test_updates_that_go_together() -> None:
    assert checked(iter(upgrade({"a": 1}))) == upgrade({"a": 1})
    with pytest.raises(InvalidUpdate, match=r"^Feature updates can not be null or empty\.$"):
        checked(())
    with pytest.raises(InvalidUpdate, match=r"^Feature a was specified more than once\.$"):
        checked((Update("a", 1), Update("a", 2)))


# ------------------------------------------------------------------ to a release


def wanted_at(metadata_level: int, verb: str) -> tuple[Update, ...]:
    levels = release_levels(metadata_level)
    return downgrade(levels) if verb == "downgrade" else upgrade({name: at for name, at in levels.items() if at})


def refused_by(cluster: FakeCluster, updates: tuple[Update, ...], *, dry_run: bool = False) -> bool:
    """Send updates to the controller; return whether it refused any."""
    response = cluster.update(updates, dry_run=dry_run)
    assert response is not None
    return any(answer.error_code for answer in (response, *response.results))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[str, FakeCluster, int]:
    release = draw(st.sampled_from(["3.9", "4.0", "4.1", "4.2"]))
    supported = FakeCluster(1, release=release).broker(1).supported
    newest = supported["metadata.version"][1]
    levels = {"metadata.version": draw(st.integers(7, newest) | st.integers(newest - 3, newest))}
    for name, (_, highest) in supported.items():
        if name not in {"metadata.version", "kraft.version"}:
            levels[name] = draw(st.integers(0, highest))
    target = max(7, levels["metadata.version"] + draw(st.integers(-3, 3)))
    return (
        release,
        FakeCluster(1, release=release, finalized={name: level for name, level in levels.items() if level}),
        target,
    )


@given(clusters(), st.sampled_from(["upgrade", "downgrade"]))
def test_only_metadata_version_can_stop_a_move_to_a_release(drawn: tuple[str, FakeCluster, int], verb: str) -> None:
    """The controller accepts the other updates, and no broker reports a kraft.version that the quorum lacks."""
    release, cluster, target = drawn
    moves = moving(wanted_at(target, verb), release_view(release, finalized=cluster.finalized, epoch=50))
    assert {*moves.updates, *(left.update for left in moves.left_out)} == {*wanted_at(target, verb)}
    if not moves.updates:
        return
    leader = tuple(update for update in moves.updates if update.feature == "metadata.version")
    may_move = not leader or not refused_by(cluster, leader, dry_run=True)
    refused = refused_by(cluster, moves.updates)
    assert "kraft.version" not in cluster.finalized
    if may_move:
        assert not refused
        assert all(cluster.finalized.get(update.feature, 0) == update.level for update in moves.updates)


NO_RISE = "and a downgrade to 3 cannot raise it"


def test_what_is_left_out_says_why() -> None:
    """The reason follows the name of the feature in a line."""
    view = release_view("4.2", finalized={"metadata.version": 29, "kraft.version": 1, "share.version": 1}, epoch=50)
    down = {left.update.feature: left.why for left in moving(wanted_at(20, "downgrade"), view).left_out}
    assert down["kraft.version"] == "never goes down"
    assert down["group.version"] == "is at 0 already"
    higher = release_view("4.4", finalized={"metadata.version": 29, "share.version": 2}, epoch=50)
    up = {left.update.feature: left.why for left in moving(to_release("4.2"), higher).left_out}
    assert up["share.version"] == "is at 2, and an upgrade to 1 cannot lower it"
    (rise,) = moving(downgrade({"share.version": 3}), higher).left_out
    assert rise == LeftOut(Update("share.version", 3, "safe_downgrade"), 2, f"is at 2, {NO_RISE}")
    (same,) = moving(downgrade({"share.version": 2}), higher).left_out
    assert (same.already, rise.already) == (True, False)
    for release, levels in (("3.9", {"metadata.version": 20}), ("4.2", {"metadata.version": 27})):
        view = release_view(release, finalized=levels, epoch=50)
        up = {left.update.feature: left.why for left in moving(to_release(release), view).left_out}
        assert up["kraft.version"] == "stays as it is: once raised it never goes down, so raise it by itself"


def test_features_with_unknown_levels_move() -> None:
    """kraft.version alone is left out, because no cluster lowers it."""
    view = release_view("4.2", finalized={}, epoch=-1)
    moves = moving(wanted_at(20, "downgrade"), view)
    assert [left.update.feature for left in moves.left_out] == ["kraft.version"]
    assert len(moves.updates) == 6


@pytest.mark.parametrize(
    ("release", "level", "updates", "recorded"),
    [
        ("4.0", 25, (), True),
        ("4.1", 26, (), False),
        ("4.1", 25, upgrade({"metadata.version": 26}), False),
        ("4.1", 25, upgrade({"share.version": 99}), True),
        ("4.1", 26, downgrade({"metadata.version": 25}), False),
        ("3.9", 21, upgrade({"metadata.version": 26}), True),  # each update stands by itself
        ("2.6", 0, upgrade({"metadata.version": 26}), True),
    ],
)
def test_a_quorum_knows_of_kraft_version_from_4_1_on(
    release: str, level: int, updates: tuple[Update, ...], *, recorded: bool
) -> None:
    """Older controllers refuse the metadata.version of 4.1, and from 4.0 on the whole request with it."""
    view = release_view(release, finalized={"metadata.version": level}, epoch=50)
    assert kraft_version_is_only_recorded((*upgrade({"kraft.version": 1}), *updates), view) is recorded


def test_only_a_lowered_level_stays_in_the_log() -> None:
    """One that was not finalized before cannot be lowered."""
    assert stays_in_log({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 2, "d": 1, "e": 0}) == {"a": 2}
