"""``fleet run`` without ``--once``, on the log of a real broker and a real Spark."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from featuregate.cli import main
from featuregate.cli.plugin import UNKNOWN

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]


def last_line(progress: Path) -> dict[str, Any]:
    """Return what the stream has printed last; nothing before its first line."""
    lines = [line for line in progress.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return json.loads(lines[-1]) if lines else {"read": 0}


def test_a_stream_runs_on_until_it_is_stopped(
    tmp_path: Path, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads what comes later, keeps a second one out, and ends with 0 at SIGTERM."""
    logs, progress = tmp_path / "logs", tmp_path / "progress.jsonl"
    (logs / "1").mkdir(parents=True)
    shutil.copy(broker_log, logs / "1" / "first.log")
    arguments = ["fleet", "run", "--logs", str(logs), "--tables", str(tmp_path / "tables"), "--cluster", "c"]
    command = [sys.executable, "-m", "featuregate", *arguments, "--interval", "0.5"]
    own_files = os.environ | {"TMPDIR": str(tmp_path)}  # which a killed process would leave behind
    lines = len(broker_log.read_text().splitlines())
    with (
        progress.open("w") as out,
        subprocess.Popen(command, stdout=out, env=own_files, start_new_session=True) as stream,
    ):
        try:
            eventually(lambda: last_line(progress)["read"] >= lines or stream.poll() is not None, "the first file", 480)
            assert main([*arguments, "--once"]) == UNKNOWN
            assert "another run writes the tables of c" in capsys.readouterr().err
            (logs / "2").mkdir()
            shutil.copy(broker_log, logs / "2" / "second.log")
            eventually(lambda: last_line(progress)["read"] > lines or stream.poll() is not None, "the second file")
            stream.send_signal(signal.SIGTERM)
            assert stream.wait(240) == 0
        finally:
            if stream.poll() is None:
                os.killpg(stream.pid, signal.SIGKILL)
    found = last_line(progress)
    assert (found["read"], found["rows"] + found["quarantined"]) == (2 * lines, 2 * lines)
