"""The command line against real Kafka, beside the real kafka-features on the same cluster."""

import json
import re
import subprocess
import sys

import pytest

from featuregate.testing import LocalKafka
from featuregate.view.cluster_view import View

# The layouts are those of a release of the tool; the brokers' own release only changes what is in them.
RELEASES = [pytest.param("3.9.2", marks=pytest.mark.proof("admin")), "4.2.0"]
pytestmark = [pytest.mark.live, pytest.mark.parametrize("kafka", RELEASES, indirect=True, scope="module")]

COLUMNS, TABS = "4.3.1", "4.2.0"
"""The releases of the tool whose layouts are compared."""


def ours(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run our command line as people do."""
    return subprocess.run([sys.executable, "-m", "featuregate", *argv], capture_output=True, text=True, check=False)


def still(text: str) -> str:
    """Take out the epoch, which runs."""
    return re.sub(r"Epoch: \d+", "Epoch: N", text)


def test_describe_is_kafka_features_byte_for_byte(kafka: LocalKafka) -> None:
    """The command prints the padded columns of 4.3."""
    theirs = kafka.kafka_features("describe", version=COLUMNS)
    mine = ours("--bootstrap-server", kafka.bootstrap, "describe")
    assert "metadata.version" in theirs.stdout
    assert (mine.returncode, still(mine.stdout), mine.stderr) == (theirs.returncode, still(theirs.stdout), "")


def test_describe_of_controllers_is_kafka_features_byte_for_byte(kafka: LocalKafka) -> None:
    """Their epoch stands still between features, so it is compared too."""
    theirs = kafka.kafka_features("--bootstrap-controller", kafka.controller_bootstrap, "describe", version=COLUMNS)
    mine = ours("--bootstrap-controller", kafka.controller_bootstrap, "describe")
    assert mine.stdout == theirs.stdout


def test_json_is_the_view(kafka: LocalKafka) -> None:
    """The reader of views accepts the output."""
    view = View.from_json(ours("describe", "--output", "json", "--bootstrap-server", kafka.bootstrap).stdout)
    assert view.cluster_id == kafka.cluster_id
    assert [broker.node_id for broker in view.answering] == [1]


def test_a_controller_taken_for_a_broker_is_named(kafka: LocalKafka) -> None:
    """The error also names the option to use instead."""
    mine = ours("--bootstrap-server", kafka.controller_bootstrap, "describe")
    assert mine.returncode == 1
    assert "is a controller: use bootstrap.controllers" in mine.stderr


def test_check_answers_by_its_exit_code(kafka: LocalKafka) -> None:
    """Exactly-once in one producer works on both; the new group protocol came with 4.0."""
    assert ours("check", "kip447", "--bootstrap-server", kafka.bootstrap).returncode == 0
    has_it = kafka.node(1).version.startswith("4")
    assert ours("check", "kip848", "--bootstrap-server", kafka.bootstrap).returncode == (0 if has_it else 1)


def test_doctor_finds_nothing_wrong_with_a_cluster_that_is_well(kafka: LocalKafka) -> None:
    """Its epoch runs, and every bootstrap address leads to it."""
    mine = ours("doctor", "--output", "json", "--bootstrap-server", kafka.bootstrap)
    assert {finding["severity"] for finding in json.loads(mine.stdout)["findings"]} <= {"note"}
    assert mine.returncode == 0


def test_doctor_notices_that_the_listener_speaks_no_tls(kafka: LocalKafka, tmp_path) -> None:
    """A real broker hangs up on a TLS handshake without a word."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    mine = ours("doctor", "--output", "json", "--command-config", str(file), "--bootstrap-server", kafka.bootstrap)
    assert [finding["code"] for finding in json.loads(mine.stdout)["findings"]] == ["listener-speaks-plaintext"]
    assert mine.returncode == 1
