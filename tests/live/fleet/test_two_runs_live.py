"""Two runs of one cluster at once, in two JVMs, as after a deployment that did not end the one before."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from fleet_runs import lines, lines_read
from waiting import eventually

from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(1200)]

FILES, IN_A_FILE = 40, 25


@pytest.mark.usefixtures("jvm")
def test_two_runs_at_once_read_each_line_once(tmp_path: Path) -> None:
    """Each batch is committed by one of them, the other one reads what is left; and both end well."""
    folder, table = tmp_path / "logs" / "1", tmp_path / "tables"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "featuregate", "fleet", "run", "--logs", str(tmp_path / "logs")]
    command += ["--tables", str(table), "--cluster", "c", "--interval", "0.05"]
    printed = [tmp_path / name for name in ("first", "second")]
    own_files = os.environ | {"TMPDIR": str(tmp_path)}  # which a killed process would leave behind
    with ExitStack() as stack:
        runs = []
        for path in printed:
            out = stack.enter_context(path.open("w"))
            run = stack.enter_context(
                subprocess.Popen(command, stdout=out, stderr=out, env=own_files, start_new_session=True)
            )
            stack.callback(lambda run=run: run.poll() is None and os.killpg(run.pid, signal.SIGKILL))
            runs.append(run)
        for number in range(FILES):
            first = number * IN_A_FILE
            (folder / f"{number}.log").write_bytes(lines(*range(first, first + IN_A_FILE)))
            wanted = (number - 2) * IN_A_FILE  # so that both find something new at any time
            eventually(
                lambda wanted=wanted: sum(map(lines_read, printed)) >= wanted or any(run.poll() for run in runs),
                "the runs go on",
                480,
            )
        eventually(
            lambda: sum(map(lines_read, printed)) >= FILES * IN_A_FILE or any(run.poll() for run in runs), "the end"
        )
        for run in runs:
            run.send_signal(signal.SIGTERM)
        assert [run.wait(240) for run in runs] == [0, 0], [path.read_text() for path in printed]
    assert sum(map(lines_read, printed)) == FILES * IN_A_FILE
    with local_session() as spark:
        found = EvidenceTable(spark, table, "c")
        counts = {row.client_id: row["count"] for row in found.rows("usage").collect()}
        runs_of = found.rows("run").groupBy("batch").count().where("count > 1").count()
    assert counts == {f"c{number}": 1 for number in range(FILES * IN_A_FILE)}
    assert runs_of == 0, "a batch has two writers"
