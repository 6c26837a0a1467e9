"""``featuregate fleet``: collect evidence, and say whether a move is safe. Light: Spark is imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, CommandHelp
from featuregate_fleet.commands import collect, peek, readiness, replay, request_logging, tables
from featuregate_fleet.commands import run as reading
from featuregate_fleet.commands.upkeep import compact, forget, retain

if TYPE_CHECKING:
    import argparse

HELP: Final = CommandHelp(
    "say from request logs which clients a move to another release would break",
    """\
Collect evidence of which clients use which API versions from the request logs of brokers, and say whether the cluster
can move to another release. Needs the extra 'fleet', and Java 17 or newer.

'run' reads log files into tables: DIR/<broker id>/ holds the files of one broker. 'readiness' reads the tables. Without
evidence its verdict is unknown, never ok.""",
    (
        "fleet peek kafka-request.log --to 4.2",
        "fleet logging on --bootstrap-server localhost:9092 --for 1h",
        "fleet collect --log /var/log/kafka/kafka-request.log --broker 1 --logs logs",
        "fleet run --once --logs logs --tables tables --cluster orders",
        "fleet run --logs logs --tables tables --cluster orders --bootstrap-server localhost:9092",
        "fleet tables --tables main.kafka --checkpoints checkpoints",
        "fleet replay --tables tables --cluster orders",
        "fleet retain --tables tables --cluster orders --days 90",
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
    "collect": (collect, "cut a live log into files for 'run'"),
    "run": (reading, "read log files into tables"),
    "readiness": (readiness, "say whether a move is safe"),
    "tables": (tables, "list the tables"),
    "replay": (replay, "parse again what is in quarantine"),
    "retain": (retain, "delete evidence that is too old"),
    "forget": (forget, "remove who one principal is"),
    "compact": (compact, "join the small files of the tables"),
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
            raise CommandError(f"{args.action} needs {missing}: pip install '.[fleet]' in a checkout") from error
        raise
    return exit_code
