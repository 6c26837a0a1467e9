"""The public door for commands of other packages: what such a command is, and what it may import.

A package declares an entry point of the group ``featuregate.commands``. Its name is the command, and it names a module
(or any object) like `Plugin`. A package that has evidence of who uses what declares one of the group
``featuregate.checks``, which names a module like `EvidenceCheck`; ``--evidence`` uses the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from featuregate.cli.arguments.help_texts import CommandHelp
from featuregate.cli.arguments.options import add_cluster_options, add_gates, add_output, positive_seconds
from featuregate.cli.cluster import configuration, discover_view, excluded_apis, silence_log
from featuregate.cli.evidence import EvidenceCheck, EvidenceFinding, EvidenceVerdict
from featuregate.cli.exit_codes import FAILED, INTERNAL, INTERRUPTED, OK, UNKNOWN, USAGE, CommandError
from featuregate.cli.gates import gate_requirements
from featuregate.cli.output import print_message, printable
from featuregate.cli.tables import aligned

if TYPE_CHECKING:
    import argparse

__all__ = [
    "FAILED",
    "INTERNAL",
    "INTERRUPTED",
    "OK",
    "UNKNOWN",
    "USAGE",
    "CommandError",
    "CommandHelp",
    "EvidenceCheck",
    "EvidenceFinding",
    "EvidenceVerdict",
    "Plugin",
    "add_cluster_options",
    "add_gates",
    "add_output",
    "aligned",
    "configuration",
    "discover_view",
    "excluded_apis",
    "gate_requirements",
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
