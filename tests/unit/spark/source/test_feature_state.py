"""The state of a stream of features: what counts as a change, what stays latched, and what its offset holds."""

import json

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import views

from featuregate.gating.decisions import Staleness
from featuregate.testing import release_view
from featuregate.view.answers import BrokerAnswer, Failure
from featuregate_spark.errors import OffsetCorrupt
from featuregate_spark.source.feature_state import (
    FeatureState,
    document_of,
    latched_levels,
    next_state,
    seen_levels,
    state_from,
)
from featuregate_spark.source.rows import rows_of

TV = "transaction.version"


def through_json(step: FeatureState) -> FeatureState:
    return state_from(json.loads(json.dumps(document_of(step))))


@pytest.mark.parametrize(
    "seen",
    [
        view(broker(1, epoch=11, transaction_version=2), broker(2, epoch=11, transaction_version=2)),
        view(broker(1, transaction_version=1), deaf(2)),
        view(broker(1, transaction_version=1), broker(2, txn=4, transaction_version=1)),
    ],
    ids=["a level", "a silent broker", "an upgraded broker"],
)
def test_a_change_of_content_is_a_change(seen):
    """A level changes, a broker stops answering, or a broker serves more."""
    first = next_state(None, view(broker(1, transaction_version=1), broker(2, transaction_version=1)))
    assert next_state(first, seen).number == 2


def test_a_feature_that_goes_away_stays_latched():
    """The rows of the feature stay."""
    first = next_state(None, view(broker(1, epoch=10, transaction_version=2)))
    gone = next_state(first, view(broker(1, epoch=11)))
    assert latched_levels(gone) == {TV: 2}
    assert seen_levels(gone) == {TV: 0}


def test_stale_levels_are_unknown_and_stay_latched():
    """As live gates become unknown, and latched gates stay open."""
    first = next_state(None, view(broker(1, epoch=10, transaction_version=2)))
    stale = next_state(first, first.view, stale=Staleness(levels="no broker reports them"))
    assert stale.number == 2
    assert (seen_levels(stale), latched_levels(stale)) == ({TV: None}, {TV: 2})


def test_a_reason_that_only_counts_seconds_is_no_change():
    """The reason of stale levels names the seconds, which rise with each poll."""
    first = next_state(None, view(broker(1)), stale=Staleness(levels="not reported for 90 s"))
    assert next_state(first, first.view, stale=Staleness(levels="not reported for 120 s")).number == first.number


def test_another_cluster_starts_afresh():
    """The levels of one cluster say nothing about another."""
    first = next_state(None, view(broker(1, epoch=20, transaction_version=2)))
    other = next_state(first, view(broker(1, epoch=5, transaction_version=1), cluster_id="another"))
    assert (other.number, latched_levels(other)) == (2, {TV: 1})


@given(st.lists(views(), min_size=1, max_size=4), st.sampled_from([seen_levels, latched_levels]))
def test_an_offset_always_gives_the_same_rows(several, levels):
    """This holds for any answers of brokers."""
    step = None
    for seen in several:
        step = next_state(step, seen)
    again = through_json(step)
    assert document_of(again) == document_of(step)
    assert list(rows_of(again, levels(again), {})) == list(rows_of(step, levels(step), {}))


@given(views())
def test_the_state_of_an_offset_is_no_change(seen):
    """A restart that finds an unchanged cluster gives no row."""
    step = next_state(None, seen)
    assert next_state(through_json(step), seen).number == step.number


def test_equal_answers_are_stored_once_in_the_offset():
    """Spark writes the offset to its log with each batch: 100 brokers cost some bytes each, not 75 APIs each."""
    of_three, of_hundred = (
        len(json.dumps(document_of(next_state(None, release_view(*["4.2"] * n))))) for n in (3, 100)
    )
    assert of_three < 2_500
    assert of_hundred < 12_500
    assert len(release_view(*["4.2"] * 100).to_json()) > 300_000


def test_an_error_of_any_length_keeps_the_offset_small():
    """The offset has the first characters of the text, and the kind."""
    long = BrokerAnswer(node_id=1, host="b1", port=9092, failure=Failure("TimedOut", "x" * 5_000))
    again = through_json(next_state(None, view(broker(2), long)))
    assert again.view.missing[0].failure == Failure("TimedOut", "x" * 300)


@pytest.mark.parametrize("document", [None, {}, [], {"v": 1}, {"v": 1, "answers": 3}], ids=repr)
def test_an_offset_that_does_not_parse_is_refused(document):
    """Each such document raises OffsetCorrupt."""
    with pytest.raises(OffsetCorrupt, match="this is not an offset of kafka_features"):
        state_from(document)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("epoch", "Infinity"),
        ("seen_at", "NaN"),
        ("levels_at", "1e999"),
        ("levels_at", "1" + 400 * "0"),
        ("latched", '{"transaction.version": "2"}'),
        ("unlisted_since", '{"broker": 1}'),
        ("brokers", '[{"id": 1, "host": "b1", "port": 9092, "answer": -1}]'),
        ("stale", "[null]"),
    ],
)
def test_an_offset_with_a_value_that_the_source_never_writes_is_refused(field, text):
    """Each such value raises OffsetCorrupt, and none is taken for a time, a level or a broker's answer."""
    document = document_of(next_state(None, view(broker(1, transaction_version=1))))
    with pytest.raises(OffsetCorrupt, match="this is not an offset of kafka_features"):
        state_from({**document, field: json.loads(text)})


def test_an_offset_of_a_newer_release_says_what_to_do():
    """The app was rolled back to an older release."""
    newer = {**document_of(next_state(None, view(broker(1)))), "v": 2}
    with pytest.raises(OffsetCorrupt, match=r"2 is newer than 1, .*: upgrade featuregate"):
        state_from(newer)
