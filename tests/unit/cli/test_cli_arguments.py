"""Argument lists."""

import re
import shlex

import pytest

from featuregate.cli.arguments import help_texts
from featuregate.cli.arguments.commands import COMMANDS
from featuregate.cli.arguments.parser import all_plugins, build_parser, parse_arguments
from featuregate.cli.exit_codes import CommandError


def problem(*argv: str) -> CommandError:
    """Return the error of an argument list."""
    with pytest.raises(CommandError) as caught:
        parse_arguments(argv)
    return caught.value


@pytest.mark.parametrize("argv", ["--bootstrap-server h:1 describe", "describe --bootstrap-server h:1"])
def test_options_about_the_cluster_stand_before_or_after_the_command(argv: str) -> None:
    """kafka-features accepts them only before its command."""
    assert parse_arguments(argv.split()).bootstrap_server == "h:1"


def test_an_option_after_the_command_wins() -> None:
    """The last value of a repeated option wins."""
    argv = "--bootstrap-server a:1 --timeout 3 matrix --bootstrap-server b:1"
    args = parse_arguments(argv.split())
    assert (args.bootstrap_server, args.timeout) == ("b:1", 3.0)


@pytest.mark.parametrize(
    "argv",
    [
        "--bootstrap-server a:1 --bootstrap-controller b:1 describe",
        "describe --bootstrap-server a:1 --bootstrap-controller b:1",
        "--bootstrap-server a:1 describe --bootstrap-controller b:1",
    ],
)
def test_servers_and_controllers_exclude_each_other(argv: str) -> None:
    """The parser prints the message of kafka-features 4.3, wherever the options stand."""
    error = problem(*argv.split())
    assert str(error) == (
        "argument --bootstrap-controller: not allowed with argument --bootstrap-server. Type --help for help."
    )


@pytest.mark.parametrize(
    "command",
    ["describe", "upgrade", "downgrade", "disable", "update", "version-mapping", "feature-dependencies"],
)
def test_commands_of_kafka_features_fail_with_1(command: str) -> None:
    """kafka-features has no other exit code than 0 and 1."""
    assert problem(command, "--frob").exit_code == 1


def test_other_commands_fail_with_64() -> None:
    """A usage error must differ from 1 and 2, which are answers of check."""
    assert problem("check", "kip447", "--frob").exit_code == 64


def test_a_command_is_required() -> None:
    """An empty argument list is an error."""
    assert "COMMAND" in str(problem())


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["matrx"], "did you mean matrix?"),
        (["check", "kip447", "--bootstrap-servr", "a:1"], "did you mean --bootstrap-server"),
        (["describe", "--outptu=json"], "did you mean --output?"),
        (["describe", "--output", "jsn"], "did you mean json?"),
        (["--boostrap-server", "a:1", "describe"], "did you mean --bootstrap-server"),
        (["--output", "json", "describe"], "before the command: --output; options of a command follow the command"),
        (["describe", "--frob"], "unrecognized arguments: --frob. Type"),
    ],
)
def test_a_misspelt_word_gets_a_hint(argv: list[str], meant: str) -> None:
    """Of commands, of options before and after the command, and of values; no hint where nothing resembles it."""
    assert meant in str(problem(*argv))


def test_abbreviations_are_not_accepted() -> None:
    """A script with an abbreviation would break when an option is added."""
    assert "--bootstrap-serv" in str(problem("describe", "--bootstrap-serv", "a:1"))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", ""])
def test_seconds_are_a_number_above_0(text: str) -> None:
    """The parser refuses any other value."""
    assert "number of seconds above 0" in str(problem("matrix", f"--timeout={text}"))


def test_a_gate_is_a_name_and_a_requirement() -> None:
    """The first equals sign separates them, because >= contains another."""
    assert parse_arguments(["watch", "--gate", "g = group.version>=1"]).gates == [("g", "group.version>=1")]


@pytest.mark.parametrize("text", ["kip447", "=kip447", "name=", "name= "])
def test_a_gate_needs_a_name_and_a_requirement(text: str) -> None:
    """The error has an example."""
    assert "eos=kip447" in str(problem("watch", f"--gate={text}"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has both."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments([command, "--help"])
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes:" in out


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The list has the summary of each command."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["--help"])
    out = capsys.readouterr().out
    assert all(re.search(rf"^    {command}\s", out, re.MULTILINE) for command in COMMANDS)


def test_help_lists_every_command_once_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who knows what to do finds the command for it; a command without a task would stand below 'more'."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["--help"])
    out = capsys.readouterr().out
    positions = [out.index(f"  {task}:\n") for task in help_texts.TASKS]
    assert positions == sorted(positions)
    assert "  more:\n" not in out
    assert all(len(re.findall(rf"^    {name}\s", out, re.MULTILINE)) == 1 for name in all_plugins())


def test_the_actions_of_a_command_are_listed_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    """They are parts of one task. A set would give another order each time."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(["fleet", "--help"])
    out = capsys.readouterr().out
    found = re.findall(r"^  ([a-z]+)\s", out.partition("actions:\n")[2], re.MULTILINE)
    assert found[:5] == ["peek", "logging", "run", "readiness", "tables"]
    assert "more:" not in out
    assert "  readiness   say whether a move is safe" in out


@pytest.mark.parametrize("words", [["describe", "localhost:9092"], ["matrix", "a:9092,b:9092"]])
def test_brokers_without_their_option_are_told_it(words: list[str]) -> None:
    """The address is repeated in the place where it belongs."""
    assert str(problem(*words)) == (
        f"unrecognized arguments: {words[1]}; did you mean --bootstrap-server {words[1]}? Type --help for help."
    )


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
