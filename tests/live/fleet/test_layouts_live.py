"""A log in a layout that is not read is named by the run, and a client whose lines were cut is not hidden."""

import json
import os
from pathlib import Path

import pytest
from fleet_lines import EVER, document, line_of

from featuregate.cli import main

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
    assert "Say how its times are written: --layout '%b %d %H:%M:%S', and run 'featuregate fleet run --again" in said
    assert "server.log" not in said

    assert main(["readiness", "--to", "4.2", "--output", "json", *place]) != 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert any(
        "Layouts of lines that are read" in row["do"] for row in rows if row["subject"] == "requests of broker 1"
    )


@pytest.mark.usefixtures("jvm")
def test_lines_are_read_with_a_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the run, or by a later one that reads again what was not understood."""
    for broker, time in {"1": "05/11/2026 21:08:39", "3": "Nov  5 21:08:39"}.items():
        (tmp_path / "logs" / broker).mkdir(parents=True)
        (tmp_path / "logs" / broker / "log").write_text(f"{line_of(document(), head=f'{time} DEBUG')}\n" * 3)
        os.utime(tmp_path / "logs" / broker / "log", (1795000000, 1795000000))  # on 2026-11-18
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    layouts = ["--layout", "%d/%m/%Y %H:%M:%S"]
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *layouts, *place]) == 2
    said = capsys.readouterr().err
    assert "--layout '%b %d %H:%M:%S'" in said
    assert said.count("none of its lines") == 1
    again = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--again", "unknown-layout", *place]
    capsys.readouterr()
    for lines in (3, 0):
        assert main([*again, "--layout", "%b %d %H:%M:%S"]) == 0
        assert f"c: {lines} lines read: {lines} rows, 0 in quarantine" in capsys.readouterr().out
    assert main(["readiness", "--drop-api", "Fetch<4", *EVER, "--output", "json", *place]) == 3
    (row,) = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["client_id"] == "audit"]
    assert (row["count"], row["first_seen"], row["last_seen"]) == (6, *["2026-11-05T21:08:39+00:00"] * 2)
