"""No line is lost in silence: each file is read, or the run names it and the verdict knows."""

import json
import os
import shutil
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from featuregate.cli import main
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import Tables

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

NAMES = (
    "a", "_a", ".a", "a._COPYING_", "_metadata_a", "_a=b", "a.crc", "a.tmp", "_old/a", ".old/a", "x=_y/a", "link",
    "dangling", "to/a",
)  # fmt: skip
UNDECODED = os.fsdecode(b"caf\xe9")
SHOWN = r"1/caf\xe9"


class Unread(NamedTuple):
    """Logs of which Spark reads a part, and the tables of what it read."""

    broker: Path
    place: list[str]
    """The options of a command."""

    def run(self) -> int:
        """Read what is there."""
        return main(["fleet", "run", "--once", "--logs", str(self.broker.parent), *self.place])

    def of_files(self, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, int]]:
        """Return what the verdict knows of files: verdict, reason and number."""
        capsys.readouterr()
        main(["fleet", "readiness", "--to", "3.9", "--output", "json", *self.place])
        rows = json.loads(capsys.readouterr().out)["rows"]
        return [(row["verdict"], row["why"], row["count"]) for row in rows if row["subject"] == "files of broker 1"]


@pytest.fixture
def unread(tmp_path: Path, broker_log: Path) -> Unread:
    """Write files of all names, and links."""
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
    """Whatever Spark lists."""
    assert unread.run() == 2
    said = capsys.readouterr().err
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        left_out = {row.path for row in tables.read("unread_files").collect()}
        read = {row.path for row in tables.read("evidence_files").collect()}
    being_written = {"1/.a", "1/a._COPYING_", "1/.old/a"}
    assert left_out == {"1/_a", "1/_old/a", "1/link", "1/dangling", "1/linked", "1/pipe", SHOWN}
    assert read | left_out | being_written == {SHOWN, *(f"1/{name}" for name in (*NAMES, "linked", "pipe"))}
    assert read.isdisjoint(left_out | being_written)
    assert "1/_a and 1 more: not read, because Spark does not list" in said
    assert "1/dangling and 2 more: not read, because symbolic links are not followed" in said
    assert "1/.a and 2 more: not read, because such names" in said
    assert rf"{SHOWN}: not read, because Java cannot decode the name in its locale" in said
    assert "1/pipe: not read, because pipes, sockets and devices are not read" in said
    pipe, linked, undecoded, unlisted = found = sorted(unread.of_files(capsys), key=itemgetter(1), reverse=True)
    assert [(verdict, count) for verdict, _, count in found] == [("unknown", count) for count in (1, 3, 1, 2)]
    assert linked[1].startswith("1/dangling and 2 more have not been read")
    assert pipe[1] == "1/pipe has not been read: pipes, sockets and devices are not."
    assert undecoded[1].startswith(f"{SHOWN} has not been read: Java cannot decode")
    assert unlisted[1].startswith("1/_a and 1 more have not been read")


@pytest.mark.usefixtures("jvm")
@pytest.mark.proof("fleet")
def test_a_file_that_was_unread_is_read_under_another_name(
    broker_log: Path, unread: Unread, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict knows that, too."""
    broker, text = unread.broker, broker_log.read_text()
    assert unread.run() == 2
    assert {verdict for verdict, _, _ in unread.of_files(capsys)} == {"unknown"}
    (broker / "_a").rename(broker / "b")
    (broker / UNDECODED).rename(broker / "cafe")
    (broker / "_old").rename(broker / "old")
    for name in ("dangling", "linked", "link", "pipe"):
        (broker / name).unlink()
    (broker / "link").write_text(text)
    with (broker / "a").open("a") as file:
        file.write("more\n")
    assert unread.run() == 0, "nothing is missing of what was behind a link"
    assert capsys.readouterr().err.startswith("featuregate: 1/a has changed since it was read")
    assert [(verdict, count) for verdict, _, count in unread.of_files(capsys)] == [("warn", 1)]
    assert unread.run() == 0


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


@pytest.mark.proof("fleet")
def test_no_name_that_is_not_ascii_is_lost_in_the_locale_c(tmp_path: Path, broker_log: Path) -> None:
    """As of many services: to their JVM each such name is one of no file. The run ends with 2, and says so."""
    logs, broker = tmp_path / "logs", tmp_path / "logs" / "1"
    broker.mkdir(parents=True)
    for name in ("a", "é", UNDECODED):
        shutil.copy(broker_log, broker / name)
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    run = [sys.executable, "-m", "featuregate", "fleet", "run", "--once", "--logs", str(logs), *place]
    environment = {**os.environ, "LC_ALL": "C"}
    found = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert f"{SHOWN} and 1 more: not read, because Java cannot decode the name in its locale" in found.stderr
    assert found.returncode == 2
    (broker / "é").rename(broker / "e")
    (broker / UNDECODED).rename(broker / "b")
    again = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr) == (0, "")
