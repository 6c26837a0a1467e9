"""The built-in commands: the module that runs each one, and its options."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from featuregate.cli.arguments.options import add_gates, option, topic_name, whole_number
from featuregate.patterns import pattern

_LINE: Final = pattern(r"[1-9]\d*\.\d+|0\.\d+\.\d+")


def add_sandbox_options(parser: ArgumentParser) -> None:
    """Add the options of ``sandbox``."""
    release = "the release, such as 3.9.2, or 3.9 for 3.9.0 (default: 4.2.0)"
    option(parser, "VERSION", release, nargs="?", type=_release, default="4.2.0")
    option(parser, "--nodes N", "brokers, each a controller as well (default: 1)", type=whole_number(1, 100), default=1)
    port = "of the first broker; others count up (default: 9092)"
    option(parser, "--port PORT", port, type=whole_number(1, 65_535), default=9092)
    levels = "levels to begin with, in place of those of the release; may be repeated"
    option(parser, "--features NAME=LEVEL[,NAME=LEVEL]", levels, many=True)
    create = "create a topic (one partition by default); may be repeated; needs the extra 'confluent'"
    option(parser, "--topic NAME[:PARTITIONS]", create, many=True, type=_topic)
    write = "write COUNT records into a topic, with the keys 1, 2 ...; may be repeated"
    option(parser, "--records TOPIC=COUNT", write, many=True, type=_records)
    option(parser, "--roll-to VERSION", "then upgrade one broker after the other to this release", type=_release)
    option(parser, "--pause", "with --roll-to: ask before each broker for next, back or stop")
    option(parser, "--fake", "fake brokers, which need no Java and start at once")


def add_rehearse_options(parser: ArgumentParser) -> None:
    """Add the options of ``rehearse``."""
    start = "the release that the cluster runs, such as 3.9.2, or 3.9 for 3.9.0"
    option(parser, "--from VERSION", start, dest="start", type=_release)
    read = "read the release, the levels, the settings of brokers and the topics of the app from this cluster"
    option(parser, "--from-cluster HOST:PORT", read)
    option(parser, "--from-config FILE", "how to reach --from-cluster: a .properties file, as for Kafka's own tools")
    copy = "the server.properties of a broker: its settings are copied, and the app must not reach its listeners"
    option(parser, "--properties FILE", copy)
    option(parser, "--to VERSION", "the release that it moves to", dest="target", type=_release, required=True)
    via = "a release between, which all nodes and levels reach first; may be repeated (default: the direct way)"
    option(parser, "--via VERSION", via, many=True, type=_release)
    option(parser, "--nodes N", "brokers (default: 3)", type=whole_number(1, 9), default=3)
    apart = "nodes that are controllers only (default: 0, each broker is a controller as well)"
    option(parser, "--controllers N", apart, type=whole_number(0, 5), default=0)
    app = (
        "an app to run meanwhile, which reads the address of its cluster from BOOTSTRAP_SERVERS or "
        "FEATUREGATE_BOOTSTRAP_SERVER; may be repeated"
    )
    option(parser, "--app COMMAND", app, many=True)
    option(parser, "--in TOPIC[:PARTITIONS]", "send numbered records to this topic", dest="input", type=_topic)
    option(parser, "--out TOPIC[:PARTITIONS]", "look for them in this topic", dest="output", type=_topic)
    value = 'the value of a record, with {n} where its number belongs, such as \'{"id": "{n}"}\' (default: {n})'
    option(parser, "--record TEXT", value, default="{n}")
    option(parser, "--rate N", "records a second (default: 20)", type=whole_number(1, 1000), default=20)
    let = "let the app have this variable of your environment; may be repeated (default: PATH, HOME and the like)"
    option(parser, "--env NAME", let, many=True)
    client = "write the properties of a client of the small cluster into this new file for the app; removed at the end"
    option(parser, "--command-config FILE", client)
    seen = "how long an app may take to be seen on the small cluster (default: 60)"
    option(parser, "--start-timeout SECONDS", seen, default=60.0)
    option(parser, "--yes", "run the app also where this system does not show whom it is connected to")
    back = "then try the way back after each step, in a second run that ends where there is none"
    option(parser, "--back", back)
    step = "how long a node may take to come back, and a record to come out (default: 120)"
    option(parser, "--step-timeout SECONDS", step, default=120.0)
    option(parser, "--html FILE", "write the runbook as one HTML page with a timeline, too")
    folder = "where runbook.md and runbook.json are written (default: rehearsal)"
    option(parser, "--folder DIR", folder, default="rehearsal")


def _release(text: str) -> str:
    """Parse a release: the first one of a line, such as ``4.3``, and any other text as it is."""
    return f"{text}.0" if _LINE.fullmatch(text) else text


def _topic(text: str) -> tuple[str, int]:
    """Parse the name of a topic with the number of its partitions, by default 1."""
    name, colon, partitions = text.partition(":")
    return topic_name(name), whole_number(1, 1000)(partitions) if colon else 1


def _records(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r} is not a topic with a number of records, such as orders=100")
    return topic_name(name), whole_number(1, 1_000_000)(count)


class Command(NamedTuple):
    """One built-in command."""

    module: str
    """The module of `featuregate.cli.commands` that runs it."""
    add_options: Callable[[ArgumentParser], object]
    """Adds the options that only this command or its group has."""
    output: str | None
    """What ``--output`` chooses between; None for a command without ``--output`` and without a cluster."""


def _check(parser: ArgumentParser) -> None:
    option(parser, "REQUIREMENT", 'a preset, such as kip447, or a text: "group.version>=1 & Fetch>=12"')
    option(parser, "--wait SECONDS", "repeat until the requirement is met, for SECONDS at most")


def _explain(parser: ArgumentParser) -> None:
    option(parser, "PRESET", "such as kip447", nargs="?")
    option(parser, "--list", "list the presets")


def _doctor(parser: ArgumentParser) -> None:
    spark = "also start Spark, and show its Kafka connector, pandas and the Python of its workers; needs no cluster"
    option(parser, "--spark", spark)


def _watch(parser: ArgumentParser) -> None:
    add_gates(parser, "print a line when this gate opens or closes; may be repeated")
    pause = "time between polls of a cluster that does not change; shorter while it changes (default: 5)"
    option(parser, "--interval SECONDS", pause, default=5.0)
    option(parser, "--for SECONDS", "stop after SECONDS (default: never)", dest="duration")


def _fit(parser: ArgumentParser) -> None:
    named = "NAME==VERSION of a client in any language, such as kafka-clients==3.9.0 or kafkajs==2.2.4"
    option(parser, "clients", named, metavar="CLIENT", nargs="*")
    option(parser, "--to RELEASE", "the release that the brokers run, such as 4.2")
    option(parser, "--python PATH", "look into the environment of this interpreter (default: featuregate's own)")
    pinned = "the clients that a requirements file or a lock file of Python pins; may be repeated"
    option(parser, "--requirements FILE", pinned, many=True)
    option(parser, "--spark VERSION", "the client in this release of Spark, such as 4.0.0")
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
    login = "the clients log in with this mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"
    option(parser, "--sasl MECHANISM", login, choices=mechanisms)


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="print the script for this shell")


def _health(parser: ArgumentParser) -> None:
    option(parser, "source", "the file that the process writes, or the URL of its /readyz", metavar="FILE")
    hangs = "fail where the file is older, because the process hangs: more than its interval between polls"
    option(parser, "--written-within SECONDS", hangs)
    option(parser, "--max-age SECONDS", "fail if no broker has answered for SECONDS")


def _hold(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("list",), help="print the gates that are held")
    option(parser, "--file FILE", "a file of holds, in addition to that of FEATUREGATE_HOLD_FILE")


def _plan(parser: ArgumentParser) -> None:
    verbs = ("upgrade", "downgrade", "disable", "update")
    option(parser, "VERB", "upgrade, downgrade, disable or update", choices=verbs)
    _add_levels(parser, "upgrade or downgrade")
    _add_kinds(parser)
    _add_unsafe(parser)
    _add_knowledge(parser)
    latches = "the folder, or a file of it, where an app keeps its latches: show whether the app would be affected"
    option(parser, "--latches PATH", latches, many=True)
    add_gates(parser, "a latched requirement of an app: show whether the app would be affected; may be repeated")


def _add_levels(parser: ArgumentParser, verb: str) -> None:
    feature = f"a feature to {verb}, such as group.version=1 or metadata.version=4.2-IV1; may be repeated"
    option(parser, "--feature NAME=LEVEL", feature, many=True)
    release = f"a release, such as 4.2, or a metadata.version, such as 4.2-IV1, to {verb} every feature to"
    option(parser, "--release-version VERSION", release)


def _add_kinds(parser: ArgumentParser) -> None:
    option(parser, "--upgrade NAME=LEVEL", "of update: a level to raise; may be repeated", many=True)
    option(parser, "--downgrade NAME=LEVEL", "of update: a level to lower; may be repeated", many=True)
    option(parser, "--delete NAME", "of update: a feature to lower to 0; may be repeated", many=True)


def _add_unsafe(parser: ArgumentParser) -> None:
    option(parser, "--unsafe", "request an unsafe downgrade; no release of Kafka carries one out for metadata.version")


def _change(verb: str, parser: ArgumentParser) -> None:
    if verb == "update":
        _add_kinds(parser)
    elif verb == "disable":
        option(parser, "--feature NAME", "a feature to disable; may be repeated", many=True)
    else:
        _add_levels(parser, verb)
    if verb != "upgrade":
        _add_unsafe(parser)
    option(parser, "--dry-run", "ask the controller whether it would; change nothing")
    option(parser, "--yes", "confirm in advance what cannot be undone; without a terminal such a change needs it")
    option(parser, "--wait SECONDS", "afterwards wait until every broker shows the levels, for SECONDS at most")
    _add_knowledge(parser)
    despite = "change the levels also where evidence is missing or too old (unknown), or blocks it, too (block)"
    option(parser, "--despite-evidence", despite, choices=("unknown", "block"), nargs="?", const="block")


def _add_knowledge(parser: ArgumentParser) -> None:
    controllers = "KRaft controllers to ask in addition to the brokers: the controllers must support a level too"
    option(parser, "--controllers HOST:PORT", controllers)
    falls = "change the levels also where they lower CONFIG: min.insync.replicas"
    option(parser, "--accept-effect CONFIG", falls, many=True, choices=("min.insync.replicas",))
    option(parser, "--evidence DIR", "the tables of 'featuregate fleet': show what they say of the update", type=str)
    option(parser, "--evidence-cluster NAME", "the name of the cluster in these tables")
    option(parser, "--without-usage-reports", "with --evidence, miss no reports: no app of the cluster has gates")


_ALL: Final = "also show the APIs on which all brokers agree"
_SENTENCES: Final = "sentences, or one JSON object"
_KAFKA_FEATURES: Final = "the text of kafka-features, or one JSON object"

COMMANDS: Final = {
    "describe": Command("describe", lambda _: None, "the text of kafka-features, or the whole view as JSON"),
    "matrix": Command("matrix", lambda parser: option(parser, "--all", _ALL), "a table, or one JSON object"),
    "check": Command("check", _check, _SENTENCES),
    "explain": Command("explain", _explain, _SENTENCES),
    "watch": Command("watch", _watch, "one line for each change, or one JSON object on a line"),
    "doctor": Command("doctor", _doctor, _SENTENCES),
    "fit": Command("fit", _fit, "a line for each client, or a JSON array"),
    "plan": Command("plan", _plan, _SENTENCES),
    "upgrade": Command("change", partial(_change, "upgrade"), _KAFKA_FEATURES),
    "downgrade": Command("change", partial(_change, "downgrade"), _KAFKA_FEATURES),
    "disable": Command("change", partial(_change, "disable"), _KAFKA_FEATURES),
    "update": Command("change", partial(_change, "update"), _KAFKA_FEATURES),
    "health": Command("health", _health, None),
    "hold": Command("hold", _hold, None),
    "rehearse": Command("rehearse", add_rehearse_options, None),
    "sandbox": Command("sandbox", add_sandbox_options, None),
    "completion": Command("completion", _completion, None),
}
"""By name, in the order of ``--help``."""
