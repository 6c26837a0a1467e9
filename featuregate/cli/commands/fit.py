"""``fit``: say whether the clients of an app work on a release of Kafka, or on the brokers of a cluster."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import discover_view, has_cluster
from featuregate.cli.exit_codes import FAILED, OK, CommandError, usage_error
from featuregate.clients import Client, Fit, fit, installed
from featuregate.clients.declared import client, declared, requirements
from featuregate.files import read_file
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from featuregate.view.cluster_view import View

NO_VERDICT: Final = 3
"""As for ``fleet readiness``: nothing is known of a client, and none breaks."""


def run(args: argparse.Namespace) -> int:
    """Print a line for each client; return the exit code of the worst."""
    target = _target(args)
    clients = _clients(args)
    found = fit(target, clients, sasl=args.sasl)
    if args.output == "json":
        print(json.dumps([to_json(each) for each in found], indent=2))
    else:
        print("\n".join(printable(str(each)) for each in found))
    verdicts = {each.verdict for each in found}
    if "breaks" in verdicts:
        return FAILED
    return NO_VERDICT if "unknown" in verdicts else OK


def _target(args: argparse.Namespace) -> View | str:
    if args.to and has_cluster(args):
        raise usage_error("argument --to: not allowed with the options of a cluster", args.command)
    if args.to:
        return str(args.to)
    if not has_cluster(args):
        raise usage_error("You must specify either --to or --bootstrap-server", args.command)
    return discover_view(args)


def _clients(args: argparse.Namespace) -> tuple[Client, ...]:
    """Return the clients that the options name; without any, those of this interpreter."""
    found: list[Client] = []
    for path in args.requirements:
        found += requirements(_text(path), str(path))
    for path in args.declared:
        found += declared(str(path), partial(_text, path))
    if args.spark:
        found.append(client("pyspark", args.spark, "--spark"))
    if args.python or not (args.requirements or args.declared or args.spark):
        found += installed(args.python and str(args.python))
    if not found:
        where = ", ".join(map(str, [*args.requirements, *args.declared])) or args.python or "this environment"
        raise CommandError(
            f"{where} has no client of Kafka that featuregate knows: pin or declare one (--declared, --spark)"
        )
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "this is not text"
        raise CommandError(f"{path} cannot be read: {reason}") from error


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
