"""The tutorial of the fleet runs as it stands, against a real broker with a client that the move breaks."""

import re
import shlex
import struct
from pathlib import Path

import pytest
from fleet_clients import ask, copy_one_record
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "is-this-move-safe.md"
LOG = "/var/log/kafka/kafka-request.log"


def commands() -> list[list[str]]:
    """Return the arguments of each command on the page, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ featuregate")]


@pytest.mark.usefixtures("jvm")
def test_the_tutorial_goes_from_a_block_to_an_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients run after the logs were turned on: an ancient one the first time, and none the second time."""
    monkeypatch.chdir(tmp_path)
    ended: list[tuple[str, int]] = []
    with LocalKafka("3.9.2") as kafka:
        node, lines = kafka.node(1), 0
        for argv in commands():
            given = [kafka.bootstrap if word == "localhost:9092" else word.replace(LOG, str(node.log)) for word in argv]
            if given[:3] == ["fleet", "logging", "off"] and ended[-1][0] == "logging on":  # the second hour is over
                new = node.log.read_text().rpartition("\n")[0].splitlines()[lines:]
                (tmp_path / "later" / "1").mkdir(parents=True)
                (tmp_path / "later" / "1" / "kafka-request.log.2026-11-23-06").write_text("\n".join(new))
            code = main(given)
            ended.append((" ".join(given[1 : 3 if given[1] == "logging" else 2]), code))
            if ended[-1][0] == "logging on":
                lines = len(node.log.read_text().splitlines())
                copy_one_record(kafka)
                if len(ended) == 1:
                    assert all(ask(node.host, node.port, (2, 0, struct.pack(">ii", -1, 0))))
                    eventually(lambda: '"ancient"' in node.log.read_text(), "the broker logs no ancient request")
    assert ended == [
        ("logging on", 0),
        ("collect", 0),
        ("logging off", 0),
        ("run", 0),
        ("readiness", 1),
        ("logging on", 0),
        ("logging off", 0),
        ("run", 0),
        ("readiness", 0),
    ]
    said = capsys.readouterr().out
    assert "orders to Kafka 4.2: block" in said
    assert "orders to Kafka 4.2: ok" in said
    assert "ListOffsets 0 (1-11 served, dropped in 4.0)" in (tmp_path / "report.html").read_text()
