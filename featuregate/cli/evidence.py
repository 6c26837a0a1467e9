"""``--evidence``: what another package finds about an update in the evidence that it has. The core has none itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.output import print_message, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from featuregate.admin.updates import Update

__all__ = [
    "EvidenceCheck",
    "EvidenceFinding",
    "EvidenceVerdict",
    "check_evidence_options",
    "evidence_lines",
    "evidence_of",
    "evidence_to_json",
    "require_evidence",
]

_SAFE: Final = frozenset({"ok", "warn"})
_DESPITE: Final = {None: _SAFE, "unknown": _SAFE | {"unknown", "stale"}, "block": _SAFE | {"unknown", "stale", "block"}}
"""The verdicts with which an update is sent, by ``--despite-evidence``."""


class EvidenceFinding(NamedTuple):
    """One finding about an update."""

    verdict: str
    subject: str
    """Of whom or of what: a client, a group, a feature."""
    why: str
    do: str
    """What to do about it; empty where there is nothing to do."""


class EvidenceVerdict(NamedTuple):
    """What the evidence says of an update."""

    verdict: Literal["ok", "warn", "stale", "unknown", "block"]
    findings: tuple[EvidenceFinding, ...]
    """The worst first, without those that are ok."""


class EvidenceCheck(Protocol):
    """What an entry point of the group ``featuregate.checks`` names: a module, or any object like it."""

    def check_updates(self, evidence: str, cluster: str, updates: Sequence[Update], /) -> EvidenceVerdict:
        """Check updates against the evidence of a cluster. Raises `CommandError` where it cannot be read."""
        ...


def check_evidence_options(args: argparse.Namespace) -> None:
    """Refuse one option without the other, before any broker is asked."""
    if (args.evidence is None) != (args.evidence_cluster is None):
        raise CommandError("--evidence and --evidence-cluster belong together: the tables may be of several clusters")


def evidence_of(args: argparse.Namespace, updates: Sequence[Update]) -> EvidenceVerdict | None:
    """Return what the evidence says of updates; None without ``--evidence``, and where there is nothing to update.

    Raises
    ------
    CommandError
        No installed package reads evidence, or the evidence cannot be read.
    """
    if args.evidence is None or not updates:
        return None
    from featuregate.cli.plugin_loader import load_check  # noqa: PLC0415 - only --evidence needs it

    if (check := load_check()) is None:
        raise CommandError("--evidence needs the fleet pipeline: pip install '.[fleet]' in a checkout")
    return check.check_updates(args.evidence, args.evidence_cluster, updates)


def require_evidence(args: argparse.Namespace, updates: Sequence[Update]) -> None:
    """Refuse updates that the evidence does not call safe, unless ``--despite-evidence`` overrules it.

    Raises
    ------
    CommandError
        The evidence blocks them, or is missing or too old; nothing was sent.
    """
    said = evidence_of(args, updates)
    if said is None:
        return
    for line in evidence_lines(said):
        print_message(line)
    if said.verdict not in _DESPITE[args.despite_evidence]:
        overruled = "block" if said.verdict == "block" else "unknown"
        problem = f"nothing was changed, because of the evidence; --despite-evidence {overruled} changes it"
        raise CommandError(problem, FAILED)


def evidence_lines(said: EvidenceVerdict) -> list[str]:
    """Return the verdict, and a line for each finding."""
    findings = (
        f"{found.verdict}: {found.subject}: {found.why}{' ' if found.do else ''}{found.do}" for found in said.findings
    )
    return [f"The evidence says {said.verdict}.", *map(printable, findings)]


def evidence_to_json(said: EvidenceVerdict | None) -> dict[str, Any] | None:
    """Return what ``--output json`` has of the evidence."""
    return said and {"verdict": said.verdict, "findings": [found._asdict() for found in said.findings]}
