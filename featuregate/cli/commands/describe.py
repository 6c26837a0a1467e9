"""``describe``: print the features as kafka-features does.

Source of both layouts: ``FeatureCommand.handleDescribe`` of Apache Kafka 4.3.1 and of 4.2.0
(``org.apache.kafka.tools.FeatureCommand``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, level_name, newest_level
from featuregate.cli.cluster import discover_node, discover_view
from featuregate.cli.exit_codes import OK, CommandError
from featuregate.cli.output import print_message
from featuregate.view.matrix import failures, named
from featuregate.view.support import outside_support

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from featuregate.view.cluster_view import View

FIRST_NAMED_METADATA_VERSION: Final = 7
"""3.3-IV3: since 4.0, Kafka's own tools print lower levels, as of a 3.9 broker, as ``UNKNOWN 1``."""


class Row(NamedTuple):
    """One feature, with the texts of its columns."""

    feature: str
    min: str
    max: str
    level: str
    epoch: str


def run(args: argparse.Namespace) -> int:
    """Print the features that all answering brokers share, or with ``--node-id`` those of one node."""
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

    As in kafka-features, an unknown or absent finalized level is 0, and an unknown epoch is ``-``. ``name`` returns the
    name of a level; the default is the catalog's table, which may hold newer levels than kafka-features.
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


def columns(features: Iterable[Row]) -> str:
    """Return the layout of kafka-features 4.3 and newer."""
    return "".join(
        f"Feature: {row.feature:<40}  SupportedMinVersion: {row.min:<15}  SupportedMaxVersion: {row.max:<15}  "
        f"FinalizedVersionLevel: {row.level:<15}  Epoch: {row.epoch}\n"
        for row in features
    )


def legacy(features: Iterable[Row]) -> str:
    """Return the layout of kafka-features 3.3 to 4.2."""
    return "".join(
        f"Feature: {row.feature}\tSupportedMinVersion: {row.min}\tSupportedMaxVersion: {row.max}\t"
        f"FinalizedVersionLevel: {row.level}\tEpoch: {row.epoch}\n"
        for row in features
    )


def notes(view: View) -> Iterator[str]:
    """Yield what the table does not show: brokers that differ, do not answer, or are newer than the catalog."""
    some_only = sorted({name for broker in view.answering for name in broker.supported} - set(view.supported))
    if some_only:
        yield f"not every {view.role} supports {', '.join(some_only)}: see 'featuregate matrix'"
    for name, brokers in outside_support(view).items():
        where = ", ".join(broker.name for broker in brokers)
        yield f"{name} is finalized at {level_name(name, view.finalized[name])}, which is not supported by {where}"
    for name, lowest in view.finalized_min.items():
        yield f"levels of {name} below {lowest} are deprecated: clients must use {lowest} to {view.level(name)}"
    if newer := newer_than_known(view):
        yield f"this cluster supports newer levels of {', '.join(newer)} than this featuregate knows: shown as numbers"
    for failure, silent in failures(view).items():
        does, its = ("does", "its") if len(silent) == 1 else ("do", "their")
        yield f"{named(silent)} {does} not answer, so {its} features are not included: {failure.text}"


def newer_than_known(view: View) -> tuple[str, ...]:
    """Return the features with supported levels that are higher than those of the catalog."""
    return tuple(
        sorted(name for name, supported in view.supported.items() if supported.max > (newest_level(name) or 0))
    )


def _level(feature: str, level: int) -> str:
    if feature == METADATA_VERSION and level < FIRST_NAMED_METADATA_VERSION:
        return f"UNKNOWN {level}"
    return level_name(feature, level)
