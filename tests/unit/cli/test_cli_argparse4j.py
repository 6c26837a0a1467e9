"""The argument lists of kafka-features. The live tests compare many of them with the real tool."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.cli.kafka_features.argparse4j import COMMANDS, HelpRequested, UsageError, parse
from featuregate.cli.kafka_features.command import help_text


def message(line: str) -> str:
    """Return the error message of an argument list."""
    with pytest.raises(UsageError) as caught:
        parse(shlex.split(line))
    return str(caught.value)


def test_options_of_the_tool_precede_the_command() -> None:
    """The options of a command follow it, and a value may follow an equals sign."""
    parsed = parse(shlex.split("--bootstrap-server=h:1 upgrade --feature a=1 --feature=b=2 --dry-run"))
    assert parsed.command == "upgrade"
    assert parsed.values == {"bootstrap_server": "h:1", "feature": ["a=1", "b=2"], "dry_run": True}


def test_options_and_commands_may_be_abbreviated() -> None:
    """The parser accepts any unambiguous prefix."""
    parsed = parse(shlex.split("--bootstrap-s h:1 desc --node 3"))
    assert (parsed.command, parsed.values) == ("describe", {"bootstrap_server": "h:1", "node_id": 3})


def test_a_negative_number_is_a_value() -> None:
    """No option looks like a negative number."""
    assert parse(shlex.split("describe --node-id -1")).values == {"node_id": -1}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "too few arguments"),
        ("--bootstrap-server h:1", "too few arguments"),
        ("--bootstrap-server", "argument --bootstrap-server: expected one argument"),
        ("--bootstrap-server --command-config", "argument --bootstrap-server: expected one argument"),
        (
            "--bootstrap-server h:1 --bootstrap-controller h:2 describe",
            "argument --bootstrap-controller: not allowed with argument --bootstrap-server",
        ),
        ("--frob describe", "unrecognized arguments: '--frob'"),
        ("-x describe", "unrecognized arguments: '-x'"),
        ("--boot h:1 describe", "ambiguous option: --boot could match --bootstrap-controller, --bootstrap-server"),
        ("d", "ambiguous command: d could match describe, disable, downgrade"),
        (
            "frob",
            (
                "invalid choice: 'frob' (choose from 'describe', 'upgrade', 'downgrade', 'disable', 'version-mapping', "
                "'feature-dependencies')"
            ),
        ),
        ("describe --bootstrap-server h:1", "unrecognized arguments: '--bootstrap-server'"),
        ("describe a b", "unrecognized arguments: 'a b'"),
        ("-- describe", "unrecognized arguments: 'describe'"),
        ("describe --node-id x", "argument --node-id: could not convert 'x' to Integer (For input string: \"x\")"),
        ("upgrade --dry-run=yes", "argument --dry-run: ignore implicit argument 'yes'"),
        ("feature-dependencies", "argument --feature is required"),
        ("feature-dependencies --frob", "unrecognized arguments: '--frob'"),
    ],
)
def test_error_messages_are_those_of_argparse4j(line: str, words: str) -> None:
    """The parser prints the same words."""
    assert message(line) == words


@pytest.mark.parametrize(
    ("line", "command"), [("--help", None), ("-h", None), ("describe -h", "describe"), ("upgrade --he", "upgrade")]
)
def test_help_precedes_errors(line: str, command: str | None) -> None:
    """With --help, a missing command or option is no error."""
    with pytest.raises(HelpRequested) as caught:
        parse(shlex.split(line))
    assert caught.value.command == command


WORDS = st.sampled_from(
    [
        "--bootstrap-server",
        "--feature",
        "--dry-run",
        "--node-id",
        "--",
        "-h",
        "-x",
        "-1",
        "-",
        "--boot=",
        "",
        "=",
        "a=1",
    ]
) | st.text(max_size=4)


@given(st.lists(st.sampled_from(sorted(COMMANDS)) | WORDS, max_size=6))
def test_any_argument_list_is_parsed_or_is_a_usage_error(argv: list[str]) -> None:
    """The parser raises no other exception."""
    try:
        assert parse(argv).command in COMMANDS
    except (UsageError, HelpRequested) as error:
        assert str(error)  # noqa: PT017 - one of several ways to end


def test_help_names_every_command_and_every_option() -> None:
    """The tool and each command list their options."""
    assert all(f"  {name} " in help_text(None) for name in COMMANDS)
    for name, options in COMMANDS.items():
        text = help_text(name)
        assert all(flag in text for option in options for flag in option.flags)
