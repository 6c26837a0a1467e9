"""The merge: invariants 1 and 3, intersections, and what a view tells."""

import pickle
from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import broker_answers, cluster_ids, times, views

from featuregate.errors import UnknownApi
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, FrozenMap, SupportedRange
from featuregate.view.cluster_view import ClusterApiRange, View, lagging
from featuregate.view.merging import merge


def answer(node_id: int | None = 1, host: str = "b", **said: object) -> BrokerAnswer:
    return BrokerAnswer(node_id=node_id, host=host, port=9092, **said)


# ---------------------------------------------------------------- finalized levels


def test_invariant_1_an_equal_epoch_with_other_content_takes_the_newer() -> None:
    """A controller changed kraft.version at the same epoch, so the new observation counts."""
    before = view(broker(1, epoch=10, kraft_version=0))
    assert view(broker(1, epoch=10, kraft_version=1), previous=before).level("kraft.version") == 1


def test_invariant_1_a_negative_epoch_never_enters() -> None:
    """A 4.3 controller without a quorum reports a bogus metadata.version at no epoch (KAFKA-19964)."""
    alone = view(broker(1, epoch=-1, metadata_version=7))
    assert (alone.epoch, alone.finalized, alone.level("metadata.version")) == (-1, {}, None)
    before = view(broker(1, epoch=3, metadata_version=25))
    assert view(broker(1, epoch=-1, metadata_version=7), previous=before).level("metadata.version") == 25


def test_invariant_1_no_cluster_id_equals_only_none() -> None:
    """Kafka 0.10.0 has no cluster id: without one nothing is shared with a cluster that has."""
    before = view(broker(1, epoch=10, group_version=1), cluster_id=None)
    assert view(broker(1, epoch=2), cluster_id=None, previous=before).epoch == 10
    assert view(broker(1, epoch=2), cluster_id="c", previous=before).epoch == 2
    named = view(broker(1, epoch=10), cluster_id="c")
    assert view(broker(1, epoch=2), cluster_id=None, previous=named).epoch == 2


def test_a_view_of_controllers_starts_afresh_from_one_of_brokers() -> None:
    """Epochs of controllers stand still while those of brokers run."""
    before = view(broker(1, epoch=10, group_version=1))
    apart = merge([answer(role="controller", epoch=3)], cluster_id="c", role="controller", previous=before, seen_at=0)
    assert apart.epoch == 3


def test_answers_of_the_other_role_are_left_out() -> None:
    """A controller serves no Produce, which says nothing of the brokers."""
    merged = merge([broker(1), answer(9, role="controller")], cluster_id="c", seen_at=0)
    assert [known.node_id for known in merged.brokers] == [1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"answered_at": 2.0}, {"answered_at": 1.0, "node_id": 9}),
        ({"answered_at": 1.0, "node_id": 2}, {"answered_at": 1.0, "node_id": 1}),
        ({"answered_at": 1.0, "node_id": 0}, {"answered_at": 1.0, "node_id": None}),
        ({"answered_at": 1.0, "host": "y"}, {"answered_at": 1.0, "host": "x"}),
    ],
)
def test_at_an_equal_epoch_the_later_answer_wins_then_the_higher_id(first: dict, second: dict) -> None:
    """The result does not depend on which broker answered first."""
    wins = answer(**first, epoch=5, finalized={"kraft.version": 1})
    loses = answer(**second, epoch=5, finalized={})
    assert view(wins, loses).level("kraft.version") == view(loses, wins).level("kraft.version") == 1


@given(st.lists(broker_answers(), max_size=6), st.randoms(), cluster_ids, st.none() | views())
def test_the_order_of_answers_never_matters(answers, random, cluster_id, previous) -> None:
    """Answers come as the network lets them."""
    shuffled = list(answers)
    random.shuffle(shuffled)
    first = merge(answers, cluster_id=cluster_id, previous=previous, seen_at=1)
    assert merge(shuffled, cluster_id=cluster_id, previous=previous, seen_at=1) == first


@given(st.lists(st.tuples(cluster_ids, st.lists(broker_answers(), max_size=4)), max_size=6))
def test_invariant_1_over_any_sequence_of_looks(looks) -> None:
    """Epochs of one cluster in a row never fall, nor turn unknown; content at the highest epoch is somebody's."""
    before = None
    for cluster_id, answers in looks:
        after = merge(answers, cluster_id=cluster_id, previous=before, seen_at=1)
        same = before is not None and before.cluster_id == cluster_id
        reported = {(a.epoch, a.finalized) for a in after.answering if a.epoch >= 0}
        sources = reported | ({(before.epoch, before.finalized)} if same and before.epoch >= 0 else set())
        assert after.epoch == max((epoch for epoch, _ in sources), default=-1)
        assert (after.epoch, after.finalized) in (sources or {(-1, FrozenMap())})
        if any(epoch == after.epoch for epoch, _ in reported):
            assert (after.epoch, after.finalized) in reported
        before = after


