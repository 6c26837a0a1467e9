"""Groups and transactions that a move breaks: a rehearsal finds each, and nothing in its control."""

import sys
from pathlib import Path

import pytest
from rehearsing import COPYING, rehearse

from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate.testing.local_kafka.java import find_java

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]

HERE = Path(__file__).parent
ONE_NODE = ("--back", "--nodes", "1", "--in", "orders:2", "--out", "bills:2")
OFTEN_CLEANED = "log.roll.ms=2000\nlog.cleaner.backoff.ms=500\n"
NO_TOMBSTONES = "log.cleaner.delete.retention.ms=0\nlog.cleaner.min.cleanable.ratio=0\n"


@pytest.mark.parametrize(("release", "stays_open"), [("4.2.0", True), ("4.2.1", False)])
def test_transactions_that_stay_open_while_two_releases_run(tmp_path: Path, release: str, *, stays_open: bool) -> None:
    """Coordinators of 4.2.0 send others a version of WriteTxnMarkers that 3.9 does not have (KAFKA-20322)."""
    app = tmp_path / "app.sh"
    naive = f"{sys.executable} {HERE.parents[2] / 'examples' / 'naive_app.py'} --consumer session.timeout.ms=6000"
    where = "--bootstrap $BOOTSTRAP_SERVERS --group copies --input orders --output bills"
    app.write_text(f"exec {naive} {where} --app-id copies --instance-id $1\n")
    apps = [word for number in range(3) for word in ("--app", f"sh {app} {number}")]  # each has another coordinator
    done = rehearse(tmp_path, "--from", "3.9.2", "--to", release, "--in", "orders:6", "--out", "bills:6", *apps)
    assert done.code == int(stays_open), done.printed
    assert ("did not come out" in done.runbook["ended"]) is stays_open, done.printed


@pytest.mark.parametrize(("protocol", "breaks"), [("--kip848", True), ("", False)], ids=["consumer", "classic"])
def test_a_group_of_the_new_protocol_on_the_way_back(tmp_path: Path, protocol: str, *, breaks: bool) -> None:
    """An app that has switched to KIP-848 cannot go back to 3.9 with its cluster."""
    done = rehearse(tmp_path, "--from", "3.9.2", "--to", "4.2.0", *ONE_NODE, "--app", f"{COPYING} {protocol}")
    assert done.code == int(breaks), done.printed
    assert ("group type of copies: classic -> consumer" in done.said("warn")) is breaks
    ways_back = [step["back"]["text"] for step in done.runbook["steps"]]  # each later one lowers group.version, too
    assert any("did not come out" in each for each in ways_back) is breaks, done.printed


@pytest.mark.parametrize(("start", "target", "breaks"), [("4.2.0", "4.2.1", True), ("4.2.1", "4.3.1", False)])
def test_a_streams_group_that_was_a_classic_one(tmp_path: Path, start: str, target: str, *, breaks: bool) -> None:
    """On 4.2.0 it stands still for a minute, once the log of its coordinator was cleaned (KAFKA-20254)."""
    wanted = Download("Kafka Streams", ("org.apache.kafka:kafka-streams:4.2.0",), lambda name: name != "rocksdbjni")
    jars = fetched(wanted, cache_folder() / "kafka-streams-app" / "4.2.0")
    settings = tmp_path / "server.properties"
    settings.write_text(OFTEN_CLEANED + NO_TOMBSTONES)
    app = ("--properties", str(settings), "--app", f"{find_java()} -cp {jars}/* {HERE / 'MovedStreams.java'}")
    done = rehearse(tmp_path, "--from", start, "--to", target, "--step-timeout", "40", *ONE_NODE, *app)
    assert done.code == int(breaks), done.printed
    assert ("did not come out" in done.runbook["steps"][0]["back"]["text"]) is breaks, done.printed


@pytest.mark.parametrize(("app", "doubles"), [("naive_app.py", True), ("exactly_once_app.py", False)])
def test_what_a_zombie_writes_again(tmp_path: Path, app: str, *, doubles: bool) -> None:
    """Coordinators of 2.4 do not compare a transaction with its group (KIP-447); the switch waits until all do."""
    short_sessions = tmp_path / "server.properties"
    short_sessions.write_text("group.min.session.timeout.ms=3000\n")
    with_zombies = ("--properties", str(short_sessions), "--app", f"{sys.executable} {HERE / 'zombies.py'} {app}")
    move = ("--from", "2.4.1", "--to", "2.8.2", "--in", "copies-in:2", "--out", "copies-out:2")
    done = rehearse(tmp_path, *move, *with_zombies)
    assert done.code == int(doubles), done.printed
    assert any("came out again" in text for text in done.said("block")) is doubles, done.printed
    assert all(step["counts"]["out"] for step in done.runbook["steps"]), done.printed
