"""The argument lists of kafka-features, with the rules and error messages of argparse4j 0.7.

Options of the tool stand before the command, options of the command after it; an unambiguous prefix stands for a long
option or a command. Source: ``ArgumentParserImpl`` and ``SubparsersImpl`` of argparse4j 0.7.0,
which Apache Kafka 4.3.1 uses, and ``FeatureCommand.execute``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple


class Option(NamedTuple):
    """One option of the tool or of a command."""

    flags: tuple[str, ...]
    kind: Literal["text", "number", "list", "flag", "help"]
    required: bool = False
    exclusive: bool = False
    """Whether it excludes the other exclusive options."""

    @property
    def name(self) -> str:
        """Its name in error messages."""
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
"""The options before the command."""
COMMANDS: Final[dict[str, tuple[Option, ...]]] = {
    "describe": (_HELP, Option(("--node-id",), "number")),
    "upgrade": (_HELP, _METADATA, _RELEASE, _FEATURES, _DRY_RUN),
    "downgrade": (_HELP, _METADATA, _RELEASE, _FEATURES, _UNSAFE, _DRY_RUN),
    "disable": (_HELP, _FEATURES, _UNSAFE, _DRY_RUN),
    "version-mapping": (_HELP, _RELEASE),
    "feature-dependencies": (_HELP, _FEATURES._replace(required=True)),
}
"""By command, the options after it."""

_NEGATIVE: Final = re.compile(r"-\d+")
_INT: Final = range(-(2**31), 2**31)


class UsageError(Exception):
    """The argument list is not valid; the text is that of argparse4j."""


class HelpRequested(Exception):
    """``--help`` was given: for a command, or None for the tool."""

    def __init__(self, command: str | None) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True, slots=True)
class Parsed:
    """A valid argument list."""

    command: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """By `Option.dest`; without the options that were not given."""


def parse(argv: Sequence[str]) -> Parsed:
    """Parse an argument list.

    Raises
    ------
    UsageError
        The list is not valid.
    HelpRequested
        ``--help`` stands before the first error.
    """
    args = _Arguments(argv)
    values = _options(args, TOOL, None)
    if not args.left():
        raise UsageError("too few arguments")
    if args.after_separator:
        raise UsageError(f"unrecognized arguments: '{' '.join(args.rest)}'")
    command = _command(args.take())
    values |= _options(args, COMMANDS[command], command)
    if args.left():
        raise UsageError(f"unrecognized arguments: '{' '.join(args.rest)}'")
    for option in COMMANDS[command]:
        if option.required and option.dest not in values:
            raise UsageError(f"argument {option.name} is required")
    return Parsed(command, values)


class _Arguments:
    """The arguments that are still to be parsed."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.rest = list(argv)
        self.after_separator = False

    def left(self) -> bool:
        """Whether any argument is left."""
        return bool(self.rest)

    @property
    def is_flag(self) -> bool:
        """Whether the next argument is an option; a negative number is not, nor is any argument after ``--``."""
        word = self.rest[0]
        if self.after_separator:
            return False
        return word == "--" or (bool(word.lstrip("-")) and word[0] == "-" and not _NEGATIVE.fullmatch(word))

    def take(self) -> str:
        """Remove and return the next argument."""
        return self.rest.pop(0)


def _options(args: _Arguments, known: tuple[Option, ...], command: str | None) -> dict[str, Any]:
    """Parse options up to the first argument that is not one."""
    values: dict[str, Any] = {}
    exclusive: Option | None = None
    while args.left() and args.is_flag:
        if args.rest[0] == "--":
            args.take()
            args.after_separator = True
            continue
        flag, equals, embedded = args.rest[0].partition("=")
        option = _resolve(flag, known)
        if option is None:
            if _asks_for_help(args.rest[0]):
                raise HelpRequested(command)
            raise UsageError(f"unrecognized arguments: '{args.rest[0]}'")
        args.take()
        if option.exclusive:
            if exclusive is not None and exclusive is not option:
                raise UsageError(f"argument {option.name}: not allowed with argument {exclusive.name}")
            exclusive = option
        if option.kind in {"flag", "help"} and equals:
            raise UsageError(f"argument {option.name}: ignore implicit argument '{embedded}'")
        if option.kind == "help":
            raise HelpRequested(command)
        _store(values, option, embedded if equals else None, args)
    return values


def _store(values: dict[str, Any], option: Option, embedded: str | None, args: _Arguments) -> None:
    if option.kind == "flag":
        values[option.dest] = True
        return
    text = embedded
    if text is None:
        if not args.left() or args.is_flag:
            raise UsageError(f"argument {option.name}: expected one argument")
        text = args.take()
    if option.kind == "list":
        values.setdefault(option.dest, []).append(text)
    else:
        values[option.dest] = _number(option, text) if option.kind == "number" else text


def _number(option: Option, text: str) -> int:
    """Parse a Java ``Integer``."""
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) not in _INT:
        problem = f"could not convert '{text}' to Integer (For input string: \"{text}\")"
        raise UsageError(f"argument {option.name}: {problem}")
    return int(text)


def _resolve(flag: str, known: tuple[Option, ...]) -> Option | None:
    """Return the option with this flag or prefix."""
    by_flag = {name: option for option in known for name in option.flags}
    if flag in by_flag:
        return by_flag[flag]
    found = _starting(by_flag, flag)
    if len(found) > 1:
        raise UsageError(f"ambiguous option: {flag} could match {', '.join(found)}")
    return by_flag[found[0]] if found else None


def _asks_for_help(word: str) -> bool:
    """Return whether this is a group of short options that starts with ``-h``, the only short option."""
    return word.startswith("-h")


def _command(word: str) -> str:
    """Return the command with this name or prefix."""
    if word in COMMANDS:
        return word
    found = _starting(COMMANDS, word) if word else []
    if len(found) > 1:
        raise UsageError(f"ambiguous command: {word} could match {', '.join(found)}")
    if not found:
        choices = ", ".join(f"'{name}'" for name in COMMANDS)
        raise UsageError(f"invalid choice: '{word}' (choose from {choices})")
    return found[0]


def _starting(names: Iterable[str], prefix: str) -> list[str]:
    return sorted(name for name in names if name.startswith(prefix))
