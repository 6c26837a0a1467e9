"""``featuregate fleet forget``: remove who one principal is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate_fleet.commands.removal import add_removal_options, run_removal

if TYPE_CHECKING:
    import argparse

    from featuregate_fleet.stream.removal import Removal

__all__ = ["DESCRIPTION", "add_options", "run"]

DESCRIPTION: Final = """\
Remove principal, client id and host from the usage of one principal, and the text of each line in quarantine that has
its name. The requests stay, as those of nobody: they can still block a move. Without --checksum, nothing is changed,
and the command prints how many rows there are. Files of logs, and records of coordinators, stay as they are.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``forget``."""
    parser.add_argument("--principal", metavar="NAME", required=True, help="such as User:billing")
    add_removal_options(parser)


def run(args: argparse.Namespace) -> int:
    """Remove the names."""
    return run_removal(args, lambda: _removal(args.principal))


def _removal(principal: str) -> Removal:
    from featuregate_fleet.stream.removal import forgetting  # noqa: PLC0415 - Spark

    return forgetting(principal)
