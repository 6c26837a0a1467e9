"""No line is lost in silence: each file is read, or the run names it and the verdict knows."""

import json
import os
import shutil
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from featuregate.cli import main
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

NAMES = (
    "a", "_a", ".a", "a._COPYING_", "_metadata_a", "_a=b", "a.crc", "a.tmp", "_old/a", ".old/a", "x=_y/a", "link",
    "dangling", "to/a",
)  # fmt: skip
UNDECODED = os.fsdecode(b"caf\xe9")


class Unread(NamedTuple):
    """Logs of which a part is read, and the table of what was."""

    broker: Path
    place: list[str]
    """The options of a command."""

    def run(self) -> int:
        return main(["fleet", "run", "--once", "--logs", str(self.broker.parent), *self.place])

    def of_files(self, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, int]]:
        capsys.readouterr()
        main(["readiness", "--to", "3.9", "--output", "json", *self.place])
        rows = json.loads(capsys.readouterr().out)["rows"]
        return [(row["verdict"], row["why"], row["count"]) for row in rows if row["subject"] == "files of broker 1"]


@pytest.fixture
def unread(tmp_path: Path, broker_log: Path) -> Unread:
    broker = tmp_path / "logs" / "1"
    text = broker_log.read_text()
    for name in (*NAMES, UNDECODED):
        (broker / name).parent.mkdir(parents=True, exist_ok=True)
        (broker / name).write_text(text)
    for name, target in (("link", broker_log), ("dangling", tmp_path / "gone")):
        (broker / name).unlink()
        (broker / name).symlink_to(target)
    (broker / "linked").symlink_to(broker / "to", target_is_directory=True)
    os.mkfifo(broker / "pipe")
    return Unread(broker, ["--tables", str(tmp_path / "tables"), "--cluster", "c"])


@pytest.mark.usefixtures("jvm")
def test_each_file_is_read_or_named(tmp_path: Path, unread: Unread, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its name is: one that is no text is that of an old archive."""
    assert unread.run() == 0
    said = capsys.readouterr().err
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        left_out = {file.path for row in table.rows("run").collect() for file in row.unread}
        read = {row.uri.partition("/logs/")[2] for row in table.rows("source").collect()}
    being_written = {"1/.a", "1/a._COPYING_", "1/.old/a"}
    assert left_out == {"1/link", "1/dangling", "1/linked", "1/pipe"}
    names = {f"1/{quote(os.fsencode(name))}" for name in (*NAMES, UNDECODED, "linked", "pipe")}
    assert read | left_out | being_written == names
    assert read.isdisjoint(left_out | being_written)
    assert "1/dangling and 2 more: not read, because symbolic links are not followed" in said
    assert "1/.a and 2 more: not read, because such names" in said
    assert "1/pipe: not read, because pipes, sockets and devices are not read" in said
    pipe, linked = found = sorted(unread.of_files(capsys), key=itemgetter(1), reverse=True)
    assert [(verdict, count) for verdict, _, count in found] == [("unknown", 1), ("unknown", 3)]
    assert linked[1].startswith("1/dangling and 2 more have not been read")
    assert pipe[1] == "1/pipe has not been read: pipes, sockets and devices are not."


@pytest.mark.usefixtures("jvm")
@pytest.mark.proof("fleet")
def test_a_folder_without_a_log_is_named(tmp_path: Path, broker_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As that of a shipper that writes elsewhere. It is no failure: the first file may come later."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    unread = Unread(tmp_path / "logs" / "1", ["--tables", str(tmp_path / "tables"), "--cluster", "c"])
    assert unread.run() == 0
    assert f"{tmp_path}/logs: no log was found there" in capsys.readouterr().err
    shutil.copy(broker_log, unread.broker)
    assert unread.run() == 0
    assert capsys.readouterr().err == ""
    shutil.rmtree(unread.broker)
    assert unread.run() == 0
    assert f"{tmp_path}/logs: logs were read there, and there is none any more" in capsys.readouterr().err
    (tmp_path / "other" / "2").mkdir(parents=True)
    shutil.copy(broker_log, tmp_path / "other" / "2")
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "other"), *unread.place]) == 0
    with local_session() as spark:
        expected = read_evidence(EvidenceTable(spark, tmp_path / "tables", "c")).expected
    assert expected == {"1", "2"}, "a folder that is not mounted, and another one, take no broker away"


@pytest.mark.proof("fleet")
def test_no_name_that_is_not_ascii_is_lost_in_the_locale_c(tmp_path: Path, broker_log: Path) -> None:
    """As of many services: the JVM, to which such a name is one of no file, opens none of them."""
    logs, broker = tmp_path / "logs", tmp_path / "logs" / "1"
    broker.mkdir(parents=True)
    lines = broker_log.read_text()
    for name in ("a", "é", UNDECODED):
        (broker / name).write_bytes(os.fsencode(f"12:00:00 {name}\n") + lines.encode())
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    run = [sys.executable, "-m", "featuregate", "fleet", "run", "--once", "--logs", str(logs), *place]
    found = subprocess.run(run, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert f"c: {3 * (len(lines.splitlines()) + 1)} lines read" in found.stdout
