"""Logs that are renamed or compressed between the look at their contents and the reading: each request counts once."""

from __future__ import annotations

import gzip
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extras

from featuregate_fleet.evidence.paths import IN_UTC, LogFile, log_file  # noqa: E402 - likewise
from featuregate_fleet.files import pieces as pieces_module  # noqa: E402 - likewise
from featuregate_fleet.files.contents import content_of  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import look_at_files, parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.stream.read_files import ReadFiles  # noqa: E402 - likewise
from featuregate_fleet.stream.request_logs import (  # noqa: E402 - likewise
    files_back,
    pieces_to_read,
    ready,
    without_output_at_work,
)
from featuregate_fleet.tables.folder import BatchId  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUESTS = 50
SHORT = 2
"""Requests of a log with less than a kilobyte, by which texts are told apart."""


def log_of(client: str, requests: int = REQUESTS) -> bytes:
    """Return a log with requests of one client."""
    return f"{line_of(document(clientId=client))}\n".encode() * requests


class Run:
    """What `drain` does, in its order, without Spark."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.folder = logs / "1"
        self.folder.mkdir()
        self.read = ReadFiles()
        self.usage: Counter[str] = Counter()
        self.quarantined: list[dict[str, Any]] = []
        self.listed: set[str] = set()
        self.batches = 0
        self.missed: list[str] = []

    def batch(self, meanwhile: Callable[[Path], object] = lambda _: None) -> None:
        """Read what is new, and change the folder between the look and the reading."""
        paths = sorted(path for path in self.folder.iterdir() if path.name not in self.listed)
        self.listed |= {path.name for path in paths}
        files = without_output_at_work([self._look(path) for path in paths], self.read, self.logs)
        pieces = pieces_to_read(files, self.read, self.logs)
        meanwhile(self.folder)
        self._parse(files, pieces)
        self.missed += [path.as_uri() for path in paths if path.as_uri() not in {file.uri for file in files}]

    def end(self) -> None:
        """Read the files that were missed, and those that have the names of others."""
        found = files_back(self.missed, self.logs, IN_UTC)
        back = list(ready(found, self.read, self.logs))
        self._parse(back, pieces_to_read(back, self.read, self.logs))
        for file in ready(self.read.replaced(self.logs, IN_UTC), self.read, self.logs):
            self._parse([file], pieces_to_read([file], self.read, self.logs))

    def _look(self, path: Path) -> LogFile:
        file = log_file(str(self.logs), path.as_uri(), path.stat().st_size)
        return file._replace(content=content_of(file))

    def _parse(self, files: list[LogFile], pieces: list[pieces_module.Piece]) -> None:
        for found in parse_pieces([pa.RecordBatch.from_pydict({"number": range(len(pieces))})], pieces=pieces):
            for row in found["api_usage"].drop_null().to_pylist():
                self.usage[row["client_id"]] += row["count"]
            self.quarantined += found["quarantine"].drop_null().to_pylist()
        self.read.add_all(BatchId("query", self.batches), files, 0)
        self.batches += 1


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run over a folder of logs."""
    return Run(tmp_path)


def by_number(folder: Path) -> None:
    """Rotate by numbers."""
    for number in (2, 1):
        if (folder / f"log.{number}").exists():
            (folder / f"log.{number}").rename(folder / f"log.{number + 1}")
    (folder / "log").rename(folder / "log.1")
    (folder / "log").write_bytes(log_of("newest"))


def by_number_and_gzip(folder: Path) -> None:
    """Rotate by numbers, and compress the newest of the rotated ones."""
    by_number(folder)
    (folder / "log.1.gz").write_bytes(gzip.compress((folder / "log.1").read_bytes()))
    (folder / "log.1").unlink()


def by_copy(folder: Path) -> None:
    """Copy the log, and empty it (logrotate's copytruncate)."""
    shutil.copy(folder / "log", folder / "log.1")
    (folder / "log").write_bytes(log_of("newest"))


