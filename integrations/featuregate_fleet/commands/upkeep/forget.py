"""``featuregate fleet forget``: remove the names of one principal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from featuregate_fleet.commands.options.principal_names import add_hash_option, pseudonyms
from featuregate_fleet.commands.options.tables import existing_tables
from featuregate_fleet.commands.upkeep.dry_run import add_removal_options, run_removal
from featuregate_fleet.evidence.pseudonyms import HASHED
from featuregate_fleet.tables.kept_names import check_names

if TYPE_CHECKING:
    from featuregate_fleet.stream.upkeep import Removal

DESCRIPTION: Final = """\
Remove principal, client id and host from the usage of one principal, and the text of each line in quarantine that has
its name. The requests stay, without a name: they can still block a move. Without --checksum, the command changes
nothing, and prints how many rows it would change. Files of logs, and records of coordinators, stay as they are.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``forget``."""
    parser.add_argument(
        "--principal", metavar="NAME", type=_named, required=True, help="such as User:billing, or its hash"
    )
    add_hash_option(parser, "the key of 'fleet run', to forget a principal that it has hashed by its name")
    add_removal_options(parser)


def _named(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("no name is given")
    return text


def run(args: argparse.Namespace) -> int:
    """Remove the names."""
    names = pseudonyms(args)
    if not args.principal.startswith(HASHED):
        check_names(existing_tables(args), args.cluster, names)
    return run_removal(args, lambda _: _removal(names.of(args.principal) if names else args.principal))


def _removal(principal: str) -> Removal:
    from featuregate_fleet.stream.upkeep import forgetting  # noqa: PLC0415 - Spark

    return forgetting(principal)
