"""A view as rows: what is known, missing or unknown, and the filters."""

from dataclasses import replace
from datetime import UTC, datetime

from builders import DEAF, broker, deaf, view
from hypothesis import given
from strategies import views

from featuregate.testing import release_view
from featuregate.view.answers import ApiRange, SupportedRange
from featuregate_spark.source.rows import SCHEMA, FeatureRow, rows_of

TV = "transaction.version"


def rows(of, **only) -> list[FeatureRow]:
    return list(rows_of(of, {column: frozenset(values) for column, values in only.items()}))


def test_the_columns_are_those_of_the_schema():
    """Spark takes the values of a row by their position."""
    assert [column.split()[0] for column in SCHEMA.split(", ")] == list(FeatureRow._fields)


def test_what_the_cluster_serves_is_what_all_brokers_serve():
    """One row for the cluster, without a host, and one for each broker."""
    found = rows(view(broker(1, txn=3), broker(2, txn=5)), feature={"TxnOffsetCommit"})
    assert [(row.scope, row.broker, row.host, row.api_key, row.min, row.max) for row in found] == [
        ("cluster", None, None, 28, 0, 3),
        ("broker", 1, "b1", 28, 0, 3),
        ("broker", 2, "b2", 28, 0, 5),
    ]


def test_an_api_that_one_broker_lacks_is_a_row_without_versions():
    """Both the broker and the cluster show that it is missing, instead of having no row."""
    found = rows(view(broker(1, txn=3), broker(2, txn=None)), kind={"api"})
    assert [(row.scope, row.broker, row.min, row.max) for row in found] == [
        ("cluster", None, None, None),
        ("broker", 1, 0, 3),
        ("broker", 2, None, None),
    ]


def test_versions_are_those_that_are_really_served():
    """A broker of 4.x advertises Produce from 0, and rejects versions below 3."""
    found = rows(release_view("4.2"), feature={"Produce"})
    assert [row.min for row in found] == [3, 3]


def test_a_broker_that_does_not_answer_is_a_row_with_its_error():
    """The kind is for programs, the text for people; the broker has no other rows."""
    found = rows(view(broker(1), deaf(2)), broker={2})
    assert [(row.kind, row.scope, row.host, row.error, row.text) for row in found] == [("error", "broker", "b2", *DEAF)]


def test_an_absent_level_differs_from_an_unknown_one():
    """An absent level is 0 if an epoch is known; without an epoch it is unknown."""
    supports = {"supported": {TV: SupportedRange(0, 2)}}
    absent = rows(view(replace(broker(1, epoch=10), **supports)), feature={TV})
    unknown = rows(view(replace(broker(1, epoch=-1), **supports)), feature={TV})
    assert [(row.level, row.level_name, row.reported_level, row.epoch) for row in absent] == [(0, None, 0, 10)] * 2
    assert [(row.level, row.reported_level, row.epoch) for row in unknown] == [(None, None, None)] * 2


def test_a_level_has_its_name_beside_its_number():
    """The number where Kafka has no name for it, and none where the feature is not finalized."""
    found = rows(view(broker(1, metadata_version=29, transaction_version=2)), kind={"feature"})
    assert {(row.feature, row.level, row.level_name) for row in found} == {
        ("metadata.version", 29, "4.2-IV1"),
        (TV, 2, "2"),
    }


def test_a_broker_that_lags_shows_its_own_level_beside_that_of_the_cluster():
    """All rows of a feature have the same level."""
    found = rows(view(broker(1, epoch=20, transaction_version=2), broker(2, epoch=10, transaction_version=1)))
    assert [(row.broker, row.level, row.reported_level, row.epoch) for row in found if row.feature == TV] == [
        (None, 2, 2, 20),
        (1, 2, 2, 20),
        (2, 2, 1, 10),
    ]


def test_every_row_has_the_cluster_and_the_time():
    """One table can hold the rows of several clusters and times."""
    found = rows(view(broker(1), deaf(2)))
    assert {(row.cluster_id, row.role, row.seen_at) for row in found} == {
        ("c", "broker", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    }


def test_an_api_that_is_newer_than_the_catalog_has_a_printable_name():
    """No row is lost because its name is unknown."""
    found = rows(view(replace(broker(1), api_ranges={999: ApiRange(0, 1)})), scope={"broker"})
    assert [(row.feature, row.api_key) for row in found] == [("api:999", 999)]


@given(views())
def test_each_broker_has_an_error_or_as_many_rows_as_the_cluster(seen):
    """This holds for any answers of brokers."""
    found = rows(seen)
    whole = sum(row.scope == "cluster" for row in found)
    for each in seen.brokers:
        mine = [row for row in found if (row.broker, row.host, row.port) == (each.node_id, each.host, each.port)]
        assert len(mine) == (whole if each.answered else 1)


@given(views())
def test_filtered_rows_are_a_part_of_all(seen):
    """Filtering early gives the same rows as filtering late."""
    late = [row for row in rows(seen) if row.kind == "feature" and row.broker in {1, 2}]
    assert rows(seen, kind={"feature"}, broker={1, 2}) == late
