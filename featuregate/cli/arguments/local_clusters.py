"""The options of ``featuregate sandbox`` and ``rehearse``, which run Kafka on this machine."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Final

from featuregate.cli.arguments.options import local_path_argument, option
from featuregate.patterns import pattern

_LINE: Final = pattern(r"[1-9]\d*\.\d+|0\.\d+\.\d+")
_TOPIC: Final = pattern(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def add_sandbox_options(parser: ArgumentParser) -> None:
    """Add the options of ``sandbox``."""
    release = "the release, such as 3.9.2, or 3.9 for 3.9.0 (default: 4.2.0)"
    option(parser, "VERSION", release, nargs="?", type=_release, default="4.2.0")
    option(parser, "--nodes N", "brokers, each a controller as well (default: 1)", type=_whole(1, 100), default=1)
    port = "of the first broker; others count up (default: 9092)"
    option(parser, "--port PORT", port, type=_whole(1, 65_535), default=9092)
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
    reach = "how to reach --from-cluster: a .properties file, as for Kafka's own tools"
    option(parser, "--from-config FILE", reach, type=local_path_argument)
    copy = "the server.properties of a broker: its settings are copied, and the app must not reach its listeners"
    option(parser, "--properties FILE", copy, type=local_path_argument)
    option(parser, "--to VERSION", "the release that it moves to", dest="target", type=_release, required=True)
    via = "a release between, which all nodes and levels reach first; may be repeated (default: the direct way)"
    option(parser, "--via VERSION", via, many=True, type=_release)
    option(parser, "--nodes N", "brokers (default: 3)", type=_whole(1, 9), default=3)
    apart = "nodes that are controllers only (default: 0, each broker is a controller as well)"
    option(parser, "--controllers N", apart, type=_whole(0, 5), default=0)
    app = (
        "an app to run meanwhile, which reads the address of its cluster from BOOTSTRAP_SERVERS or "
        "FEATUREGATE_BOOTSTRAP_SERVER; may be repeated"
    )
    option(parser, "--app COMMAND", app, many=True)
    option(parser, "--in TOPIC[:PARTITIONS]", "send numbered records to this topic", dest="input", type=_topic)
    option(parser, "--out TOPIC[:PARTITIONS]", "look for them in this topic", dest="output", type=_topic)
    value = 'the value of a record, with {n} where its number belongs, such as \'{"id": "{n}"}\' (default: {n})'
    option(parser, "--record TEXT", value, default="{n}")
    option(parser, "--rate N", "records a second (default: 20)", type=_whole(1, 1000), default=20)
    let = "let the app have this variable of your environment; may be repeated (default: PATH, HOME and the like)"
    option(parser, "--env NAME", let, many=True)
    client = "write the properties of a client of the small cluster into this new file for the app; removed at the end"
    option(parser, "--command-config FILE", client, type=local_path_argument)
    seen = "how long an app may take to be seen on the small cluster (default: 60)"
    option(parser, "--start-timeout SECONDS", seen, default=60.0)
    option(parser, "--yes", "run the app also where this system does not show whom it is connected to")
    back = "then try the way back after each step, in a second run that ends where there is none"
    option(parser, "--back", back)
    step = "how long a node may take to come back, and a record to come out (default: 120)"
    option(parser, "--step-timeout SECONDS", step, default=120.0)
    page = "write the runbook as one HTML page with a timeline, too"
    option(parser, "--html FILE", page, type=local_path_argument)
    folder = "where runbook.md and runbook.json are written (default: rehearsal)"
    option(parser, "--folder DIR", folder, type=local_path_argument, default="rehearsal")


def _release(text: str) -> str:
    """Parse a release: the first one of a line, such as ``4.3``, and any other text as it is."""
    return f"{text}.0" if _LINE.fullmatch(text) else text


def _topic(text: str) -> tuple[str, int]:
    """Parse the name of a topic with the number of its partitions, by default 1."""
    name, colon, partitions = text.partition(":")
    return _topic_name(name), _whole(1, 1000)(partitions) if colon else 1


def _records(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r} is not a topic with a number of records, such as orders=100")
    return _topic_name(name), _whole(1, 1_000_000)(count)


def _topic_name(text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a topic name")
    return text


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the parser of a number within bounds."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not lowest <= number <= highest:
            raise ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
        return number

    return parse
