"""What differs between two views, in words and values."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from strategies import views

from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, SupportedRange
from featuregate.view.changes import Difference, differences
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge


def told(before: View, after: View) -> list[str]:
    return [str(difference) for difference in differences(before, after)]


@given(views(), views())
def test_there_are_differences_exactly_where_the_content_differs(before: View, after: View) -> None:
    """Nothing fires without a difference, and no difference comes without a change (invariant 4)."""
    assert bool(differences(before, after)) is not before.same_content(after)


@given(views())
def test_invariant_4_an_epoch_that_moved_is_no_difference(before: View) -> None:
    """Times that moved are no difference, either."""
    brokers = tuple(
        replace(known, epoch=known.epoch + 7, answered_at=known.answered_at + 1) if known.epoch >= 0 else known
        for known in before.brokers
    )
    moved = replace(before, brokers=brokers, seen_at=1.0, epoch=before.epoch + 7 if before.epoch >= 0 else -1)
    assert differences(before, moved) == ()


def test_a_level_that_moved() -> None:
    """With its value before and after; metadata.version by name."""
    before = view(broker(1, group_version=1, metadata_version=21))
    after = view(broker(1, group_version=2, metadata_version=25))
    found = differences(before, after)
    assert ("level", "group.version", 1, 2, "group.version is finalized at 2 (was 1)") in found
    assert "metadata.version is finalized at 4.0-IV3 (was 3.9-IV0)" in told(before, after)


def test_a_level_that_went() -> None:
    """A downgrade to 0 is a difference."""
    assert told(view(broker(1, group_version=1)), view(broker(1)))[0] == "group.version is finalized at 0 (was 1)"
    gone = told(view(broker(1, metadata_version=21)), view(broker(1)))
    assert gone == ["metadata.version is finalized at 0 (was 3.9-IV0)"]


def test_a_broker_that_lags_says_levels_by_name() -> None:
    """As the cluster does."""
    behind = broker(2, epoch=9, metadata_version=21)
    before = view(broker(1, metadata_version=21), behind)
    assert told(before, view(broker(1, epoch=11, metadata_version=25), behind)) == [
        "metadata.version is finalized at 4.0-IV3 (was 3.9-IV0)",
        "broker 2 (b2:9092) still says metadata.version 3.9-IV0",
    ]


def test_levels_that_became_known_or_unknown() -> None:
    """An unknown level differs from level 0."""
    unknown, known = view(broker(1, epoch=-1)), view(broker(1, epoch=0, group_version=1))
    assert told(unknown, known)[0] == "finalized features are known now"
    assert told(unknown, known)[1] == "group.version is finalized at 1 (was unknown)"
    assert told(known, unknown)[0] == "finalized features are unknown now"
    assert told(unknown, known)[-1] == "broker 1 (b1:9092) reports finalized features now"
    assert told(known, unknown)[-1] == "broker 1 (b1:9092) reports no finalized features now"


def test_a_level_that_moved_everywhere_is_one_difference() -> None:
    """The brokers add no further differences."""
    before = view(*(broker(at) for at in range(3)))
    after = view(*(broker(at, epoch=11, group_version=1) for at in range(3)))
    assert told(before, after) == ["group.version is finalized at 1 (was 0)"]


def test_a_broker_that_lags_and_catches_up() -> None:
    """Each is told once, however the epochs run."""
    before = view(broker(1), broker(2))
    between = view(broker(1, epoch=11, group_version=1), broker(2))
    after = view(broker(1, epoch=12, group_version=1), broker(2, epoch=12, group_version=1))
    level = "group.version is finalized at 1 (was 0)"
    assert told(before, between) == [level, "broker 2 (b2:9092) still says group.version 0"]
    assert told(between, after) == ["broker 2 (b2:9092) has caught up"]


def test_ranges_that_moved() -> None:
    """The ranges of the cluster come first, then the broker that moved them."""
    was, now = view(broker(1, txn=3)), view(broker(1, txn=4))
    (of_cluster, of_broker) = differences(was, now)
    assert of_cluster[:4] == ("api", "TxnOffsetCommit", (0, 3), (0, 4))
    assert of_broker[:4] == ("broker changed", "broker 1 (b1:9092)", was.brokers[0], now.brokers[0])
    assert told(view(broker(1, txn=3)), view(broker(1, txn=4))) == [
        "all brokers serve TxnOffsetCommit 0..4 (was 0..3)",
        "broker 1 (b1:9092) serves TxnOffsetCommit 0..4",
    ]


def test_supported_ranges_that_moved() -> None:
    """A supported range that has moved is the sign of a complete roll."""
    after = replace(broker(1), supported={"group.version": SupportedRange(0, 1)})
    assert told(view(broker(1)), view(after)) == [
        "all brokers can run group.version 0..1 (was none)",
        "broker 1 (b1:9092) can run group.version 0..1",
    ]


def test_what_becomes_known_or_unknown_has_no_value() -> None:
    """It is about the cluster as a whole."""
    unknown, known = View(cluster_id="c"), View(cluster_id="c", epoch=0)
    assert differences(unknown, known) == (("level", "", None, None, "finalized features are known now"),)
    assert differences(known, unknown) == (("level", "", None, None, "finalized features are unknown now"),)


def test_all_that_changed_of_a_broker_is_one_line() -> None:
    """Its ranges, its levels, its configs, and the version at which it was asked."""
    levels = {f"f{at}": 1 for at in range(5)}
    steady = replace(broker(1, epoch=9, txn=None), finalized=levels)
    was = broker(2, epoch=-1)
    now = replace(
        broker(2, epoch=3, txn=4),
        supported={"x": SupportedRange(0, 1)},
        configs={"a": BrokerConfig("1")},
        asked_version=3,
    )
    (line,) = told(view(steady, was), view(steady, now))
    assert line == (
        "broker 2 (b2:9092) serves TxnOffsetCommit 0..4, can run x 0..1, still says f0 0, f1 0, f2 0 and 2 more "
        "finalized levels, reports finalized features now, has a=1, was asked at ApiVersions v3"
    )
    (back,) = told(view(steady, now), view(steady, was))
    assert back == (
        "broker 2 (b2:9092) serves TxnOffsetCommit 0..3, can run x none, has caught up, reports no finalized features "
        "now, has a=unknown, was asked at ApiVersions v4"
    )


@pytest.mark.parametrize(("silent", "who"), [(False, "all brokers"), (True, "all brokers that answer")])
def test_ranges_are_those_of_the_brokers_that_answer(*, silent: bool, who: str) -> None:
    """Which may look better than those of all."""
    others = (deaf(2),) if silent else ()
    was = View(cluster_id="c", brokers=others, api_ranges={28: ApiRange(0, 3)}, supported={"x": SupportedRange(0, 1)})
    now = replace(was, api_ranges={1: ApiRange(4, 5)}, supported={"y": SupportedRange(0, 2)})
    assert [tuple(each) for each in differences(was, now)] == [
        ("supported", "y", None, (0, 2), f"{who} can run y 0..2 (was none)"),
        ("supported", "x", (0, 1), None, f"not {who} can run x (was 0..1)"),
        ("api", "Fetch", None, (4, 5), f"{who} serve Fetch 4..5 (was none)"),
        ("api", "TxnOffsetCommit", (0, 3), None, f"not {who} serve TxnOffsetCommit (was 0..3)"),
    ]


def test_configs_that_changed() -> None:
    """One that is not known any more has changed, too."""
    was = replace(broker(1), configs={"a": BrokerConfig("1"), "b": BrokerConfig("2"), "c": BrokerConfig("3")})
    now = replace(
        was, configs={"a": BrokerConfig("1", "x"), "b": BrokerConfig(None, "not allowed"), "d": BrokerConfig("4")}
    )
    assert told(view(was), view(now)) == ["broker 1 (b1:9092) has b=unknown, has d=4, has c=unknown"]
    gone = replace(now, configs={**now.configs, "b": BrokerConfig(None, "", exists=False)})
    assert told(view(now), view(gone)) == ["broker 1 (b1:9092) has no config b"]


def test_supported_ranges_are_counted_as_well() -> None:
    """By their own name."""
    after = replace(broker(1), supported={f"f{at}": SupportedRange(0, at) for at in range(5)})
    (*_, line) = told(view(broker(1)), view(after))
    assert line == "broker 1 (b1:9092) can run f0 0..0, f1 0..1, f2 0..2 and 2 more supported ranges"


def test_three_ranges_are_all_of_them() -> None:
    """Only what is left out is counted."""
    after = replace(broker(1), api_ranges={key: ApiRange(0, 3) for key in (0, 1, 2, 28)})
    (*_, line) = told(view(broker(1)), view(after))
    assert line == "broker 1 (b1:9092) serves Produce 0..3, Fetch 0..3, ListOffsets 0..3"


def test_brokers_that_came_and_went() -> None:
    """A difference names a broker by id and address."""
    found = differences(view(broker(1)), view(broker(2)))
    assert [difference[2:4] for difference in found] == [(None, broker(2)), (broker(1), None)]
    assert [(difference.kind, difference.subject, str(difference)) for difference in found] == [
        ("broker came", "broker 2 (b2:9092)", "broker 2 (b2:9092) came"),
        ("broker went", "broker 1 (b1:9092)", "broker 1 (b1:9092) went"),
    ]


def test_a_broker_that_came_silent() -> None:
    """The broker is listed, and has not answered since."""
    assert told(view(broker(1)), view(broker(1), deaf(2))) == [
        "broker 2 (b2:9092) came, and does not answer: said nothing for 5 s"
    ]


def test_a_broker_that_fell_silent_and_returned() -> None:
    """The two differences have that order."""
    speaking, silent = view(broker(1), broker(2)), view(broker(1), deaf(2))
    two = "broker 2 (b2:9092)"
    assert [each[:4] for each in differences(speaking, silent)] == [("broker silent", two, broker(2), deaf(2))]
    assert [each[:4] for each in differences(silent, speaking)] == [("broker returned", two, deaf(2), broker(2))]
    assert told(speaking, silent) == ["broker 2 (b2:9092) does not answer: said nothing for 5 s"]
    assert told(silent, speaking) == ["broker 2 (b2:9092) answers again"]


def test_an_upgraded_broker_is_one_line() -> None:
    """Dozens of APIs change at once; three are named."""
    many = {key: ApiRange(0, 3) for key in range(20)}
    before = view(broker(1), BrokerAnswer(node_id=2, host="b2", port=9092))
    after = view(broker(1), BrokerAnswer(node_id=2, host="b2", port=9092, api_ranges=many, asked_version=4))
    (line,) = told(before, after)
    assert line == (
        "broker 2 (b2:9092) serves Produce 0..3, Fetch 0..3, ListOffsets 0..3 and 17 more API ranges, "
        "was asked at ApiVersions v4"
    )


@pytest.mark.parametrize(
    ("after", "first", "back"),
    [
        (
            view(broker(1), cluster_id="new"),
            ("cluster", "", "c", "new", "this is another cluster, new (was c): everything starts afresh"),
            "this is another cluster, c (was new): everything starts afresh",
        ),
        (
            merge([broker(1)], cluster_id="c", broker_list="bootstrap", seen_at=1),
            ("broker_list", "", "cluster", "bootstrap", "the bootstrap list names the brokers"),
            "the cluster names its brokers",
        ),
        (
            merge([replace(broker(1), role="controller")], cluster_id="c", role="controller", seen_at=1),
            ("role", "", "broker", "controller", "controllers are asked (were brokers)"),
            "brokers are asked (were controllers)",
        ),
    ],
)
def test_another_cluster_list_or_role(after: View, first: Difference, back: str) -> None:
    """What concerns the view as a whole comes first."""
    assert differences(view(broker(1)), after)[0] == first
    assert told(after, view(broker(1)))[0] == back
