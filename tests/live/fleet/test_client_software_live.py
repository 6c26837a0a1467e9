"""A client that runs steadily is blocked by what its software calls, and stops after the upgrade as the report says."""

import json
import subprocess
from pathlib import Path
from typing import Any

import client_installers
import pytest

from featuregate.cli import main
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

STEADY = """
import sys, time
import confluent_kafka as ck
bootstrap, seconds = sys.argv[1], float(sys.argv[2])
producer = ck.Producer({"bootstrap.servers": bootstrap, "client.id": "steady-producer"})
consumer = ck.Consumer({"bootstrap.servers": bootstrap, "client.id": "steady", "group.id": "steady",
                        "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500})
consumer.subscribe(["orders"])
end = time.monotonic() + seconds
while time.monotonic() < end:
    producer.produce("orders", b"v")
    producer.flush(5)
    consumer.poll(0.1)
consumer.close()
"""


def steps(client: client_installers.Installed, bootstrap: str, run_id: str, *names: str) -> dict[str, str]:
    command = [*client.command, bootstrap, bootstrap, run_id, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["step"]: line["fate"] for line in lines}


def readiness(tables: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    asked = ("--to", "4.2", "--min-hours", "0", "--without-usage-reports", "--output", "json")
    code = main(["readiness", "--cluster", "c", "--tables", str(tables), *asked])
    rows = json.loads(capsys.readouterr().out)["rows"]
    return code, [row for row in rows if row["check"] == "client-software"]


def test_a_steady_librdkafka_1_5_0_is_blocked_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its committed offsets hide that it cannot look one up; a new group consumes nothing after the roll."""
    client = client_installers.install("confluent-kafka", "1.5.0", tmp_path)
    if client is None:
        pytest.skip("confluent-kafka 1.5.0 needs Python 3.8")
    logs = tmp_path / "logs" / "1"
    logs.mkdir(parents=True)
    with LocalKafka("3.9.2", log_levels={"kafka.request.logger": "DEBUG"}) as kafka:
        steady = (client.command[0], "-c", STEADY, kafka.bootstrap)
        subprocess.run([*steady, "6"], check=True)
        assert steps(client, kafka.bootstrap, "before", "produce", "consume") == {
            "produce": "works",
            "consume": "works",
        }
        log = kafka.node(1).log
        begin = log.stat().st_size
        subprocess.run([*steady, "8"], check=True)
        (logs / "server.log").write_bytes(log.read_bytes()[begin:])
        where = ("--tables", str(tmp_path / "t"), "--logs", str(tmp_path / "logs"))
        assert main(["fleet", "run", "--once", "--cluster", "c", *where, "--bootstrap-server", kafka.bootstrap]) == 0
        code, rows = readiness(tmp_path / "t", capsys)
        assert code == 1
        assert ("steady", "block", "ListOffsets") in {(row["client_id"], row["verdict"], row["api"]) for row in rows}
        kafka.roll(1, "4.2.0")
        assert steps(client, kafka.bootstrap, "after", "produce", "consume") == {"produce": "works", "consume": "fails"}
