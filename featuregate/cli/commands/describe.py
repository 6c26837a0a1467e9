"""``describe``: print the features as kafka-features does.

Source: ``FeatureCommand.handleDescribe`` of Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from featuregate.catalog import METADATA_VERSION, level_name, newest_level
from featuregate.cli.cluster import discover_view
from featuregate.cli.exit_codes import OK
from featuregate.cli.output import print_message
from featuregate.view.cluster_view import View, failures, named, outside_support, reports_no_levels

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Print the features that all answering brokers share."""
    view = discover_view(args)
    if args.output == "json":
        print(view.to_json())
    else:
        print(columns(rows(view)), end="")
    for note in notes(view):
        print_message(note)
    return OK


def notes(view: View) -> Iterator[str]:
    """Yield what the table does not show: brokers that differ, do not answer, or are newer than the catalog."""
    if reports_no_levels(view):
        yield f"no {view.role} reports finalized features: use requirements on API versions here"
    some_only = sorted({name for broker in view.answering for name in broker.supported} - set(view.supported))
    if some_only:
        yield f"not every {view.role} supports {', '.join(some_only)}: see 'featuregate matrix'"
    for name, brokers in outside_support(view).items():
        where = ", ".join(broker.name for broker in brokers)
        yield f"{name} is finalized at {level_name(name, view.finalized[name])}, which is not supported by {where}"
    known = {name: newest_level(name) or 0 for name in view.supported}
    if newer := sorted(name for name, supported in view.supported.items() if supported.max > known[name]):
        yield f"this cluster supports newer levels of {', '.join(newer)} than this featuregate knows: shown as numbers"
    for failure, silent in failures(view).items():
        does, its = ("does", "its") if len(silent) == 1 else ("do", "their")
        yield f"{named(silent)} {does} not answer, so {its} features are not included: {failure.text}"


_FIRST_NAMED: Final = 7
"""3.3-IV3: since 4.0, Kafka's own tools print lower levels, as of a 3.9 broker, as ``UNKNOWN 1``."""


def rows(view: View) -> list[tuple[str, ...]]:
    """Return each feature that every broker which answered supports: its range, its finalized level, and the epoch.

    As in kafka-features, an unknown or absent finalized level is 0, and an unknown epoch is ``-``.
    """
    epoch = str(view.epoch) if view.epoch >= 0 else "-"
    levels = {name: (found.min, found.max, view.level(name) or 0) for name, found in sorted(view.supported.items())}
    return [(name, *(_level(name, level) for level in found), epoch) for name, found in levels.items()]


def columns(features: Iterable[tuple[str, ...]]) -> str:
    """Return the layout of kafka-features 4.3 and newer."""
    return "".join(
        f"Feature: {feature:<40}  SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: {highest:<15}  "
        f"FinalizedVersionLevel: {level:<15}  Epoch: {epoch}\n"
        for feature, lowest, highest, level, epoch in features
    )


def _level(feature: str, level: int) -> str:
    if feature == METADATA_VERSION and level < _FIRST_NAMED:
        return f"UNKNOWN {level}"
    return level_name(feature, level)
