"""A log in a layout that is not read is named by the run, and a client whose lines were cut is not hidden."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fleet_lines import document, line_of

from featuregate.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.proof("fleet")]


@pytest.mark.usefixtures("jvm")
def test_a_file_of_which_nothing_is_understood_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the head of a line and what is read. A file of another logger, or with some requests, is not."""
    logs = tmp_path / "logs" / "1"
    logs.mkdir(parents=True)
    good, other = line_of(document()), line_of(document(), head="Nov 22 21:08:39 host DEBUG")
    (logs / "request.log").write_text(f"{good}\n{other}\n")
    (logs / "server.log").write_text("[2026-11-22 21:08:39,958] INFO started (kafka.server.KafkaServer)\n")
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]
    assert main(run) == 0
    assert "none of its lines" not in capsys.readouterr().err

    (logs / "new.log").write_text(f"started\n{other}\n{other}\n")
    (tmp_path / "logs" / "kafka-1").mkdir()
    (tmp_path / "logs" / "kafka-1" / "request.log").write_text(f"{good}\n")
    assert main(run) == 2
    said = capsys.readouterr().err
    assert "1/new.log: none of its lines with a request is read (2 unknown-layout)" in said
    assert "'Nov 22 21:08:39 host DEBUG Completed request:" in said
    assert "Strimzi" in said
    assert "kafka-1/request.log: none of its lines with a request is read (1 unknown-broker)" in said
    assert "server.log" not in said

    assert main(["fleet", "readiness", "--to", "4.2", "--output", "json", *place]) != 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert any(
        "Layouts of lines that are read" in row["do"] for row in rows if row["subject"] == "requests of broker 1"
    )


@pytest.mark.usefixtures("jvm")
def test_a_client_whose_lines_were_all_cut_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten heads beside many whole lines of another client: one in a hundred of all lines, and all of this one."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    old = line_of(document(clientId="long", requestApiVersion=1, request={"topics": "x" * 40_000}))[:16_384]
    (tmp_path / "logs" / "1" / "log").write_text("".join([f"{line_of(document())}\n" * 1_683, f"{old}\n" * 10]))
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]) == 0
    capsys.readouterr()
    assert main(["fleet", "readiness", "--drop-api", "Fetch<4", "--output", "json", *place]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {row["check"]: row for row in rows if row["client_id"] == "long"}
    assert (found["api-versions"]["verdict"], found["api-versions"]["versions"]) == ("block", [1])
    assert (found["cut-requests"]["verdict"], found["cut-requests"]["count"]) == ("unknown", 10)
