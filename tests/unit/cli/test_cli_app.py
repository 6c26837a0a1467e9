"""How each way to fail is told: one line, an exit code, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import featuregate
from featuregate.cli import main
from featuregate.cli.exit_codes import INTERNAL
from featuregate.cli.kafka_features import command as kafka_features
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Run

UNREACHABLE = "127.0.0.1:1"


def test_no_cluster_is_a_line_in_the_words_of_kafka_features(run: Run) -> None:
    """And exit code 1, because the command is describe."""
    assert run("describe") == (
        1,
        "",
        "featuregate: You must specify either --bootstrap-controller or --bootstrap-server. Type --help for help.\n",
    )


def test_a_negative_node_id_is_refused_in_the_words_of_kafka_features(run: Run) -> None:
    """Before anybody is asked."""
    ended = run("describe", "--bootstrap-server", UNREACHABLE, "--node-id", "-1")
    assert ended == (1, "", "featuregate: Invalid node id -1: must be non-negative.\n")


def test_a_cluster_that_does_not_answer_is_unknown(run: Run) -> None:
    """One line that names the address and the cause."""
    ended = run("matrix", "--bootstrap-server", UNREACHABLE)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"featuregate: no broker answered: {UNREACHABLE}: failed while connecting")
    assert ended.err.count("\n") == 1


def test_describe_fails_with_1_where_nobody_answers(run: Run) -> None:
    """As kafka-features does."""
    assert run("describe", "--bootstrap-server", UNREACHABLE).code == 1


def test_a_bootstrap_list_that_makes_no_sense_is_wrong_usage(run: Run) -> None:
    """Nothing was asked."""
    ended = run("matrix", "--bootstrap-server", "h:notaport")
    assert ended.code == 64
    assert "bootstrap.servers: the address has a port that is no number" in ended.err


def test_a_requirement_that_makes_no_sense_is_wrong_usage(run: Run) -> None:
    """Not closed, and not unknown."""
    ended = run("check", "group.vrsion>=1", "--bootstrap-server", UNREACHABLE)
    assert ended.code == 64
    assert "did you mean group.version" in ended.err


def test_a_missing_configuration_file_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    """The line names it."""
    missing = str(tmp_path / "client.properties")
    ended = run("matrix", "--bootstrap-server", UNREACHABLE, "--command-config", missing)
    assert ended.code == 64
    assert missing in ended.err


@pytest.mark.parametrize("content", [None, b"\x89PNG\r\n\x1a\n"])
def test_a_configuration_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path, content: bytes | None) -> None:
    """A folder, and an image: once, and in words rather than with Python's error number."""
    file = tmp_path / "client.properties"
    file.mkdir() if content is None else file.write_bytes(content)
    ended = run("matrix", "--command-config", str(file))
    assert ended.code == 64
    assert ended.err.startswith(f"featuregate: config: '{file}' ")
    assert ended.err.count(str(file)) == 1
    assert "Errno" not in ended.err


