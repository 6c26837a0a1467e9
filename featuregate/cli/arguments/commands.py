"""The built-in commands: the module that runs each one, and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.cli.arguments.local_clusters import add_rehearse_options, add_sandbox_options
from featuregate.cli.arguments.options import add_gates, local_path_argument, option

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


def _no_options(_: argparse.ArgumentParser) -> None:
    """Leave the parser as it is."""


def _matrix(parser: argparse.ArgumentParser) -> None:
    option(parser, "--all", "also show the APIs on which all brokers agree")


def _check(parser: argparse.ArgumentParser) -> None:
    option(parser, "REQUIREMENT", 'a preset, such as kip447, or a text: "group.version>=1 & Fetch>=12"')
    option(parser, "--wait SECONDS", "repeat until the requirement is met, for SECONDS at most")


def _explain(parser: argparse.ArgumentParser) -> None:
    option(parser, "PRESET", "such as kip447", nargs="?")
    option(parser, "--list", "list the presets")


def _doctor(parser: argparse.ArgumentParser) -> None:
    spark = "also start Spark, and show its Kafka connector, pandas and the Python of its workers; needs no cluster"
    option(parser, "--spark", spark)


def _watch(parser: argparse.ArgumentParser) -> None:
    add_gates(parser, "print a line when this gate opens or closes; may be repeated")
    pause = "time between polls of a cluster that does not change; shorter while it changes (default: 5)"
    option(parser, "--interval SECONDS", pause, default=5.0)
    option(parser, "--for SECONDS", "stop after SECONDS (default: never)", dest="duration")


def _fit(parser: argparse.ArgumentParser) -> None:
    named = "NAME==VERSION of a client in any language, such as kafka-clients==3.9.0 or kafkajs==2.2.4"
    option(parser, "clients", named, metavar="CLIENT", nargs="*")
    option(parser, "--to RELEASE", "the release that the brokers run, such as 4.2")
    python = "look into the environment of this interpreter (default: featuregate's own)"
    option(parser, "--python PATH", python, type=local_path_argument)
    pinned = "the clients that a requirements file or a lock file of Python pins; may be repeated"
    option(parser, "--requirements FILE", pinned, many=True, type=local_path_argument)
    option(parser, "--spark VERSION", "the client in this release of Spark, such as 4.0.0")
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
    login = "the clients log in with this mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"
    option(parser, "--sasl MECHANISM", login, choices=mechanisms)


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="print the script for this shell")


def _health(parser: argparse.ArgumentParser) -> None:
    option(parser, "source", "the file that the process writes, or the URL of its /readyz", metavar="FILE")
    hangs = "fail where the file is older, because the process hangs: more than its interval between polls"
    option(parser, "--written-within SECONDS", hangs)
    option(parser, "--max-age SECONDS", "fail if no broker has answered for SECONDS")


def _hold(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list",), help="print the gates that are held")
    more = "a file of holds, in addition to that of FEATUREGATE_HOLD_FILE"
    option(parser, "--file FILE", more, type=local_path_argument)


def _upgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "upgrade")
    _add_change(parser)


def _downgrade(parser: argparse.ArgumentParser) -> None:
    _add_levels(parser, "downgrade")
    _add_unsafe(parser)
    _add_change(parser)


def _disable(parser: argparse.ArgumentParser) -> None:
    option(parser, "--feature NAME", "a feature to disable; may be repeated", many=True)
    _add_unsafe(parser)
    _add_change(parser)


def _update(parser: argparse.ArgumentParser) -> None:
    _add_kinds(parser)
    _add_unsafe(parser)
    _add_change(parser)


def _plan(parser: argparse.ArgumentParser) -> None:
    verbs = ("upgrade", "downgrade", "disable", "update")
    option(parser, "VERB", "upgrade, downgrade, disable or update", choices=verbs)
    _add_levels(parser, "upgrade or downgrade")
    _add_kinds(parser)
    _add_unsafe(parser)
    _add_knowledge(parser)
    latches = "the folder, or a file of it, where an app keeps its latches: show whether the app would be affected"
    option(parser, "--latches PATH", latches, many=True, type=local_path_argument)
    add_gates(parser, "a latched requirement of an app: show whether the app would be affected; may be repeated")


def _add_levels(parser: argparse.ArgumentParser, verb: str) -> None:
    feature = f"a feature to {verb}, such as group.version=1 or metadata.version=4.2-IV1; may be repeated"
    option(parser, "--feature NAME=LEVEL", feature, many=True)
    release = f"a release, such as 4.2, or a metadata.version, such as 4.2-IV1, to {verb} every feature to"
    option(parser, "--release-version VERSION", release)


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    option(parser, "--upgrade NAME=LEVEL", "of update: a level to raise; may be repeated", many=True)
    option(parser, "--downgrade NAME=LEVEL", "of update: a level to lower; may be repeated", many=True)
    option(parser, "--delete NAME", "of update: a feature to lower to 0; may be repeated", many=True)


def _add_unsafe(parser: argparse.ArgumentParser) -> None:
    option(parser, "--unsafe", "request an unsafe downgrade; no release of Kafka carries one out for metadata.version")


def _add_change(parser: argparse.ArgumentParser) -> None:
    option(parser, "--dry-run", "ask the controller whether it would; change nothing")
    option(parser, "--yes", "confirm in advance what cannot be undone; without a terminal such a change needs it")
    option(parser, "--wait SECONDS", "afterwards wait until every broker shows the levels, for SECONDS at most")
    _add_knowledge(parser)
    despite = "change the levels also where evidence is missing or too old (unknown), or blocks it, too (block)"
    option(parser, "--despite-evidence", despite, choices=("unknown", "block"), nargs="?", const="block")


def _add_knowledge(parser: argparse.ArgumentParser) -> None:
    controllers = "KRaft controllers to ask in addition to the brokers: the controllers must support a level too"
    option(parser, "--controllers HOST:PORT", controllers)
    falls = "change the levels also where they lower CONFIG: min.insync.replicas"
    option(parser, "--accept-effect CONFIG", falls, many=True, choices=("min.insync.replicas",))
    option(parser, "--evidence DIR", "the tables of 'featuregate fleet': show what they say of the update")
    option(parser, "--evidence-cluster NAME", "the name of the cluster in these tables")
    option(parser, "--without-usage-reports", "with --evidence, miss no reports: no app of the cluster has gates")


_SENTENCES: Final = "sentences, or one JSON object"
_KAFKA_FEATURES: Final = "the text of kafka-features, or one JSON object"

COMMANDS: Final = {
    "describe": Command("describe", _no_options, "the text of kafka-features, or the whole view as JSON"),
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
    "health": Command("health", _health, None),
    "hold": Command("hold", _hold, None),
    "rehearse": Command("rehearse", add_rehearse_options, None),
    "sandbox": Command("sandbox", add_sandbox_options, None),
    "completion": Command("completion", _completion, None),
}
"""By name, in the order of ``--help``."""
