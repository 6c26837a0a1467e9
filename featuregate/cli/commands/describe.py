"""``describe``: print the features as kafka-features does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from featuregate.catalog import level_name, newest_level
from featuregate.cli.cluster import discover_node, discover_view
from featuregate.cli.exit_codes import OK, CommandError
from featuregate.cli.feature_table import columns, rows
from featuregate.cli.output import print_message
from featuregate.view.names import failures, named
from featuregate.view.support import outside_support, reports_no_levels

if TYPE_CHECKING:
    import argparse

    from featuregate.view.cluster_view import View


def run(args: argparse.Namespace) -> int:
    """Print the features that all answering brokers share, or with ``--node-id`` those of one node."""
    if args.node_id is not None and args.node_id < 0:
        raise CommandError(f"Invalid node id {args.node_id}: must be non-negative.")
    view = discover_view(args) if args.node_id is None else discover_node(args, args.node_id)
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