# ---------------------------------------------------------------- ranges


def test_the_produce_quirk_is_undone_in_the_cluster_and_left_in_the_broker() -> None:
    """The cluster's range is what can be used; the broker's is what it said."""
    merged = view(answer(1, api_ranges={0: ApiRange(0, 13), 1: ApiRange(4, 18)}))
    assert merged.api("Produce") == (3, 13)
    assert merged.brokers[0].api_ranges[0] == (0, 13)


def test_supported_ranges_are_the_intersection() -> None:
    """What every broker can run may be finalized."""
    merged = view(
        answer(1, supported={"group.version": SupportedRange(0, 2), "share.version": SupportedRange(0, 1)}),
        answer(2, supported={"group.version": SupportedRange(0, 1)}),
    )
    assert merged.feature("group.version") == (0, 1)
    assert merged.feature("share.version") is None


@given(first=st.lists(broker_answers()), second=st.lists(broker_answers()))
def test_ranges_depend_on_the_answers_of_now_alone(first, second) -> None:
    """What the view before found is taken over only where it would be found again."""
    before = merge(first, cluster_id="c", seen_at=0.0)
    for answers in (first, second, [*first, *second]):
        after = merge(answers, cluster_id="c", previous=before, seen_at=1.0)
        alone = merge(answers, cluster_id="c", seen_at=1.0)
        assert (after.api_ranges, after.supported) == (alone.api_ranges, alone.supported)


def test_a_deaf_broker_leaves_ranges_and_marks_them_incomplete() -> None:
    """What the others say is still worth knowing, but it is not the whole truth."""
    merged = view(broker(1), deaf(2))
    assert merged.api("TxnOffsetCommit") == ClusterApiRange(0, 3, incomplete=True)
    assert merged.api("TxnOffsetCommit").incomplete
    assert merged.incomplete
    assert [missing.node_id for missing in merged.missing] == [2]
    assert [answering.node_id for answering in merged.answering] == [1]


def test_a_view_without_brokers_is_incomplete() -> None:
    """A cluster without known brokers has unknown APIs, rather than all."""
    assert view().incomplete
    assert view().api("Fetch") is None


@pytest.mark.parametrize("api", ["TxnOffsetCommit", "TXN_OFFSET_COMMIT", "txnoffsetcommit", 28, "api:28"])
def test_apis_go_by_any_of_their_names(api: str | int) -> None:
    """Logs, protocol pages and numbers name the same thing."""
    assert view(broker(1, txn=4)).api(api) == (0, 4)


def test_a_misspelled_api_is_an_error_with_close_names() -> None:
    """None would mean that brokers lack the API."""
    with pytest.raises(UnknownApi, match=r"no API is called 'TxnOfsetCommit'; did you mean TxnOffsetCommit or"):
        view(broker(1)).api("TxnOfsetCommit")


def test_a_cluster_api_range_is_a_tuple_that_knows_more() -> None:
    """It unpacks like any range, and keeps what it knows across processes."""
    common = pickle.loads(pickle.dumps(ClusterApiRange(0, 3, incomplete=True)))
    assert (common, common.min, common.max, common.incomplete) == ((0, 3), 0, 3, True)
    assert repr(common) == "ClusterApiRange(min=0, max=3, incomplete=True)"


@given(st.lists(broker_answers(), min_size=1, max_size=5))
def test_a_common_version_is_served_by_everybody_who_answered(answers) -> None:
    """And a version that everybody serves is in the common range."""
    merged = merge(answers, cluster_id="c", seen_at=1)
    for key in {key for said in answers for key in said.api_ranges}:
        common = merged.api(key)
        for version in range(25):
            everybody = [said.serves(key) for said in merged.answering]
            served = bool(everybody) and all(r is not None and r.min <= version <= r.max for r in everybody)
            assert served == (common is not None and common.min <= version <= common.max)


# ---------------------------------------------------------------- levels


def test_levels_have_three_states() -> None:
    """Unknown, absent and a level are three things (Dekaf#2230 took them for two)."""
    assert view(broker(1, epoch=-1)).level("group.version") is None
    assert view(broker(1, epoch=0)).level("group.version") == 0
    assert view(broker(1, epoch=0, group_version=1)).level("group.version") == 1


def test_a_broker_lags_in_what_it_reports_otherwise() -> None:
    """In each level; a broker without an epoch reports none."""
    seen = View(cluster_id="c", epoch=9, finalized={"a": 3, "b": 3, "c": 3})
    late = answer(epoch=8, finalized={"a": 3, "b": 1, "d": 2})
    assert lagging(seen, late) == {"b": 1, "c": 0, "d": 2}
    assert lagging(seen, replace(late, epoch=0)) == lagging(seen, late)
    assert lagging(seen, replace(late, epoch=-1)) == {}


# ---------------------------------------------------------------- brokers