@pytest.mark.parametrize("requests", [REQUESTS, SHORT])
@pytest.mark.parametrize("rotate", [by_number, by_number_and_gzip, by_copy])
def test_a_log_that_is_rotated_before_it_is_read_counts_once(run: Run, rotate: Callable[[Path], None], requests: int):
    """The text is read that was looked at, wherever it is, and the new one under its name at the end of the run."""
    (run.folder / "log").write_bytes(log_of("newer", requests))
    if rotate is not by_copy:
        (run.folder / "log.1").write_bytes(log_of("old"))
    run.batch(rotate)
    old = {} if rotate is by_copy else {"old": REQUESTS}
    assert run.usage == {"newer": requests, **old}
    if requests == REQUESTS:  # a short text is not known under another name
        run.batch()
        run.end()
        run.batch()
        assert run.usage == {"newer": REQUESTS, "newest": REQUESTS, **old}
    assert run.quarantined == []


def test_each_piece_of_a_large_log_is_read_of_the_same_text(run: Run, monkeypatch: pytest.MonkeyPatch):
    """Whichever task reads it, and whenever."""
    (run.folder / "log").write_bytes(log_of("old"))
    monkeypatch.setattr(pieces_module, "_PIECE", len(log_of("old")) // 5)
    run.batch(by_number)
    assert run.usage == {"old": REQUESTS}


def test_a_text_that_was_replaced_is_named(run: Run):
    """Nothing has it any more, so that its requests are missing. Those of the new one count once."""
    (run.folder / "log").write_bytes(log_of("old"))
    (run.folder / "other").write_bytes(log_of("other"))
    (run.folder / "link").symlink_to(__file__)
    os.mkfifo(run.folder / "pipe")
    run.listed |= {"link", "pipe"}
    run.batch(lambda folder: (folder / "log").write_bytes(log_of("new")))
    run.end()
    assert run.usage == {"new": REQUESTS, "other": REQUESTS}
    (row,) = run.quarantined
    assert (row["path"], row["reason"], row["lines"]) == ("1/log", "vanished", 1)
    assert "another file has its name" in row["raw"]


def test_a_text_is_looked_for_among_the_files_that_were_renamed_last(run: Run, monkeypatch: pytest.MonkeyPatch):
    """A folder may have very many files."""
    monkeypatch.setattr("featuregate_fleet.files.contents._CANDIDATES", 1)
    (run.folder / "log").write_bytes(log_of("old"))
    for number in range(5):
        (run.folder / f"other.{number}").write_bytes(log_of("other"))
        run.listed.add(f"other.{number}")
    clock = run.logs / "clock"
    clock.touch()
    while clock.stat().st_ctime_ns <= (run.folder / "other.4").stat().st_ctime_ns:  # it goes on in steps
        clock.touch()
    run.batch(by_number)
    assert run.usage == {"old": REQUESTS}


def test_the_text_of_a_file_that_was_deleted_is_looked_for_among_some(run: Run, monkeypatch: pytest.MonkeyPatch):
    """Very many may be deleted at once. What is not found is named."""
    monkeypatch.setattr("featuregate_fleet.files.storage._NEIGHBOURS", 0)
    (run.folder / "log").write_bytes(log_of("old"))
    run.batch(lambda folder: (folder / "log").rename(folder / "elsewhere"))
    assert run.usage == {}
    assert [row["reason"] for row in run.quarantined] == ["vanished"]


def compress(folder: Path) -> None:
    """End the work of gzip."""
    (folder / "log").unlink(missing_ok=True)


@pytest.mark.parametrize("requests", [REQUESTS, SHORT])
@pytest.mark.parametrize("moment", ["before", "during", "after", "never"])
def test_a_log_at_which_gzip_works_counts_once(run: Run, moment: str, requests: int):
    """Both its input and its output were listed. gzip removes the first before it is read, or later, or keeps it."""
    text = log_of("old", requests)
    (run.folder / "log").write_bytes(text)
    (run.folder / "log.gz").write_bytes(gzip.compress(text))
    run.batch(compress if moment == "during" else lambda _: None)
    if moment == "after":
        compress(run.folder)
    run.batch()
    run.end()
    assert run.usage == {"old": requests}
    assert run.quarantined == []


@pytest.mark.parametrize("moment", ["first batch", "later batch"])
@pytest.mark.parametrize("output", [b"", gzip.compress(log_of("old"))[:20]], ids=["nothing", "a header"])
def test_what_gzip_has_begun_to_write_is_looked_at_again(run: Run, moment: str, output: bytes):
    """It has nothing, or a header, until its buffer is full. It is whole by the time at which it is read."""

    def end(folder: Path) -> None:
        (folder / "log.gz").write_bytes(gzip.compress(log_of("old")))

    (run.folder / "log").write_bytes(log_of("old"))
    if moment == "later batch":
        run.batch()
    (run.folder / "log.gz").write_bytes(output)
    run.batch(end)
    run.end()
    assert run.usage == {"old": REQUESTS}
    assert run.quarantined == []


@pytest.mark.parametrize("moment", ["first batch", "later batch"])
@pytest.mark.parametrize("ends", ["in time", "too late", "never"])
def test_half_of_what_gzip_writes_is_no_damaged_file(run: Run, moment: str, ends: str):
    """A rotation at each full hour, and a run at each full hour: the next run reads what is new in it."""
    text = b"".join(log_of(f"client {number}") for number in range(100))
    log, output = run.folder / "log", run.folder / "log.gz"
    log.write_bytes(text)
    if moment == "later batch":
        run.batch()
    output.write_bytes(gzip.compress(text)[:3000])
    run.batch()
    if ends == "in time":
        output.write_bytes(gzip.compress(text))
        log.unlink()
    if ends == "never":
        os.utime(output, (1, 1))
    run.end()
    assert sum(run.usage.values()) == 100 * REQUESTS
    assert [row["reason"] for row in run.quarantined] == (["unreadable"] if ends == "never" else [])
    more = log_of("late")
    output.write_bytes(gzip.compress(text + more))
    log.unlink(missing_ok=True)
    run.end()
    assert run.usage["late"] == (REQUESTS if ends == "too late" else 0)


def test_half_of_what_gzip_writes_over_another_output_is_no_damaged_file(run: Run):
    """As from the second rotation on: the names are known."""
    old, text = log_of("old"), b"".join(log_of(f"client {number}") for number in range(100))
    (run.folder / "log.1.gz").write_bytes(gzip.compress(old))
    (run.folder / "log").write_bytes(text)
    run.batch()
    (run.folder / "log.1.gz").rename(run.folder / "log.2.gz")
    (run.folder / "log").rename(run.folder / "log.1")
    (run.folder / "log.1.gz").write_bytes(gzip.compress(text)[:3000])
    run.batch()
    run.end()
    assert run.quarantined == []
    assert run.read.changed(run.logs) == []
    (run.folder / "log.1.gz").write_bytes(gzip.compress(text + log_of("late")))
    (run.folder / "log.1").unlink()
    run.end()
    assert (sum(run.usage.values()), run.usage["late"], run.quarantined) == (102 * REQUESTS, REQUESTS, [])


@pytest.mark.parametrize("input_now", ["new text", "longer", "gone"])
def test_what_gzip_has_written_is_read_where_its_input_is_another_one(run: Run, input_now: str):
    """It was read in part alone, and what is new in it may be nowhere else by the next run."""
    log, output = run.folder / "log", run.folder / "log.gz"
    log.write_bytes(log_of("old"))
    run.batch()
    text = log_of("old") + log_of("late")
    output.write_bytes(gzip.compress(text))
    log.write_bytes(log_of("new") if input_now == "new text" else text)
    if input_now == "gone":
        log.unlink()
    run.batch()
    run.end()
    assert run.usage["late"] == REQUESTS
    assert run.usage["old"] == REQUESTS


def test_what_gzip_has_begun_to_write_is_not_taken_for_the_whole(run: Run):
    """The rotation has renamed the log, which is whole, and what gzip has written of it is newer."""
    text = b"".join(log_of(f"client {number}") for number in range(400))
    (run.folder / "log").write_bytes(text)

    def rotate(folder: Path) -> None:
        (folder / "log").rename(folder / "log.1")
        (folder / "log.1.gz").write_bytes(gzip.compress(text)[:3000])
        (folder / "copy").write_bytes(text[:9999])

    run.batch(rotate)
    assert sum(run.usage.values()) == 400 * REQUESTS
    assert run.quarantined == []


@pytest.mark.parametrize("other", ["link", "pipe", "folder"])
def test_a_log_whose_name_cannot_be_read_now_is_read_under_its_other_one(run: Run, other: str):
    """What is behind a link is not read, and nobody waits for the writer of a pipe."""
    (run.folder / "log").write_bytes(log_of("old"))

    def rotate(folder: Path) -> None:
        log = folder / "log"
        log.rename(folder / "log.1")
        {"link": lambda: log.symlink_to(folder / "log.1"), "pipe": lambda: os.mkfifo(log), "folder": log.mkdir}[other]()

    run.batch(rotate)
    assert run.usage == {"old": REQUESTS}
    assert run.quarantined == []


def test_a_log_that_was_rotated_after_it_was_listed_has_the_size_of_now(run: Run):
    """Spark keeps what it has listed for later micro-batches: the name is that of a shorter log."""
    (run.folder / "log").write_bytes(log_of("new", 10))
    listed = pa.RecordBatch.from_pydict({"uri": [(run.folder / "log").as_uri()], "size": [len(log_of("old"))]})
    (found,) = look_at_files([listed], root=str(run.logs))
    assert found["size"].to_pylist() == [len(log_of("new", 10))]


def test_the_larger_part_counts_where_a_text_was_read_under_several_names(run: Run):
    """It grew when it had another name than that of its output."""
    (run.folder / "log").write_bytes(log_of("old"))
    run.batch()
    (run.folder / "log").rename(run.folder / "log.1")
    with (run.folder / "log.1").open("ab") as log:
        log.write(log_of("more"))
    run.batch()
    (run.folder / "log.gz").write_bytes(gzip.compress((run.folder / "log.1").read_bytes()))
    (run.folder / "log.1").unlink()
    run.batch()
    assert run.usage == {"old": REQUESTS, "more": REQUESTS}


@pytest.mark.parametrize("requests", [REQUESTS, SHORT])
@pytest.mark.parametrize("keeps", [True, False])
def test_what_gzip_makes_of_a_log_that_was_read_is_no_copy(run: Run, requests: int, *, keeps: bool):
    """It keeps its input until its output is whole, or for good. A new log under the old name counts."""
    text = log_of("old", requests)
    (run.folder / "log").write_bytes(text)
    run.batch()
    (run.folder / "log.gz").write_bytes(gzip.compress(text))
    if not keeps:
        (run.folder / "log").write_bytes(log_of("new"))
    run.batch()
    run.end()
    assert run.usage == {"old": requests, **({} if keeps else {"new": REQUESTS})}


def gunzip(folder: Path) -> None:
    """Unpack the log."""
    (folder / "log").write_bytes(gzip.decompress((folder / "log.gz").read_bytes()))
    (folder / "log.gz").unlink()


@pytest.mark.parametrize("during", [True, False])
def test_a_text_that_gunzip_has_unpacked_counts_once(run: Run, *, during: bool):
    """Before it is read, or after it was read as a whole."""
    (run.folder / "log.gz").write_bytes(gzip.compress(log_of("old")))
    run.batch(gunzip if during else lambda _: None)
    if not during:
        gunzip(run.folder)
    run.batch()
    assert run.usage == {"old": REQUESTS}
    assert run.quarantined == []


def test_nothing_is_lost_where_a_link_or_a_pipe_is_gone(run: Run):
    """A file that has its name by now is read; one that was there when it was listed is missing."""
    names = [(run.folder / name).as_uri() for name in ("link", "pipe", "file", "linked")]
    (run.folder / "linked").symlink_to("else")
    left_out = frozenset(names) - {names[2]}
    assert [file.uri for file in files_back(names, run.logs, IN_UTC, left_out)] == [names[2]]
    (run.folder / "pipe").write_bytes(log_of("app"))
    assert [file.path for file in files_back(names, run.logs, IN_UTC, left_out)] == ["1/pipe", "1/file"]


def test_a_file_that_is_back_is_known_under_its_next_name(run: Run):
    """It had vanished when Spark had listed it. So had one of which there is nothing."""
    (run.folder / "log").write_bytes(log_of("old"))
    names = [(run.folder / name).as_uri() for name in ("log", "gone")]
    back, gone = files_back(names, run.logs, IN_UTC)
    assert (gone.size, gone.content) == (0, None)
    assert (back.size, back.content) == (len(log_of("old")), content_of(back))
    run.read.add_all(BatchId("missed", 0), [back], 0)
    (run.folder / "log").rename(run.folder / "log.1")
    run.batch()
    assert run.usage == {}


def test_a_file_that_is_back_under_another_name_is_read_no_more(run: Run):
    """Its text counts already."""
    (run.folder / "log").write_bytes(log_of("old"))
    run.batch()
    (run.folder / "log").rename(run.folder / "log.1")
    back = files_back([(run.folder / "log.1").as_uri()], run.logs, IN_UTC)
    assert [piece.start for piece in pieces_to_read(back, run.read, run.logs)] == [len(log_of("old"))]
