"""What a run leaves unread below a folder of logs, what it says of it, and what it keeps for verdicts."""

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

from fleet_runs import Runs, append, lines

from featuregate.cli.plugin import print_message
from featuregate_fleet.evidence.paths import BEING_WRITTEN, LINKED, SPECIAL, UNLISTED, UnreadFile, why_left
from featuregate_fleet.runs.missing_requests import MissingEvidence
from featuregate_fleet.tables.run_rows import RunsSaw

if TYPE_CHECKING:
    from featuregate_fleet.tables.evidence_table import EvidenceTable


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_bytes(lines(1))
    return tmp_path


@pytest.fixture
def runs(logs: Path) -> Runs:
    return Runs(logs)


class Missing(MissingEvidence):
    def __init__(self, runs: Runs) -> None:
        super().__init__(print_message)
        self.runs = runs

    def after(self, meanwhile: Callable[[], object] = lambda: None) -> tuple[str, ...]:
        """Run, and return what is missing then."""
        known = len(self.runs.sources)
        self.runs.run(meanwhile)
        no_table = cast("EvidenceTable", None)  # it is asked for lines that were not understood
        self.of_batch(self.runs.sources[known:], no_table, self.runs.batch)
        return self.paths


@pytest.fixture
def missing(runs: Runs) -> Missing:
    return Missing(runs)


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
        missing.left_out(runs.folder.left)
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
    assert runs.folder.left == dict.fromkeys(links, LINKED)
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
    MissingEvidence(print_message).left_out(runs.folder.left)
    assert runs.clients == {"c1": 1}
    assert runs.folder.unread == [UnreadFile("2", None, UNLISTED)]
    assert "2: not read, because it cannot be listed" in capsys.readouterr().err
    monkeypatch.undo()
    runs.run()
    assert runs.clients == {"c1": 1, "c2": 1}
    assert runs.folder.unread == []


def test_invariant_15_a_folder_without_logs_in_which_some_were_read_is_known(runs: Runs, logs: Path) -> None:
    """The file system of all logs, or that of one broker, may not be mounted: then nothing is new, and all is well."""
    (logs / "2").mkdir()
    (logs / "2" / "log").write_bytes(lines(2))
    (logs / "3").mkdir()
    assert runs.folder.emptied(runs.known) == set()
    runs.run()
    assert runs.folder.emptied(runs.known) == set(), "no log of broker 3 was there yet"
    (logs / "2" / "log").unlink()
    runs.run()
    assert runs.folder.emptied(runs.known) == {str(logs / "2")}
    (logs / "2").rmdir()
    runs.run()
    assert runs.folder.emptied(runs.known) == set(), "the broker is gone with its folder"
    (logs / "1" / "log").unlink()
    runs.run()
    assert runs.folder.emptied(runs.known) == {str(logs)}


def test_what_a_run_saw_is_known_by_its_folder() -> None:
    """Several runs may read into a table, each over a folder of its own. What stays the same is a row a day."""
    row = {"names": None, "logs": "a", "folders": ["1"], "unread": []}
    saw = RunsSaw().after(row, 0)
    assert not saw.differs(row)
    assert saw.differs({**row, "folders": ["1", "2"]})
    other = {**row, "logs": "b", "folders": ["2"]}
    assert saw.differs(other)
    both = saw.after(other, 1)
    assert not both.differs(row)
    assert not both.differs(other)
    assert not RunsSaw().differs({**row, "folders": []}), "a folder without anything is no batch"
    day_before = replace(both, of_logs={"a": both.of_logs["a"]._replace(at=both.of_logs["a"].at - timedelta(days=1))})
    assert day_before.differs(row)
    assert not both.differs({"names": None})
    assert both.differs({"names": None, "asked_at": both.of_logs["a"].at})


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
        missing.left_out(runs.folder.left)
    assert runs.folder.unread == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/.log.1.Xa81: not read, because such names are those of files that are being written" in line


def test_a_file_that_cannot_be_read_is_missing_until_it_is_restored(
    runs: Runs, missing: Missing, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run does not succeed meanwhile."""
    whole = gzip.compress(lines(2, 3))
    (logs / "1" / "a.gz").write_bytes(whole[:-20])
    assert missing.after() == ("1/a.gz",)
    (line,) = capsys.readouterr().err.splitlines()
    assert "1/a.gz: only its first lines (1) are read" in line
    assert "The next run tries it again once it has changed" in line
    (logs / "1" / "a.gz").write_bytes(whole)
    assert missing.after() == ()


def test_a_file_that_could_not_be_opened_is_missing_until_it_can_be(
    runs: Runs, missing: Missing, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a live log, which is written meanwhile."""
    allowed = os.open

    def denied(path: str, *flags: int, **more: int) -> int:
        if path == "log":
            raise PermissionError(13, "Permission denied")
        return allowed(path, *flags, **more)

    monkeypatch.setattr(os, "open", denied)
    assert missing.after() == ("1/log",)
    monkeypatch.undo()
    append(logs / "1" / "log", lines(2))
    assert missing.after() == ()
    assert runs.clients == {"c1": 1, "c2": 1}


def test_a_rotation_that_deletes_a_damaged_file_does_not_restore_it(runs: Runs, missing: Missing, logs: Path) -> None:
    """Its name is that of a log which was read under another one. The requests of the deleted one are missing."""
    (logs / "1" / "log.1.gz").write_bytes(gzip.compress(lines(2)))
    (logs / "1" / "log.2.gz").write_bytes(b"\x1f\x8b\x08damaged")
    missing.after()
    (logs / "1" / "log.1.gz").rename(logs / "1" / "log.2.gz")
    missing.after()
    assert runs.clients == {"c1": 1, "c2": 1}
    assert missing.paths == ("1/log.2.gz",)


@pytest.mark.parametrize("head", [b"", lines(7)], ids=["from its beginning", "later"])
def test_another_log_in_the_place_of_a_damaged_one_does_not_restore_it(
    runs: Runs, missing: Missing, logs: Path, head: bytes
) -> None:
    """Also one with lines that were not read yet. Where it is the damaged one after all, --again says it."""
    damaged = logs / "1" / "log.1.gz"
    damaged.write_bytes(gzip.compress(head)[:-8] if head else b"\x1f\x8b\x08damaged")
    missing.after()
    damaged.unlink()
    (logs / "1" / "new").write_bytes(gzip.compress(lines(2, 3)))
    (logs / "1" / "new").rename(damaged)
    missing.after()
    assert {"c2", "c3"} <= set(runs.clients)
    assert missing.paths == ("1/log.1.gz",)


@pytest.mark.parametrize("renamed", [True, False])
def test_a_file_that_was_rotated_before_it_was_read_is_not_missing(
    runs: Runs, missing: Missing, logs: Path, capsys: pytest.CaptureFixture[str], *, renamed: bool
) -> None:
    """It is found under its other name at once. One that was deleted is named."""
    log = logs / "1" / "log"
    missing.after((lambda: log.rename(logs / "1" / "log.1")) if renamed else log.unlink)
    log.write_bytes(lines(2))
    missing.after()
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
    assert why_left(path, Path(__file__).stat().st_mode) == (BEING_WRITTEN if being_written else None)
