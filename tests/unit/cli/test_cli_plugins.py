"""Commands of other packages, which register them by an entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from packages import install_package

from featuregate.cli.arguments.parser import all_plugins, build_parser

if TYPE_CHECKING:
    from conftest import Run

MODULE = """
from featuregate.cli.plugin import CommandHelp

HELP = CommandHelp("greet somebody", "Greet somebody.", (), "7 always")


def add_options(parser):
    parser.add_argument("--name", required=True)


def run(args):
    print(f"hello {args.name}")
    return 7
"""


class Install(Protocol):
    """Put a package with one command on Python's path."""

    def __call__(self, command: str, module: str) -> None: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    def install(command: str, module: str) -> None:
        name = f"bringing_{command}"
        entry = f"[featuregate.commands]\n{command} = {name}\n"
        install_package(tmp_path / name, monkeypatch, name, module, entry)

    return install


def test_a_command_of_another_package_runs(run: Run, install: Install) -> None:
    install("greet", MODULE)
    assert run("greet", "--name", "you") == (7, "hello you\n", "")
    assert run("--bootstrap-server", "greet:1", "--timeout", "3", "greet", "--name", "you").code == 7


def test_its_options_are_checked(run: Run, install: Install) -> None:
    install("greet", MODULE)
    ended = run("greet", "--nmae", "you")
    assert (ended.code, ended.err.count("\n")) == (64, 1)


def test_help_has_it(install: Install, capsys: pytest.CaptureFixture[str], run: Run) -> None:
    install("greet", MODULE)
    with pytest.raises(SystemExit, match="0"):
        run("--help")
    assert "greet somebody" in capsys.readouterr().out


def test_completion_has_it(install: Install, run: Run) -> None:
    pytest.importorskip("shtab")
    install("greet", MODULE)
    assert "_greet_option_strings=(-h --help --name)" in run("completion", "bash").out


def test_the_error_for_an_unknown_command_lists_all_commands(run: Run, install: Install) -> None:
    install("greet", MODULE)
    for misspelt, said in (("xyzzy", "'greet'"), ("gret", "did you mean greet? Type")):
        ended = run(misspelt, "--name", "you")
        assert ended.code == 64
        assert said in ended.err


def test_no_package_replaces_a_built_in_command(run: Run, install: Install) -> None:
    install("describe", MODULE)
    assert "describe" not in all_plugins()
    assert run("describe").code == 1


@pytest.mark.parametrize("module", ["raise OSError('no disk')", "LESSON = None", "import nothing_like_this"])
def test_a_package_that_cannot_be_loaded_loses_only_its_own_command(
    run: Run, install: Install, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    install("broken", module)
    install("greet", MODULE)
    ended = run("broken", "--name", "you")
    assert ended.code == 64
    assert ended.err.startswith("featuregate: the command broken of bringing_broken cannot be loaded: ")
    with pytest.raises(SystemExit, match="0"):
        run("--help")
    out, err = capsys.readouterr()
    assert "greet somebody" in out
    assert "bringing_broken cannot be loaded" in err


def test_built_in_commands_load_no_plugin() -> None:
    """A built-in command starts as fast with plugins as without."""
    words = ["-X", "importtime", "-m", "featuregate", "--timeout", "1", "describe"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "featuregate.cli.arguments.parser" in done.stderr
    assert "featuregate.cli.plugin_loader" not in done.stderr
    assert "importlib.metadata" not in done.stderr


def test_the_integrations_command_is_found_where_it_is_installed() -> None:
    """The wheel of featuregate has the entry point; ``--help`` loads neither a Kafka client nor sockets."""
    code = (
        "import sys; from featuregate.cli.arguments.parser import all_plugins; "
        "assert 'group' in all_plugins(); assert not {'confluent_kafka', 'asyncio', 'ssl'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert build_parser(all_plugins()).parse_args(["group", "show", "--group", "g"]).action == "show"
