"""Argument lists as kafka-features reads them: what argparse4j 0.7 accepts, and in its words what it does not.

Options of the tool stand before the command and those of the command after it; long options and commands may be
abbreviated as long as that is unambiguous. Source: ``ArgumentParserImpl`` and ``SubparsersImpl`` of argparse4j 0.7.0,
which Apache Kafka 4.3.1 uses, and ``FeatureCommand.execute``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["COMMANDS", "TOOL", "HelpWanted", "Mistake", "Option", "Parsed", "parse"]


class Option(NamedTuple):
    """One option of the tool or of a command."""

    flags: tuple[str, ...]
    kind: Literal["text", "number", "list", "flag", "help"]
    required: bool = False
    exclusive: bool = False
    """Whether it excludes the others of its kind."""

    @property
    def name(self) -> str:
        """How mistakes call it."""
        return "/".join(self.flags)

    @property
    def dest(self) -> str:
        """The key of its value."""
        return self.flags[-1].lstrip("-").replace("-", "_")


_HELP: Final = Option(("-h", "--help"), "help")
_FEATURES: Final = Option(("--feature",), "list")
_RELEASE: Final = Option(("--release-version",), "text")
_METADATA: Final = Option(("--metadata",), "text")
_UNSAFE: Final = Option(("--unsafe",), "flag")
_DRY_RUN: Final = Option(("--dry-run",), "flag")

TOOL: Final = (
    _HELP,
    Option(("--bootstrap-server",), "text", exclusive=True),
    Option(("--bootstrap-controller",), "text", exclusive=True),
    Option(("--command-config",), "text"),
)
"""What stands before the command."""
COMMANDS: Final[dict[str, tuple[Option, ...]]] = {
    "describe": (_HELP, Option(("--node-id",), "number")),
    "upgrade": (_HELP, _METADATA, _RELEASE, _FEATURES, _DRY_RUN),
    "downgrade": (_HELP, _METADATA, _RELEASE, _FEATURES, _UNSAFE, _DRY_RUN),
    "disable": (_HELP, _FEATURES, _UNSAFE, _DRY_RUN),
    "version-mapping": (_HELP, _RELEASE),
    "feature-dependencies": (_HELP, _FEATURES._replace(required=True)),
}
"""By command, what stands after it."""

_NEGATIVE: Final = re.compile(r"-\d+")
_INT: Final = range(-(2**31), 2**31)


class Mistake(Exception):
    """The argument list makes no sense; the text is argparse4j's."""


class HelpWanted(Exception):
    """Somebody asks for help: with a command, or None with the tool."""

    def __init__(self, command: str | None) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True, slots=True)
class Parsed:
    """An argument list that makes sense."""

    command: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """By `Option.dest`; what was not given is not there."""


def parse(argv: Sequence[str]) -> Parsed:
    """Read an argument list.

    Raises
    ------
    Mistake
        It makes no sense.
    HelpWanted
        It asks for help before it makes none.
    """
    words = _Words(argv)
    values = _options(words, TOOL, None)
    if not words.left():
        raise Mistake("too few arguments")
    if words.after_separator:
        raise Mistake(f"unrecognized arguments: '{' '.join(words.rest)}'")
    command = _command(words.take())
    values |= _options(words, COMMANDS[command], command)
    if words.left():
        raise Mistake(f"unrecognized arguments: '{' '.join(words.rest)}'")
    for option in COMMANDS[command]:
        if option.required and option.dest not in values:
            raise Mistake(f"argument {option.name} is required")
    return Parsed(command, values)


class _Words:
    """What is still to be read."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.rest = list(argv)
        self.after_separator = False

    def left(self) -> bool:
        """Whether there is anything."""
        return bool(self.rest)

    @property
    def is_flag(self) -> bool:
        """Whether the next word is an option; a negative number is none, nor is anything behind ``--``."""
        word = self.rest[0]
        if self.after_separator:
            return False
        return word == "--" or (bool(word.lstrip("-")) and word[0] == "-" and not _NEGATIVE.fullmatch(word))

    def take(self) -> str:
        """Take the next word away."""
        return self.rest.pop(0)


def _options(words: _Words, known: tuple[Option, ...], command: str | None) -> dict[str, Any]:
    """Read options until something else comes."""
    values: dict[str, Any] = {}
    exclusive: Option | None = None
    while words.left() and words.is_flag:
        if words.rest[0] == "--":
            words.take()
            words.after_separator = True
            continue
        flag, equals, embedded = words.rest[0].partition("=")
        option = _resolve(flag, known)
        if option is None:
            if _asks_for_help(words.rest[0]):
                raise HelpWanted(command)
            raise Mistake(f"unrecognized arguments: '{words.rest[0]}'")
        words.take()
        if option.exclusive:
            if exclusive is not None and exclusive is not option:
                raise Mistake(f"argument {option.name}: not allowed with argument {exclusive.name}")
            exclusive = option
        if option.kind in {"flag", "help"} and equals:
            raise Mistake(f"argument {option.name}: ignore implicit argument '{embedded}'")
        if option.kind == "help":
            raise HelpWanted(command)
        _store(values, option, embedded if equals else None, words)
    return values


def _store(values: dict[str, Any], option: Option, embedded: str | None, words: _Words) -> None:
    if option.kind == "flag":
        values[option.dest] = True
        return
    text = embedded
    if text is None:
        if not words.left() or words.is_flag:
            raise Mistake(f"argument {option.name}: expected one argument")
        text = words.take()
    if option.kind == "list":
        values.setdefault(option.dest, []).append(text)
    else:
        values[option.dest] = _number(option, text) if option.kind == "number" else text


def _number(option: Option, text: str) -> int:
    """Read a Java ``Integer``."""
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) not in _INT:
        problem = f"could not convert '{text}' to Integer (For input string: \"{text}\")"
        raise Mistake(f"argument {option.name}: {problem}")
    return int(text)


def _resolve(flag: str, known: tuple[Option, ...]) -> Option | None:
    """Find the option of a flag, which may be abbreviated."""
    by_flag = {name: option for option in known for name in option.flags}
    if flag in by_flag:
        return by_flag[flag]
    found = _starting(by_flag, flag)
    if len(found) > 1:
        raise Mistake(f"ambiguous option: {flag} could match {', '.join(found)}")
    return by_flag[found[0]] if found else None


def _asks_for_help(word: str) -> bool:
    """Say whether this is a bunch of short options in which the first is ``-h``, the only one that there is."""
    return word.startswith("-h")


def _command(word: str) -> str:
    """Find a command, which may be abbreviated."""
    if word in COMMANDS:
        return word
    found = _starting(COMMANDS, word) if word else []
    if len(found) > 1:
        raise Mistake(f"ambiguous command: {word} could match {', '.join(found)}")
    if not found:
        choices = ", ".join(f"'{name}'" for name in COMMANDS)
        raise Mistake(f"invalid choice: '{word}' (choose from {choices})")
    return found[0]


def _starting(names: Iterable[str], prefix: str) -> list[str]:
    return sorted(name for name in names if name.startswith(prefix))
