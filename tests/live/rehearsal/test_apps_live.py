"""Apps at work while their cluster moves in small: what becomes of their records, and whom they may reach."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from rehearsing import COPYING, Rehearsed, rehearse

from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]

MOVE = ("--from", "3.9.2", "--to", "4.2.0", "--nodes", "1", "--step-timeout", "60")
TOPICS = ("--in", "orders:2", "--out", "bills:2")


def with_app(folder: Path, command: str, *options: str) -> Rehearsed:
    return rehearse(folder, *MOVE, *TOPICS, "--app", command, *options)


def test_each_record_comes_out_once(tmp_path: Path) -> None:
    """The file of the client is there for an app that wants one."""
    client = tmp_path / "client.properties"
    done = with_app(tmp_path, f"{COPYING} --config {client}", "--command-config", str(client))
    assert done.code == 0, done.printed
    counts = [step["counts"] for step in done.runbook["steps"]]
    assert all(each["sent"] and not each["lost"] and not each["doubled"] for each in counts)
    assert counts[0]["pause"] > 1, "its only broker was restarted"
    assert not client.exists(), "its cluster is gone, and a second start would find it in the way"


@pytest.mark.parametrize(
    ("script", "verdict", "said", "ended"),
    [
        ("exec {} --copies 2", "block", "came out again", ""),
        ("exec {} --die-after 60", "block", "ended with 3", "did not come out"),
        ("while true; do {} --die-after 60; done", "warn", "was restarted", ""),
    ],
)
def test_what_an_app_does_is_named(tmp_path: Path, script: str, verdict: str, said: str, ended: str) -> None:
    """The control is above. Nobody else would see a restart, after which records wait until a session has ended."""
    (tmp_path / "app.sh").write_text(script.format(COPYING))
    done = with_app(tmp_path, f"sh {tmp_path / 'app.sh'}")
    assert any(said in text for text in done.said(verdict)), done.printed
    assert ended in done.runbook["ended"]


@pytest.mark.parametrize(("more", "stands"), [("--stand-after 20", True), ("", False)])
def test_a_group_that_stands_still_is_named(tmp_path: Path, more: str, *, stands: bool) -> None:
    """Without numbered records: the process lives, and nobody else would see it."""
    done = rehearse(tmp_path, *MOVE[:-1], "20", "--app", f"{COPYING} --feed {more}")
    assert any("group copies stands still" in text for text in done.said("warn")) is stands, done.printed
    assert done.code == 0, done.printed


def test_an_app_that_reaches_the_real_cluster_is_stopped_before_anything_is_written(tmp_path: Path) -> None:
    """It has the address in a file of its own, which no environment hides."""
    with LocalKafka("4.2.0") as real:
        (tmp_path / "address").write_text(real.bootstrap)
        (tmp_path / "server.properties").write_text(f"listeners=PLAINTEXT://{real.bootstrap}\n")
        app = f"{COPYING} --bootstrap-file {tmp_path / 'address'}"
        done = with_app(tmp_path, app, "--properties", str(tmp_path / "server.properties"))
        assert done.code == 2, done.printed
        assert f"connected to {real.bootstrap}, a broker of the real cluster" in done.printed
        assert done.names == []
        assert not {"orders", "bills"} & {*AdminClient({"bootstrap.servers": real.bootstrap}).list_topics().topics}


def test_an_app_that_is_not_seen_on_the_small_cluster_gets_no_record(tmp_path: Path) -> None:
    """It may be at work somewhere else."""
    (tmp_path / "address").write_text("127.0.0.1:1")
    done = with_app(tmp_path, f"{COPYING} --bootstrap-file {tmp_path / 'address'}", "--start-timeout", "5")
    assert done.code == 2, done.printed
    assert "was not seen on the small cluster" in done.printed
    assert done.names == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_all_processes_and_keeps_the_runbook(tmp_path: Path, end: signal.Signals) -> None:
    """Brokers, apps and what these have started."""
    app = tmp_path / "app.sh"
    app.write_text(f"{COPYING}\n")
    options = (*MOVE, *TOPICS, "--app", f"sh {app}", "--folder", str(tmp_path))
    command = [sys.executable, "-m", "featuregate", "rehearse", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "Node 1" in line)
        started = psutil.Process(process.pid).children(recursive=True)
        assert any("copying_app" in " ".join(each.cmdline()) for each in started)
        process.send_signal(end)
        assert process.wait(60) == 130
    psutil.wait_procs(started, timeout=30)
    assert [each for each in started if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    kept = json.loads((tmp_path / "runbook.json").read_text())
    assert (kept["whole"], kept["ended"]) == (False, "it was stopped")
    assert len(kept["steps"]) >= 1
