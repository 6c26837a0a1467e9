"""The public door for commands of other packages: what such a command is, and what it may import.

A package declares an entry point of the group ``featuregate.commands``. Its name is the command, and it names a module
(or any object) like `Plugin`. A package that has evidence of who uses what declares one of the group
``featuregate.checks``, which names a module like `EvidenceCheck`; ``--evidence`` uses the first one. An entry point
``spark`` of the group ``featuregate.diagnoses`` names a module like `Diagnosis`, which ``doctor --spark`` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from featuregate.cli.arguments.help_texts import CommandHelp
from featuregate.cli.arguments.options import (
    add_cluster_options,
    add_gates,
    add_output,
    argument,
    gate_requirements,
    local_path_argument,
    option,
    positive_seconds,
)
from featuregate.cli.cluster import configuration, configuration_of_change, discover_view, excluded_apis, silence_log
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, USAGE, CommandError
from featuregate.cli.output import aligned, print_message
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.updates import Update

__all__ = [
    "FAILED",
    "OK",
    "UNKNOWN",
    "USAGE",
    "CommandError",
    "CommandHelp",
    "Diagnosis",
    "EvidenceCheck",
    "EvidenceFinding",
    "EvidenceVerdict",
    "GateOpens",
    "Plugin",
    "add_cluster_options",
    "add_gates",
    "add_output",
    "aligned",
    "argument",
    "configuration",
    "configuration_of_change",
    "discover_view",
    "excluded_apis",
    "gate_requirements",
    "local_path_argument",
    "option",
    "positive_seconds",
    "print_message",
    "printable",
    "silence_log",
]


class Plugin(Protocol):
    """What the entry point of a command names. ``--help`` imports it, so the import must be cheap."""

    @property
    def HELP(self) -> CommandHelp:  # noqa: N802 - a constant of a module
        """What ``--help`` prints."""
        ...

    def add_options(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the options of the command, and `add_cluster_options` with ``default=argparse.SUPPRESS``."""
        ...

    def run(self, args: argparse.Namespace, /) -> int:
        """Run the command and return an exit code. Raises `CommandError` for the one line on standard error."""
        ...


class Diagnosis(Protocol):
    """What an entry point of the group ``featuregate.diagnoses`` names: a module, or any object like it."""

    def diagnose(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the facts, a line each, and the problems with what to do, a line each."""
        ...


class EvidenceFinding(NamedTuple):
    """One finding about an update."""

    verdict: str
    subject: str
    """The client, group or feature that the finding is about."""
    why: str
    do: str
    """What to do about it; empty where there is nothing to do."""


class GateOpens(NamedTuple):
    """A gate of an app that the update opens, and in how many instances."""

    app: str
    gate: str
    requirement: str
    at_once: int
    burn_in: int
    """After the burn-in."""
    held: int
    """Once the operator releases the gate."""
    text: str
    """The same in a sentence."""


class EvidenceVerdict(NamedTuple):
    """What the evidence says of an update."""

    verdict: Literal["ok", "warn", "stale", "unknown", "block"]
    findings: tuple[EvidenceFinding, ...]
    """The worst first, without those that are ok."""
    opens: tuple[GateOpens, ...] = ()
    order: tuple[str, ...] = ()
    """What to do, in this order, before levels are lowered; empty where none is."""


class EvidenceCheck(Protocol):
    """What an entry point of the group ``featuregate.checks`` names: a module, or any object like it."""

    def check_updates(
        self,
        evidence: str,
        cluster: str,
        updates: Sequence[Update],
        /,
        *,
        cluster_id: str | None,
        reports_expected: bool,
    ) -> EvidenceVerdict:
        """Check updates against the evidence of a cluster.

        Parameters
        ----------
        evidence
            Where the evidence is, and ``cluster`` the name of the cluster in it.
        cluster_id
            The id of the cluster that is updated; None where its brokers report none.
        reports_expected
            Whether there may be apps with gates, so that their reports are missed.

        Raises
        ------
        CommandError
            The evidence cannot be read, or is of a cluster with another id.
        """
        ...
