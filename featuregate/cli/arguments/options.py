"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from featuregate.cli.exit_codes import CommandError
from featuregate.errors import ConfigError
from featuregate.files import local_path
from featuregate.patterns import pattern

if TYPE_CHECKING:
    from featuregate.requirements import Requirement

_Value = TypeVar("_Value")
_TOPIC: Final = pattern(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def option(parser: Any, spelling: str, meaning: str, *, many: bool = False, **more: Any) -> None:
    """Add an option or an argument by its name and its value, as in ``--wait SECONDS``; ``--all`` is a flag.

    The name of the value says how it is read, unless ``type`` does: SECONDS are above 0. An option of which there may
    be ``many`` gives a list.
    """
    name, _, value = spelling.partition(" ")
    if value or not name.startswith("-"):
        more = {"metavar": value or name, "type": _TYPES.get(value)} | more
    elif "choices" not in more:
        more["action"] = "store_true"
    if many:
        more |= {"action": "append", "default": []}
    parser.add_argument(name if name.startswith("-") else name.lower(), help=meaning, **more)


def add_cluster_options(parser: argparse.ArgumentParser, *, default: Any = None) -> None:
    """Add the options that say where the cluster is and how to reach it.

    They may stand before the command, as in kafka-features, or after it. After it ``default`` is ``argparse.SUPPRESS``,
    so that an option that is not repeated keeps the value that stands before the command.
    """
    group = parser.add_argument_group("where the cluster is")
    servers = group.add_mutually_exclusive_group()
    of_environment = (
        "brokers to start from, separated by commas (default: the environment's FEATUREGATE_BOOTSTRAP_SERVER)"
    )
    option(servers, "--bootstrap-server HOST:PORT", of_environment, default=default)
    option(servers, "--bootstrap-controller HOST:PORT", "KRaft controllers, instead of brokers", default=default)
    config = "a .properties file, as for Kafka's own tools: security.protocol, ssl.*, sasl.*"
    option(group, "--command-config FILE", config, type=str, default=default)
    option(
        group,
        "--broker-list",
        "where the list of brokers comes from: the cluster, or the bootstrap list, which needs no password "
        "(default: cluster)",
        choices=("cluster", "bootstrap"),
        default="cluster" if default is None else default,
    )
    bound = "bound on asking all brokers once (default: 15; not for watch), and on sending a change (default: 60)"
    option(group, "--timeout SECONDS", bound, default=default)
    option(group, "--verbose", "print the log to standard error", default=False if default is None else default)


def add_output(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the choice between text and JSON."""
    option(parser, "--output", f"{meaning} (default: text)", choices=("text", "json"), default="text")


def positive_seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def topic_name(text: str) -> str:
    """Parse the name of a topic."""
    if not _TOPIC.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a topic name")
    return text


def whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the parser of a number within bounds."""

    def parse(text: str) -> int:
        number = int(text.lstrip("0")[:9] or 0) if text.isascii() and text.isdigit() else -1
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
        return number

    return parse


def argument(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return a function that reads a value as another one does, and whose error argparse shows as it is."""

    def read_argument(text: str) -> _Value:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(error.problem) from None
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_argument


local_path_argument = argument(partial(local_path, ""))
"""Parses the path of a file or folder of this machine."""
_TYPES: Final[Mapping[str, Callable[[str], object]]] = {
    "SECONDS": positive_seconds,
    "TOPIC": topic_name,
    "NUMBER": whole_number(1, 99_999),
    "DAYS": whole_number(1, 36_500),
    **dict.fromkeys(("FILE", "DIR", "PATH"), local_path_argument),
}
"""What reads a value that has this name in `option`."""


def add_gates(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--gate NAME=REQUIREMENT``, which can be repeated."""
    option(parser, "--gate NAME=REQUIREMENT", meaning, many=True, dest="gates", type=named_requirement)


def named_requirement(text: str) -> tuple[str, str]:
    """Parse ``NAME=REQUIREMENT``; the requirement follows the first equals sign."""
    name, equals, requirement = text.partition("=")
    if not (equals and name.strip() and requirement.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=REQUIREMENT, such as eos=kip447")
    return name.strip(), requirement.strip()


def gate_requirements(args: argparse.Namespace) -> dict[str, Requirement]:
    """Return the requirements that ``--gate`` names, by the names of their gates.

    Raises `CommandError`: two gates have the same name; `RequirementError`: a text is not a preset and does not parse.
    """
    from featuregate.requirements import parse  # noqa: PLC0415 - few commands have gates

    requirements: dict[str, Requirement] = {}
    for name, text in args.gates:
        if name in requirements:
            raise CommandError(f"argument --gate: {name!r} is given twice; one name is one gate")
        requirements[name] = parse(text)
    return requirements
