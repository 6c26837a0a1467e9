"""What texts say of a view, and what peers may put into them."""

import pytest

from featuregate.view.answers import BrokerAnswer, BrokerConfig, Failure, SupportedRange
from featuregate.view.cluster_view import (
    View,
    failures,
    members,
    named,
    outside_support,
    reports_no_levels,
    with_printable_names,
    with_printable_texts,
)
from featuregate.view.matrix import compare


def answer(node_id: int | None = 1, **said: object) -> BrokerAnswer:
    return BrokerAnswer(node_id=node_id, host=f"b{node_id}", port=9092, **said)


def view(*brokers: BrokerAnswer, epoch: int = 5, **said: object) -> View:
    return View(cluster_id="c", epoch=epoch, brokers=brokers, **said)


def test_no_text_of_a_relay_steers_a_terminal() -> None:
    """Each text of a view and of its brokers is escaped; numbers stay."""
    broker = BrokerAnswer(
        node_id=1,
        host="h\n",
        port=1,
        supported={"s\n": SupportedRange(0, 2)},
        finalized={"f\n": 2},
        configs={"k\n": BrokerConfig("v\n", "p\n"), "unknown": BrokerConfig(None, "not allowed")},
        failure=Failure("K\n", "t\n"),
    )
    told = View(
        cluster_id="c\n",
        epoch=5,
        supported={"s\n": SupportedRange(0, 2)},
        finalized={"f\n": 2},
        brokers=(broker, answer(2, epoch=5)),
    )
    clean = with_printable_texts(told)
    assert (clean.cluster_id, clean.epoch, dict(clean.finalized)) == (r"c\x0a", 5, {r"f\x0a": 2})
    assert clean.supported == {r"s\x0a": SupportedRange(0, 2)}
    first, second = clean.brokers
    assert (first.host, first.port, first.failure) == (r"h\x0a", 1, (r"K\x0a", r"t\x0a"))
    assert (first.supported, first.finalized) == ({r"s\x0a": SupportedRange(0, 2)}, {r"f\x0a": 2})
    assert first.configs == {r"k\x0a": BrokerConfig(r"v\x0a", r"p\x0a"), "unknown": BrokerConfig(None, "not allowed")}
    assert second == answer(2, epoch=5)
    assert with_printable_texts(View(cluster_id=None)).cluster_id is None


def test_a_blank_name_of_a_feature_is_left_out() -> None:
    """No controller takes it, and no requirement can name it."""
    assert with_printable_names({" ": 1, "a": 2}) == {"a": 2}
    assert with_printable_names({"a\t": 1, "b": 2}) == {r"a\x09": 1, "b": 2}


def test_brokers_have_names_with_and_without_ids() -> None:
    """Ids come first, in short form."""
    bare = [BrokerAnswer(node_id=None, host=host, port=9092) for host in ("x", "y")]
    assert members([answer(1), answer(2), *bare]) == "1-2,x:9092,y:9092"
    assert named([answer(1)]) == "broker 1 (b1:9092)"
    assert named([answer(1), answer(3)]) == "brokers 1,3"


def test_brokers_that_fail_alike_are_named_together() -> None:
    """Answers are no failures."""
    late, refused = Failure("TimedOut", "late"), Failure("Refused", "no")
    silent = [answer(1, failure=late), answer(2, failure=refused), answer(3), answer(4, failure=late)]
    assert failures(view(*silent)) == {late: [silent[0], silent[3]], refused: [silent[1]]}


@pytest.mark.parametrize(
    ("level", "said", "outside"),
    [
        (1, {"supported": {"f": SupportedRange(1, 3)}}, False),
        (3, {"supported": {"f": SupportedRange(1, 3)}}, False),
        (4, {"supported": {"f": SupportedRange(1, 3)}}, True),
        (1, {"supported": {"f": SupportedRange(2, 3)}}, True),
        (1, {"asked_version": 4}, True),
        (1, {"asked_version": 3}, False),  # it hides features
    ],
)
def test_a_finalized_level_may_be_outside_of_what_brokers_support(
    level: int,
    said: dict[str, object],
    outside: bool,  # noqa: FBT001 - a case
) -> None:
    """Only brokers that answer count, and only levels that are known."""
    broker = answer(1, **said)
    wide = answer(2, supported={"f": SupportedRange(0, 9)})
    silent = answer(3, failure=Failure("TimedOut", "late"))
    assert outside_support(view(broker, wide, silent, finalized={"f": level})) == ({"f": [broker]} if outside else {})
    assert outside_support(view(answer(1), epoch=0, finalized={"f": 1})) == {"f": [answer(1)]}
    assert outside_support(view(answer(1), epoch=-1, finalized={"f": 1})) == {}


def test_brokers_without_finalized_features_report_no_levels() -> None:
    """A KRaft broker lists metadata.version in any case."""
    assert reports_no_levels(view(answer(1)))
    assert not reports_no_levels(view())
    assert not reports_no_levels(view(answer(1, failure=Failure("TimedOut", "late"))))
    assert not reports_no_levels(view(answer(1), answer(2, finalized={"f": 1})))
    assert not reports_no_levels(view(answer(1), answer(2, supported={"metadata.version": SupportedRange(1, 25)})))


def test_each_broker_has_its_own_value_in_a_row() -> None:
    """A level that a broker lacks is 0, and of a broker without an epoch it is unknown."""
    brokers = (
        answer(1, epoch=5, finalized={"f": 2}, supported={"g": SupportedRange(0, 3)}),
        answer(2, epoch=0),
        answer(3, epoch=-1, finalized={"f": 2}),
    )
    matrix = compare(view(*brokers, finalized={"f": 2, "late": 1}), all_apis=True)
    rows = {(row.kind, row.name): (row.cluster, row.values) for row in matrix.rows}
    assert rows["finalized", "f"] == ((2,), ((2,), (0,), None))
    assert rows["finalized", "late"] == ((1,), ((0,), (0,), None))
    assert rows["supported", "g"] == (None, ((0, 3), None, None))
    assert [group.index for group in matrix.groups] == [0, 1, 2]
    unknown = compare(view(answer(1, epoch=-1, finalized={"f": 2}), epoch=-1), all_apis=True)
    assert [row.cluster for row in unknown.rows if row.kind == "finalized"] == [None]


def test_a_range_of_a_feature_is_one_where_all_support_the_same() -> None:
    """The cluster's range is what all brokers share."""
    brokers = [answer(node, epoch=5, supported={"group.version": SupportedRange(1, 1)}) for node in (1, 2)]
    matrix = compare(view(*brokers, supported={"group.version": SupportedRange(1, 1)}), all_apis=True)
    (row,) = [row for row in matrix.rows if row.kind == "supported"]
    assert (row.cluster, row.text(row.cluster)) == ((1, 1), "1")
