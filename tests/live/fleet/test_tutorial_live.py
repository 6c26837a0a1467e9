"""The tutorial of the fleet runs as it stands, against a real broker with a client that the move breaks."""

import re
import shlex
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_clients import ask, copy_one_record
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "is-this-move-safe.md"
TIME = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", re.MULTILINE)


def commands() -> list[list[str]]:
    text = PAGE.read_text().partition("\n## Three more questions\n")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("$ ")]


def hours_before(text: str) -> str:
    return TIME.sub(lambda at: str(datetime.fromisoformat(at[0]) - timedelta(hours=3)), text)


@pytest.mark.usefixtures("jvm")
def test_the_tutorial_goes_from_a_block_to_an_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients run after the logs were turned on: an ancient one the first time, hours ago, and none the second time."""
    monkeypatch.chdir(tmp_path)
    ended: list[tuple[str, int]] = []
    with LocalKafka("3.9.2") as kafka:
        node, ancient, hour = kafka.node(1), 0, ""
        for program, *argv in commands():
            if program == "rsync":
                text = node.log.read_text().rpartition("\n")[0] + "\n"
                ancient = ancient or len(text)
                copy = tmp_path / argv[-1] / "kafka-request.log"
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(hours_before(text[:ancient]) + text[ancient:])
                ended.append((program, 0))
                continue
            if argv[:3] == ["fleet", "logging", "on"]:
                hour = f"{datetime.now(UTC):%Y-%m-%dT%H:00}"
            known = {"localhost:9092": kafka.bootstrap, "2026-11-29T15:00": hour}
            code = main([known.get(word, word) for word in argv])
            ended.append(
                (" ".join(argv[1 : 3 if argv[1] == "logging" else 2] if argv[0] == "fleet" else argv[:1]), code)
            )
            if ended[-1][0] == "logging on":
                copy_one_record(kafka)
                if not ancient:
                    assert all(ask(node.host, node.port, (2, 0, struct.pack(">ii", -1, 0))))
                    eventually(lambda: '"ancient"' in node.log.read_text(), "the broker logs no ancient request")
    first = [("logging on", 0), ("rsync", 0), ("logging off", 0), ("run", 0), ("readiness", 1)]
    assert ended == [*first, ("logging on", 0), ("logging off", 0), ("rsync", 0), ("run", 0), ("readiness", 0)]
    said = capsys.readouterr().out
    assert "orders to Kafka 4.2: block" in said
    assert "orders to Kafka 4.2, since" in said
    assert "ListOffsets 0 (1-11 served, dropped in 4.0)" in (tmp_path / "report.html").read_text()
