"""``matrix``: its rows, its columns and its output."""

from dataclasses import replace

from builders import broker, deaf, view

from featuregate.cli.commands.matrix import build, to_json, to_text
from featuregate.view.answers import ApiRange, SupportedRange

FETCH = 1


def test_only_apis_that_differ_are_shown() -> None:
    """The matrix counts the other APIs."""
    seen = view(*(replace(broker(n), api_ranges={FETCH: ApiRange(0, 10 + n), 28: ApiRange(0, 3)}) for n in (1, 2)))
    matrix = build(seen, all_apis=False)
    assert [line.name for line in matrix.rows] == ["Fetch"]
    assert matrix.hidden == 1


def test_all_shows_every_api() -> None:
    """The option also shows APIs on which all brokers agree."""
    assert [line.name for line in build(view(broker(1), broker(2)), all_apis=True).rows] == ["TxnOffsetCommit"]


def test_features_are_shown_even_where_all_agree() -> None:
    """A cluster has only a few features."""
    matrix = build(view(broker(1, group_version=1), broker(2, group_version=1)), all_apis=False)
    assert [(line.kind, line.name, line.cluster) for line in matrix.rows] == [("finalized", "group.version", (1,))]


def test_brokers_with_the_same_values_share_a_column() -> None:
    """The matrix of a thousand brokers fits a terminal."""
    seen = view(broker(1, txn=3), broker(2, txn=3), broker(3, txn=2))
    assert [column.name for column in build(seen, all_apis=False).columns] == ["1-2", "3"]


def test_a_column_of_too_many_brokers_to_name_gets_a_letter() -> None:
    """The ids of the brokers stand below the table."""
    matrix = build(view(*(broker(n, txn=2 + n % 2) for n in range(1, 41))), all_apis=False)
    assert [column.name for column in matrix.columns] == ["A (20)", "B (20)"]
    odd = ",".join(str(number) for number in range(1, 41, 2))
    assert f"A (20): brokers {odd}" in to_text(matrix)


def test_a_stale_broker_gets_a_column_of_its_own() -> None:
    """The stale broker returns the old level."""
    seen = view(broker(1, epoch=20, group_version=1), broker(2, epoch=10))
    (line,) = build(seen, all_apis=False).rows
    assert (line.cluster, line.values, line.differs) == ((1,), ((1,), (0,)), True)


def test_text_is_aligned() -> None:
    """The text has its footnotes below the table."""
    seen = view(
        replace(broker(1, txn=3, group_version=1), supported={"group.version": SupportedRange(0, 1)}),
        replace(broker(2, txn=None, group_version=1), supported={}),
        deaf(3),
    )
    assert to_text(build(seen, all_apis=False)) == [
        "cluster c, epoch 10: 2 of 3 brokers answered",
        "",
        "FINALIZED LEVEL    CLUSTER  1     2",
        "group.version      1        1     1",
        "",
        "SUPPORTED LEVELS   CLUSTER  1     2",
        "group.version *    -        0..1  -",
        "",
        "API VERSIONS       CLUSTER  1     2",
        "TxnOffsetCommit *  -        0..3  -",
        "",
        "*: brokers differ",
        "",
        "no answer: broker 3 (b3:9092): said nothing for 5 s",
    ]


def test_text_counts_the_hidden_apis() -> None:
    """The text names the option that shows them."""
    assert "not shown, because all brokers agree: 1 APIs (--all shows them)" in to_text(
        build(view(broker()), all_apis=False)
    )


def test_a_cluster_without_epochs_has_unknown_levels() -> None:
    """Kafka before 2.7 has no finalized levels."""
    assert to_text(build(view(broker(epoch=-1)), all_apis=False))[0] == "cluster c, no epoch: 1 of 1 brokers answered"


def test_names_of_features_cannot_steer_a_terminal() -> None:
    """A broker sends the names."""
    seen = view(replace(broker(), supported={"\x1b[31mred": SupportedRange(0, 1)}))
    assert not any("\x1b" in line for line in to_text(build(seen, all_apis=False)))


def test_json_has_numbers_and_failures() -> None:
    """Scripts read the JSON."""
    found = to_json(build(view(broker(1, txn=3), broker(2, txn=2), deaf(3)), all_apis=False))
    assert found["rows"] == [
        {
            "kind": "api",
            "name": "TxnOffsetCommit",
            "cluster": [0, 2],
            "differs": True,
            "brokers": {"1": [0, 3], "2": [0, 2]},
        }
    ]
    assert found["brokers"][2]["failure"] == {"kind": "TimedOut", "text": "said nothing for 5 s"}
