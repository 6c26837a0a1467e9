"""``fit``: say whether the clients of an app work on a release of Kafka, or on the brokers of a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import discover_view, has_cluster
from featuregate.cli.exit_codes import FAILED, OK, CommandError, usage_error
from featuregate.clients import Client, Fit, fit, installed
from featuregate.clients.declared import PYTHON, client, exact, normalized
from featuregate.clients.fit import RELEASE
from featuregate.clients.requirements_files import Declared, Unread, requirements_in
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from featuregate.view.cluster_view import View

NO_VERDICT: Final = 3
"""As for ``featuregate readiness``: nothing is known of a client, and none breaks."""


def run(args: argparse.Namespace) -> int:
    """Print a line for each client, and for each place that may name one; return the exit code of the worst."""
    target = _target(args)
    clients, unread = _clients(args)
    found = fit(target, clients, sasl=args.sasl)
    if args.output == "json":
        print(json.dumps([*map(to_json, found), *map(_unread_to_json, unread)], indent=2))
    else:
        lines = [*map(str, found), *(f"{each.place}: unknown: {each.why}" for each in unread)]
        print("\n".join(map(printable, lines)))
    verdicts = {each.verdict for each in found}
    if "breaks" in verdicts:
        return FAILED
    return NO_VERDICT if "unknown" in verdicts or unread else OK


def _target(args: argparse.Namespace) -> View | str:
    if args.to and has_cluster(args):
        raise usage_error("argument --to: not allowed with the options of a cluster", args.command)
    if args.to:
        return str(args.to)
    if not has_cluster(args):
        raise usage_error("You must specify either --to or --bootstrap-server", args.command)
    return discover_view(args)


def _clients(args: argparse.Namespace) -> tuple[tuple[Client, ...], tuple[Unread, ...]]:
    """Return the clients that the arguments name; without any, those of this interpreter."""
    found = [_named(text, args.command) for text in args.clients]
    unread: list[Unread] = []
    for path in args.requirements:
        declared = _declared(path)
        found += declared.clients
        unread += declared.unread
    if args.spark is not None:  # also where it is empty, as a variable is that was not set
        found.append(client("pyspark", args.spark, "--spark"))
    if args.python or not (args.clients or args.requirements or args.spark is not None):
        found += installed(args.python and str(args.python))
    if not found and not unread:
        where = ", ".join(map(str, args.requirements)) or args.python or "this environment"
        raise CommandError(f"{where} has no client of Kafka that featuregate knows: name one, as in fit NAME==VERSION")
    return tuple(found), tuple(unread)


def _named(text: str, command: str) -> Client:
    name, _, version = text.partition("==")
    if not name or not exact(version):
        raise usage_error(
            f"argument CLIENT: expected NAME==VERSION, such as confluent-kafka==2.6.1, not {text}", command
        )
    return client(normalized(name) if normalized(name) in PYTHON else name, version, "the command line")


def _declared(path: Path) -> Declared:
    try:
        return requirements_in(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "this is not text"
        raise CommandError(f"{path} cannot be read: {reason}") from error


def _unread_to_json(unread: Unread) -> dict[str, Any]:
    finding = {"step": RELEASE, "fate": "unknown", "why": unread.why, "works_from": None}
    of_client = dict.fromkeys(("client", "version", "library", "found_in", "kafka"))
    return of_client | {
        "found_in": unread.place,
        "verdict": "unknown",
        "measured": [],
        "api_version": None,
        "findings": [finding],
    }


def to_json(found: Fit) -> dict[str, Any]:
    """Return one verdict as plain values."""
    return {
        "client": found.client.name,
        "version": found.client.version,
        "library": list(found.client.library) if found.client.library else None,
        "found_in": found.client.found_in,
        "kafka": found.release,
        "verdict": found.verdict,
        "measured": list(found.basis),
        "api_version": found.pin,
        "findings": [
            {"step": each.step, "fate": each.fate, "why": each.why, "works_from": each.works_from}
            for each in found.findings
        ],
    }
