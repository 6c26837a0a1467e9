"""``fleet run`` without ``--once``, on the log of a real broker and a real Spark."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from featuregate.cli import main
from featuregate.cli.plugin import OK

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]


def lines_read(progress: Path) -> int:
    """Return how many lines the run has printed that it has read."""
    return sum(int(read) for read in re.findall(r"^c: (\d+) lines read: .*\n", progress.read_text(), re.MULTILINE))


def test_a_run_goes_on_until_it_is_stopped(
    tmp_path: Path, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads what comes later, lets another one look, and ends with 0 at SIGTERM."""
    logs, progress = tmp_path / "logs", tmp_path / "progress"
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
            eventually(lambda: lines_read(progress) >= lines or stream.poll() is not None, "the first file", 480)
            assert main([*arguments, "--once"]) == OK
            assert capsys.readouterr().out.startswith("c: 0 lines read: ")
            (logs / "2").mkdir()
            shutil.copy(broker_log, logs / "2" / "second.log")
            eventually(lambda: lines_read(progress) >= 2 * lines or stream.poll() is not None, "the second file")
            stream.send_signal(signal.SIGTERM)
            assert stream.wait(240) == 0
        finally:
            if stream.poll() is None:
                os.killpg(stream.pid, signal.SIGKILL)
    assert lines_read(progress) == 2 * lines
