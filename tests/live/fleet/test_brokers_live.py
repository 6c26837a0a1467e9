"""The requests that real brokers send one another, read from their logs."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from fleet_clients import TOPIC, transaction
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

REPLICATED = {
    f"{topic}.{name}": number
    for topic in ("offsets.topic", "transaction.state.log")
    for name, number in (("replication.factor", 2), ("num.partitions", 2))
}


SEEN = re.compile(r'"clientId":"(broker-\d-(?:fetcher-0|txn-marker-sender))"')
FOLLOWERS = {"broker-1-fetcher-0", "broker-2-fetcher-0"}


def logged(kafka: LocalKafka) -> set[str]:
    """Return the client ids of followers and of the coordinator of transactions in the logs of both brokers."""
    return {name for number in (1, 2) for name in SEEN.findall(kafka.node(number).log.read_text())}


@pytest.mark.usefixtures("jvm")
def test_brokers_that_follow_one_another_do_not_block_their_downgrade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two brokers of 4.2.0 with transactions: the only clients are those that the test runs."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    debug = {"kafka.request.logger": "DEBUG"}
    with LocalKafka("4.2.0", nodes=2, release_version="3.9", log_levels=debug, properties=REPLICATED) as kafka:
        admin = AdminClient(kafka.client_config({"log_level": 0}))
        for created in admin.create_topics([NewTopic(TOPIC, 2, 2)], operation_timeout=60).values():
            created.result(60)
        transaction(kafka, b"one")
        eventually(lambda: logged(kafka) > FOLLOWERS, "the brokers log no requests of one another")
        for number in (1, 2):
            (tmp_path / "logs" / str(number)).mkdir(parents=True)
            shutil.copy(kafka.node(number).log, tmp_path / "logs" / str(number) / "server.log")
        run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
        assert main([*run, *place]) == 0
    capsys.readouterr()
    main(["fleet", "readiness", *place, "--downgrade-to", "3.9.2", "--without-usage-reports", "--output", "json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    told = [row for row in rows if row["check"] == "inter-broker"]
    names = {name for row in told for name in row["client_id"].split(", ")}
    assert {name for name in names if name.startswith("broker-")} > FOLLOWERS
    clients = [row for row in rows if row["check"] == "api-versions"]
    assert not [row["subject"] for row in clients if "-fetcher-" in row["subject"] or "-sender" in row["subject"]]
    assert not [row for row in rows if row["verdict"] == "block"]
