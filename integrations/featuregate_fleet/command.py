"""``featuregate fleet``: collect evidence, and say whether a move is safe. Light: Spark is imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, CommandHelp
from featuregate.version import how_to_install
from featuregate_fleet.commands import peek, readiness, request_logging, tables, tidy
from featuregate_fleet.commands import run as reading

if TYPE_CHECKING:
    import argparse

HELP: Final = CommandHelp(
    "say from request logs which clients a move to another release would break",
    """\
Collect evidence of which clients use which API versions from the request logs of brokers, and say whether the cluster
can move to another release. Needs the extra 'fleet', and Java 17 or newer.

'run' reads request logs as they grow: DIR/<broker id>/ holds the files of one broker. 'readiness' reads what 'run' has
written, a table for each cluster. Without evidence its verdict is unknown, never ok.""",
    (
        "fleet peek kafka-request.log --to 4.2",
        "fleet logging on --bootstrap-server localhost:9092 --for 1h",
        "fleet run --once --logs logs --tables tables --cluster orders",
        "fleet run --logs logs --tables tables --cluster orders --bootstrap-server localhost:9092",
        "fleet run --once --logs logs --tables tables --cluster orders --again unreadable",
        "fleet tables --tables catalog:main.kafka",
        "fleet tidy --tables tables --cluster orders --older-than 90",
        "fleet readiness --tables tables --cluster orders --to 4.2",
        "fleet readiness --tables tables --cluster orders --to 4.2 --output json",
        "fleet readiness --tables tables --cluster orders --drop-api 'Fetch<12'",
        "fleet readiness --tables tables --cluster orders --downgrade-to 3.9.2",
        "fleet readiness --tables tables --cluster orders --finalize transaction.version=2",
        "fleet readiness --tables tables --cluster orders --to 4.2 --html report.html",
    ),
    "0 done, ok or warnings; 1 a client blocks the move; 3 unknown or stale; 2 the evidence or the brokers cannot be "
    "read, or the page cannot be written; 64 wrong usage",
)

_ACTIONS: Final = {
    "peek": (peek, "look at one log: who in it breaks? Without Spark"),
    "logging": (request_logging, "turn the request logs of brokers on and off"),
    "run": (reading, "read request logs into a table"),
    "readiness": (readiness, "say whether a move is safe"),
    "tables": (tables, "list the tables of clusters"),
    "tidy": (tidy, "remove what is too old and who one principal is, and join small files"),
}

_NEEDED: Final = {"pyspark", "pyarrow", "py4j"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    for name, (action, summary) in _ACTIONS.items():
        action.add_options(actions.add_parser(name, help=summary, description=action.DESCRIPTION))


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    try:
        exit_code: int = _ACTIONS[args.action][0].run(args)
    except ModuleNotFoundError as error:  # an action imports Spark where it needs it, by modules of any room
        missing = (error.name or "").partition(".")[0]
        if missing in _NEEDED:
            extra = "peek" if args.action == "peek" else "fleet"
            raise CommandError(f"{args.action} needs {missing}: {how_to_install(extra)}") from error
        raise
    return exit_code
