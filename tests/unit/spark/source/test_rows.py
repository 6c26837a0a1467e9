"""A view as rows: what is known, missing or unknown, and the filters."""

from dataclasses import replace
from pathlib import Path

from builders import broker, deaf, view
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


MIXED = view(
    replace(broker(1, epoch=20, transaction_version=2, metadata_version=29), supported={TV: SupportedRange(0, 2)}),
    replace(
        broker(2, epoch=10, transaction_version=1, txn=None),
        api_ranges={999: ApiRange(0, 1)},  # newer than the catalog: no row is lost because its name is unknown
        supported={TV: SupportedRange(0, 1), "new.feature": SupportedRange(0, 1)},
    ),
    deaf(3),
)


def test_all_rows_are_as_kept() -> None:
    """What all brokers serve, what one lacks or lags behind, its error, names of levels, and levels before an epoch."""
    unknown = view(replace(broker(1, epoch=-1), supported={TV: SupportedRange(0, 2)}))
    told = [repr(row) for each in (MIXED, unknown) for row in rows(each)]
    told += [
        f"4.2: {row.feature} {row.min}..{row.max}" for row in rows(release_view("4.2"), feature={"Produce"})
    ]  # it rejects what is below 3
    kept = Path(__file__).parent / "rows.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


@given(views())
def test_each_broker_has_an_error_or_as_many_rows_as_the_cluster(seen):
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
