"""``describe``: the rows and columns of kafka-features, and the notes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import broker, deaf, view

from featuregate.cli.commands.describe import columns, notes, rows
from featuregate.view.answers import BrokerAnswer, SupportedRange

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster


def able(node_id: int = 1, *, epoch: int = 10, supported: dict[str, tuple[int, int]], **levels: int):
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


def test_rows_are_sorted_by_name() -> None:
    assert [row[0] for row in rows(view(able(supported=MODERN)))] == sorted(MODERN)


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


def test_rows_are_the_features_that_all_brokers_support() -> None:
    """In the range that all share; what is finalized and not supported has no row."""
    assert rows(view(able(supported={}, group_version=1))) == []
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported=MODERN)
    (row,) = rows(view(old, new))
    assert row[:3] == ("metadata.version", "3.3-IV3", "3.9-IV0")


OLD = {"metadata.version": (1, 21)}
SILENT = "not answer, so {} features are not included: said nothing for 5 s"


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        (
            [able(1, supported=OLD), able(2, supported=MODERN)],
            "not every broker supports group.version, kraft.version: see 'featuregate matrix'",
        ),
        ([able(1, supported=MODERN), deaf(2)], f"broker 2 (b2:9092) does {SILENT.format('its')}"),
        ([able(1, supported=MODERN), deaf(2), deaf(3)], f"brokers 2-3 do {SILENT.format('their')}"),
        ([able(1, supported=MODERN), able(2, supported=MODERN)], None),
        (
            [able(epoch=-1, supported={})],
            "no broker reports finalized features: use requirements on API versions here",
        ),
        (
            [able(2, supported=MODERN, metadata_version=5)],
            "metadata.version is finalized at 3.3-IV1, which is not supported by broker 2 (b2:9092)",
        ),
    ],
)
def test_a_note_says_what_the_table_does_not_show(answers: list[BrokerAnswer], note: str | None) -> None:
    assert list(notes(view(*answers))) == ([note] if note else [])


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
