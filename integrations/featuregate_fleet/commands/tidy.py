"""``featuregate fleet tidy``: remove what is too old, and who one principal is, and join small files."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, CommandError, option
from featuregate_fleet.commands.options.tables import (
    add_hash_option,
    add_tables_options,
    existing_tables,
    pseudonyms,
    spark_session,
    storage_argument,
)

if TYPE_CHECKING:
    from featuregate_fleet.tables.tidying import TidyPlan

DESCRIPTION: Final = """\
Say what there is to tidy in the table of a cluster, and do it with --yes. With --older-than, rows go that were seen
more than DAYS before today, in UTC, and with --logs the files that are not there any more; how far each other file was
read stays, and so do the counts of lines. With --forget, principal, client id, host and connection go from the usage of
one principal, and the text of each line in quarantine that has its name. Its requests stay: they can still block a
move. Small files are joined, and those that had the rows before are deleted. A run may go on meanwhile.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tidy``."""
    option(parser, "--older-than DAYS", "keep these days before today")
    option(parser, "--logs DIR", "that of 'fleet run', to leave out files that are gone", type=storage_argument)
    option(parser, "--forget PRINCIPAL", "such as User:billing, or its hash", type=_named)
    add_hash_option(parser, "the key of 'fleet run', to forget a principal that it has hashed by its name")
    option(parser, "--yes", "do it; without it, a terminal is asked")
    add_tables_options(parser)


def _named(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("no name is given")
    return text


def run(args: argparse.Namespace) -> int:
    """Print what there is to do, and do it where that is wanted."""
    if args.logs and args.older_than is None:
        raise CommandError("--logs goes with --older-than")
    names, place = pseudonyms(args), existing_tables(args)
    from featuregate_fleet.api.fleet import Fleet  # noqa: PLC0415 - Spark

    with spark_session(args, place, args.logs) as spark:
        fleet = Fleet(spark, place, args.cluster, pseudonyms=names)
        wanted = {"older_than": args.older_than, "logs": args.logs, "forget": args.forget}
        if not args.yes:
            _show(args.cluster, fleet.tidy(**wanted))
            if not _agreed():
                print(f"{args.cluster}: nothing was changed; to do it, add --yes")
                return OK
        done = fleet.tidy(**wanted, yes=True)
        if args.yes:
            _show(args.cluster, done)
        print(f"{args.cluster}: it has {done.files_after} files now, {done.bytes_after} bytes")
    return OK


def _show(cluster: str, found: TidyPlan) -> None:
    for kind, count in found.deleted.items():
        print(f"{cluster}: {kind}: {count} rows are too old")
    for kind, count in found.nameless.items():
        print(f"{cluster}: {kind}: {count} rows lose their names")
    print(f"{cluster}: {found.files} files, {found.bytes} bytes, are joined")


def _agreed() -> bool:
    """Ask where a person can answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input("Rows that are gone cannot be had back. Do it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
