"""Clients that a move breaks: a rehearsal finds each, and nothing in its control."""

import sys
from pathlib import Path

import client_installers
import pytest
from rehearsing import COPYING, Rehearsed, rehearse

from featuregate.jars.maven import cache_folder

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]

MOVE = ("--from", "3.9.2", "--to", "4.2.0", "--nodes", "1", "--step-timeout", "60", "--in", "orders", "--out", "bills")


def breaks_at_the_first_node(done: Rehearsed) -> bool:
    """Say whether no record came out once the software was new, which is where the runbook ends."""
    return done.code == 1 and done.names == ["Node 1: 3.9.2 -> 4.2.0"] and "did not come out" in done.runbook["ended"]


@pytest.mark.parametrize(("version", "breaks"), [("0.10.2", True), ("", False)], ids=["pinned", "not pinned"])
def test_a_client_whose_protocol_version_is_pinned_breaks(tmp_path: Path, version: str, *, breaks: bool) -> None:
    """It asks no broker what it serves, and 4.x does not serve what it sends."""
    found = client_installers.install("kafka-python", "2.0.2", cache_folder() / "clients", to_run=True)
    if found is None:
        pytest.skip("kafka-python 2.0.2 cannot be had")
    app = f"{found.command[0]} {Path(__file__).with_name('pinned_app.py')} {version}"
    assert breaks_at_the_first_node(rehearse(tmp_path, *MOVE, "--app", app)) is breaks


@pytest.mark.parametrize(("release", "breaks"), [("2.6.0", True), ("2.6.1", False)])
def test_a_client_that_cannot_log_in_breaks(tmp_path: Path, release: str, *, breaks: bool) -> None:
    """librdkafka 2.6.0 cannot log in to 4.2 with SCRAM, and 2.6.1 can."""
    found = client_installers.install("confluent-kafka", release, cache_folder() / "clients", to_run=True)
    if found is None:
        pytest.skip(f"confluent-kafka {release} cannot be had")
    (tmp_path / "server.properties").write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:1\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
    )
    client = tmp_path / "client.properties"
    app = f"{COPYING.replace(sys.executable, found.command[0])} --config {client}"
    like = ("--properties", str(tmp_path / "server.properties"), "--command-config", str(client))
    done = rehearse(tmp_path, *MOVE, *like, "--app", app)
    assert breaks_at_the_first_node(done) is breaks, done.printed
    assert done.code == int(breaks), done.printed


def test_an_app_in_another_language_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node.js finds the client by a variable that the clean environment keeps."""
    found = client_installers.install("kafkajs", "2.2.4", cache_folder() / "clients", to_run=True)
    if found is None:
        pytest.skip("kafkajs cannot be had")
    monkeypatch.setenv("NODE_PATH", str(cache_folder() / "clients" / "kafkajs-2.2.4" / "node_modules"))
    done = rehearse(tmp_path, *MOVE, "--app", f"node {Path(__file__).with_name('copying_app.js')}")
    counts = [step["counts"] for step in done.runbook["steps"]]
    assert done.runbook["whole"], done.printed
    assert all(each["sent"] and each["out"] == each["sent"] for each in counts), done.printed
