"""``describe``: the words and columns of kafka-features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from builders import broker, deaf, view

from featuregate.cli.commands.describe import columns, legacy, notes, rows
from featuregate.testing.simulator import Roll, ZooKeeper
from featuregate.view.answers import SupportedRange

if TYPE_CHECKING:
    from conftest import Run

    from featuregate.testing.plugin import MakeSimulatedCluster


def able(node_id: int = 1, *, epoch: int = 10, supported: dict[str, tuple[int, int]], **levels: int):
    """Say what one broker supports, and what it has heard to be finalized."""
    ranges = {name: SupportedRange(*said) for name, said in supported.items()}
    return replace(broker(node_id, epoch=epoch, **levels), supported=ranges)


MODERN = {"metadata.version": (7, 29), "group.version": (0, 1), "kraft.version": (0, 1)}


def test_columns_are_those_of_kafka_features_4_3() -> None:
    """Byte for byte what FeatureCommand of 4.3.1 prints with its format string."""
    seen = view(able(supported={"group.version": (0, 1)}, group_version=1))
    assert columns(rows(seen)) == (
        "Feature: group.version                             SupportedMinVersion: 0                "
        "SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: 10\n"
    )


def test_deprecated_levels_are_a_note_and_change_no_column(run: Run, simulated_kafka: MakeSimulatedCluster) -> None:
    """kafka-features of 3.3 and newer has no column for the lowest finalized level; ours says it on standard error."""
    cluster = simulated_kafka(ZooKeeper("v1-v2"))
    before = run("describe", "--bootstrap-server", cluster.bootstrap)
    cluster.apply(Roll(3, "v2"))
    after = run("describe", "--bootstrap-server", cluster.bootstrap)
    note = "featuregate: levels of group_coordinator below 2 are deprecated: clients must use 2 to 2\n"
    assert (note in before.err, note in after.err) == (False, True)
    words = "Feature: group_coordinator SupportedMinVersion: 2 SupportedMaxVersion: 2 FinalizedVersionLevel: 2 Epoch: 1"
    assert after.out.split() == words.split()


def test_legacy_has_tabs() -> None:
    """Byte for byte what FeatureCommand of 3.3 to 4.2 prints."""
    seen = view(able(supported={"group.version": (0, 1)}, group_version=1))
    assert legacy(rows(seen)) == (
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel: 1\tEpoch: 10\n"
    )


def test_rows_are_sorted_by_name() -> None:
    """The order of upstream."""
    assert [row.feature for row in rows(view(able(supported=MODERN)))] == sorted(MODERN)


def test_levels_of_metadata_version_have_names() -> None:
    """As upstream prints them."""
    seen = view(able(supported={"metadata.version": (7, 29)}, metadata_version=21))
    assert rows(seen)[0][1:4] == ("3.3-IV3", "4.2-IV1", "3.9-IV0")


def test_a_level_below_the_first_that_kafkas_tools_know_has_no_name() -> None:
    """kafka-features of 4.0 and newer prints UNKNOWN for the lowest level of a 3.9 broker."""
    assert rows(view(able(supported={"metadata.version": (1, 21)})))[0].min == "UNKNOWN 1"


def test_a_level_newer_than_the_table_has_no_name() -> None:
    """A newer cluster is described all the same."""
    assert rows(view(able(supported={"metadata.version": (7, 999)})))[0].max == "UNKNOWN 999"


def test_what_is_not_finalized_is_0() -> None:
    """As upstream has it; for metadata.version it prints UNKNOWN 0."""
    levels = {row.feature: row.level for row in rows(view(able(supported=MODERN)))}
    assert levels == {"group.version": "0", "kraft.version": "0", "metadata.version": "UNKNOWN 0"}


def test_an_unknown_epoch_is_a_dash() -> None:
    """As upstream has it."""
    assert rows(view(able(epoch=-1, supported=MODERN)))[0].epoch == "-"


def test_levels_without_an_epoch_count_as_none() -> None:
    """A controller without a quorum makes levels up."""
    assert rows(view(able(epoch=-1, supported={"group.version": (0, 1)}, group_version=1)))[0].level == "0"


def test_finalized_but_not_supported_has_no_row() -> None:
    """Upstream lists what is supported only."""
    assert rows(view(able(supported={}, group_version=1))) == []


def test_the_supported_range_is_what_all_brokers_share() -> None:
    """In a mixed cluster one broker does not speak for the others."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported={"metadata.version": (7, 29)})
    assert rows(view(old, new))[0][1:3] == ("3.3-IV3", "3.9-IV0")


def test_a_feature_that_one_broker_lacks_has_no_row() -> None:
    """It cannot be used on this cluster yet."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported=MODERN)
    assert [row.feature for row in rows(view(old, new))] == ["metadata.version"]


def test_a_note_names_what_not_every_broker_supports() -> None:
    """The row that is missing is not missing silently."""
    old, new = able(1, supported={"metadata.version": (1, 21)}), able(2, supported=MODERN)
    assert list(notes(view(old, new))) == [
        "not every broker supports group.version, kraft.version: see 'featuregate matrix'"
    ]


def test_a_note_names_a_silent_broker_and_why() -> None:
    """What is shown is what the others say."""
    (note,) = notes(view(able(1, supported=MODERN), deaf(2)))
    assert note == "broker 2 (b2:9092) does not answer, so its features are not included: said nothing for 5 s"


def test_nothing_is_noted_where_all_agree() -> None:
    """Standard error stays empty, as upstream leaves it."""
    assert list(notes(view(able(1, supported=MODERN), able(2, supported=MODERN)))) == []


def test_a_note_names_a_level_that_brokers_do_not_support() -> None:
    """Below their range as well as above it; the row alone does not show it."""
    seen = view(able(1, supported=MODERN, metadata_version=5), able(2, supported=MODERN, metadata_version=5))
    assert list(notes(seen)) == [
        "metadata.version is finalized at 3.3-IV1, which is not supported by broker 1 (b1:9092), broker 2 (b2:9092)"
    ]
