"""Argument lists, and what is said of wrong ones: compared whole with ``usage.txt``."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from transcripts import replayed, sections

from featuregate.cli.arguments import help_texts
from featuregate.cli.arguments.commands import COMMANDS
from featuregate.cli.arguments.parser import all_plugins, build_parser, parse_arguments

if TYPE_CHECKING:
    from conftest import Run

USAGE = sections(__file__, "usage.txt")


@pytest.mark.parametrize("scene", USAGE)
def test_what_is_written_wrongly_is_one_line(run: Run, scene: str) -> None:
    """With an exit code; standard output stays empty."""
    assert replayed(USAGE[scene], run, {}, list) == USAGE[scene]


@pytest.mark.parametrize(
    "argv", ["upgrade --feature a=", "update --upgrade a=", "sandbox 4.2.", "check api:", "plan upgrade --feature a="]
)
def test_a_number_of_thousands_of_digits_is_one_line(run: Run, argv: str) -> None:
    """Python refuses to read such a number."""
    ended = run(*f"{argv}{'9' * 5000}".split())
    assert (ended.out, ended.err.count("\n"), "this is a bug" in ended.err) == ("", 1, False)


@pytest.mark.parametrize("argv", ["--bootstrap-server h:1 describe", "describe --bootstrap-server h:1"])
def test_options_about_the_cluster_stand_before_or_after_the_command(argv: str) -> None:
    """kafka-features accepts them only before its command."""
    assert parse_arguments(argv.split()).bootstrap_server == "h:1"


def test_an_option_after_the_command_wins() -> None:
    argv = "--bootstrap-server a:1 --timeout 3 matrix --bootstrap-server b:1"
    args = parse_arguments(argv.split())
    assert (args.bootstrap_server, args.timeout) == ("b:1", 3.0)


def test_a_gate_is_a_name_and_a_requirement() -> None:
    """The first equals sign separates them, because >= contains another."""
    assert parse_arguments(["watch", "--gate", "g = group.version>=1"]).gates == [("g", "group.version>=1")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parse_arguments([command, "--help"])
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes:" in out


def test_help_lists_every_command_once_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who knows what to do finds the command for it; a command without a task would stand below 'more'."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["--help"])
    out = capsys.readouterr().out
    positions = [out.index(f"  {task}:\n") for task in help_texts.TASKS]
    assert positions == sorted(positions)
    assert "commands:\n  look at a cluster:\n" in out
    assert "  more:\n" not in out
    assert all(len(re.findall(rf"^    {name}\s", out, re.MULTILINE)) == 1 for name in (*COMMANDS, *all_plugins()))


def test_the_actions_of_a_command_are_listed_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    """They are parts of one task. A set would give another order each time."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["fleet", "--help"])
    out = capsys.readouterr().out
    found = re.findall(r"^  ([a-z]+)\s", out.partition("actions:\n")[2], re.MULTILINE)
    assert found[:5] == ["peek", "logging", "run", "tables", "tidy"]
    assert "more:" not in out
    assert "  tables      list the tables of clusters" in out


def test_every_example_in_the_help_parses() -> None:
    """An operator can copy each example."""
    plugins = all_plugins()
    pages = [*help_texts.COMMANDS_HELP.values(), *(plugin.HELP for plugin in plugins.values())]
    texts = [help_texts.EPILOG, *(page.epilog for page in pages)]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.startswith("  featuregate ")]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line, comments=True)
        end = next((at for at, word in enumerate(words) if word in {"&&", ">"}), len(words))
        build_parser(plugins).parse_args(words[1:end])
