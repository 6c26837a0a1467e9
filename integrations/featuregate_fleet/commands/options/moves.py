"""The options that name a move."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from featuregate_fleet.readiness import move_texts as texts

if TYPE_CHECKING:
    from featuregate_fleet.readiness.moves import Move

_OPTIONS: Final[dict[str, tuple[str, Callable[[str], Move], str]]] = {
    "--to": ("RELEASE", texts.to, "all brokers run this release, such as 4.2"),
    "--downgrade-to": ("RELEASE", texts.downgrade, "all brokers run this older release"),
    "--finalize": (
        "FEATURE=LEVEL",
        texts.finalize,
        "the controller finalizes a level, such as transaction.version=2",
    ),
    "--deprecate": ("FEATURE=LEVEL", texts.deprecate, "brokers support neither this level nor lower ones any more"),
    "--drop-api": ("NAME<VERSION", texts.drop, "brokers stop to serve older versions of an API, such as Fetch<12"),
}


def add_moves(parser: argparse.ArgumentParser) -> None:
    """Add the options of which exactly one is given. ``move`` holds its value."""
    _add(parser, ("--to", "--downgrade-to", "--finalize", "--deprecate", "--drop-api"))


def add_moves_of_brokers(parser: argparse.ArgumentParser) -> None:
    """Add those that change which API versions brokers serve: requests alone say what they break."""
    _add(parser, ("--to", "--downgrade-to", "--drop-api"))


def _add(parser: argparse.ArgumentParser, options: Iterable[str]) -> None:
    moves = parser.add_argument_group("the move, one of").add_mutually_exclusive_group(required=True)
    for option in options:
        metavar, read, summary = _OPTIONS[option]
        moves.add_argument(option, metavar=metavar, type=_argument(read), dest="move", help=summary)


def _argument(read: Callable[[str], Move]) -> Callable[[str], Move]:
    """Return a function whose error argparse shows as it is."""

    def argument(text: str) -> Move:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return argument