def test_brokers_are_sorted_by_id_and_address() -> None:
    """Those without an id come last."""
    merged = view(answer(None, "z"), answer(None, "a"), answer(10), answer(9))
    assert [(known.node_id, known.host) for known in merged.brokers] == [(9, "b"), (10, "b"), (None, "a"), (None, "z")]


def test_of_two_answers_of_one_broker_that_which_answered_counts() -> None:
    """A retry that succeeded beats a failure that came later."""
    merged = view(broker(1), BrokerAnswer(node_id=1, host="b1", port=9092, answered_at=9, failure=deaf(1).failure))
    assert len(merged.brokers) == 1
    assert not merged.missing


def test_of_two_answers_of_one_broker_the_later_counts() -> None:
    """It may have been restarted in between."""
    merged = view(answer(1, answered_at=2, asked_version=4), answer(1, answered_at=1, asked_version=3))
    assert [known.asked_version for known in merged.brokers] == [4]


def test_brokers_that_say_the_same_share_it() -> None:
    """A thousand brokers of one release hold their API ranges once, over successive views too."""
    more = {"configs": {"a": BrokerConfig("1")}}
    more["supported"] = {"group.version": SupportedRange(0, 1)}
    before = view(*(replace(broker(at, group_version=1), **more) for at in range(3)))
    after = view(*(replace(broker(at, group_version=1), **more) for at in range(3)), previous=before)
    for name in ("api_ranges", "supported", "finalized", "configs"):
        assert len({id(getattr(known, name)) for known in (*before.brokers, *after.brokers)}) == 1
    assert after.api_ranges is before.api_ranges
    assert after.supported is before.supported


def test_each_broker_shares_what_it_said_before() -> None:
    """In the middle of a roll as well."""
    before = view(broker(1, txn=3), broker(2, txn=4))
    after = view(broker(1, txn=3), broker(2, txn=4), previous=before)
    assert all(new.api_ranges is old.api_ranges for old, new in zip(before.brokers, after.brokers, strict=True))


def test_mixed_brokers_show_a_roll() -> None:
    """While releases differ, what they support or serve differs."""
    assert not view(broker(1), broker(2), deaf(3)).mixed
    assert view(broker(1, txn=3), broker(2, txn=4)).mixed
    assert view(answer(1), answer(2, supported={"group.version": SupportedRange(0, 1)})).mixed


# ---------------------------------------------------------------- content


def test_invariant_4_an_epoch_that_merely_moved_is_the_same_content() -> None:
    """In KRaft it moves twice a second on an idle cluster."""
    before = view(broker(1, epoch=10, group_version=1))
    after = merge([broker(1, epoch=11, group_version=1)], cluster_id="c", previous=before, seen_at=99)
    assert before.same_content(after)
    assert before != after


def test_invariant_4_a_failure_told_in_other_words_is_the_same_content() -> None:
    """The text of a failure may count seconds."""
    one = answer(1, failure=deaf(1).failure._replace(text="for 5 s"))
    other = answer(1, failure=deaf(1).failure._replace(text="for 6 s"))
    assert view(one).same_content(view(other))


def test_invariant_4_another_controller_is_the_same_content() -> None:
    """A broker in KRaft names any live broker as the controller, another one each time."""
    named = merge([broker(1)], cluster_id="c", controller_id=7, seen_at=1)
    assert (named.controller_id, named.seen_at) == (7, 1)
    assert named.same_content(merge([broker(1)], cluster_id="c", controller_id=8, seen_at=1))


def test_levels_without_an_epoch_are_no_content() -> None:
    """They mean nothing."""
    assert View(cluster_id="c", finalized={"a": 1}).same_content(View(cluster_id="c"))


@given(views())
def test_views_survive_pickling(one: View) -> None:
    """A view goes to Spark workers as it is."""
    hash(one)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_view_introduces_itself() -> None:
    """In one line, however many brokers it knows."""
    assert repr(view(broker(1), deaf(2))) == "<View of cluster c: 1 of 2 brokers, epoch 10>"


@given(views(), times)
def test_a_view_is_of_the_same_content_as_itself(one: View, at: float) -> None:
    """The time of the view is no content."""
    again = merge(
        one.brokers,
        cluster_id=one.cluster_id,
        controller_id=one.controller_id,
        broker_list=one.broker_list,
        previous=one,
        seen_at=at,
    )
    assert one.same_content(one)
    assert one.same_content(again)


def test_a_view_keeps_its_brokers() -> None:
    """Those of an iterator, too, which gives each once; a list that its maker changes later changes no view."""
    brokers = [broker(1), deaf(2)]
    for each in (brokers, iter(brokers)):
        made = View(cluster_id="c", brokers=each)  # type: ignore[arg-type]
        assert (len(made.missing), len(made.answering), len(made.brokers)) == (1, 1, 2)
    kept = View(cluster_id="c", brokers=brokers)  # type: ignore[arg-type]
    brokers.clear()
    assert len(kept.brokers) == 2
