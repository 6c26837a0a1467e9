"""The options that name a move."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from featuregate.catalog import CapturedRelease, api_key, captured, captured_as, features, level_named
from featuregate.errors import UnknownApi
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, ToRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from featuregate_fleet.readiness.moves import Move

_DROP: Final = re.compile(r"([A-Za-z_]+|api:[0-9]+)<([0-9]{1,5})")
_VERSION: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5})*")
_HIGHEST: Final = 2**15 - 1


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
        moves.add_argument(option, metavar=metavar, type=read, dest="move", help=summary)


def _to(text: str) -> ToRelease:
    return ToRelease(_release(text))


def _downgrade(text: str) -> DowngradeTo:
    return DowngradeTo(_release(text), text)


def _finalize(text: str) -> Finalize:
    return Finalize(*_level(text))


def _deprecate(text: str) -> Deprecate:
    return Deprecate(*_level(text))


def _drop(text: str) -> DropApi:
    match = _DROP.fullmatch(text)
    key = match[1].partition(":")[2] if match else ""
    if not match or int(match[2]) > _HIGHEST or int(key or 0) > _HIGHEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no API with a version: write 'Fetch<12', in quotes")
    if not int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} drops nothing: versions begin at 0")
    try:
        return DropApi(api_key(match[1]), int(match[2]))
    except UnknownApi as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _release(text: str) -> CapturedRelease:
    found = captured_as(text) if _VERSION.fullmatch(text) else None
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of the known releases: {', '.join(captured())}")
    return found


def _level(text: str) -> tuple[str, int]:
    feature, _, level = text.partition("=")
    if feature not in features():
        raise argparse.ArgumentTypeError(f"{feature!r} is none of the known features: {', '.join(features())}")
    named = level_named(level) if feature == "metadata.version" and not level.isdecimal() else None
    if named:
        return feature, named.level
    if not re.fullmatch(r"[0-9]{1,5}", level) or int(level) > _HIGHEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no feature with a level: write {feature}=1")
    return feature, int(level)


_OPTIONS: Final[dict[str, tuple[str, Callable[[str], Move], str]]] = {
    "--to": ("RELEASE", _to, "all brokers run this release, such as 4.2"),
    "--downgrade-to": ("RELEASE", _downgrade, "all brokers run this older release"),
    "--finalize": (
        "FEATURE=LEVEL",
        _finalize,
        "the controller finalizes a level, such as transaction.version=2",
    ),
    "--deprecate": ("FEATURE=LEVEL", _deprecate, "brokers support neither this level nor lower ones any more"),
    "--drop-api": ("NAME<VERSION", _drop, "brokers stop to serve older versions of an API, such as Fetch<12"),
}
