"""An upgrade that drops API versions is carried out: it breaks the client that readiness named, and no other."""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest
from fleet_clients import ask, copy_one_record
from waiting import eventually

from featuregate.cli import main
from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

LIST_OFFSETS_0 = (2, 0, struct.pack(">ii", -1, 0))
"""Of a consumer, for no topics. Kafka 4.0 dropped this version (KIP-896)."""


@pytest.mark.usefixtures("jvm")
def test_an_upgrade_breaks_the_client_that_was_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers go from 3.9.2 to 4.2.0. Dropping an API version that nobody uses breaks nobody, as was said before."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]

    def blocked(*move: str) -> list[tuple[Any, ...]]:
        capsys.readouterr()
        code = main(["fleet", "readiness", *place, *move, "--output", "json"])
        rows = json.loads(capsys.readouterr().out)["rows"]
        found = [(row["client_id"], row["api"], row["versions"]) for row in rows if row["verdict"] == "block"]
        assert (code == 1) is bool(found)
        return found

    with LocalKafka("3.9.2", log_levels={"kafka.request.logger": "DEBUG"}) as kafka:
        node = kafka.node(1)
        copy_one_record(kafka)
        assert all(ask(node.host, node.port, LIST_OFFSETS_0))
        eventually(lambda: '"ancient"' in node.log.read_text(), "the broker logs no request of the ancient client")
        (tmp_path / "logs" / "1").mkdir(parents=True)
        shutil.copy(node.log, tmp_path / "logs" / "1" / "requests.log")
        run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
        assert main([*run, *place]) == 0
        assert blocked("--to", "4.2") == [("ancient", "ListOffsets", [0])]
        assert blocked("--drop-api", "ListOffsets<1") == [("ancient", "ListOffsets", [0])]
        assert blocked("--drop-api", "Fetch<4") == []

        kafka.roll(1, "4.2.0")
        copy_one_record(kafka)  # by the clients that were not named
        assert not any(ask(node.host, node.port, LIST_OFFSETS_0))
