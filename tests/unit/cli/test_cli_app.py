"""From an argument list to an exit code and one line on standard error, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import featuregate
from featuregate.cli import main
from featuregate.cli.exit_codes import INTERNAL
from featuregate.testing import FakeCluster
from featuregate.version import how_to_install

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster

UNREACHABLE = "127.0.0.1:1"
NO_CLUSTER = (
    "You must specify either --bootstrap-controller or --bootstrap-server (or set FEATUREGATE_BOOTSTRAP_SERVER). "
    "Type --help for help."
)


@pytest.mark.parametrize("command", ["matrix", "watch --for 0.1"])
def test_what_to_do_where_no_broker_answers_has_the_options_at_hand(run: Run, tmp_path: Path, command: str) -> None:
    """A file may name the cluster, too."""
    (tmp_path / "c.properties").write_text(f"bootstrap.servers={UNREACHABLE}\n")
    ended = run(*command.split(), "--command-config", str(tmp_path / "c.properties"))
    assert ended.err.endswith("; 'featuregate doctor --command-config ...' tells more\n")


def test_a_misspelt_name_of_security_in_the_file_is_named_once(
    on: Run, cluster: ScriptedCluster, tmp_path: Path
) -> None:
    """The connection is less secure than meant, or fails without another hint."""
    (tmp_path / "c.properties").write_text("security.protocl=SSL\n")
    file = str(tmp_path / "c.properties")
    words = f"featuregate: security.protocl in {file} is unknown, and has no effect: write security.protocol\n"
    for command in ("describe", "plan upgrade --feature share.version=1"):
        assert on(*command.split(), "--command-config", file).err.count(words) == 1


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        (f"bootstrap.servers={UNREACHABLE}\n", []),
        ("bootstrap.servers=127.0.0.1:2\nclient.id=x\n", ["--bootstrap-server", UNREACHABLE]),
        ("kafka.bootstrap.servers=127.0.0.1:2\nkafka.client.id=x\n", ["--bootstrap-server", UNREACHABLE]),
        ("Kafka.bootstrap.servers=127.0.0.1:2\nkafka.client.id=x\n", ["--bootstrap-server", UNREACHABLE]),
        ("bootstrap.servers=127.0.0.1:2\n", ["--bootstrap-controller", UNREACHABLE]),
    ],
)
def test_options_override_the_bootstrap_list_of_the_file(
    run: Run, tmp_path: Path, properties: str, options: list[str]
) -> None:
    """The file may have Spark's spelling, and the option may name controllers instead of brokers."""
    file = tmp_path / "client.properties"
    file.write_text(properties)
    err = run("matrix", "--command-config", str(file), *options).err
    assert UNREACHABLE in err
    assert "127.0.0.1:2" not in err


def test_invariant_12_secrets_are_never_printed(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=hunter2\n"
        "ssl.key.password=hunter2\n"
    )
    for command in (["describe"], ["matrix"], ["check", "kip447"], ["doctor"], ["watch", "--for", "0.1"]):
        ended = run(*command, "--bootstrap-server", UNREACHABLE, "--command-config", str(file))
        assert ended.code != 0
        assert "hunter2" not in ended.out + ended.err


