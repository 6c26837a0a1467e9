"""``describe``: the features, as kafka-features prints them.

Source of both layouts: ``FeatureCommand.handleDescribe`` of Apache Kafka 4.3.1 and of 4.2.0
(``org.apache.kafka.tools.FeatureCommand``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, level_name, newest_level
from featuregate.cli.cluster import discover_node, discover_view
from featuregate.cli.diagnosis.findings import outside_support
from featuregate.cli.exit_codes import OK, CommandError
from featuregate.cli.output import print_message

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from featuregate.view.cluster_view import View

__all__ = ["Row", "columns", "legacy", "newer_than_known", "notes", "rows", "run"]

FIRST_NAMED_METADATA_VERSION: Final = 7
"""Kafka's own tools since 4.0 know no metadata.version below 3.3-IV3, and print ``UNKNOWN 1`` for a 3.9 broker's."""


class Row(NamedTuple):
    """One feature, in the words of kafka-features."""

    feature: str
    min: str
    max: str
    level: str
    epoch: str


def run(args: argparse.Namespace) -> int:
    """Ask, and print. With ``--node-id`` what one node says, else what holds for all that answered."""
    if args.node_id is not None and args.node_id < 0:
        raise CommandError(f"Invalid node id {args.node_id}: must be non-negative.")
    view = discover_view(args) if args.node_id is None else discover_node(args, args.node_id)
    if args.output == "json":
        print(view.to_json())
    else:
        print((legacy if args.style == "legacy" else columns)(rows(view)), end="")
    for note in notes(view):
        print_message(note)
    return OK


def rows(view: View, name: Callable[[str, int], str] | None = None) -> list[Row]:
    """Return a row for each feature that every broker which answered supports, by name.

    An unknown or absent finalized level is 0, an unknown epoch is ``-``, as upstream has it. ``name`` gives the name of
    a level; by default our own table does, which may know newer ones than kafka-features.
    """
    named = name or _level
    epoch = str(view.epoch) if view.epoch >= 0 else "-"
    return [
        Row(
            feature,
            named(feature, supported.min),
            named(feature, supported.max),
            named(feature, view.level(feature) or 0),
            epoch,
        )
        for feature in sorted(view.supported)
        if (supported := view.feature(feature)) is not None
    ]


def columns(described: Iterable[Row]) -> str:
    """Lay rows out as kafka-features 4.3 and newer do."""
    return "".join(
        f"Feature: {row.feature:<40}  SupportedMinVersion: {row.min:<15}  SupportedMaxVersion: {row.max:<15}  "
        f"FinalizedVersionLevel: {row.level:<15}  Epoch: {row.epoch}\n"
        for row in described
    )


def legacy(described: Iterable[Row]) -> str:
    """Lay rows out as kafka-features 3.3 to 4.2 do."""
    return "".join(
        f"Feature: {row.feature}\tSupportedMinVersion: {row.min}\tSupportedMaxVersion: {row.max}\t"
        f"FinalizedVersionLevel: {row.level}\tEpoch: {row.epoch}\n"
        for row in described
    )


def notes(view: View) -> Iterator[str]:
    """Say what kafka-features could not know: that brokers differ, are silent, or are newer than our table."""
    some_only = sorted({name for broker in view.answering for name in broker.supported} - set(view.supported))
    if some_only:
        yield f"not every {view.role} supports {', '.join(some_only)}: see 'featuregate matrix'"
    for name, brokers in outside_support(view).items():
        where = ", ".join(broker.name for broker in brokers)
        yield f"{name} is finalized at {level_name(name, view.finalized[name])}, which is not supported by {where}"
    for name, lowest in view.finalized_min.items():
        yield f"levels of {name} below {lowest} are deprecated: clients must use {lowest} to {view.level(name)}"
    if newer := newer_than_known(view):
        yield f"levels of {', '.join(newer)} go higher here than this featuregate knows: they are shown as numbers"
    for broker in view.missing:
        why = broker.failure.text if broker.failure else "no answer"
        yield f"{broker.name} is silent, so this is what the others say: {why}"


def newer_than_known(view: View) -> tuple[str, ...]:
    """Name the features of which the cluster supports higher levels than our table has."""
    return tuple(
        sorted(name for name, supported in view.supported.items() if supported.max > (newest_level(name) or 0))
    )


def _level(feature: str, level: int) -> str:
    if feature == METADATA_VERSION and level < FIRST_NAMED_METADATA_VERSION:
        return f"UNKNOWN {level}"
    return level_name(feature, level)
