"""What an operator is told when a change of features goes wrong: what happened, to whom, and what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripted import HANG_UP, SILENCE, ScriptedCluster

from featuregate.wire.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Run, Start

FULL = Path("/dev/full")
DROP_IN = (
    sys.executable,
    "-c",
    "import sys; from featuregate.cli.kafka_features.command import main; sys.exit(main())",
)


# ------------------------------------------------------------------ a refusal, and what to do about it


@pytest.mark.parametrize("command", ["upgrade", "plan upgrade"])
def test_a_feature_that_is_misspelt_is_told_by_its_name(on: Run, cluster: ScriptedCluster, command: str) -> None:
    """The controller says only that nobody supports it."""
    cluster.says = lambda *_: UpdateFeaturesResponse(error_code=95, error_message="no")
    ended = on(*command.split(), "--feature", "grup.version=1")
    assert ended.code == 1
    assert "did you mean group.version" in (ended.out + ended.err).lower()


def test_what_nothing_looks_like_is_left_to_the_controller(on: Run, cluster: ScriptedCluster) -> None:
    """Standard error is that of kafka-features then."""
    cluster.says = lambda *_: UpdateFeaturesResponse(error_code=95, error_message="no")
    assert on("upgrade", "--feature", "bogus=1").err == "featuregate: 1 out of 1 operation(s) failed.\n"


def test_the_right_that_is_missing_is_named(on: Run, drop_in: Run, cluster: ScriptedCluster) -> None:
    """Brokers that forward have words of their own for it, which are hard to read. The drop-in adds none."""
    cluster.says = lambda *_: UpdateFeaturesResponse(error_code=31, error_message="Request(processor=0) needs it")
    argv = ("upgrade", "--feature", "group.version=1")
    assert on(*argv).err == (
        "featuregate: 1 out of 1 operation(s) failed. A dry run and a change need ALTER on the cluster.\n"
    )
    assert drop_in("--bootstrap-server", cluster.bootstrap, *argv)[2] == "1 out of 1 operation(s) failed.\n"


# ------------------------------------------------------------------ the wrong nodes


def test_nodes_of_the_wrong_kind_are_told_once(on: Run, run: Run) -> None:
    """In one line with the option that is right, however many addresses there are."""
    with ScriptedCluster(3, role="controller") as quorum:
        ended = run("upgrade", "--feature", "a=1", "--bootstrap-server", quorum.bootstrap)
    assert (ended.code, ended.err.count("is a controller")) == (1, 1)
    assert ended.err.endswith("use bootstrap.controllers, or --bootstrap-controller\n")


@pytest.mark.parametrize(("controllers", "code"), [("127.0.0.1:1", 2), ("itself", 64), ("another", 64)])
def test_a_plan_names_the_option_that_leads_nowhere(
    on: Run, cluster: ScriptedCluster, controllers: str, code: int
) -> None:
    """The brokers have answered, so it is not they who are meant."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.cluster_id = "another"
        where = {"itself": cluster.bootstrap, "another": quorum.bootstrap}.get(controllers, controllers)
        ended = on("plan", "upgrade", "--feature", "share.version=1", "--controllers", where)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("featuregate: argument --controllers: ")


# ------------------------------------------------------------------ done, and then


def test_an_answer_that_was_read_back_is_told_as_that(on: Run, cluster: ScriptedCluster) -> None:
    """Standard output says what is so; standard error, how that is known."""

    def lose(request: object, node: object) -> str:
        cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return HANG_UP

    cluster.says = lose
    assert on("upgrade", "--feature", "share.version=5") == (
        0,
        "share.version was upgraded to 5.\n",
        "featuregate: the answer does not tell the outcome, so the brokers were asked: they show the new levels\n",
    )


def test_brokers_that_fall_silent_while_they_are_waited_for_do_not_undo_it(on: Run, cluster: ScriptedCluster) -> None:
    """That nobody answers any more is told behind what was done."""

    def agree_and_go(*_: object) -> UpdateFeaturesResponse:
        for node in cluster.nodes.values():
            node.api_ranges[18] = (0, -1)
        return UpdateFeaturesResponse()

    cluster.says = agree_and_go
    ended = on("upgrade", "--feature", "share.version=1", "--wait", "0.3")
    assert (ended.code, ended.out) == (1, "share.version was upgraded to 1.\n")
    assert ended.err.startswith("featuregate: the update was applied, but no broker answered: ")


def test_ctrl_c_in_the_wait_says_that_it_was_done(start: Start, cluster: ScriptedCluster) -> None:
    """Only the wait is over."""
    waiting, describe = threading.Event(), cluster.describe

    def watched(role: str) -> object:
        if cluster.heard:
            waiting.set()
        return describe(role)

    cluster.describe = watched  # type: ignore[method-assign,assignment]  # it sees who asks, and when
    cluster.says = lambda *_: UpdateFeaturesResponse()
    argv = ("upgrade", "--feature", "share.version=9", "--wait", "300")
    process = start(*argv, "--bootstrap-server", cluster.bootstrap)
    assert waiting.wait(60)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (
        "share.version was upgraded to 9.\n",
        "featuregate: interrupted: the update was applied, but not every broker shows it yet\n",
    )
    assert process.returncode == 130


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize(("extra", "lines"), [((), 2), (("--dry-run",), 1)])
def test_an_update_whose_output_is_lost_was_made(cluster: ScriptedCluster, extra: tuple[str, ...], lines: int) -> None:
    """A full disk does not stop it, and that is said."""
    command = (sys.executable, "-m", "featuregate", "upgrade", "--feature", "share.version=1", *extra)
    code, err = with_full_output([*command, "--bootstrap-server", cluster.bootstrap])
    assert (code, len(cluster.heard)) == (74, 1)
    assert (
        err.splitlines()
        == [
            "featuregate: the update was applied; only the output is lost",
            "featuregate: the output could not be written: No space left on device",
        ][-lines:]
    )


def with_full_output(command: Sequence[str]) -> tuple[int, str]:
    """Run a program whose standard output cannot be written."""
    with FULL.open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    return done.returncode, done.stderr


# ------------------------------------------------------------------ the drop-in


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("argument", ["version-mapping", "--help"])
def test_the_drop_in_tells_a_full_disk_too(argument: str) -> None:
    """In one line, with the one code that it has for failures."""
    assert with_full_output([*DROP_IN, argument]) == (
        1,
        "kafka-features-py: the output could not be written: No space left on device\n",
    )


@pytest.mark.skipif(os.name != "posix", reason="shells as POSIX has them")
@pytest.mark.parametrize(("redirected", "code"), [("version-mapping >&-", 0), ("frob 2>&-", 1)])
def test_closed_standard_streams_are_no_error_of_the_drop_in(redirected: str, code: int) -> None:
    """And what belongs on standard error does not land in the output."""
    script = f'exec "$0" "$1" "$2" {redirected}'
    done = subprocess.run(["sh", "-c", script, *DROP_IN], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_ctrl_c_in_the_drop_in_says_that_it_may_have_been_applied(cluster: ScriptedCluster) -> None:
    """As `featuregate` does; the exit code is that of a signal."""
    sent = threading.Event()

    def wait(*_: object) -> str:
        sent.set()
        return SILENCE

    cluster.says = wait
    command = [*DROP_IN, "--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "a=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert sent.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("kafka-features-py: interrupted: the update may or may not have been applied")