def test_check_names_the_address_of_what_is_no_kafka(run: Run) -> None:
    """Also where what came from there does not parse, so that the error itself knows no address."""
    with FakeCluster(1) as cluster:
        cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        ended = run("check", "kip447", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 2
    first, second = ended.out.splitlines()
    assert first.endswith("(cluster unknown, no epoch)")
    assert f": {cluster.bootstrap}: " in second
    assert second.endswith("this looks like an HTTP server, not a Kafka listener")


def test_a_file_may_say_where_the_cluster_is(run: Run, tmp_path: Path) -> None:
    """Kafka's own tools want an option beside it; we do not insist."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={UNREACHABLE}\n")
    assert UNREACHABLE in run("matrix", "--command-config", str(file)).err


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_an_option_wins_over_the_file(run: Run, tmp_path: Path, prefix: str) -> None:
    """Also where the file has Spark's spelling, in which only prefixed names count."""
    file = tmp_path / "client.properties"
    file.write_text(f"{prefix}bootstrap.servers=127.0.0.1:2\n{prefix}client.id=x\n")
    err = run("matrix", "--command-config", str(file), "--bootstrap-server", UNREACHABLE).err
    assert UNREACHABLE in err
    assert "127.0.0.1:2" not in err


def test_controllers_by_option_replace_servers_of_the_file(run: Run, tmp_path: Path) -> None:
    """One file serves both."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:2\n")
    assert UNREACHABLE in run("matrix", "--command-config", str(file), "--bootstrap-controller", UNREACHABLE).err


def test_invariant_9_secrets_are_never_printed(run: Run, tmp_path: Path) -> None:
    """Not by any command, not in any failure, and not in the log."""
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
@pytest.mark.parametrize("tool", [main, kafka_features.main])
def test_invariant_9_a_malformed_address_is_never_printed(
    tool: Callable[[list[str]], int], argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it stands: it may be a URL with a password in it."""
    if tool is kafka_features.main and "--bootstrap-server" not in argv and "--bootstrap-controller" not in argv:
        argv = ["--bootstrap-server", UNREACHABLE, *argv]
    assert tool(argv) not in {0, INTERNAL}
    out, err = capsys.readouterr()
    assert out + err
    assert "hunter2" not in out + err


def test_check_leaves_out_what_the_configuration_excludes(run: Run, tmp_path: Path, fake_kafka: FakeCluster) -> None:
    """As the app's gates do."""
    file = tmp_path / "client.properties"
    file.write_text("featuregate.exclude.apis=Produce=9-\n")
    argv = ["check", "Produce>=9", "--bootstrap-server", fake_kafka.bootstrap]
    assert run(*argv).code == 0
    ended = run(*argv, "--command-config", str(file))
    assert ended.code == 1
    assert "are excluded by configuration" in ended.out


def test_version(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the package."""
    with pytest.raises(SystemExit, match="0"):
        run("--version")
    assert capsys.readouterr().out == f"featuregate {featuregate.__version__}\n"


def test_explain_needs_no_cluster(run: Run) -> None:
    """It tells what the catalog says."""
    ended = run("explain", "kip447")
    assert ended.code == 0
    assert "TxnOffsetCommit>=3" in ended.out
    assert "does not prove" in ended.out


def test_explain_lists_every_preset(run: Run) -> None:
    """A line for each."""
    assert [line.split()[0] for line in run("explain", "--list").out.splitlines()] == [
        preset.name for preset in featuregate.requirements.presets.all()
    ]


def test_an_unknown_preset_is_wrong_usage(run: Run) -> None:
    """With a hint."""
    ended = run("explain", "kip44")
    assert ended.code == 64
    assert "did you mean kip447" in ended.err


def test_explain_without_a_preset_is_wrong_usage(run: Run) -> None:
    """With a hint too."""
    assert "--list" in run("explain").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_is_a_script_that_knows_our_commands(run: Run, shell: str) -> None:
    """For each shell."""
    pytest.importorskip("shtab")
    ended = run("completion", shell)
    assert ended.code == 0
    assert "doctor" in ended.out


def test_completion_without_the_extra_says_what_to_install() -> None:
    """One clear line."""
    code = (
        "import sys; sys.modules['shtab'] = None; import featuregate.cli as c; sys.exit(c.main(['completion', 'zsh']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        64,
        "featuregate: completion needs shtab: pip install 'featuregate[cli]'\n",
    )


def command_that_raises(error: BaseException) -> ModuleType:
    """Make a command that fails like this."""

    def run(args: object) -> int:
        raise error

    module = ModuleType("featuregate.cli.commands.explain")
    module.run = run  # type: ignore[attr-defined]  # a module like any other
    return module


def test_a_bug_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an exit code that is no answer, and the way to see more."""
    monkeypatch.setitem(
        sys.modules, "featuregate.cli.commands.explain", command_that_raises(ZeroDivisionError("by\nzero"))
    )
    assert run("explain", "kip447") == (
        70,
        "",
        "featuregate: this is a bug: ZeroDivisionError: by zero (--verbose shows where)\n",
    )


def test_verbose_shows_where_a_bug_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback that the line speaks of."""
    monkeypatch.setitem(sys.modules, "featuregate.cli.commands.explain", command_that_raises(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        run("explain", "kip447", "--verbose")


def test_verbose_shows_no_traceback_of_what_is_no_bug(run: Run) -> None:
    """A line says it all."""
    ended = run("matrix", "--verbose", "--bootstrap-server", UNREACHABLE)
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_an_interrupted_command_says_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pressed Ctrl-C knows."""
    monkeypatch.setitem(sys.modules, "featuregate.cli.commands.explain", command_that_raises(KeyboardInterrupt()))
    assert run("explain", "kip447") == (130, "", "")
