"""The built-in commands: the module that runs each one, and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.cli.arguments.options import add_gates, local_path_argument, positive_seconds
from featuregate.cli.arguments.sandbox_options import add_sandbox_options

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """One built-in command."""

    module: str
    """The module of `featuregate.cli.commands` that runs it."""
    add_options: Callable[[argparse.ArgumentParser], None]
    """Adds the options that only this command or its group has."""
    output: str | None
    """What ``--output`` chooses between; None for a command without ``--output`` and without a cluster."""


def _describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--node-id", metavar="N", type=int, help="ask only the node with this id (default: ask all nodes and merge)"
    )


def _matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also show the APIs on which all brokers agree")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "requirement", metavar="REQUIREMENT", help='a preset, such as kip447, or a text: "group.version>=1 & Fetch>=12"'
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=positive_seconds,
        help="repeat until the requirement is met, for SECONDS at most",
    )


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", metavar="PRESET", nargs="?", help="such as kip447")
    parser.add_argument("--list", action="store_true", help="list the presets")


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark",
        action="store_true",
        help="also start Spark, and show its Kafka connector, pandas and the Python of its workers; needs no cluster",
    )


def _watch(parser: argparse.ArgumentParser) -> None:
    add_gates(parser, "print a line when this gate opens or closes; may be repeated")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=5.0,
        help="time between polls of a cluster that does not change; shorter while it changes (default: 5)",
    )
    parser.add_argument(
        "--for", metavar="SECONDS", dest="duration", type=positive_seconds, help="stop after SECONDS (default: never)"
    )


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "clients",
        metavar="CLIENT",
        nargs="*",
        help="NAME==VERSION of a client in any language, such as kafka-clients==3.9.0 or kafkajs==2.2.4",
    )
    parser.add_argument("--to", metavar="RELEASE", help="the release that the brokers run, such as 4.2")
    parser.add_argument(
        "--python",
        metavar="PATH",
        type=local_path_argument,
        help="look into the environment of this interpreter (default: featuregate's own)",
    )
    parser.add_argument(
        "--requirements",
        metavar="FILE",
        type=local_path_argument,
        action="append",
        default=[],
        help="the clients that a requirements file or a lock file of Python pins; may be repeated",
    )
    parser.add_argument("--spark", metavar="VERSION", help="the client in this release of Spark, such as 4.0.0")
    parser.add_argument(
        "--sasl",
        metavar="MECHANISM",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
        help="the clients log in with this mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI",
    )


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _health(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="the file that the process writes, or the URL of its /readyz")
    parser.add_argument(
        "--written-within",
        metavar="SECONDS",
        type=positive_seconds,
        help="fail where the file is older, because the process hangs: more than its interval between polls",
    )
    parser.add_argument(
        "--max-age", metavar="SECONDS", type=positive_seconds, help="fail if no broker has answered for SECONDS"
    )


def _hold(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list",), help="print the gates that are held")
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=local_path_argument,
        help="a file of holds, in addition to that of FEATUREGATE_HOLD_FILE",
    )
    parser.add_argument(
        "--latches", metavar="FOLDER", type=local_path_argument, help="a latch store: say which holds come too late"
    )


def _upgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "upgrade")
    _add(parser, "--dry-run", "--yes", "--wait", "--controllers", "--accept-effect", *_EVIDENCE)


def _downgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "downgrade")
    _add(parser, "--unsafe", "--dry-run", "--yes", "--wait", "--controllers", "--accept-effect", *_EVIDENCE)


def _disable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--feature", metavar="NAME", action="append", help="a feature to disable; may be repeated")
    _add(parser, "--unsafe", "--dry-run", "--yes", "--wait", "--controllers", "--accept-effect", *_EVIDENCE)


def _update(parser: argparse.ArgumentParser) -> None:
    _add(parser, *_CHANGES)
    _add(parser, "--unsafe", "--dry-run", "--yes", "--wait", "--controllers", "--accept-effect", *_EVIDENCE)


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "verb",
        metavar="VERB",
        choices=("upgrade", "downgrade", "disable", "update"),
        help="upgrade, downgrade, disable or update",
    )
    _add_levels(parser, "upgrade or downgrade")
    _add(parser, *_CHANGES)
    _add(
        parser,
        "--unsafe",
        "--controllers",
        "--accept-effect",
        "--evidence",
        "--evidence-cluster",
        "--without-usage-reports",
    )
    parser.add_argument(
        "--latches",
        metavar="PATH",
        type=local_path_argument,
        action="append",
        default=[],
        help="the folder, or a file of it, where an app keeps its latches: show whether the app would be affected",
    )
    add_gates(parser, "a latched requirement of an app: show whether the app would be affected; may be repeated")


def _version_mapping(parser: argparse.ArgumentParser) -> None:
    _add_release(parser, "look up (default: the newest of kafka-features 4.3)")


def _feature_dependencies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        required=True,
        help="a level to look up, such as eligible.leader.replicas.version=1; may be repeated",
    )


_SHARED: Final[dict[str, dict[str, Any]]] = {
    "--upgrade": {"metavar": "NAME=LEVEL", "action": "append", "help": "of update: a level to raise; may be repeated"},
    "--downgrade": {
        "metavar": "NAME=LEVEL",
        "action": "append",
        "help": "of update: a level to lower; may be repeated",
    },
    "--delete": {"metavar": "NAME", "action": "append", "help": "of update: a feature to lower to 0; may be repeated"},
    "--unsafe": {
        "action": "store_true",
        "help": "request an unsafe downgrade; no release of Kafka carries one out for metadata.version",
    },
    "--dry-run": {"action": "store_true", "help": "ask the controller whether it would; change nothing"},
    "--yes": {
        "action": "store_true",
        "help": "confirm in advance what cannot be undone; without a terminal such a change needs it",
    },
    "--wait": {
        "metavar": "SECONDS",
        "type": positive_seconds,
        "help": "afterwards wait until every broker shows the levels, for SECONDS at most",
    },
    "--controllers": {
        "metavar": "HOST:PORT",
        "help": "KRaft controllers to ask in addition to the brokers: the controllers must support a level too",
    },
    "--accept-effect": {
        "metavar": "CONFIG",
        "choices": ("min.insync.replicas",),
        "action": "append",
        "default": [],
        "help": "change the levels also where they lower CONFIG: min.insync.replicas",
    },
    "--evidence": {"metavar": "DIR", "help": "the tables of 'featuregate fleet': show what they say of the update"},
    "--evidence-cluster": {"metavar": "NAME", "help": "the name of the cluster in these tables"},
    "--without-usage-reports": {
        "action": "store_true",
        "help": "with --evidence, miss no reports: no app of the cluster has gates",
    },
    "--despite-evidence": {
        "choices": ("unknown", "block"),
        "nargs": "?",
        "const": "block",
        "help": "change the levels also where evidence is missing or too old (unknown), or blocks it, too (block)",
    },
}
_CHANGES: Final = ("--upgrade", "--downgrade", "--delete")
_EVIDENCE: Final = ("--evidence", "--evidence-cluster", "--without-usage-reports", "--despite-evidence")


def _add(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def _add_levels(parser: argparse.ArgumentParser, verb: str) -> None:
    parser.add_argument(
        "--feature",
        metavar="NAME=LEVEL",
        action="append",
        help=f"a feature to {verb}, such as group.version=1 or metadata.version=4.2-IV1; may be repeated",
    )
    parser.add_argument("--metadata", metavar="VERSION", help="deprecated: the metadata.version, such as 3.9-IV0")
    _add_release(parser, f"{verb} every feature to")


def _add_release(parser: argparse.ArgumentParser, verb: str) -> None:
    parser.add_argument(
        "--release-version",
        metavar="VERSION",
        help=f"a release, such as 4.2, or a metadata.version, such as 4.2-IV1, to {verb}",
    )


_SENTENCES: Final = "sentences, or one JSON object"
_KAFKA_FEATURES: Final = "the text of kafka-features, or one JSON object"

COMMANDS: Final = {
    "describe": Command("describe", _describe, "the text of kafka-features, or the whole view as JSON"),
    "matrix": Command("matrix", _matrix, "a table, or one JSON object"),
    "check": Command("check", _check, _SENTENCES),
    "explain": Command("explain", _explain, _SENTENCES),
    "watch": Command("watch", _watch, "one line for each change, or one JSON object on a line"),
    "doctor": Command("doctor", _doctor, _SENTENCES),
    "fit": Command("fit", _fit, "a line for each client, or a JSON array"),
    "plan": Command("plan", _plan, _SENTENCES),
    "upgrade": Command("change", _upgrade, _KAFKA_FEATURES),
    "downgrade": Command("change", _downgrade, _KAFKA_FEATURES),
    "disable": Command("change", _disable, _KAFKA_FEATURES),
    "update": Command("change", _update, _KAFKA_FEATURES),
    "version-mapping": Command("lookup", _version_mapping, _KAFKA_FEATURES),
    "feature-dependencies": Command("lookup", _feature_dependencies, "the text of kafka-features, or a JSON array"),
    "health": Command("health", _health, None),
    "hold": Command("hold", _hold, None),
    "sandbox": Command("sandbox", add_sandbox_options, None),
    "completion": Command("completion", _completion, None),
}
"""By name, in the order of ``--help``."""
