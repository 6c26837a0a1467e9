"""The options of ``featuregate sandbox``, and what their values may be."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import Final

_LINE: Final = re.compile(r"[1-9]\d*\.\d+|0\.\d+\.\d+")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def add_sandbox_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "version",
        metavar="VERSION",
        nargs="?",
        type=_version,
        default="4.2.0",
        help="the release, such as 3.9.2, or 3.9 for 3.9.0 (default: 4.2.0)",
    )
    parser.add_argument(
        "--nodes", metavar="N", type=_count, default=1, help="brokers, each a controller as well (default: 1)"
    )
    parser.add_argument(
        "--port", metavar="PORT", type=_port, default=9092, help="of the first broker; others count up (default: 9092)"
    )
    parser.add_argument(
        "--features",
        metavar="NAME=LEVEL[,NAME=LEVEL]",
        action="append",
        default=[],
        help="levels to begin with, in place of those of the release; may be repeated",
    )
    parser.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS]",
        type=_topic,
        action="append",
        default=[],
        help="create a topic (one partition by default); may be repeated; needs the extra 'confluent'",
    )
    parser.add_argument(
        "--records",
        metavar="TOPIC=COUNT",
        type=_records,
        action="append",
        default=[],
        help="write COUNT records into a topic, with the keys 1, 2 ...; may be repeated",
    )
    parser.add_argument(
        "--roll-to", metavar="VERSION", type=_version, help="then upgrade one broker after the other to this release"
    )
    parser.add_argument(
        "--pause", action="store_true", help="with --roll-to: ask before each broker for next, back or stop"
    )
    parser.add_argument("--fake", action="store_true", help="fake brokers, which need no Java and start at once")


def _version(text: str) -> str:
    """Return the first release of a line, such as ``4.3``, and any other text as it is."""
    return f"{text}.0" if _LINE.fullmatch(text) else text


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    return _topic_name(name), _whole(partitions, 1, 1000) if colon else 1


def _records(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r} is not a topic with a number of records, such as orders=100")
    return _topic_name(name), _whole(count, 1, 1_000_000)


def _topic_name(text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a topic name")
    return text


def _count(text: str) -> int:
    return _whole(text, 1, 100)


def _port(text: str) -> int:
    return _whole(text, 1, 65_535)


def _whole(text: str, lowest: int, highest: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not lowest <= number <= highest:
        raise ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
    return number
