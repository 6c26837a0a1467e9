"""The options of commands as tables, from the argument parser."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial

from names import table

from featuregate.cli.arguments.options import add_cluster_options
from featuregate.cli.arguments.parser import Parser, all_plugins, build_parser

TOGETHER = {"change": ("upgrade", "downgrade", "disable", "update")}
"""Commands that share a table."""


def option_table(commands: tuple[str, ...]) -> str:
    """Return the options of some commands, each with the commands or actions that have it."""
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    names: list[str] = []
    for name, parser in _leaves(commands):
        names.append(name)
        for row in _own_options(parser):
            owners[row].append(name)
    if len(names) == 1:
        return table(("option", "means"), owners)
    rows = (
        (option, "all" if found == names else ", ".join(found), text)
        for (option, text), found in owners.items()
    )
    return table(("option", "of", "means"), rows)


def _leaves(commands: tuple[str, ...]) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for command in commands:
        actions = _subparsers(_parsers()[command])
        yield from actions.items() if actions else [(command, _parsers()[command])]


def _own_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the spelling and the text of each option, but for those that many commands have."""
    formatter = argparse.HelpFormatter(parser.prog)
    value, text = formatter._format_args, formatter._expand_help  # noqa: SLF001 - as --help has them
    for action in _actions(parser):
        if action.help in _common() or {"--output", "--help"} & {
            *action.option_strings
        }:
            continue
        taken = "" if action.nargs == 0 else value(action, action.dest.upper())
        spelling = ", ".join(action.option_strings)
        yield f"`{f'{spelling} {taken}'.strip()}`", text(action)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001 - argparse lists them nowhere else


@cache
def _parsers() -> dict[str, argparse.ArgumentParser]:
    return _subparsers(build_parser(all_plugins()))


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = (action for action in _actions(parser) if isinstance(action.choices, dict))
    return {name: each for action in found for name, each in action.choices.items()}


@cache
def _common() -> frozenset[str | None]:
    """Return the texts of the options that the page explains once, and of those that help does not show."""
    parser = Parser()
    add_cluster_options(parser)
    return frozenset({argparse.SUPPRESS, *(each.help for each in _actions(parser))})


def option_tables() -> dict[str, partial[str]]:
    """Return a table for each command that has options of its own, by the name of its mark."""
    grouped = {command for commands in TOGETHER.values() for command in commands}
    groups = TOGETHER | {name: (name,) for name in _parsers() if name not in grouped}
    return {
        f"options_of_{name.replace('-', '_')}": partial(option_table, commands)
        for name, commands in groups.items()
        if any(any(_own_options(parser)) for _, parser in _leaves(commands))
    }
