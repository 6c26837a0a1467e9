"""What a run leaves unread below a folder of logs, what it says of it, and what it keeps for verdicts."""

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

from fleet_runs import Runs, lines

from featuregate.cli.plugin import print_message
from featuregate_fleet.evidence.unread import LINKED, SPECIAL, UNLISTED, UnreadFile, is_being_written
from featuregate_fleet.runs.missing_requests import MissingEvidence

if TYPE_CHECKING:
    from featuregate_fleet.tables.evidence_table import EvidenceTable


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder of logs with a log of broker 1."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_bytes(lines(1))
    return tmp_path


@pytest.fixture
def runs(logs: Path) -> Runs:
    """Return runs over the folder."""
    return Runs(logs)


def test_each_file_that_is_left_unread_is_named_once_and_kept(
    runs: Runs, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict needs it as long as it is there, and a log needs the line once."""
    (logs / "1" / "key").symlink_to("/etc/passwd")
    (logs / "linked").symlink_to("1")
    os.mkfifo(logs / "1" / "pipe")
    missing = MissingEvidence(print_message)
    for _ in range(2):
        runs.run()
        missing.left_out(runs.folder.listing.left)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "1/key and 1 more: not read, because symbolic links are not followed" in said[0]
    assert "1/pipe: not read, because pipes, sockets and devices are not read" in said[1]
    assert set(runs.folder.unread) == {
        UnreadFile("1/key", "1", LINKED),
        UnreadFile("linked", None, LINKED),
        UnreadFile("1/pipe", "1", SPECIAL),
    }
    assert missing.paths == ()
    (logs / "1" / "key").unlink()
    runs.run()
    assert UnreadFile("1/key", "1", LINKED) not in runs.folder.unread


def test_links_are_named_and_not_followed(runs: Runs, logs: Path) -> None:
    """A link to a folder may lead to itself, or to all files of the host."""
    (logs / "1" / "old").mkdir()
    links = {"1/link": "log", "1/dangling": "gone", "1/loop": ".", "1/old/up": "../..", "2": "1"}
    for name, target in links.items():
        (logs / name).symlink_to(target)
    runs.run()
    assert runs.folder.listing.left == dict.fromkeys(links, LINKED)
    assert runs.clients == {"c1": 1}


def test_a_folder_that_may_not_be_listed_is_named_and_stops_no_other(
    runs: Runs, logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system has its lost+found for root alone, and a broker may have begun a folder for its own user."""
    (logs / "2").mkdir()
    (logs / "2" / "log").write_bytes(lines(2))
    allowed = os.scandir

    def denied(folder: str) -> object:
        if folder == str(logs / "2"):
            raise PermissionError(13, "Permission denied")
        return allowed(folder)

    monkeypatch.setattr(os, "scandir", denied)
    runs.run()
    MissingEvidence(print_message).left_out(runs.folder.listing.left)
    assert runs.clients == {"c1": 1}
    assert runs.folder.unread == [UnreadFile("2", None, UNLISTED)]
    assert "2: not read, because it cannot be listed" in capsys.readouterr().err
    monkeypatch.undo()
    runs.run()
    assert runs.clients == {"c1": 1, "c2": 1}
    assert runs.folder.unread == []


@pytest.mark.parametrize("name", ["_a", "_old/b", "a b%20é", "d\u2028e", os.fsdecode(b"caf\xe9")])
def test_a_file_is_read_whatever_its_name_is(runs: Runs, logs: Path, name: str) -> None:
    """Names that begin with '_' are no files of a writer, and one that no text has is that of an old archive."""
    (logs / "1" / name).parent.mkdir(exist_ok=True)
    (logs / "1" / name).write_bytes(lines(2))
    runs.run()
    assert runs.clients == {"c1": 1, "c2": 1}
    assert runs.run() == []


def test_files_that_are_being_written_are_named_in_one_run_once_without_a_verdict(
    runs: Runs, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shipper has some at any time, often under random names."""
    missing = MissingEvidence(print_message)
    for name in (".log.1.Xa81", ".log.2.Bc07"):
        (logs / "1" / name).write_bytes(lines(2))
        runs.run()
        missing.left_out(runs.folder.listing.left)
    assert runs.folder.unread == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/.log.1.Xa81: not read, because such names are those of files that are being written" in line


def test_a_file_that_cannot_be_read_is_missing_until_it_is_restored(
    runs: Runs, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run does not succeed meanwhile."""
    missing = MissingEvidence(print_message)
    no_table = cast("EvidenceTable", None)  # it is asked for lines that were not understood
    (logs / "1" / "a.gz").write_bytes(b"\x1f\x8b\x08damaged")
    runs.run()
    missing.of_batch(runs.sources, no_table, 0)
    assert missing.paths == ("1/a.gz",)
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/a.gz: it is not read" in line
    assert "The next run tries it again once it has changed" in line
    (logs / "1" / "a.gz").write_bytes(gzip.compress(lines(2, 3)))
    runs.run()
    missing.of_batch(runs.sources[-1:], no_table, 1)
    assert missing.paths == ()


def test_a_rotation_that_deletes_a_damaged_file_does_not_restore_it(runs: Runs, logs: Path) -> None:
    """Its name is that of a log which was read under another one. The requests of the deleted one are missing."""
    missing, no_table = MissingEvidence(print_message), cast("EvidenceTable", None)
    (logs / "1" / "log.1.gz").write_bytes(gzip.compress(lines(2)))
    (logs / "1" / "log.2.gz").write_bytes(b"\x1f\x8b\x08damaged")
    runs.run()
    missing.of_batch(runs.sources, no_table, 0)
    known = len(runs.sources)
    (logs / "1" / "log.1.gz").rename(logs / "1" / "log.2.gz")
    runs.run()
    missing.of_batch(runs.sources[known:], no_table, 1)
    assert runs.clients == {"c1": 1, "c2": 1}
    assert missing.paths == ("1/log.2.gz",)


@pytest.mark.parametrize("renamed", [True, False])
def test_a_file_that_was_rotated_before_it_was_read_is_not_missing(
    runs: Runs, logs: Path, capsys: pytest.CaptureFixture[str], *, renamed: bool
) -> None:
    """It is found under its other name at once. One that was deleted is named."""
    missing, log = MissingEvidence(print_message), logs / "1" / "log"
    no_table = cast("EvidenceTable", None)
    runs.run((lambda: log.rename(logs / "1" / "log.1")) if renamed else log.unlink)
    log.write_bytes(lines(2))
    missing.of_batch(runs.sources, no_table, 0)
    known = len(runs.sources)
    runs.run()
    missing.of_batch(runs.sources[known:], no_table, 1)
    missing.name_vanished()
    assert missing.paths == (() if renamed else ("1/log",))
    assert ("1/log: it is not read: there is no such file any more" in capsys.readouterr().err) is not renamed


@pytest.mark.parametrize(
    ("path", "being_written"),
    [
        ("1/.log.1.Xa81", True),
        ("1/.partial/log.1", True),
        ("1/.log.1.crc", True),
        ("1/log.1._COPYING_", True),
        ("1/_temporary/0/part-0", True),
        ("1/_log.1", False),
        ("1/_old/log.1", False),
        ("1/log.1", False),
    ],
)
def test_names_of_files_that_are_being_written(path: str, being_written: bool):  # noqa: FBT001 - a parameter
    """Those of rsync, of Hadoop and of Spark."""
    assert is_being_written(path) is being_written
