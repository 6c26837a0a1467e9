"""The public door for commands of other packages: what such a command is, and what it may import.

A package declares an entry point of the group ``featuregate.commands``. Its name is the command, and it names a module
(or any object) like `Plugin`. A package that has evidence of who uses what declares one of the group
``featuregate.checks``, which names a module like `EvidenceCheck`; ``--evidence`` uses the first one. An entry point
``spark`` of the group ``featuregate.diagnoses`` names a module like `Diagnosis`, which ``doctor --spark`` asks.
"""

from __future__ import annotations

from featuregate.cli.arguments.options import (
    add_cluster_options,
    add_gates,
    add_output,
    local_path_argument,
    positive_seconds,
)
from featuregate.cli.cluster import configuration, configuration_of_change, discover_view, excluded_apis, silence_log
from featuregate.cli.exit_codes import FAILED, INTERNAL, INTERRUPTED, OK, UNKNOWN, USAGE, CommandError
from featuregate.cli.gates import gate_requirements
from featuregate.cli.output import aligned, print_message
from featuregate.cli.plugin_protocols import (
    CommandHelp,
    Diagnosis,
    EvidenceCheck,
    EvidenceFinding,
    EvidenceVerdict,
    GateOpens,
    Plugin,
)
from featuregate.printable import printable

__all__ = [
    "FAILED",
    "INTERNAL",
    "INTERRUPTED",
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
    "configuration",
    "configuration_of_change",
    "discover_view",
    "excluded_apis",
    "gate_requirements",
    "local_path_argument",
    "positive_seconds",
    "print_message",
    "printable",
    "silence_log",
]
