"""Verdicts by the metrics of real brokers, beside their request log at DEBUG and the fate of clients on the target."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import client_installers
import pytest
import requests
from metrics_pages import exporter
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

OLD_NAME, NEW_NAME = "confluent-kafka-python 2.4.0-rdkafka-2.4.0", "confluent-kafka-python"
PROGRAM = """
import json, sys, time
import confluent_kafka as ck
config, group, seconds = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3])
producer = ck.Producer(config)
producer.produce("orders", b"v")
unsent = producer.flush(10)
consumer = ck.Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
end, seen = time.monotonic() + seconds, 0
while time.monotonic() < end:
    message = consumer.poll(0.2)
    seen += bool(message and not message.error())
print(json.dumps({"unsent": unsent, "seen": seen}))
"""


@contextmanager
def broker(release: str, folder: Path) -> Iterator[tuple[LocalKafka, str]]:
    """Start a broker with a SCRAM listener, the agent with the configuration of the page, and a log at DEBUG."""
    option, url = exporter(folder)
    kafka = LocalKafka(
        release,
        security="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        log_levels={"kafka.request.logger": "DEBUG"},
        jvm_options=[option],
    )
    with kafka:
        yield kafka, url


def client(command: tuple[str, ...], config: dict[str, object], group: str, seconds: float) -> "subprocess.Popen[str]":
    words = [*command, "-c", PROGRAM, json.dumps(config), group, str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def fate(process: "subprocess.Popen[str]") -> dict[str, int]:
    said, _ = process.communicate(timeout=120)
    found: dict[str, int] = json.loads(said)
    return found


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = main([*arguments, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)["rows"]


def blocked(found: list[dict[str, Any]]) -> dict[tuple[str, tuple[int, ...]], int]:
    of_requests = [row for row in found if row["verdict"] == "block" and row["check"] == "api-versions"]
    return {(row["api"], tuple(row["versions"])): row["count"] for row in of_requests}


def test_metrics_say_what_the_log_says_and_find_the_login_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old calls are those of the log, none of them is ok; librdkafka 2.4.0 logs in on 3.9 and not on 4.2."""
    of_old = client_installers.environment_of(tmp_path / "old", "3.11", "confluent-kafka==2.4.0")
    of_new = client_installers.environment_of(tmp_path / "new", "3.11", "confluent-kafka==2.16.1")
    if of_old is None or of_new is None:
        pytest.skip("this needs Python 3.11")
    with broker("3.9.2", tmp_path) as (kafka, url):
        config = kafka.client_config()
        assert fate(client(of_new, config, "new", 8))["seen"] > 0
        old_calls = {"api.version.request": False, "broker.version.fallback": "0.9.0"}
        assert fate(client(of_new, {"bootstrap.servers": kafka.internal_bootstrap, **old_calls}, "old", 8))["seen"] > 0
        with client(of_old, config, "login", 60) as connected:
            asked = ("readiness", "--metrics", url, "--to", "4.2", "--bootstrap-server", kafka.internal_bootstrap)

            def login() -> list[dict[str, Any]]:
                found = rows(capsys, *asked)[1]
                return [row for row in found if row["check"] == "logins" and row["verdict"] == "block"]

            (row,) = eventually(login, "the old client is connected")
            code, found = rows(capsys, *asked)
            connected.kill()
        assert row["software"] == OLD_NAME
        assert code == 1
        page = requests.get(url, timeout=30)
        log = tmp_path / "requests.log"
        log.write_bytes(kafka.node(1).log.read_bytes())
    _, by_log = rows(capsys, "fleet", "peek", str(log), "--to", "4.2")
    of_log, of_metrics = blocked(by_log), blocked(found)
    assert of_metrics.keys() == of_log.keys()
    assert {"Produce", "Fetch", "ListOffsets"} <= {api for api, _ in of_metrics}
    assert {key for key, count in of_metrics.items() if count > of_log[key]} == set()
    assert not [one for one in by_log if "2.4.0" in str(one["software"]) and one["verdict"] == "block"]
    assert "DeprecatedRequestsPerSec" in page.text
    unknown = {one["subject"]: one["why"] for one in found if one["verdict"] == "unknown"}
    # LocalKafka's own look at the port has no name, and the broker has run for a minute.
    assert unknown.keys() == {"broker 1", "software without a name on listener CLIENT"}, unknown
    with broker("4.2.0", tmp_path) as (kafka, url):
        config = kafka.client_config()
        assert fate(client(of_old, config, "login", 1)) == {"unsent": 1, "seen": 0}
        assert fate(client(of_new, config, "new", 8))["seen"] > 0
        known = ("--bootstrap-server", kafka.internal_bootstrap)
        code, found = rows(capsys, "readiness", "--metrics", url, "--to", "4.3", *known)
        assert (code, blocked(found)) == (3, {})
        assert main(["inventory", "--metrics", url]) == 0
        assert NEW_NAME in capsys.readouterr().out
