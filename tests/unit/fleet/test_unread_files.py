"""What a run says of the files that it leaves unread, and what it keeps for verdicts."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from featuregate.cli.plugin import print_message
from featuregate_fleet.evidence.unread import CHANGED, LINKED, UNDECODED, UNLISTED, UnreadFile, is_being_written
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.stream.unread_files import UnreadFiles


class Kept:
    """Tables that keep what a run left unread in this process."""

    def __init__(self) -> None:
        self.files: set[UnreadFile] = set()
        self.quarantined: set[str] = set()

    def leave_unread(self, files: Collection[UnreadFile]) -> None:
        """Keep these alone."""
        self.files = set(files)

    def files_in_quarantine(self) -> set[str]:
        """Return those that could not be read."""
        return self.quarantined


@pytest.fixture
def kept() -> Kept:
    """Return tables without such files."""
    return Kept()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder of logs with a file of 4 bytes, which was read."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_text("one\n")
    return tmp_path


@pytest.fixture
def unread(logs: Path, kept: Kept) -> UnreadFiles:
    """Return what a run begins with."""
    return UnreadFiles(logs, ReadFiles([("query", 0, "file:///logs/1/log", "1/log", 4)]), kept, print_message, "utf-8")


def test_a_run_names_each_file_once_and_keeps_it(
    unread: UnreadFiles, logs: Path, kept: Kept, capsys: pytest.CaptureFixture[str]
):
    """A verdict needs it as long as the run goes on, and a log needs the line once."""
    unread.look()
    assert (capsys.readouterr().err, kept.files) == ("", set())
    (logs / "1" / "log").write_text("one\ntwo\n")
    (logs / "1" / "_a").write_text("one\n")
    (logs / "_b").write_text("one\n")
    (logs / "1" / "key").symlink_to("/etc/passwd")
    unread.look()
    said = capsys.readouterr().err
    assert "1/log has changed since it was read" in said
    assert "1/_a and 1 more: not read, because Spark does not list names that begin with '_'" in said
    assert "1/key: not read, because symbolic links are not followed" in said
    files = {
        UnreadFile("1/log", "1", CHANGED),
        UnreadFile("1/_a", "1", UNLISTED),
        UnreadFile("_b", None, UNLISTED),
        UnreadFile("1/key", "1", LINKED),
    }
    assert kept.files == files
    unread.look()
    assert (capsys.readouterr().err, kept.files) == ("", files)


def test_a_file_that_was_restored_is_for_a_replay(logs: Path, kept: Kept, capsys: pytest.CaptureFixture[str]):
    """It did not grow. The quarantine keeps a verdict from `ok` until then."""
    kept.quarantined = {"1/log.gz"}
    unread = UnreadFiles(logs, ReadFiles([("q", 0, "file:///1/log.gz", "1/log.gz", 4)]), kept, print_message, "utf-8")
    (logs / "1" / "log.gz").write_text("one\ntwo\n")
    for _ in range(2):
        unread.look()
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/log.gz could not be read to its end, and has changed since: run 'featuregate fleet replay'" in line
    assert kept.files == set()


def test_a_file_that_was_renamed_is_not_kept(unread: UnreadFiles, logs: Path, kept: Kept):
    """Its lines are read under the new name."""
    (logs / "1" / "_a").write_text("one\n")
    unread.look()
    (logs / "1" / "_a").rename(logs / "1" / "a")
    unread.look()
    assert kept.files == set()


def test_a_name_that_java_cannot_decode_fails_the_run_until_it_is_renamed(
    unread: UnreadFiles, logs: Path, kept: Kept, capsys: pytest.CaptureFixture[str]
):
    """No other process puts it right, and its lines would be missing."""
    (logs / "1" / os.fsdecode(b"caf\xe9")).write_text("one\n")
    for _ in range(2):
        unread.look()
        assert unread.undecoded == {r"1/caf\xe9"}
        assert kept.files == {UnreadFile(r"1/caf\xe9", "1", UNDECODED)}
    (line,) = capsys.readouterr().err.splitlines()
    assert r"1/caf\xe9: not read, because Java cannot decode the name" in line
    (logs / "1" / os.fsdecode(b"caf\xe9")).rename(logs / "1" / "café")
    unread.look()
    assert (unread.undecoded, kept.files) == (set(), set())


def test_files_that_are_being_written_are_named_in_one_run_once_without_a_verdict(
    unread: UnreadFiles, logs: Path, kept: Kept, capsys: pytest.CaptureFixture[str]
):
    """A shipper has some at any time, often under random names."""
    for name in (".log.1.Xa81", ".log.2.Bc07"):
        (logs / "1" / name).write_text("one\n")
        unread.look()
    assert kept.files == set()
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/.log.1.Xa81: not read, because such names are those of files that are being written" in line


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