@pytest.mark.parametrize(
    "argv",
    [
        ["describe", "--bootstrap-server", "app:hunter2@host:9092"],
        ["describe", "--bootstrap-server", "host:9092,app:hunter2"],
        ["describe", "--bootstrap-server", "sasl://app:hunter2@host"],
        ["describe", "--bootstrap-controller", "[app:hunter2]:9092"],
        ["doctor", "--bootstrap-server", "host;password=hunter2"],
        ["describe", "--bootstrap-servers", "app:hunter2@host:9092"],
        ["describe", "--bootstrap-servers=app:hunter2@host:9092"],
        ["describe", "app:hunter2@host:9092"],
        ["app:hunter2@host:9092", "describe"],
        ["describe", "--broker-list", "app:hunter 2 hunter2@host:9092"],
        ["describe", "--timeout", "app:hunter2@host:9092"],
    ],
)
def test_invariant_12_a_malformed_address_is_never_printed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The address may be a URL that contains a password."""
    assert main(argv) not in {0, INTERNAL}
    out, err = capsys.readouterr()
    assert out + err
    assert "hunter2" not in out + err


def test_check_leaves_out_excluded_api_versions(run: Run, tmp_path: Path, fake_kafka: FakeCluster) -> None:
    """The command decides as the gates of the app do."""
    file = tmp_path / "client.properties"
    file.write_text("featuregate.exclude.apis=Produce=9-\n")
    argv = ["check", "Produce>=9", "--bootstrap-server", fake_kafka.bootstrap]
    assert run(*argv).code == 0
    ended = run(*argv, "--command-config", str(file))
    assert ended.code == 1
    assert "are excluded by configuration" in ended.out


def test_version(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run("--version")
    assert capsys.readouterr().out == f"featuregate {featuregate.__version__}\n"


def test_explain_lists_every_preset(run: Run) -> None:
    assert [line.split()[0] for line in run("explain", "--list").out.splitlines()] == [
        preset.name for preset in featuregate.requirements.presets.all()
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_is_a_script_with_every_command(run: Run, shell: str) -> None:
    pytest.importorskip("shtab")
    ended = run("completion", shell)
    assert ended.code == 0
    words = ("doctor", "update", "release-version", "latches")
    assert all(word in ended.out for word in words)


def test_completion_without_shtab_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['shtab'] = None; import featuregate.cli as c; sys.exit(c.main(['completion', 'zsh']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (64, f"featuregate: completion needs shtab: {how_to_install('cli')}\n")


def command_that_raises(error: BaseException) -> ModuleType:
    def run(args: object) -> int:
        raise error

    module = ModuleType("featuregate.cli.commands.explain")
    module.run = run  # type: ignore[attr-defined]  # a module like any other
    return module


def test_a_bug_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is no answer of check, and the line names the option that shows more."""
    monkeypatch.setitem(
        sys.modules, "featuregate.cli.commands.explain", command_that_raises(ZeroDivisionError("by\nzero"))
    )
    assert run("explain", "kip447") == (
        70,
        "",
        "featuregate: this is a bug: ZeroDivisionError: by zero (--verbose shows where)\n",
    )


def test_verbose_shows_where_a_bug_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "featuregate.cli.commands.explain", command_that_raises(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        run("explain", "kip447", "--verbose")


def test_an_interrupted_command_prints_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user pressed Ctrl-C."""
    monkeypatch.setitem(sys.modules, "featuregate.cli.commands.explain", command_that_raises(KeyboardInterrupt()))
    assert run("explain", "kip447") == (130, "", "")


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("describe", "or set --broker-list bootstrap if the bootstrap list names every broker"),
        ("check kip447", "or set --broker-list bootstrap if the bootstrap list names every broker"),
        ("doctor", "or set --broker-list bootstrap if the bootstrap list names every broker"),
        ("upgrade --feature group.version=1", None),
        ("serve --check-config", "or set --broker-list bootstrap if the bootstrap list names every broker"),
    ],
)
def test_missing_credentials_get_advice_that_the_command_has(
    run: Run, tmp_path: Path, command: str, advice: str | None
) -> None:
    """An argument of Python is none of a command, and an update needs the credentials."""
    (tmp_path / "c.properties").write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
    )
    ended = run(*command.split(), "--command-config", str(tmp_path / "c.properties"))
    said = " ".join((ended.out + ended.err).split())
    assert "AWS_MSK_IAM is not supported" in said
    assert "oauth_cb=MODULE:FUNCTION" in said
    assert "broker_list" not in said
    assert advice in said if advice else "--broker-list" not in said


def test_the_environment_names_the_cluster_where_nothing_else_does(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option and a file win; an empty value names nothing."""
    file = tmp_path / "client.properties"
    with FakeCluster(1) as one, FakeCluster(1) as two:
        monkeypatch.setenv("FEATUREGATE_BOOTSTRAP_SERVER", one.bootstrap)
        file.write_text(f"bootstrap.servers={two.bootstrap}\n")
        assert run("check", "Fetch>=1").code == 0
        assert (len(one.requests) > 0, len(two.requests)) == (True, 0)
        asked = len(one.requests)
        assert run("check", "Fetch>=1", "--bootstrap-server", two.bootstrap).code == 0
        assert run("check", "Fetch>=1", "--command-config", str(file)).code == 0
        assert len(one.requests) == asked
    monkeypatch.setenv("FEATUREGATE_BOOTSTRAP_SERVER", "")
    assert NO_CLUSTER in run("check", "Fetch>=1").err
