"""``--evidence``: what another package finds about an update in the evidence that it has. The core has none itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import discover_view
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.output import print_message
from featuregate.printable import printable
from featuregate.version import how_to_install

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.updates import Update
    from featuregate.cli.plugin import EvidenceVerdict
    from featuregate.view.cluster_view import View

_SAFE: Final = frozenset({"ok", "warn"})
_DESPITE: Final = {None: _SAFE, "unknown": _SAFE | {"unknown", "stale"}, "block": _SAFE | {"unknown", "stale", "block"}}
"""The verdicts with which an update is sent, by ``--despite-evidence``."""


def check_evidence_options(args: argparse.Namespace) -> None:
    """Refuse one option without the other, before any broker is asked."""
    if (args.evidence is None) != (args.evidence_cluster is None):
        raise CommandError("--evidence and --evidence-cluster belong together: the tables may be of several clusters")
    if args.without_usage_reports and args.evidence is None:
        raise CommandError("--without-usage-reports is about the tables of --evidence")


def evidence_of(args: argparse.Namespace, updates: Sequence[Update], view: View | None) -> EvidenceVerdict | None:
    """Return what the evidence says of updates; None without ``--evidence``, and where there is nothing to update.

    ``view`` is the cluster, where it is known already. Otherwise the brokers are asked for the id of the cluster.

    Raises `CommandError`: no installed package reads evidence, the evidence cannot be read, or it is of another
    cluster.
    """
    if args.evidence is None or not updates:
        return None
    from featuregate.cli.plugin_loader import load_check  # noqa: PLC0415 - only --evidence needs it

    if (check := load_check()) is None:
        raise CommandError(f"--evidence needs the fleet pipeline: {how_to_install('fleet')}")
    cluster_id = (view or discover_view(args)).cluster_id
    expected = not args.without_usage_reports
    return check.check_updates(
        args.evidence, args.evidence_cluster, updates, cluster_id=cluster_id, reports_expected=expected
    )


def require_evidence(args: argparse.Namespace, updates: Sequence[Update], view: View | None) -> None:
    """Refuse updates that the evidence does not call safe, unless ``--despite-evidence`` overrules it.

    Raises `CommandError`: the evidence blocks them, or is missing or too old; nothing was sent.
    """
    said = evidence_of(args, updates, view)
    if said is None:
        return
    for line in evidence_lines(said):
        print_message(line)
    if said.verdict not in _DESPITE[args.despite_evidence]:
        overruled = "block" if said.verdict == "block" else "unknown"
        problem = f"nothing was changed, because of the evidence; --despite-evidence {overruled} changes it"
        raise CommandError(problem, FAILED)


def evidence_lines(said: EvidenceVerdict) -> list[str]:
    """Return the verdict, a line for each finding and for each gate that opens, and the order of a downgrade."""
    findings = (
        f"{found.verdict}: {found.subject}: {found.why}{' ' if found.do else ''}{found.do}" for found in said.findings
    )
    opens = (f"opens: gate {gate.gate!r} of app {gate.app!r}: {gate.text}" for gate in said.opens)
    order = (f"{number}. {step}" for number, step in enumerate(said.order, 1))
    return [f"The evidence says {said.verdict}.", *map(printable, (*findings, *opens, *order))]


def evidence_to_json(said: EvidenceVerdict | None) -> dict[str, Any] | None:
    """Return what ``--output json`` has of the evidence."""
    return said and {
        "verdict": said.verdict,
        "findings": [found._asdict() for found in said.findings],
        "opens": [gate._asdict() for gate in said.opens],
        "order": list(said.order),
    }
