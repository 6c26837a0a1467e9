"""``featuregate fit``: a line for each client, and an exit code for the worst."""

import json
import sys
from pathlib import Path

import pytest

from featuregate.cli import main
from featuregate.testing import FakeCluster


def pinned(folder: Path, *lines: str) -> str:
    path = folder / "requirements.txt"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize(
    ("line", "more", "code"),
    [
        ("confluent-kafka==2.16.1", [], 0),
        ("confluent-kafka==2.6.0", [], 0),
        ("confluent-kafka==2.6.0", ["--sasl", "SCRAM-SHA-256"], 1),
        ("confluent-kafka==2.16.1", ["--sasl", "GSSAPI"], 1),
        ("kafka-python==3.0.12", ["--sasl", "GSSAPI"], 0),
        ("kafka-python==3.0.12", ["--sasl", "OAUTHBEARER"], 0),
        ("confluent-kafka==1.5.0", [], 1),
        ("confluent-kafka==99.0", [], 3),
        ("confluent-kafka>=2", [], 3),
        ("confluent-kafka==2.16.1", ["--spark", "4.0"], 0),
        ("confluent-kafka==2.16.1", ["--spark", ""], 3),  # a variable that was not set
        ("confluent-kafka==99.0\nkafka-python==2.0.2", [], 3),
        ("confluent-kafka==99.0\nconfluent-kafka==1.5.0", [], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst(line: str, more: list[str], code: int, tmp_path: Path):
    """As for readiness: 0 works, 1 breaks, 3 unknown."""
    assert main(["fit", "--requirements", pinned(tmp_path, *line.split("\n")), "--to", "4.2", *more]) == code


def test_a_line_names_what_does_not_work_and_the_release_that_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["fit", "--requirements", pinned(tmp_path, "confluent-kafka==2.6.0"), "--spark", "4.0", "--to", "4.2"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("confluent-kafka 2.6.0 (librdkafka 2.6.0): works on 4.2, but not SASL SCRAM-SHA-256: ")
    assert "(works with confluent-kafka 2.6.1 or newer)" in first
    assert second == "pyspark 4.0.0 (kafka-clients 3.9.0): works on 4.2"


def test_json_has_the_documented_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = pinned(tmp_path, "confluent-kafka==1.5.0")
    main(["fit", "--requirements", path, "--to", "4.2", "--output", "json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["client"], found["version"], found["library"]) == (
        "confluent-kafka",
        "1.5.0",
        ["librdkafka", "1.5.0"],
    )
    assert (found["found_in"], found["kafka"], found["verdict"]) == (path, "4.2", "breaks")
    assert found["findings"][0].keys() == {"step", "fate", "why", "works_from"}


def test_a_cluster_stands_for_the_releases_of_its_brokers(tmp_path: Path):
    path = pinned(tmp_path, "confluent-kafka==1.5.0")
    with FakeCluster(1, release="3.9") as cluster:
        assert main(["fit", "--requirements", path, "--bootstrap-server", cluster.bootstrap]) == 0
        cluster.broker(1).stop()
        assert main(["fit", "--requirements", path, "--bootstrap-server", cluster.bootstrap, "--timeout", "1"]) == 2


def test_a_broker_that_is_down_may_run_any_release(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(2, release="4.2") as cluster:
        cluster.stop(2)
        assert main(["fit", "confluent-kafka==2.16.1", "--bootstrap-server", cluster.bootstrap]) == 3
    assert "unknown on 4.2: broker 2 (" in capsys.readouterr().out


def test_the_environment_of_another_interpreter_is_listed(capsys: pytest.CaptureFixture[str]):
    """Here it is the same one, so that it has the same clients."""
    main(["fit", "--to", "4.2"])
    own = capsys.readouterr().out
    main(["fit", "--python", sys.executable, "--to", "4.2"])
    assert capsys.readouterr().out == own


def test_a_file_without_a_client_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """No client is not a client that works."""
    assert main(["fit", "--requirements", pinned(tmp_path, "requests==2.31"), "--to", "4.2"]) == 64
    assert "has no client of Kafka that featuregate knows" in capsys.readouterr().err


def test_a_client_without_a_version_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The line says what is missing."""
    assert main(["fit", "--requirements", pinned(tmp_path, "aiokafka>=0.10"), "--to", "4.2"]) == 3
    assert capsys.readouterr().out == (
        "aiokafka (no version): unknown on 4.2: no exact version is named: pin one with ==\n"
    )


@pytest.mark.parametrize(
    ("named", "code"),
    [
        (["kafka-clients==2.4.1", "sarama==1.61.1"], 0),
        (["@confluentinc/kafka-javascript==1.0.0"], 0),
        (["Confluent_Kafka==1.5.0", "kafkajs==2.2.4"], 1),
        (["unheard-of==1"], 3),
        (["kafka-python-ng==2.2.3"], 3),
    ],
)
def test_clients_are_named_with_their_versions(named: list[str], code: int, capsys: pytest.CaptureFixture[str]):
    assert main(["fit", *named, "--to", "4.2"]) == code
    assert len(capsys.readouterr().out.splitlines()) == len(named)


def test_a_line_that_was_not_read_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Beside a client that works: it may name one that does not."""
    path = pinned(tmp_path, "confluent-kafka==2.16.1", "-e .")
    assert main(["fit", "--requirements", path, "--to", "4.2"]) == 3
    assert f"{path} line 2: unknown: what a project or an option brings is not read" in capsys.readouterr().out
    assert main(["fit", "--requirements", path, "--to", "4.2", "--output", "json"]) == 3
    known, unread = json.loads(capsys.readouterr().out)
    assert unread.keys() == known.keys()
    assert (unread["client"], unread["found_in"], unread["verdict"]) == (None, f"{path} line 2", "unknown")
    pinned(tmp_path, "confluent-kafka==1.5.0", "-e .")
    assert main(["fit", "--requirements", path, "--to", "4.2"]) == 1
