"""``featuregate fleet``: collect evidence of who uses what. Light: Spark is imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandHelp
from featuregate_fleet.commands import peek, request_logging, tables, tidy
from featuregate_fleet.commands import run as reading
from featuregate_fleet.commands.options.tables import needs_extra

if TYPE_CHECKING:
    import argparse

HELP: Final = CommandHelp(
    "collect which clients use which API versions, from the request logs and metrics of brokers",
    """\
Collect evidence of which clients use which API versions from the request logs and metrics of brokers. Needs the extra
'fleet', and Java 17 or newer.

'run' reads request logs as they grow: DIR/<broker id>/ holds the files of one broker. It writes a table for each
cluster, by which 'featuregate readiness --tables' says whether the cluster can move to another release.""",
    (
        "fleet peek kafka-request.log --to 4.2",
        "fleet logging on --bootstrap-server localhost:9092 --for 1h",
        "fleet run --once --logs logs --tables tables --cluster orders",
        "fleet run --logs logs --tables tables --cluster orders --bootstrap-server localhost:9092",
        "fleet run --once --logs logs --tables tables --cluster orders --again unreadable",
        "fleet run --once --prometheus http://prometheus:9090 --tables tables --cluster orders",
        "fleet tables --tables catalog:main.kafka",
        "fleet tidy --tables tables --cluster orders --older-than 90",
    ),
    "0 done; 1 a client in the log blocks the move; 3 unknown; 2 the evidence or the brokers cannot be read; 64 wrong "
    "usage",
)

_ACTIONS: Final = {
    "peek": (peek, "look at one log: who in it breaks? Without Spark"),
    "logging": (request_logging, "turn the request logs of brokers on and off"),
    "run": (reading, "read request logs into a table"),
    "tables": (tables, "list the tables of clusters"),
    "tidy": (tidy, "remove what is too old and who one principal is, and join small files"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    for name, (action, summary) in _ACTIONS.items():
        action.add_options(actions.add_parser(name, help=summary, description=action.DESCRIPTION))


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    action: str = args.action
    with needs_extra(action, "peek" if action == "peek" else "fleet"):
        exit_code: int = _ACTIONS[action][0].run(args)
    return exit_code
