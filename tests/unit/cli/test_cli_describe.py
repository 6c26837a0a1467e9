"""``describe``: the rows and columns of kafka-features, and the notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import broker, deaf, view

from featuregate.cli.commands.describe import notes
from featuregate.cli.feature_table import columns, rows
from featuregate.view.answers import BrokerAnswer, SupportedRange

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster


def able(node_id: int = 1, *, epoch: int = 10, supported: dict[str, tuple[int, int]], **levels: int):
    """Return the answer of a broker, with its supported ranges and finalized levels."""
    ranges = {name: SupportedRange(*ends) for name, ends in supported.items()}
    return replace(broker(node_id, epoch=epoch, **levels), supported=ranges)


MODERN = {"metadata.version": (7, 29), "group.version": (0, 1), "kraft.version": (0, 1)}


def test_the_layout_is_that_of_kafka_features() -> None:
    """FeatureCommand of 4.3.1 prints the same columns."""
    found = rows(view(able(supported={"group.version": (0, 1)}, group_version=1)))
    assert columns(found) == (
        "Feature: group.version                             SupportedMinVersion: 0                "
        "SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: 10\n"
    )


def test_deprecated_levels_are_a_note_and_change_no_column() -> None:
    """kafka-features of 3.3 and newer has no column for the lowest finalized level."""
    before = able(supported={"x": (1, 2)}, x=2)
    after = replace(before, finalized_min={"x": 2})
    note = "levels of x below 2 are deprecated: clients must use 2 to 2"
    assert [note in notes(view(answer)) for answer in (before, after)] == [False, True]
    assert rows(view(after)) == rows(view(before))


def test_rows_are_sorted_by_name() -> None:
    """kafka-features sorts by name, too."""
    assert [row.feature for row in rows(view(able(supported=MODERN)))] == sorted(MODERN)


@pytest.mark.parametrize(
    ("answer", "row"),
    [
        (able(supported={"metadata.version": (7, 29)}, metadata_version=21), ("3.3-IV3", "4.2-IV1", "3.9-IV0", "10")),
        (able(supported={"metadata.version": (1, 21)}), ("UNKNOWN 1", "3.9-IV0", "UNKNOWN 0", "10")),
        (able(supported={"metadata.version": (7, 999)}), ("3.3-IV3", "UNKNOWN 999", "UNKNOWN 0", "10")),
        (able(supported={"group.version": (0, 1)}), ("0", "1", "0", "10")),
        (able(epoch=-1, supported={"group.version": (0, 1)}, group_version=1), ("0", "1", "0", "-")),
    ],
)
def test_levels_are_named_as_in_kafka_features(answer: BrokerAnswer, row: tuple[str, ...]) -> None:
    """Lower and newer levels have no name; without a finalized level or an epoch the level is 0."""
    assert rows(view(answer))[0][1:] == row


def test_finalized_but_not_supported_has_no_row() -> None:
    """kafka-features lists supported features only."""
    assert rows(view(able(supported={}, group_version=1))) == []


def test_the_supported_range_is_shared_by_all_brokers() -> None:
    """Brokers of two releases have different ranges."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported={"metadata.version": (7, 29)})
    assert rows(view(old, new))[0][1:3] == ("3.3-IV3", "3.9-IV0")


def test_a_feature_that_one_broker_lacks_has_no_row() -> None:
    """The cluster cannot use the feature yet."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported=MODERN)
    assert [row.feature for row in rows(view(old, new))] == ["metadata.version"]


def test_a_note_names_the_features_that_some_brokers_lack() -> None:
    """These features have no row."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported=MODERN)
    assert list(notes(view(old, new))) == [
        "not every broker supports group.version, kraft.version: see 'featuregate matrix'"
    ]


def test_a_note_names_a_silent_broker_and_the_cause() -> None:
    """The rows do not include the features of this broker."""
    (note,) = notes(view(able(1, supported=MODERN), deaf(2)))
    assert note == "broker 2 (b2:9092) does not answer, so its features are not included: said nothing for 5 s"


def test_a_note_names_all_brokers_that_are_silent_for_the_same_cause() -> None:
    """Where many are silent, the notes stay short."""
    (note,) = notes(view(able(1, supported=MODERN), deaf(2), deaf(3)))
    assert note == "brokers 2-3 do not answer, so their features are not included: said nothing for 5 s"


def test_there_is_no_note_where_all_brokers_agree() -> None:
    """Standard error stays empty, as in kafka-features."""
    assert list(notes(view(able(1, supported=MODERN), able(2, supported=MODERN)))) == []


def test_a_note_names_a_level_that_brokers_do_not_support() -> None:
    """The level may be below the range of a broker or above it."""
    seen = view(able(1, supported=MODERN, metadata_version=5), able(2, supported=MODERN, metadata_version=5))
    assert list(notes(seen)) == [
        "metadata.version is finalized at 3.3-IV1, which is not supported by broker 1 (b1:9092), broker 2 (b2:9092)"
    ]


def test_a_note_names_features_with_levels_newer_than_the_table(on: Run, cluster: ScriptedCluster) -> None:
    """The rows have numbers in place of names."""
    for node in cluster.nodes.values():
        node.supported |= {"metadata.version": (7, 77), "future.version": (0, 3)}
    ended = on("describe")
    assert (ended.code, "SupportedMaxVersion: UNKNOWN 77 " in ended.out) == (0, True)
    assert ended.err == (
        "featuregate: this cluster supports newer levels of future.version, metadata.version than this featuregate "
        "knows: shown as numbers\n"
    )
